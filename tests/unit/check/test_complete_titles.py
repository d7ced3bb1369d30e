"""What the checker says of titles, kinds and names: what it finds, and what it must let pass."""

from __future__ import annotations

import pytest

from tests.support.made_recordings import (
    GOOD,
    announced,
    asked,
    check,
    check_bare,
    completed,
    opening,
    rules,
    updated,
)


def test_a_complete_call_has_no_findings() -> None:
    assert check(announced(), updated(status="in_progress"), completed()) == []


@pytest.mark.parametrize(
    "title", ["read", "Terminal", "read_file", "ReadFile", "Tool", "Unknown tool", "", "  "]
)
def test_a_bare_title_is_told_at_first_and_at_the_end(title: str) -> None:
    found = check(announced(title=title), completed())
    assert rules(found) == ["complete/title-at-first", "complete/title"]
    assert [finding.severity for finding in found] == ["advice", "warning"]
    assert found[0].line == 6
    assert found[0].field == "update.title"


def test_a_bare_title_that_is_mended_is_told_only_as_a_beginning() -> None:
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


def test_what_a_recording_cut_off_may_still_have_told_is_not_missed() -> None:
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
