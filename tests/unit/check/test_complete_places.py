"""What the checker says of locations, paths and lines."""

from __future__ import annotations

import pytest

from tests.support.made_recordings import announced, asked, check, completed, rules, updated, words

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
        ("file:///code/app.py", "link"),
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
def test_a_path_that_goes_back_and_forth_is_told(path: str) -> None:
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


def test_a_path_is_told_once_however_often_it_is_sent() -> None:
    bad = [{"path": "src/app.py"}]
    found = check(announced(locations=bad), updated(locations=bad), completed(locations=bad))
    assert rules(found) == ["complete/path-not-absolute"]


def test_a_path_in_a_question_is_judged() -> None:
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


def test_a_path_is_told_once_for_a_call() -> None:
    places = [{"path": "a.py"}, {"path": "b.py"}]
    found = check(announced(locations=places[:1]), completed(locations=places))
    assert [(one.rule, one.field) for one in found] == [
        ("complete/path-not-absolute", "update.locations[0].path"),
        ("complete/path-not-absolute", "update.locations[1].path"),
    ]
