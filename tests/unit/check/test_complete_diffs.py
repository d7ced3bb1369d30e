"""What the checker says of diffs that hide what was there before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.made_recordings import (
    Message,
    announced,
    asked,
    check,
    completed,
    rules,
    updated,
    words,
)

PATH = "/code/notes.txt"
EDIT: Message = {"kind": "edit", "name": "write_file", "title": "Write notes.txt"}


def diff(old: object = None, path: str = PATH, **more: Any) -> Message:
    return {"type": "diff", "path": path, "oldText": old, "newText": "new\n", **more}


def wrote(key: str, *content: Message) -> list[Message]:
    return [announced(key, **EDIT), completed(key, content=list(content))]


def read(key: str = "r1", **fields: Any) -> list[Message]:
    return [announced(key), completed(key, **fields)]


def test_a_diff_without_the_key_is_advice_and_told_once() -> None:
    bare = {"type": "diff", "path": PATH, "newText": "x"}
    found = check(announced(**EDIT, content=[bare]), completed(content=[bare]))
    assert [(f.rule, f.severity) for f in found] == [("complete/old-text-left-out", "advice")]


@pytest.mark.parametrize("old", [None, "", "before\n"])
def test_a_diff_with_the_key_passes(old: object) -> None:
    assert check(*wrote("c1", diff(old))) == []


def test_a_diff_of_v2_has_no_such_key() -> None:
    change = {"type": "diff", "changes": [{"operation": "add", "path": PATH}]}
    first = updated(status="pending", **EDIT, rawInput={"path": PATH}, locations=[{"path": PATH}])
    assert rules(check(first, completed(content=[change]), version=2)) == []


def test_a_file_that_was_read_is_not_new() -> None:
    (finding,) = check(*read(), *wrote("c1", diff(None)))
    assert (finding.rule, finding.severity) == ("complete/overwrite-as-new", "error")
    assert finding.field == "update.content[0].oldText"
    assert "line 7" in finding.message


def test_a_file_may_be_gone_after_a_call_about_it_failed() -> None:
    place = [{"path": PATH}]
    failed = [
        announced("f1", **EDIT, locations=place),
        updated("f1", status="failed", content=words("It was deleted since it was read.")),
    ]
    assert rules(check(*read(), *failed, *wrote("c1", diff(None)))) == []


def test_a_file_that_was_written_is_not_new() -> None:
    assert rules(check(*wrote("c1", diff(None)), *wrote("c2", diff(None)))) == [
        "complete/overwrite-as-new"
    ]


def test_a_question_shows_an_overwrite_as_what_it_is() -> None:
    question = asked("c9", **EDIT, rawInput={"path": PATH}, content=[diff(None)])
    assert rules(check(*read(), question)) == ["complete/overwrite-asked-as-new"]


def test_in_v2_an_added_file_was_not_there() -> None:
    change = {"type": "diff", "changes": [{"operation": "add", "path": PATH}]}
    whole = {**EDIT, "rawInput": {"path": PATH}, "locations": [{"path": PATH}]}
    calls = [
        step
        for key in ("c1", "c2")
        for step in (updated(key, status="pending", **whole), completed(key, content=[change]))
    ]
    assert rules(check(*calls, version=2)) == ["complete/overwrite-as-new"]


@pytest.mark.parametrize(
    "before",
    [
        [],
        read(content=words("File not found: /code/notes.txt")),
        read(status="failed"),
        [
            *read(),
            announced("x", kind="execute", name="bash", title="rm notes.txt"),
            completed("x"),
        ],
        [*read(), announced("x", kind="delete"), completed("x")],
        read(locations=[{"path": "/code/other.txt"}]),
        read(content=[]),
    ],
    ids=["first", "not found", "failed", "command", "deleted", "other", "empty"],
)
def test_a_file_that_may_well_be_new_passes(before: list[Message]) -> None:
    found = check(*before, *wrote("c1", diff(None)))
    assert "complete/overwrite-as-new" not in rules(found)


def test_an_overwrite_that_shows_the_old_text_passes() -> None:
    assert check(*read(), *wrote("c1", diff("before\n"))) == []


def test_a_diff_that_is_mended_before_the_end_passes() -> None:
    first = announced(**EDIT, content=[diff(None)])
    assert check(*read(), first, completed(content=[diff("before\n")])) == []
