"""The tool `list`: what is in a directory, in which order, and what is left out."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet import Session
from callsheet.testing import check_tool
from tests.support.files import without_rights


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=tmp_path, strict=True) as session:
        yield session


def make(top: Path, *names: str) -> None:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text("")


async def test_directories_come_first_then_names_as_people_sort_them(
    session: Session, tmp_path: Path
) -> None:
    make(
        tmp_path,
        "b10.txt",
        "b9.txt",
        "B9.TXT",
        "a.txt",
        "Zoo/",
        "apes/",
        ".env",
        "é",
        "²",
        "10",
        "9",
    )
    result = await session.run("list")
    names = [line.split("  ")[0] for line in result.output.splitlines()[:-2]]
    assert names[:2] == ["apes/", "Zoo/"]
    assert names[2:] == ["9", "10", ".env", "a.txt", "B9.TXT", "b9.txt", "b10.txt", "²", "é"]
    assert result.output.endswith("\n\n2 directories, 9 files.")
    told = {"results_count": 11, "shown": 11, "truncated": False, "search_path": str(tmp_path)}
    assert told.items() <= result.metadata.items()


async def test_links_sizes_and_odd_files_are_marked(session: Session, tmp_path: Path) -> None:
    for name, size in (("0", 0), ("1", 999), ("2", 2048), ("3", 15_500), ("4", 5 << 20)):
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "gone").symlink_to("nowhere\n")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "sock"))
        result = await session.run("list")
    assert result.output.splitlines()[:-2] == [
        "0  0 B", "1  999 B", "2  2.0 kB", "3  16 kB", "4  5.2 MB",
        "away -> /etc", "gone -> nowhere\\n", "pipe  (pipe)", "sock  (socket)",
    ]  # fmt: skip


async def test_ignored_and_hidden_entries_are_shown(session: Session, tmp_path: Path) -> None:
    make(tmp_path, ".git/HEAD", "build/a", "a.log", "c.py")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    result = await session.run("list")
    assert result.output.splitlines()[:5] == [
        ".git/",
        "build/",
        ".gitignore  13 B",
        "a.log  0 B",
        "c.py  0 B",
    ]
    result = await session.run("list", {"path": "build"})
    assert result.output == "a  0 B\n\n1 file."


async def test_totals_are_exact_however_much_there_is(session: Session, tmp_path: Path) -> None:
    make(tmp_path, *(f"f{n}" for n in range(1200)), "d/")
    result = await session.run("list")
    told = {"results_count": 1201, "shown": 1000, "truncated": True, "directories": 1}
    assert told.items() <= result.metadata.items()
    assert result.output.endswith(
        "f998  0 B\n\n1 directory, 1,200 files; the first 1,000 are shown."
    )


async def test_names_that_are_not_utf_8_take_one_line(session: Session, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff\nb\x1b[31m")).write_text("")
    result = await session.run("list")
    assert result.output == "a\\xff\\nb\\x1b[31m  0 B\n\n1 file."
    assert session.health.degraded == 0


async def test_what_is_no_directory_is_refused(session: Session, tmp_path: Path) -> None:
    make(tmp_path, "a")
    result = await session.run("list", {"path": "a"})
    assert result.output == "path: a is a file, not a directory; read shows it"
    assert result.metadata["error_code"] == "invalid_arguments"
    result = await session.run("list", {"path": "b"})
    assert result.metadata["error_code"] == "not_found"
    result = await session.run("list", {"path": ".."})
    assert result.metadata["error_code"] == "permission_denied"


async def test_a_directory_that_may_not_be_read_says_so() -> None:
    async with Session("warm", strict=True) as session:
        await session.run("list")
    with without_rights() as directory:
        make(directory, "d/a")
        (directory / "d").chmod(0)
        async with Session("s", cwd=directory, strict=True) as session:
            result = await session.run("list", {"path": "d"})
    assert result.metadata["error_code"] == "permission_denied"


async def test_the_standard_is_kept(tmp_path: Path) -> None:
    make(tmp_path, "d/a")
    await check_tool("list", good={"path": "d"}, failing={"path": "missing"}, cwd=tmp_path)
