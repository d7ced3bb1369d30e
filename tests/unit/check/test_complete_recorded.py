"""What real agents leave out. The counts were agreed by hand with what is in the recordings."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.made_recordings import check_file, rules

MIXED = {
    "claude-agent-acp-0.99.1": {"input-at-first": 11, "locations-at-first": 6, "title-at-first": 6},
    "codex-acp-0.16.0": {"name": 11, "old-text-left-out": 1, "result-in-raw-output": 7},
    "fast-agent-0.10.48": {
        "input-at-first": 11,
        "input": 5,
        "locations-at-first": 6,
        "locations": 6,
        "name": 11,
        "title-at-first": 11,
        "title": 11,
    },
    "gemini-cli-0.61.0": {
        "asked-without-input": 5,
        "input-at-first": 6,
        "input": 11,
        "name": 11,
        "nothing-shown": 8,
    },
    "kimi-cli-1.51.0": {
        "asked-without-input": 5,
        "input-at-first": 11,
        "input": 11,
        "kind": 11,
        "locations-at-first": 6,
        "locations": 6,
        "name": 11,
        "title-at-first": 11,
    },
    "opencode-1.18.33": {
        "exit-code": 1,
        "input-at-first": 8,
        "locations-at-first": 6,
        "name": 11,
        "title-at-first": 11,
        "title": 1,
    },
}
"""Eleven calls each; six of them read or change a file."""

FAILED_COMMANDS = {
    "codex-acp-0.16.0": {"name": 2, "result-in-raw-output": 1},
    "gemini-cli-0.61.0": {
        "asked-without-input": 2,
        "input": 2,
        "name": 2,
        "nothing-shown": 2,
    },
    "kimi-cli-1.51.0": {
        "asked-without-input": 2,
        "input-at-first": 2,
        "input": 2,
        "kind": 2,
        "name": 2,
        "title-at-first": 2,
    },
    "opencode-1.18.33": {"exit-code": 2, "name": 2, "title-at-first": 2},
}
"""A command that exits with 3, and one that isn't there. Gemini tells nothing of the second but its end."""


def _counts(name: str) -> dict[str, int]:
    return Counter(rule.partition("/")[2] for rule in rules(check_file(name)))


@pytest.mark.parametrize("agent", MIXED)
def test_what_a_mixed_session_leaves_out(agent: str) -> None:
    assert _counts(f"{agent}.mixed-none.jsonl") == MIXED[agent]


@pytest.mark.parametrize("agent", FAILED_COMMANDS)
def test_what_failed_commands_leave_out(agent: str) -> None:
    assert _counts(f"check/{agent}.fail_cmd-none.jsonl") == FAILED_COMMANDS[agent]
