"""The tool `grep`: what is found, what is reported about it, and that it ends."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Session, ToolResult
from callsheet.testing import Recorder, check_tool
from callsheet.tools import ripgrep
from callsheet.tools.builtin.grep import render, search
from callsheet.tools.globs import path_filter
from callsheet.tools.ripgrep import LineQuery
from tests.support.files import Trees, reachable, without_rights
from tests.support.processes import new_token, wait_until_gone, with_token
from tests.support.sizes import fewer


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=tmp_path, strict=True) as session:
        yield session


def make(top: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        (top / name).write_bytes(data)


async def grep(session: Session, pattern: str, **arguments: Any) -> ToolResult:
    return await session.run("grep", {"pattern": pattern, **arguments})


def totals(result: ToolResult) -> tuple[Any, ...]:
    return tuple(result.metadata[name] for name in ("total_matches", "files_matched", "truncated"))


# Patterns


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("foo(", "unclosed group"),
        ("[z-a]", "invalid character class range"),
        (r"a\y", "unrecognized escape sequence"),
        ("(?=a)", "look-around"),
    ],
)
async def test_a_wrong_pattern_is_refused_with_what_is_wrong(
    session: Session, pattern: str, what: str
) -> None:
    result = await grep(session, pattern)
    assert result.metadata["error_code"] == "invalid_arguments"
    assert result.output.startswith(f"pattern: {what}")


async def test_the_standard_is_kept(tmp_path: Path) -> None:
    make(tmp_path, {"a.txt": "text\n"})
    await check_tool("grep", good={"pattern": "text"}, failing={"pattern": "("}, cwd=tmp_path)


# What is found


async def test_matches_are_grouped_by_file_in_the_order_of_paths(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, {
        "b.py": "x\nfoo\n", "a-b/z.py": "foo\n", "a/c.py": "foo\nno\nfoo = 2\n", "a/b/c.py": "foo\n",
        "none.py": "bar\n",
    })  # fmt: skip
    result = await grep(session, "foo")
    assert result.output == (
        "a/b/c.py\n1: foo\n\na/c.py\n1: foo\n3: foo = 2\n\na-b/z.py\n1: foo\n\nb.py\n2: foo\n\n"
        "5 matches in 4 files."
    )
    expected = {"pattern": "foo", "search_path": str(tmp_path), "shown": 5}
    assert expected.items() <= result.metadata.items()
    assert totals(result) == (5, 4, False)


async def test_totals_are_exact_however_little_is_shown(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {f"d{n}/f{n}.txt": "foo foo\nbar\n" * n for n in range(1, 31)})
    result = await grep(session, "foo", limit=4)
    assert totals(result) == (465, 30, True)
    assert result.metadata["shown"] == 4
    assert "465 matches in 30 files; the first 4 are shown. Narrow it with path" in result.output
    assert result.output.startswith("d1/f1.txt\n1: foo foo\n\nd10/f10.txt\n1: foo foo\n3: foo foo")
    assert result.output.count(": foo foo") == 4


async def test_output_is_bounded_though_much_is_asked_for(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {"long": ("x" * 290 + "foo\n") * 2000})
    result = await grep(session, "foo", limit=10**6, context=10**6)
    assert totals(result) == (2000, 1, True)
    assert len(result.output) < 70_000


async def test_no_match_is_a_success_that_says_so(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {"a/b": "bar\n"})
    result = await grep(session, r"f\w+", path="a", glob="*.py")
    assert result.success
    assert result.output == r"No matches for 'f\w+' in a (files: *.py)."
    assert totals(result) == (0, 0, False)


async def test_context_is_shown_once_and_gaps_are_marked(session: Session, tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(1, 21)]
    make(tmp_path, {"a": "\n".join(lines)})
    result = await grep(session, "line (3|5|20)$", context=1)
    shown = "2- line 2\n3: line 3\n4- line 4\n5: line 5\n6- line 6\n--\n19- line 19\n20: line 20"
    assert result.output == f"a\n{shown}\n\n3 matches in 1 file."


async def test_a_long_line_is_cut(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {"a": f"{'é' * 5000}foo{'ü' * 5000}\n{'y' * 5000}\n", "b": "foo" + "z" * 5000})
    result = await grep(session, "foo", context=1)
    assert result.output.splitlines()[1:3] == [
        f"1: {'é' * 300}… (it matches at byte 10,001 of the line)",
        f"2- {'y' * 300}…",
    ]
    assert f"1: foo{'z' * 297}…\n" in result.output


async def test_case_can_be_ignored(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {"a": "Straße\nSTRASSE\nÉTÉ\n"})
    assert totals(await grep(session, "été|straße", ignore_case=True)) == (2, 1, False)
    assert totals(await grep(session, "été|straße")) == (0, 0, False)


@pytest.mark.parametrize("pattern", ["-foo", "--files", "-e", "--", "-"])
async def test_a_pattern_is_never_taken_for_an_option(
    session: Session, tmp_path: Path, pattern: str
) -> None:
    make(tmp_path, {"-a": f"x{pattern}y\n", "--b/-c": f"{pattern}\n"})
    assert totals(await grep(session, pattern)) == (2, 2, False)
    assert totals(await grep(session, pattern, path="-a")) == (1, 1, False)
    assert totals(await grep(session, pattern, path="--b")) == (1, 1, False)


async def test_a_pattern_that_can_be_nowhere_is_refused(session: Session) -> None:
    for pattern in ("a\0b", "x" * 20_000, r"a\nb", "a\nb"):
        result = await grep(session, pattern)
        assert result.metadata["error_code"] == "invalid_arguments", pattern


# Which files are searched


async def test_ignored_hidden_and_binary_files_are_left_out(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, {
        ".gitignore": "*.log\nbuild/\n", "a.log": "foo\n", "build/b": "foo\n", ".hidden/c": "foo\n",
        ".git/config": "foo\n", "binary": b"foo\n" * 50_000 + b"\0foo\n", "d": "foo\n",
    })  # fmt: skip
    (tmp_path / "link").symlink_to("d")
    result = await grep(session, "foo")
    assert result.output == "d\n1: foo\n\n1 match in 1 file."


@pytest.mark.parametrize("glob", ["*", "**", "**/*", "*.log", "build/*", ".*", "build/", "!x"])
async def test_a_glob_narrows_and_never_brings_back_what_is_left_out(
    session: Session, tmp_path: Path, glob: str
) -> None:
    make(tmp_path, {
        ".gitignore": "*.log\nbuild/\n", "a.log": "foo\n", "build/b": "foo\n", ".hidden": "foo\n",
        ".git/config": "foo\n",
    })  # fmt: skip
    assert totals(await grep(session, "foo", glob=glob)) == (0, 0, False)


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", {"a.py", "src/b.py", "src/deep/c.py"}),
        ("*.{py,ts}", {"a.py", "src/b.py", "src/deep/c.py", "src/d.ts"}),
        ("src/*.py", {"src/b.py"}),
        ("/*.py", {"a.py"}),
        ("./src/**/*.py", {"src/b.py", "src/deep/c.py"}),
        ("src/", {"src/b.py", "src/deep/c.py", "src/d.ts"}),
        ("!*.py", {"src/d.ts", "é:[x].txt"}),
        ("!src/**", {"a.py", "é:[x].txt"}),
        ("[ac].p?", {"a.py", "src/deep/c.py"}),
        ("é:\\[x\\].txt", {"é:[x].txt"}),
        ("../*", set[str]()),
        ("", {"a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "é:[x].txt"}),
    ],
)
async def test_a_glob_is_about_names_or_about_paths(
    session: Session, tmp_path: Path, glob: str, found: set[str]
) -> None:
    names = ["a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "é:[x].txt"]
    make(tmp_path, dict.fromkeys(names, "foo\n"))
    result = await grep(session, "foo", glob=glob)
    assert {line for line in result.output.splitlines() if line in names} == found
    assert result.metadata["total_matches"] == len(found)


async def test_a_glob_that_makes_no_sense_is_refused(session: Session) -> None:
    result = await grep(session, "foo", glob="a[b")
    assert result.metadata["error_code"] == "invalid_arguments"
    assert "glob: 'a[b': '[' is never closed" in result.output


async def test_a_directory_is_searched_where_it_is_named_though_hidden(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, {".github/ci.yml": "foo\n"})
    assert totals(await grep(session, "foo")) == (0, 0, False)
    assert totals(await grep(session, "foo", path=".github")) == (1, 1, False)


async def test_rules_above_the_directory_hold_below_it(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {
        ".git/HEAD": "", ".gitignore": "build\n*.log\n", "sub/build/x": "foo\n", "sub/x": "foo\n",
        "sub/a.log": "foo\n",
    })  # fmt: skip
    result = await grep(session, "foo", path="sub")
    assert result.output.startswith("sub/x\n1: foo\n")
    assert totals(result) == (1, 1, False)


async def test_one_file_is_searched_though_ignored(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "a\n", "a": "foo\nbar\nfoo\n"})
    result = await grep(session, "foo", path="a", limit=1)
    assert result.output.startswith("a\n1: foo\n\n2 matches in 1 file; the first is shown.")


async def test_a_binary_file_is_not_searched_and_that_is_said(
    session: Session, tmp_path: Path
) -> None:
    make(
        tmp_path,
        {"a.bin": b"foo\n" + b"x" * 100_000 + b"\0", "b.txt": "\ufefffoo\n".encode("utf-16-le")},
    )
    result = await grep(session, "foo", path="a.bin")
    assert result.output == "No matches for 'foo' in a.bin; it is a binary file."
    result = await grep(session, "^foo", path="b.txt")
    assert result.output == "b.txt\n1: foo\n\n1 match in 1 file."


async def test_what_is_no_file_is_not_opened(session: Session, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    make(tmp_path, {"a": "foo\n"})
    assert totals(await grep(session, "foo")) == (1, 1, False)
    result = await grep(session, "foo", path="pipe")
    assert "neither a directory nor a regular file" in result.output
    result = await grep(session, "foo", path="missing")
    assert result.metadata["error_code"] == "not_found"
    result = await grep(session, "root", path="/etc")
    assert result.metadata["error_code"] == "permission_denied"


async def test_a_link_out_of_the_workspace_is_not_followed(
    session: Session, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    make(outside, {"secret": "foo\n"})
    (tmp_path / "way").symlink_to(outside)
    (tmp_path / "file").symlink_to(outside / "secret")
    assert totals(await grep(session, "foo")) == (0, 0, False)
    assert totals(await grep(session, "foo", glob="way/*")) == (0, 0, False)
    result = await grep(session, "foo", path="way")
    assert result.metadata["error_code"] == "permission_denied"


async def test_names_and_lines_that_are_not_utf_8_are_shown(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / os.fsdecode(b"\xff\n.txt")).write_bytes(b"caf\xe9 foo\r\n")
    result = await grep(session, "foo")
    assert result.output == "\\xff\\n.txt\n1: caf\ufffd foo\n\n1 match in 1 file."
    assert session.health.degraded == 0


async def test_files_that_may_not_be_read_are_counted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grep(session, "foo")
    with reachable(ripgrep.program()) as copy, without_rights() as directory:
        monkeypatch.setattr(ripgrep, "find", lambda: copy)
        make(directory, {"a": "foo\n", "b": "foo\n", "d/c": "foo\n"})
        (directory / "b").chmod(0)
        (directory / "d").chmod(0)
        async with Session("s", cwd=directory, strict=True) as session:
            result = await grep(session, "foo")
    assert totals(result) == (1, 1, False)
    assert result.output.endswith("1 match in 1 file.\n2 files or directories could not be read.")


async def test_a_directory_too_deep_to_be_read_is_counted(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {"a": "foo\n"})
    deep = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=deep)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    result = await grep(session, "foo")
    assert result.output.startswith("a\n1: foo\n\n1 match in 1 file.")
    assert result.output.endswith("\n1 file or directory could not be read.")


async def test_what_a_user_has_set_for_ripgrep_changes_nothing(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"config": "--hidden\n--invert-match\n", ".hidden": "foo\n", "a": "foo\nb\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    assert totals(await grep(session, "foo")) == (1, 1, False)


async def test_a_broken_rule_above_is_no_wrong_pattern(session: Session, tmp_path: Path) -> None:
    make(tmp_path, {".git/HEAD": "", ".gitignore": "[\n", "sub/a": "foo\n"})
    assert totals(await grep(session, "foo", path="sub")) == (1, 1, False)
    assert totals(await grep(session, "zzz", path="sub")) == (0, 0, False)


# Places


async def test_hits_become_places_and_the_first_one_comes_last(tmp_path: Path) -> None:
    make(tmp_path, {"a": "foo\n\nfoo\n", "b": "\nfoo\n"})
    recorder = Recorder()
    async with Session("s", cwd=tmp_path, on_update=recorder, strict=True) as session:
        await grep(session, "foo")
    (report,) = recorder.fold()
    places = [(Path(place.path).name, place.line) for place in report.locations]
    assert places == [("b", 2), ("a", 3), ("a", 1)]


async def test_places_are_few_and_from_many_files(tmp_path: Path) -> None:
    make(tmp_path, {f"f{n:02}": "foo\n" * 50 for n in range(30)})
    async with Session("s", cwd=tmp_path, strict=True) as session:
        await grep(session, "foo", limit=1000)
        (report,) = session.reports
    places = [(Path(place.path).name, place.line) for place in report.locations]
    assert places == [(f"f{n:02}", 1) for n in reversed(range(10))]


# Ends


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make searches take for ever, and return what is seen of them among the processes."""
    token = new_token()
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\nsleep {token} & sleep {token}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ripgrep, "find", lambda: str(program))
    return token


