"""What the checker finds in titles, kinds, names and inputs, and what it must let pass."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.made_recordings import (
    GOOD,
    announced,
    asked,
    check,
    check_bare,
    check_file,
    completed,
    decided,
    opening,
    rules,
    updated,
    words,
)


def test_a_complete_call_has_no_findings() -> None:
    assert check(announced(), updated(status="in_progress"), completed()) == []


@pytest.mark.parametrize(
    "title", ["read", "Terminal", "read_file", "ReadFile", "Tool", "Unknown tool", "", "  "]
)
def test_a_bare_title_is_reported_at_first_and_at_the_end(title: str) -> None:
    found = check(announced(title=title), completed())
    assert rules(found) == ["complete/title-at-first", "complete/title"]
    assert [finding.severity for finding in found] == ["advice", "warning"]
    assert found[0].line == 6
    assert found[0].field == "update.title"


def test_a_bare_title_that_is_repaired_is_reported_only_as_a_beginning() -> None:
    found = check(announced(title="read"), completed(title="Read notes.txt"))
    assert rules(found) == ["complete/title-at-first"]


@pytest.mark.parametrize(
    "title", ["Read notes.txt", "notes.txt", "Read File", "Preparing file…", "src/search", "make"]
)
def test_a_title_that_says_something_passes(title: str) -> None:
    assert rules(check(announced(title=title), completed())) == []


@pytest.mark.parametrize("command", ["ls", "bash", "python"])
def test_a_title_that_is_the_whole_command_passes(command: str) -> None:
    run = announced(
        title=command, name="run", kind="execute", rawInput={"command": command}, locations=[]
    )
    assert rules(check(run, completed())) == []


def test_a_program_s_name_passes_where_the_input_is_unknown() -> None:
    run = announced(title="ls", kind="execute", without=("name", "rawInput"))
    assert "complete/title" not in rules(check(run, completed()))


def test_a_name_below_a_server_s_is_still_a_name() -> None:
    first = announced(title="read_text_file", without=("name",))
    found = check(first, completed(title="environment/read_text_file"))
    assert "complete/title" in rules(found)


def test_a_made_up_name_of_a_tool_is_bare() -> None:
    found = check(announced(title="frobnicate_widget", kind="other", name="x"), completed())
    assert rules(found) == ["complete/title-at-first", "complete/title"]


def test_words_for_a_tool_of_one_s_own_pass() -> None:
    own = announced(title="Greet", name="greet", kind="other", rawInput={"who": "you"})
    assert rules(check(own, completed())) == []


def test_a_piece_of_a_recording_says_nothing_of_what_came_before_it() -> None:
    assert rules(check_bare(updated(status="in_progress"), completed())) == []


def test_what_a_recording_cut_off_may_still_have_reported_is_not_missed() -> None:
    found = check_bare(*opening(), announced(title="read"))
    assert rules(found) == ["complete/title-at-first"]


def test_history_that_is_replayed_is_judged_by_its_end_only() -> None:
    load = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "s1"}}
    found = check_bare(*opening()[:2], load, announced(title="read"), completed())
    assert rules(found) == ["complete/title"]


@pytest.mark.parametrize("kind", [None, "other"])
@pytest.mark.parametrize(
    ("name", "raw", "known"),
    [
        ("ReadFile", None, "read"),
        ("Shell", None, "execute"),
        ("bash", {"command": "make"}, "execute"),
        ("edit", {"filePath": "/code/a.py"}, "edit"),
        ("grep", {"pattern": "x"}, "search"),
        ("web_fetch", {"url": "https://example.org"}, "fetch"),
    ],
)
def test_a_kind_that_is_known_is_missed(
    kind: str | None, name: str, raw: object, known: str
) -> None:
    fields = {"name": name, "rawInput": raw, "title": "Do a thing", "kind": kind}
    found = [f for f in check(announced(**fields), completed()) if f.rule == "complete/kind"]
    assert [f.severity for f in found] == ["warning"]
    assert f"`{known}`" in found[0].message


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("frobnicate", {"x": 1}),
        ("create", {"title": "An issue"}),
        ("search", {}),
        ("TodoWrite", {"todos": []}),
        ("get_weather", {"path": "/x"}),
        ("mcp__tracker__read_file", {"path": "/x"}),
    ],
)
def test_a_kind_that_nobody_can_be_sure_of_passes(name: str, raw: object) -> None:
    call = announced(name=name, kind="other", rawInput=raw, title="Do a thing")
    assert "complete/kind" not in rules(check(call, completed()))


def test_a_kind_that_was_taken_back_passes() -> None:
    call = announced(name="bash", kind="execute", title="Run make")
    assert "complete/kind" not in rules(check(call, completed(kind="other")))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "read"},
        {"_meta": {"tool_name": "read"}},
        {"_meta": {"claudeCode": {"toolName": "Read"}}},
    ],
)
def test_a_name_counts_wherever_agents_put_it(fields: dict[str, object]) -> None:
    whole = {**GOOD, **fields}
    call = announced(**whole, without=() if "name" in fields else ("name",))
    late = completed(_meta={"claudeCode": {"toolResponse": "…"}})
    assert rules(check(call, late)) == []


def test_a_missing_name_is_advice() -> None:
    found = check(announced(without=("name",)), completed())
    assert [(f.rule, f.severity, f.line) for f in found] == [("complete/name", "advice", 6)]


def test_a_name_may_come_later() -> None:
    assert rules(check(announced(without=("name",)), completed(name="read"))) == []


def test_in_v2_the_first_update_announces() -> None:
    bare = updated(status="pending", title="read", name="read", rawInput={"path": "/a.py"})
    found = check(bare, completed(), version=2)
    assert "complete/title-at-first" in rules(found)


def test_findings_never_show_a_secret() -> None:
    token = "ghp_" + "Zk3x9Qw7Lm2Rt8Vb5Nc1Yd6Hj4Pf0Sg3TuAe"
    found = check(
        announced(title=token, name=token, locations=[{"path": f"src/{token}"}]),
        asked(locations=[{"path": f"~/{token}"}]),
        completed(),
    )
    assert {"complete/title", "complete/path-not-absolute"} <= set(rules(found))
    assert not any(token in finding.message for finding in found)


COMMAND = {"title": "make test", "name": "bash", "kind": "execute", "locations": []}


@pytest.mark.parametrize("raw", [{}, None])
def test_an_input_that_comes_late_is_advice(raw: object) -> None:
    late = updated(rawInput={"command": "make test"})
    found = check(announced(**COMMAND, rawInput=raw), late, completed())
    assert [(f.rule, f.severity, f.line) for f in found] == [
        ("complete/input-at-first", "advice", 6)
    ]


def test_an_input_that_never_comes_is_worse() -> None:
    found = check(announced(**COMMAND, without=("rawInput",)), completed())
    assert rules(found) == ["complete/input-at-first", "complete/input"]
    assert found[-1].severity == "warning"


def test_an_empty_input_of_a_tool_that_cannot_do_without_is_missed() -> None:
    found = check(announced(**COMMAND, rawInput={}), completed())
    assert rules(found) == ["complete/input-at-first", "complete/input"]


def test_a_tool_that_takes_nothing_has_an_empty_input() -> None:
    call = announced(name="get_time", title="Get the time", kind="other", rawInput={}, locations=[])
    assert rules(check(call, completed())) == []


def test_a_call_may_have_failed_because_its_input_was_empty() -> None:
    failed = updated(status="failed", content=words("`command` is missing"))
    assert rules(check(announced(**COMMAND, rawInput={}), failed)) == []


def test_an_input_that_was_reported_by_a_permission_request_was_reported() -> None:
    first = announced(**COMMAND, without=("rawInput",))
    question = asked(rawInput={"command": "make test"})
    found = check(first, question, decided("yes"), completed())
    assert rules(found) == ["complete/input-at-first"]


def test_a_call_that_is_still_open_when_the_recording_ends_may_report_its_input_yet() -> None:
    assert rules(check_bare(announced(**COMMAND, without=("rawInput",)))) == [
        "complete/input-at-first"
    ]


@pytest.mark.parametrize("raw", ['{"command": "make"}', ' {"path": "/a"}\n'])
def test_an_input_that_is_a_text_of_json_is_reported_once(raw: str) -> None:
    found = check(announced(rawInput=raw), updated(rawInput=raw), completed())
    assert rules(found) == ["complete/input-as-text"]


@pytest.mark.parametrize("raw", ["make test", "*** Begin Patch", "{not json}", '"text"', "[1]", {}])
def test_an_input_that_really_is_a_text_passes(raw: object) -> None:
    assert "complete/input-as-text" not in rules(check(announced(rawInput=raw), completed()))


def test_a_text_of_json_in_a_permission_request_is_reported() -> None:
    found = check(asked("c9", title="Run make", rawInput='{"command": "make"}'))
    assert rules(found) == ["complete/asked-input-as-text"]


# Questions


@pytest.mark.parametrize("title", ["bash", "Terminal", "", "Tool"])
@pytest.mark.parametrize("raw", [{}, None])
def test_nobody_approves_blind(title: str, raw: object) -> None:
    first = announced(**{**COMMAND, "title": title}, rawInput=raw)
    found = check(first, asked(title=title, rawInput=raw), decided("yes"))
    blind = [f for f in found if f.rule == "complete/asked-blindly"]
    assert [(f.severity, f.line, f.field) for f in blind] == [
        ("error", 7, "params.toolCall.rawInput")
    ]


def test_a_permission_request_about_an_unknown_call_may_be_blind_too() -> None:
    assert rules(check(asked("c9", title="bash"))) == ["complete/asked-blindly"]


@pytest.mark.parametrize(
    "shown",
    [
        {"title": "make test"},
        {"title": "bash", "content": words("Run command `make test`")},
        {
            "title": "edit",
            "content": [{"type": "diff", "path": "/a", "oldText": "a", "newText": "b"}],
        },
    ],
)
def test_a_permission_request_that_shows_what_it_is_about_lacks_only_the_input(
    shown: dict[str, object],
) -> None:
    found = check(asked("c9", **shown))
    assert [(f.rule, f.severity) for f in found if f.rule.startswith("complete/asked")] == [
        ("complete/asked-without-input", "warning")
    ]


def test_a_permission_request_with_the_input_passes() -> None:
    found = check(asked("c9", title="bash", rawInput={"command": "make test"}))
    assert rules(found) == []


def test_a_permission_request_needs_not_repeat_what_was_announced() -> None:
    first = announced(**COMMAND, rawInput={"command": "make test"})
    assert rules(check(first, asked(), decided("yes"), completed())) == []


def test_a_permission_request_about_a_tool_that_takes_nothing_passes() -> None:
    call = {"name": "get_time", "title": "Get the time", "kind": "other", "rawInput": {}}
    assert rules(check(announced(**call), asked(**call), decided("yes"), completed())) == []


def test_a_permission_request_in_a_piece_of_a_recording_passes() -> None:
    assert rules(check_bare(asked("c9", title="bash"))) == []


def test_a_permission_request_of_v2_that_is_about_no_call_passes() -> None:
    question = asked()
    question["params"] = {
        "sessionId": "s1",
        "title": "Run a command?",
        "subject": {"type": "command", "command": "make", "cwd": "/code"},
        "options": question["params"]["options"],
    }
    assert rules(check(question, version=2)) == []


@pytest.mark.parametrize("kind", ["think", "switch_mode"])
def test_a_call_that_takes_no_input_by_nature_passes(kind: str) -> None:
    call = announced(without=("rawInput", "locations"), title="Thinking it over", kind=kind)
    assert rules(check(call, completed())) == []


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
