"""What is known of the ways in which well-known agents tell a failure."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.tap.profiles import UNKNOWN, profile_of
from tests.support.tap_ends import draft_of, ending, turn, words

GEMINI, OPENCODE, CLAUDE, CODEX = (
    "gemini-cli",
    "OpenCode",
    "@agentclientprotocol/claude",
    "codex-acp",
)
ABORTED = "one\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>"
TOO_LONG = (
    "<bash_metadata>\nbash tool terminated command after exceeding timeout 9 ms\n</bash_metadata>"
)
INVALID = "The arguments provided to the tool are invalid: Model tried to call unavailable tool"


def call(agent: str, status: str, **told: Any) -> tuple[str | None, str | None]:
    """Return how a command of an agent ends, if this is told of it."""
    return ending(draft_of(turn(agent=agent).call("a", status, **{"kind": "execute", **told})))


@pytest.mark.parametrize(
    ("agent", "told", "end"),
    [
        (
            GEMINI,
            {"content": words("Command cancelled by user.\n\none")},
            ("cancelled", "cancelled"),
        ),
        (
            GEMINI,
            {
                "content": words(
                    "Command was automatically cancelled because it exceeded the timeout of"
                )
            },
            ("failed", "timeout"),
        ),
        (
            GEMINI,
            {"content": words("Command terminated by signal: SIGKILL")},
            ("failed", "exit_code"),
        ),
        (GEMINI, {"content": words("Command timed out after 5ms.")}, ("failed", "timeout")),
        (OPENCODE, {"rawOutput": {"output": ABORTED}}, ("cancelled", "cancelled")),
        (OPENCODE, {"content": words(TOO_LONG)}, ("failed", "timeout")),
        (OPENCODE, {"rawOutput": {"metadata": {"interrupted": True}}}, ("cancelled", "cancelled")),
        (
            OPENCODE,
            {"kind": "other", "rawInput": {"tool": "x", "error": "no"}, "content": words(INVALID)},
            ("failed", "tool_error"),
        ),
        (CODEX, {"rawOutput": {"status": "declined"}}, ("failed", "denied")),
        (CODEX, {"rawOutput": {"result": {"Err": "no server"}}}, ("failed", "tool_error")),
    ],
)
def test_a_failure_that_an_agent_reports_as_completed(
    agent: str, told: dict[str, Any], end: tuple[str, str]
) -> None:
    assert call(agent, "completed", **told) == end


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (GEMINI, {"kind": "read", "content": words("Command cancelled by user.")}),
        (GEMINI, {"content": words("The log says: Command cancelled by user.")}),
        (OPENCODE, {"content": words(ABORTED + "\nand on it goes")}),
        (OPENCODE, {"content": words(ABORTED), "rawOutput": {"metadata": {"exit": 0}}}),
        (OPENCODE, {"kind": "read", "content": words(INVALID)}),
        (CODEX, {"rawOutput": {"result": {"Ok": {"content": []}}}}),
        (CLAUDE, {"_meta": {"claudeCode": {"toolName": "Bash"}}}),
    ],
)
def test_what_only_looks_like_it_stays_completed(agent: str, told: dict[str, Any]) -> None:
    assert call(agent, "completed", **told) == ("completed", None)


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("Kimi Code CLI", {"content": words("The tool call is rejected by the user. Stop.")}),
        (
            "fast-agent-acp",
            {"content": words("The user has declined permission to use this tool: x")},
        ),
        (GEMINI, {"content": words('Tool execution for "Shell" denied by policy.')}),
        (
            OPENCODE,
            {"content": words("The user rejected permission to use this specific tool call.")},
        ),
        (CLAUDE, {"_meta": {"claudeCode": {"nonExecutionKind": "permission-rule"}}}),
    ],
)
def test_a_refusal_is_known_by_the_agents_words(agent: str, told: dict[str, Any]) -> None:
    assert call(agent, "failed", **told) == ("failed", "denied")


def test_profiles_are_found_by_the_name_that_an_agent_gives_itself() -> None:
    for name in (
        "Kimi Code CLI 1.51.0",
        "OpenCode 1.18.33",
        "codex-acp",
        "Gemini-CLI 0.61",
    ):
        assert profile_of(name) is not UNKNOWN
    assert profile_of("my-gemini") is profile_of("") is UNKNOWN