async def test_cancelling_ends_the_search_and_all_that_it_started(
    session: Session, slow: str
) -> None:
    running = asyncio.create_task(session.run("grep", {"pattern": "(a+)+c"}, alias="x"))
    await seen(slow)
    begun = time.monotonic()
    assert session.cancel("x")
    result = await running
    assert result.metadata["error_code"] == "cancelled"
    assert wait_until_gone(slow) == []
    assert time.monotonic() - begun < 1


async def test_a_timeout_ends_the_search_and_all_that_it_started(
    session: Session, slow: str
) -> None:
    result = await session.run("grep", {"pattern": "(a+)+c"}, timeout=0.3)
    assert result.metadata["error_code"] == "timeout"
    assert wait_until_gone(slow) == []


async def seen(token: str) -> None:
    for _ in range(500):
        if with_token(token):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was started")


@pytest.mark.parametrize("name", ["broken", "missing", "directory"])
async def test_a_ripgrep_that_cannot_run_is_an_error_that_says_how_to_get_one(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make(tmp_path, {"directory/a": "foo\n", "broken": b"\x7fELF nothing"})
    (tmp_path / "broken").chmod(0o755)
    monkeypatch.setattr(ripgrep, "find", lambda: str(tmp_path / name))
    result = await grep(session, "foo")
    assert not result.success
    assert f"{tmp_path / name} can't be started" in result.output
    assert "pip install ripgrep" in result.output


async def test_a_missing_ripgrep_is_an_error_that_says_how_to_get_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "find", lambda: None)
    result = await grep(session, "foo")
    assert not result.success
    assert "needs ripgrep, which is not installed here" in result.output
    assert "pip install ripgrep" in result.output


