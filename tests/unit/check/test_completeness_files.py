"""What the checker finds in locations, paths and lines, and in diffs that hide what was there before."""

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

PLACE = [{"path": "/code/notes.txt"}]


def test_a_location_that_comes_late_is_advice() -> None:
    found = check(announced(locations=[]), updated(locations=PLACE), completed())
    assert [(f.rule, f.severity, f.line) for f in found] == [
        ("complete/locations-at-first", "advice", 6)
    ]


def test_a_location_that_never_comes_is_worse() -> None:
    found = check(announced(without=("locations",)), completed())
    assert rules(found) == ["complete/locations-at-first", "complete/locations"]


@pytest.mark.parametrize(
    "call",
    [
        {"kind": "edit", "name": "frob", "rawInput": {"file_path": "/code/a"}},
        {"kind": "read", "name": "frob", "rawInput": {"path": "/code/a.txt"}},
        {"kind": "delete", "name": "rm_it", "rawInput": {"filePath": "src/a.txt"}},
        {"kind": "move", "name": "move_file", "rawInput": {"source": "/a", "destination": "/b"}},
        {"kind": None, "name": "WriteFile", "rawInput": None},
        {"kind": "read", "name": "read_many_files", "rawInput": {"paths": ["a.py", "b.py"]}},
    ],
)
def test_a_call_on_a_file_has_a_location(call: dict[str, object]) -> None:
    found = check(announced(**call, title="Do a thing", without=("locations",)), completed())
    assert "complete/locations" in rules(found)


@pytest.mark.parametrize(
    "call",
    [
        {"kind": "search", "name": "grep", "rawInput": {"pattern": "x", "path": "/code/a.py"}},
        {"kind": "execute", "name": "bash", "rawInput": {"command": "cat a.py"}},
        {"kind": "read", "name": "list_directory", "rawInput": {"path": "/code"}},
        {"kind": "read", "name": "get_page", "rawInput": {"path": "/wiki/Home"}},
        {
            "kind": "read",
            "name": "get_file",
            "rawInput": {"path": "a.py", "repo": "x", "owner": "y"},
        },
        {"kind": "read", "name": "exec_command", "rawInput": {"command": ["cat", "a.py"]}},
        {"kind": "read", "name": "read_file", "rawInput": {"path": "https://example.org/a.txt"}},
        {"kind": "read", "name": "bash_output", "rawInput": {"bash_id": "1"}},
        {"kind": "edit", "name": "edit_page", "rawInput": {"id": 7}},
        {"kind": "other", "name": "create", "rawInput": {"path": "/issues"}},
    ],
)
def test_a_call_that_is_on_no_file_needs_no_location(call: dict[str, object]) -> None:
    found = check(announced(**call, title="Do a thing", without=("locations",)), completed())
    assert not {"complete/locations", "complete/locations-at-first"} & set(rules(found))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/app.py", "relative"),
        ("./app.py", "relative"),
        ("../app.py", "relative"),
        ("~/app.py", "home"),
        ("file:///code/app.py", "URI"),
        ("", "empty"),
    ],
)
def test_a_path_that_is_not_absolute_is_an_error(path: str, why: str) -> None:
    (finding,) = check(announced(locations=[*PLACE, {"path": path}]), completed())
    assert (finding.rule, finding.severity) == ("complete/path-not-absolute", "error")
    assert why in finding.message
    assert finding.field == "update.locations[1].path"


@pytest.mark.parametrize(
    "path",
    [
        "/code/app.py",
        "/code/.hidden/..x",
        "C:\\work\\app.py",
        "C:/code/a.py",
        "\\\\host\\share\\a",
        "/a b/",
    ],
)
def test_an_absolute_path_passes(path: str) -> None:
    assert check(announced(locations=[{"path": path}]), completed()) == []


@pytest.mark.parametrize(
    "path", ["/code/../etc/passwd", "/code/./a", "C:\\work\\..\\a", "/code/.."]
)
def test_a_path_that_goes_back_and_forth_is_reported(path: str) -> None:
    found = check(announced(locations=[{"path": path}]), completed())
    assert [(f.rule, f.severity) for f in found] == [("complete/path-not-normal", "warning")]


def test_the_paths_of_diffs_are_judged_alike() -> None:
    diff = {"type": "diff", "path": "src/a.py", "oldText": "a", "newText": "b"}
    found = check(announced(kind="edit"), completed(content=[*words("done"), diff]))
    assert [(f.rule, f.field) for f in found] == [
        ("complete/path-not-absolute", "update.content[1].path")
    ]


def test_the_paths_of_v2_s_diffs_are_judged_alike() -> None:
    change = {"operation": "move", "oldPath": "/code/a.py", "path": "b.py"}
    diff = {"type": "diff", "changes": [change]}
    first = updated(status="pending", title="Move a.py", name="move", rawInput={"source": "a.py"})
    found = check(first, completed(content=[diff]), version=2)
    assert [f.field for f in found if f.rule == "complete/path-not-absolute"] == [
        "update.content[0].changes[0].path"
    ]


def test_a_path_is_reported_once_however_often_it_is_sent() -> None:
    bad = [{"path": "src/app.py"}]
    found = check(announced(locations=bad), updated(locations=bad), completed(locations=bad))
    assert rules(found) == ["complete/path-not-absolute"]


def test_a_path_in_a_permission_request_is_judged() -> None:
    found = check(asked("c9", title="Edit a.py", rawInput={"path": "a"}, locations=[{"path": "a"}]))
    assert rules(found) == ["complete/asked-path-not-absolute"]


@pytest.mark.parametrize("version", [1, 2])
def test_lines_count_from_one(version: int) -> None:
    zero = [{"path": "/code/notes.txt", "line": 0}]
    first = announced(locations=zero) if version == 1 else updated(locations=zero)
    found = check(first, updated(locations=zero), version=version)
    assert rules(found).count("complete/line-zero") == 1


@pytest.mark.parametrize("line", [1, 7, None])
def test_a_line_of_a_file_passes(line: int | None) -> None:
    assert check(announced(locations=[{**PLACE[0], "line": line}]), completed()) == []


def test_a_path_is_reported_once_for_a_call() -> None:
    places = [{"path": "a.py"}, {"path": "b.py"}]
    found = check(announced(locations=places[:1]), completed(locations=places))
    assert [(one.rule, one.field) for one in found] == [
        ("complete/path-not-absolute", "update.locations[0].path"),
        ("complete/path-not-absolute", "update.locations[1].path"),
    ]


PATH = "/code/notes.txt"
EDIT: Message = {"kind": "edit", "name": "write_file", "title": "Write notes.txt"}


def diff(old: object = None, path: str = PATH, **more: Any) -> Message:
    return {"type": "diff", "path": path, "oldText": old, "newText": "new\n", **more}


def wrote(key: str, *content: Message) -> list[Message]:
    return [announced(key, **EDIT), completed(key, content=list(content))]


def read(key: str = "r1", **fields: Any) -> list[Message]:
    return [announced(key), completed(key, **fields)]


def test_a_diff_without_the_key_is_advice_and_reported_once() -> None:
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


def test_a_permission_request_shows_an_overwrite_as_what_it_is() -> None:
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


def test_a_diff_that_is_repaired_before_the_end_passes() -> None:
    first = announced(**EDIT, content=[diff(None)])
    assert check(*read(), first, completed(content=[diff("before\n")])) == []
