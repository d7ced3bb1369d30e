"""What the checker says of inputs: late, never, as text, and where people have to decide."""

from __future__ import annotations

import pytest

from tests.support.made_recordings import (
    announced,
    asked,
    check,
    check_bare,
    completed,
    decided,
    rules,
    updated,
    words,
)

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


def test_an_input_that_was_told_by_a_question_was_told() -> None:
    first = announced(**COMMAND, without=("rawInput",))
    question = asked(rawInput={"command": "make test"})
    found = check(first, question, decided("yes"), completed())
    assert rules(found) == ["complete/input-at-first"]


def test_a_call_that_is_still_open_when_the_recording_ends_may_tell_its_input_yet() -> None:
    assert rules(check_bare(announced(**COMMAND, without=("rawInput",)))) == [
        "complete/input-at-first"
    ]


@pytest.mark.parametrize("raw", ['{"command": "make"}', ' {"path": "/a"}\n'])
def test_an_input_that_is_a_text_of_json_is_told_once(raw: str) -> None:
    found = check(announced(rawInput=raw), updated(rawInput=raw), completed())
    assert rules(found) == ["complete/input-as-text"]


@pytest.mark.parametrize("raw", ["make test", "*** Begin Patch", "{not json}", '"text"', "[1]", {}])
def test_an_input_that_really_is_a_text_passes(raw: object) -> None:
    assert "complete/input-as-text" not in rules(check(announced(rawInput=raw), completed()))


def test_a_text_of_json_in_a_question_is_told() -> None:
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


def test_a_question_about_a_call_never_heard_of_may_be_blind_too() -> None:
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
def test_a_question_that_shows_what_it_is_about_lacks_only_the_input(
    shown: dict[str, object],
) -> None:
    found = check(asked("c9", **shown))
    assert [(f.rule, f.severity) for f in found if f.rule.startswith("complete/asked")] == [
        ("complete/asked-without-input", "warning")
    ]


def test_a_question_with_the_input_passes() -> None:
    found = check(asked("c9", title="bash", rawInput={"command": "make test"}))
    assert rules(found) == []


def test_a_question_needs_not_repeat_what_was_announced() -> None:
    first = announced(**COMMAND, rawInput={"command": "make test"})
    assert rules(check(first, asked(), decided("yes"), completed())) == []


def test_a_question_about_a_tool_that_takes_nothing_passes() -> None:
    call = {"name": "get_time", "title": "Get the time", "kind": "other", "rawInput": {}}
    assert rules(check(announced(**call), asked(**call), decided("yes"), completed())) == []


def test_a_question_in_a_piece_of_a_recording_passes() -> None:
    assert rules(check_bare(asked("c9", title="bash"))) == []


def test_a_question_of_v2_that_is_about_no_call_passes() -> None:
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
