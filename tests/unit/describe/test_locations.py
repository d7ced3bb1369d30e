"""Locations: absolute, normal, seen from the session's directory; and what is no path is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.describe import Describer
from callsheet.describe.paths import OUTSIDE, PathContext, is_path
from callsheet.report.errors import InvalidLocation
from callsheet.report.fields import ToolCallLocation

describe = Describer("/home/me/app", home="/home/me")


def places(arguments: object, name: str = "read", **options: Any) -> list[tuple[str, int | None]]:
    described = describe(name, arguments, **options)
    return [(place.path, place.line) for place in described.locations]


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("a.py", "/home/me/app/a.py"),
        ("./a.py", "/home/me/app/a.py"),
        ("src//b/../a.py", "/home/me/app/src/a.py"),
        ("src/", "/home/me/app/src"),
        (".", "/home/me/app"),
        ("../x/a.py", "/home/me/x/a.py"),
        ("/../../etc/passwd", "/etc/passwd"),
        ("//double/slash", "/double/slash"),
        ("~", "/home/me"),
        ("~/a.py", "/home/me/a.py"),
        ("file:///home/me/app/a%20b.py", "/home/me/app/a b.py"),
        ("file://localhost/etc/hosts", "/etc/hosts"),
        ("FILE:///etc/hosts", "/etc/hosts"),
        ("file:/etc/hosts", "/etc/hosts"),
        ("file:///C:/Users/me/a.py", r"C:\Users\me\a.py"),
        ("file://server/share/a.py", r"\\server\share\a.py"),
        (r"C:\Users\me\..\you\a.py", r"C:\Users\you\a.py"),
        ("C:/Users/me/a.py", r"C:\Users\me\a.py"),
        (r"\\server\share\a.py", r"\\server\share\a.py"),
        ("my file (1).txt", "/home/me/app/my file (1).txt"),
        ("  a.py\n", "/home/me/app/a.py"),
        ("日本/ファイル.py", "/home/me/app/日本/ファイル.py"),
        ("app/[slug]/page.tsx", "/home/me/app/app/[slug]/page.tsx"),
        ("image/logo.png", "/home/me/app/image/logo.png"),
        ("text/notes", "/home/me/app/text/notes"),
        ("Makefile", "/home/me/app/Makefile"),
        (".env", "/home/me/app/.env"),
        ("a..b", "/home/me/app/a..b"),
        ("...", "/home/me/app/..."),
    ],
)
def test_a_path_becomes_absolute_and_normal(written: str, path: str) -> None:
    assert places({"path": written}) == [(path, None)]


@pytest.mark.parametrize(
    "text",
    [
        *("*.py", "src/**/*.ts", "a?.py", "src/{a,b}.py", "[a-z].py", "[!a].py"),
        *(
            "https://example.org/a.py",
            "http://x",
            "git+ssh://x/y",
            "data:text/plain,x",
            "mailto:a@b.c",
        ),
        *(
            "text/html",
            "application/json",
            "image/svg+xml",
            "application/vnd.ms-excel",
            "text/html; charset=utf-8",
        ),
        *(
            "-rf",
            "--flag=x",
            "-",
            "$HOME/a.py",
            "$(pwd)/a",
            "`pwd`",
            "~other/a.py",
            "a\nb",
            "a\x00b",
            "",
            "   ",
        ),
        "x" * 5000,
    ],
)
def test_what_is_no_path_gives_no_location(text: str) -> None:
    assert places({"path": text}) == []


def test_symlinks_stay_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    described = Describer(str(tmp_path))("read", {"path": "link/a.py"})
    assert described.locations[0].path == f"{tmp_path}/link/a.py"


def test_the_process_directory_is_never_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "getcwd", lambda: pytest.fail("the process's directory was asked"))
    assert places({"path": "a.py"}) == [("/home/me/app/a.py", None)]
    assert places({"path": "../b.py"}) == [("/home/me/b.py", None)]


def test_without_a_home_a_tilde_leads_nowhere() -> None:
    assert Describer("/w")("read", {"path": "~/a.py"}).locations == ()


def test_a_session_on_windows_has_windows_paths() -> None:
    windows = Describer(r"C:\proj", home=r"C:\Users\me")
    described = windows("read", {"path": "src/a.py"})
    assert described.locations == (ToolCallLocation(r"C:\proj\src\a.py"),)
    assert described.title == r"Reading src\a.py"
    assert windows("read", {"path": r"c:\PROJ\a.py"}).title == "Reading a.py"
    outside = windows("read", {"path": r"D:\a.py"})
    assert outside.locations[0].meta == OUTSIDE
    assert windows("read", {"path": "~/a.py"}).title == r"Reading ~\a.py"


def test_what_is_outside_the_workspace_is_marked_not_dropped() -> None:
    described = Describer("/w", roots=["/lib"])
    inside, root, outside = (
        described("read", {"path": path}).locations[0] for path in ("/w/a", "/lib/a", "/etc/a")
    )
    assert (inside.meta, root.meta) == (None, None)
    assert outside.meta == {"callsheet": {"outside": True}}
    assert described("read", {"path": "/workspace/a"}).locations[0].meta is not None


def test_a_directory_that_is_not_absolute_is_refused_at_once() -> None:
    with pytest.raises(InvalidLocation):
        Describer("relative")


@pytest.mark.parametrize(
    ("beside", "line"),
    [
        ({"line": 3}, 3),
        ({"offset": 10}, 10),
        ({"offset": 0}, 1),
        ({"offset": "12"}, 12),
        ({"start_line": 5, "end_line": 9}, 5),
        ({"startLine": 5}, 5),
        ({"view_range": [10, 40]}, 10),
        ({"range": {"start": 4, "end": 8}}, 4),
        ({"range": {"start": {"line": 4}, "end": {"line": 8}}}, 5),
        ({"line_range": "10-40"}, 10),
        ({"lines": "L7-L9"}, 7),
        ({"limit": 5}, None),
        ({"offset": -5}, None),
        ({"offset": 2**40}, None),
        ({"line": True}, None),
        ({"line": 1.5}, None),
        ({"line": "many"}, None),
        ({"view_range": []}, None),
        ({"view_range": "all"}, None),
        ({"offset": 5, "limit": -3}, 5),
    ],
)
def test_the_line_is_taken_from_line_offset_and_ranges(
    beside: dict[str, Any], line: int | None
) -> None:
    assert places({"path": "a.py", **beside}) == [("/home/me/app/a.py", line)]


def test_an_offset_of_a_search_is_no_line() -> None:
    assert places({"path": "a.py", "pattern": "x", "offset": 20}, "grep") == [
        ("/home/me/app/a.py", None)
    ]


def test_a_line_may_stand_in_the_path() -> None:
    assert places({"path": "a.py:12"}) == [("/home/me/app/a.py", 12)]
    assert places({"path": "a.py:12:7"}) == [("/home/me/app/a.py", 12)]
    assert places({"uri": "file:///x/a.py#L9-L12"}) == [("/x/a.py", 9)]


def test_the_place_that_the_work_is_at_stands_last() -> None:
    moved = places({"source": "a", "destination": "b"}, "move")
    assert [path for path, _ in moved] == ["/home/me/app/a", "/home/me/app/b"]
    many = places({"paths": [f"{n}.py" for n in range(20)]})
    assert len(many) == 8
    assert many[-1][0] == "/home/me/app/19.py"


@pytest.mark.parametrize(
    ("patch", "found"),
    [
        ("*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch", [("a.py", None)]),
        ("--- a/a.py\n+++ b/a.py\n@@ -3,2 +4,2 @@\n-x\n+y\n", [("a.py", 4)]),
        ("diff --git a/x b/x\n--- a/x\t2024\n+++ b/x\t2024\n@@ -1 +1 @@\n-a\n+b\n", [("x", 1)]),
        ("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+a\n", [("new.py", 1)]),
        ("--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", [("old.py", 1)]),
        (
            "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n--- a/b\n+++ b/b\n@@ -9 +9 @@\n-a\n+b\n",
            [("a", 1), ("b", 9)],
        ),
    ],
)
def test_the_paths_of_a_diff_are_locations(patch: str, found: list[tuple[str, int | None]]) -> None:
    assert places({"patch": patch}, "apply_patch") == [
        (f"/home/me/app/{path}", line) for path, line in found
    ]


def test_declared_locations_always_win() -> None:
    place = ToolCallLocation("/x/y.py", 3)
    assert describe("read", {"path": "a.py"}, locations=[place]).locations == (place,)
    assert describe("read", {"path": "a.py"}, locations=[]).locations == ()


def test_locations_are_declared_as_paths_or_by_argument() -> None:
    arguments = {"target": "b.py", "path": "a.py"}
    assert places(arguments, locations=["{target}", "/x/z.py", "{missing}", "*.py"]) == [
        ("/home/me/app/b.py", None),
        ("/x/z.py", None),
    ]


def test_paths_in_a_repository_far_away_are_no_locations() -> None:
    remote = {"owner": "me", "repo": "app", "path": "a.py"}
    assert places(remote, "mcp__github__get_file_contents") == []
    assert places({"path": "a.py"}, "mcp__files__get_file_contents") == [
        ("/home/me/app/a.py", None)
    ]


@given(st.text(st.characters(codec=None), max_size=60))
def test_whatever_is_given_a_location_is_absolute_and_normal(text: str) -> None:
    workspace = PathContext("/w", home="/h")
    place = workspace.locate(text)
    if place is not None:
        again = workspace.locate(place.path)
        ends_in_blank = place.path != place.path.strip()
        assert again is None or again.path == place.path or ":" in text or ends_in_blank
        assert "/../" not in place.path
    assert isinstance(is_path(text), bool)


@pytest.mark.parametrize("bad", [[42], 42, "a.py", b"a.py", [None, {"path": "a"}, ["a"]], {"x": 1}])
def test_declared_locations_that_are_none_are_skipped(bad: Any) -> None:
    found = Describer("/w")("frobnicate", {}, locations=bad).locations
    assert all(place.path == "/w/x" for place in found)
    good = Describer("/w")("frobnicate", {}, locations=[42, "a.py"]).locations  # type: ignore[list-item]
    assert [place.path for place in good] == ["/w/a.py"]


@pytest.mark.parametrize("path", ["", " ", "/dev/null", "a\nb", "\0", "x" * 5000])
def test_changes_by_path_may_have_anything_for_a_path(path: str) -> None:
    change = {"type": "update", "unified_diff": "@@ -1 +3 @@\n-a\n+b"}
    found = describe("apply_patch", {"changes": {path: change, "b.py": change}})
    assert found.locations[-1].path == "/home/me/app/b.py"