def test_ripgrep_is_that_of_the_wheel_else_the_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(ripgrep.program()).parent == Path(sys.executable).parent
    make(tmp_path, {"rg": "#!/bin/sh\n"})
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr("sysconfig.get_path", os.path.join)  # nowhere that exists
    assert ripgrep.find.__wrapped__() == str(tmp_path / "rg")


# Against a search of every line


PATTERNS = ["foo", "fo+", "(?i:FOO)", "^", "[^x]x", "-|9", "", "^$"]


@fewer(5)
@given(st.integers(0, 1 << 32))
def test_totals_and_first_lines_are_those_of_a_search_of_every_line(seed: int) -> None:
    trees = Trees(seed)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        trees.fill(top, [".gitignore", ".ignore"])
        if trees.chance.random() < 0.5:
            trees.repository(top)
        directories = [Path(path) for path, _, _ in os.walk(top) if "/.git" not in path]
        base = top if trees.chance.random() < 0.5 else trees.chance.choice(directories)
        glob = trees.chance.choice([None, trees.chance.choice(["", "!"]) + trees.glob()])
        pattern, limit = trees.chance.choice(PATTERNS), trees.chance.choice([3, 100])
        context = trees.chance.choice([0, 2])
        query = LineQuery(pattern, False, glob)
        expected = matches_by_hand(query, base)
        found = asyncio.run(search(query, base, is_file=False, limit=limit, context=context))
        assert (found.total, found.files) == (len(expected), len({path for path, _ in expected}))
        text, shown = render(found, context, str)
        assert shown == expected[:limit]
        assert text.count("\n\n") == max(0, len(found.shown) - 1)


def matches_by_hand(query: LineQuery, base: Path) -> list[tuple[str, int]]:
    """Return path and number of every matching line, found with Python's `re`."""
    command = [part for part in ripgrep.list_files(base) if part != "--hidden"]
    listed = subprocess.run(command, cwd=base, capture_output=True, check=False).stdout
    names = [os.fsdecode(name[2:]) for name in listed.split(b"\0") if name]
    if query.glob:  # hidden files that an ignore file brings back are not found by a glob
        names = [name for name in names if "/." not in f"/{name}"]
    found, wanted = list[tuple[str, int]](), path_filter(query.glob or "**")
    for name in sorted(filter(wanted, names), key=lambda name: os.fsencode(name).split(b"/")):
        path = f"{base}/{name}"
        data = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
        if data.startswith(b"\xff\xfe"):
            data = data[2:].decode("utf-16-le").encode()
        lines = [] if b"\0" in data else data.split(b"\n")
        lines = lines[:-1] if lines and not lines[-1] else lines
        number = re.compile(query.pattern.encode())
        found += [(path, at) for at, line in enumerate(lines, 1) if number.search(line)]
    return found
