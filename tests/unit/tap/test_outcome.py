"""Another agent's calls end as what they were, and with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.tap.repair.outcome import in_acp
from tests.support.tap_ends import draft_of, ending, turn, words

# What is told as completed and was not


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"rawOutput": {"exit_code": 2}}, "exit_code"),
        ({"rawOutput": {"metadata": {"exit": 127}}}, "exit_code"),
        ({"rawOutput": {"observation": {"exit_code": 1, "is_error": False}}}, "exit_code"),
        ({"rawOutput": {"stdout": "", "exit_status": "3"}}, "exit_code"),
        ({"_meta": {"terminal_exit": {"terminal_id": "t", "exit_code": 2}}}, "exit_code"),
        ({"kind": "execute", "content": words("no\n<exited with exit code 1>")}, "exit_code"),
        (
            {"kind": "execute", "content": words("no\n[Command failed with exit code 1]")},
            "exit_code",
        ),
        (
            {"kind": "execute", "content": words("<return-code>\n3\n</return-code>\nno")},
            "exit_code",
        ),
        (
            {"kind": "execute", "rawOutput": [{"result": "[Command exited with code 3]\nno"}]},
            "exit_code",
        ),
        (
            {"kind": "execute", "content": words("- **output:** no\n- **exit_code:** 3")},
            "exit_code",
        ),
        (
            {
                "kind": "execute",
                "content": words("no\n**Status:** Command failed with exit code 3"),
            },
            "exit_code",
        ),
        (
            {
                "kind": "execute",
                "rawInput": {"command": "LANG=C frobnicate --all"},
                "rawOutput": {
                    "stdout": "",
                    "stderr": "bash: line 1: frobnicate: command not found\n",
                },
            },
            "exit_code",
        ),
        (
            {
                "kind": "execute",
                "rawInput": {"command": "frobnicate"},
                "content": words("```\nzsh: command not found: frobnicate\n```"),
            },
            "exit_code",
        ),
        ({"rawOutput": [{"success": False}, {"success": False, "result": ""}]}, "tool_error"),
        (
            {"kind": "execute", "rawOutput": [{"success": True}, {"success": False}]},
            "tool_error",
        ),
        (
            {
                "kind": "read",
                "rawInput": {"file_path": "/code/a.py"},
                "content": words("Error: File '/code/a.py' not found"),
            },
            "tool_error",
        ),
        ({"rawOutput": {"content": [], "isError": True}}, "tool_error"),
        ({"rawOutput": {"observation": {"is_error": True}}}, "tool_error"),
        ({"rawOutput": {"success": False}}, "tool_error"),
        ({"rawOutput": {"error": "no such city"}}, "tool_error"),
        ({"content": [{**words("no")[0], "isError": True}]}, "tool_error"),
        ({"_meta": {"agent": {"is_error": True}}}, "tool_error"),
    ],
)
def test_a_failure_that_is_reported_as_completed_is_failed(
    told: dict[str, Any], reason: str
) -> None:
    draft = draft_of(turn().call("a", "completed", **told))
    assert ending(draft) == ("failed", reason)
    assert "status" in draft.repaired


@pytest.mark.parametrize(
    "told",
    [
        {"rawOutput": {"exit_code": 0}},
        {"rawOutput": {"exit_code": -1, "stdout": "still at it"}},
        {"rawOutput": {"exit_code": "--3", "success": "False", "isError": "true"}},
        {"kind": "execute", "rawInput": {"command": "grep a b"}, "rawOutput": {"exit_code": 1}},
        {"kind": "execute", "rawInput": {"command": "cat log"}, "content": words("exit code 1")},
        {"kind": "read", "content": words("Error: this file begins so")},
        {
            "kind": "read",
            "rawInput": {"path": "/code/a.log"},
            "content": words("Error: /code/b.py not found"),
        },
        {
            "kind": "read",
            "rawInput": {"path": "/code/a.log"},
            "content": words("Error: /code/a.log not found\nand more lines of a log"),
        },
        {"kind": "read", "rawOutput": [{"success": True, "result": "x"}, {"success": False}]},
        {"rawOutput": [{"status": "failed", "message": "of a build"}]},
        {
            "kind": "execute",
            "rawInput": {"command": "frobnicate; true"},
            "content": words("bash: frobnicate: command not found"),
        },
        {
            "kind": "execute",
            "rawInput": {"command": "./install"},
            "content": words("bash: frobnicate: command not found"),
        },
        {"kind": "execute", "content": words("Error: tests failed\nall of them")},
        {"kind": "fetch", "rawOutput": "Error: 404"},
        {"rawOutput": {"error": None, "output": "fine"}},
        {"rawOutput": {"error": "of another", "output": "what was looked up"}},
        {"rawOutput": {"timed_out": True, "output": "it waits no longer"}},
    ],
)
def test_what_may_well_be_done_stays_completed(told: dict[str, Any]) -> None:
    draft = draft_of(turn().call("a", "completed", **told))
    assert ending(draft) == ("completed", None)
    assert "status" not in draft.repaired


def test_a_denied_call_is_failed_whatever_it_says() -> None:
    talk = turn().call("a", "pending").question("a").decide("no").call("a", "completed")
    assert ending(draft_of(talk)) == ("failed", "denied")


def test_a_no_that_came_after_the_end_changes_nothing() -> None:
    talk = turn().call("a", "pending").question("a").call("a", "completed").decide("no")
    assert ending(draft_of(talk)) == ("completed", None)


def test_a_yes_after_a_no_counts() -> None:
    talk = turn().call("a", "pending").question("a").decide("no").question("a").decide()
    assert ending(draft_of(talk.call("a", "completed"))) == ("completed", None)


@pytest.mark.parametrize("version", [1, 2])
def test_a_call_that_ran_when_people_cancelled_is_cancelled(version: int) -> None:
    talk = turn(version).call("a", "in_progress").cancel().call("a", "completed")
    assert ending(draft_of(talk)) == ("cancelled", "cancelled")
    assert ending(draft_of(talk.stop("cancelled"))) == ("cancelled", "cancelled")


def test_a_cancelled_command_that_was_through_is_completed() -> None:
    talk = turn().call("a", "in_progress").cancel()
    talk.call("a", "completed", rawOutput={"exit_code": 0})
    assert ending(draft_of(talk)) == ("completed", None)


def test_an_end_that_crossed_with_the_cancel_is_completed() -> None:
    talk = turn().call("a", "in_progress").cancel()
    talk.clock -= 0.999
    assert ending(draft_of(talk.call("a", "completed"))) == ("completed", None)


def test_a_call_that_began_after_the_cancel_is_completed() -> None:
    talk = turn().cancel().call("a", "in_progress").call("a", "completed")
    assert ending(draft_of(talk)) == ("completed", None)


def test_an_end_that_is_reported_does_not_change_with_the_turn() -> None:
    talk = turn().call("a", "in_progress").cancel().call("a", "completed").stop("end_turn")
    assert ending(draft_of(talk)) == ("cancelled", "cancelled")


# Why it failed


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"rawOutput": {"exit_code": 3}}, "exit_code"),
        ({"rawOutput": {"exit_code": 137, "timed_out": True}}, "timeout"),
        ({"rawOutput": {"exit_code": 1}, "content": words("E\nConnection timed out")}, "exit_code"),
        ({"content": words("It is said that the call timed out, or not")}, "tool_error"),
        ({"content": words("no such file")}, "tool_error"),
        ({"rawOutput": "no such file"}, "tool_error"),
        ({"_meta": {"callsheet": {"reason": "exception"}}, "rawOutput": "oh"}, "exception"),
        ({"_meta": {"callsheet": {"reason": "moody"}}}, None),
        ({"content": []}, None),
    ],
)
def test_a_failed_call_has_the_reason_that_is_known(
    told: dict[str, Any], reason: str | None
) -> None:
    draft = draft_of(turn().call("a", "failed", **told))
    assert ending(draft) == ("failed", reason)
    assert "status" not in draft.repaired


def test_a_denied_call_that_failed_was_denied() -> None:
    talk = turn().call("a", "pending").question("a").decide("no").call("a", "failed")
    assert ending(draft_of(talk)) == ("failed", "denied")


def test_a_permission_request_that_was_cancelled_is_no_denial() -> None:
    talk = turn().call("a", "pending").question("a").cancel().decide("cancelled")
    assert ending(draft_of(talk.call("a", "failed"))) == ("cancelled", "cancelled")


def test_a_cancel_is_reported_even_where_the_agent_calls_it_a_rejection() -> None:
    meta = {"claudeCode": {"nonExecutionKind": "user-rejected"}}
    talk = turn(agent="@agentclientprotocol/claude-agent-acp").call("a", "pending")
    assert ending(draft_of(talk.cancel().call("a", "failed", _meta=meta)))[0] == "cancelled"


def test_a_command_that_failed_by_itself_after_a_cancel_has_its_exit_code() -> None:
    talk = turn().call("a", "in_progress").cancel().call("a", "failed", rawOutput={"exit_code": 2})
    assert ending(draft_of(talk)) == ("failed", "exit_code")


def test_a_command_that_was_killed_by_a_cancel_was_cancelled() -> None:
    talk = turn().call("a", "in_progress").cancel()
    talk.call("a", "failed", rawOutput={"exit_code": 143})
    assert ending(draft_of(talk)) == ("cancelled", "cancelled")


# Other words for it


@pytest.mark.parametrize(
    ("word", "status", "reason"),
    [
        ("running", "in_progress", None),
        ("In-Progress", "in_progress", None),
        ("ToolCallStatus.COMPLETED", "completed", None),
        ("success", "completed", None),
        ("done", "completed", None),
        ("error", "failed", None),
        ("rejected", "failed", "denied"),
        ("timed_out", "failed", "timeout"),
        ("canceled", "cancelled", "cancelled"),
        ("aborted", "cancelled", "cancelled"),
        ("queued", "pending", None),
        ("paused", "in_progress", None),
        ("whatever", "in_progress", None),
    ],
)
def test_other_words_for_a_status(word: str, status: str, reason: str | None) -> None:
    draft = draft_of(turn().call("a", word))
    assert ending(draft) == (status, reason)
    assert "status" in draft.repaired


def test_words_of_acp_are_left_alone() -> None:
    for word in ("pending", "in_progress", "completed", "failed"):
        assert "status" not in draft_of(turn().call("a", word)).repaired
    assert in_acp("paused", is_v2=True) == ("paused", None)


def test_a_success_in_other_words_is_looked_into() -> None:
    draft = draft_of(turn().call("a", "success", rawOutput={"exit_code": 3}))
    assert ending(draft) == ("failed", "exit_code")


def test_a_cancel_counts_for_other_words_too() -> None:
    talk = turn().call("a", "running").cancel().call("a", "success")
    assert ending(draft_of(talk)) == ("cancelled", "cancelled")


def test_cancelled_by_a_no_is_denied() -> None:
    talk = turn().call("a", "pending").question("a").decide("no").call("a", "canceled")
    assert ending(draft_of(talk)) == ("failed", "denied")
