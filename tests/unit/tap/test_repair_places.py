"""Where another agent's call works, and what sort of tool it is of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.drafts import Told, diff, text


def paths(told: Told) -> list[str]:
    return [place["path"] for place in told.draft().locations]


def test_locations_that_were_reported_stay_the_same_object() -> None:
    told = Told().call(
        title="Read a.py", kind="read", locations=[{"path": "/code/a.py", "line": 2}]
    )
    assert told.draft().locations is told.draft().call.fields["locations"]
    assert not {"locations", "paths"} & told.draft().repaired


def test_a_file_is_found_in_the_input_with_its_line() -> None:
    told = Told().call(name="read_file", title="x", rawInput={"path": "src/a.py", "offset": 7})
    assert told.draft().locations == [{"path": "/code/src/a.py", "line": 7}]
    assert "locations" in told.draft().repaired


def test_a_file_outside_the_session_says_so() -> None:
    (place,) = (
        Told().call(name="read_file", title="x", rawInput={"path": "/etc/hosts"}).draft().locations
    )
    assert place["path"] == "/etc/hosts"
    assert place["_meta"] == {"callsheet": {"outside": True}}


def test_files_are_found_in_diffs_and_each_is_reported_once() -> None:
    content = [diff("a.py", "x"), diff("/code/b.py", "y"), diff("a.py", "z")]
    told = Told().call(title="Patching", kind="edit", rawInput={"patch": "…"}, content=content)
    assert paths(told) == ["/code/a.py", "/code/b.py"]
    both = Told().call(
        name="edit", title="x", rawInput={"path": "a.py"}, content=[diff("a.py", "x")]
    )
    assert paths(both) == ["/code/a.py"]


def test_files_are_found_in_a_patch_of_v2() -> None:
    item = {"type": "diff", "changes": [{"operation": "modify", "path": "a.py", "oldPath": "b.py"}]}
    draft = Told(version=2).update(title="Patching", kind="edit", content=[item]).draft()
    assert draft.content[0]["changes"][0] == {
        "operation": "modify",
        "path": "/code/a.py",
        "oldPath": "/code/b.py",
    }
    assert [place["path"] for place in draft.locations] == ["/code/a.py"]


def test_locations_of_a_permission_request_count_where_there_are_no_others() -> None:
    told = Told().call(title="bash", locations=[]).ask(locations=[{"path": "/code/x.txt"}])
    assert paths(told) == ["/code/x.txt"]


@pytest.mark.parametrize(
    ("path", "better"),
    [
        ("src/a.py", "/code/src/a.py"),
        ("./a.py", "/code/a.py"),
        ("../b/a.py", "/b/a.py"),
        ("/code/src/../a.py", "/code/a.py"),
        ("file:///code/a%20b.py", "/code/a b.py"),
        ("/code/a.py", "/code/a.py"),
        ("C:\\code\\a.py", "C:\\code\\a.py"),
        ("/code/.git/config", "/code/.git/config"),
        ("~/a.py", "~/a.py"),  # nobody knows whose home
    ],
)
def test_paths_become_such_that_an_editor_can_open_them(path: str, better: str) -> None:
    content = [*text("x"), diff(path, "x")]
    told = Told().call(title="Edit it", kind="edit", locations=[{"path": path}], content=content)
    draft = told.draft()
    assert (draft.locations[0]["path"], draft.content[1]["path"]) == (better, better)
    assert ("paths" in draft.repaired) == (path != better)
    assert told.draft().call.fields["locations"] == [{"path": path}]  # what was told is not changed


def test_relative_paths_stay_where_nobody_knows_the_directory() -> None:
    told = Told(cwd="").call(title="Edit it", locations=[{"path": "a.py"}])
    assert paths(told) == ["a.py"]
    told = Told(cwd="").call(name="read_file", title="x", rawInput={"path": "a.py"})
    assert paths(told) == []
    told = Told(cwd="").call(name="read_file", title="x", rawInput={"path": "/code/a.py"})
    assert paths(told) == ["/code/a.py"]


def test_what_no_editor_can_open_is_no_location() -> None:
    places = [{"path": "https://example.org/a.py"}, {"path": ""}, {"path": "/code/a.py"}]
    told = Told().call(title="Look it up", kind="fetch", locations=places)
    assert paths(told) == ["/code/a.py"]
    assert "paths" in told.draft().repaired


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ("/a.py", {"path": "/a.py"}),
        ({"path": "/a.py", "line": "3"}, {"path": "/a.py"}),
        ({"path": "/a.py", "line": -1}, {"path": "/a.py"}),
        ({"path": "/a.py", "line": 1.5, "_meta": {}}, {"path": "/a.py", "_meta": {}}),
        ({"path": "file:///a.py"}, {"path": "/a.py"}),
    ],
)
def test_a_place_that_is_not_in_form_is_one_all_the_same(told: Any, place: Any) -> None:
    assert Told().call(title="read", kind="read", locations=[told]).draft().locations == [place]


@pytest.mark.parametrize("told", [4, None, {}, {"path": 4}, {"line": 3}, ["/a.py"]])
def test_where_no_place_is_reported_the_input_reports(told: Any) -> None:
    call = Told().call(title="read", kind="read", locations=[told], rawInput={"path": "/b.py"})
    assert [place["path"] for place in call.draft().locations] == ["/b.py"]


def test_line_0_is_the_first_line() -> None:
    told = Told().call(
        title="x y", locations=[{"path": "/code/a.py", "line": 0, "_meta": {"k": 1}}]
    )
    assert told.draft().locations == [{"path": "/code/a.py", "line": 1, "_meta": {"k": 1}}]


# Kinds


def kind(told: Told) -> str | None:
    return told.draft().shown_kind


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"title": "ReadFile"}, "read"),
        ({"title": "ReadFile", "kind": "other"}, "read"),
        ({"title": "StrReplaceFile", "kind": "nonsense"}, "edit"),
        ({"name": "bash", "title": "x", "rawInput": {"command": "make"}}, "execute"),
        ({"name": "bash", "title": "x", "rawInput": {"command": "cat a.py"}}, "execute"),
        ({"title": "Working", "rawInput": {"command": "make"}}, "execute"),
        ({"name": "create_issue", "title": "x"}, "edit"),
    ],
)
def test_a_kind_that_is_missing_is_found(fields: dict[str, Any], found: str) -> None:
    told = Told().call(**fields)
    assert kind(told) in ("execute", "other")
    told.update(status="completed")
    assert kind(told) == found
    assert "kind" in told.draft().repaired


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "ReadFile", "kind": "execute"},
        {"name": "create_issue", "title": "x", "kind": "other"},  # just a guess by a word
        {"name": "frobnicate", "title": "x", "kind": "other"},
        {"title": "Working", "kind": "other", "rawInput": {"command": "view", "path": "a.py"}},
        {"title": "x", "kind": "_deploy"},
    ],
)
def test_a_kind_that_was_reported_stays_unless_more_is_known(fields: dict[str, Any]) -> None:
    told = Told().call(**fields)
    assert kind(told) == fields["kind"]
    assert "kind" not in told.draft().repaired


def test_a_permission_request_reports_the_kind() -> None:
    assert kind(Told().call(title="Working").ask(kind="delete")) == "delete"
    assert kind(Told().call(title="Working", kind="edit").ask(kind="delete")) == "edit"
    assert kind(Told().call(title="Working", kind="read").ask(kind="delete")) == "delete"
