"""`move`: nothing is replaced, nothing is half moved, and a link is moved as a link."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from callsheet import Session, ToolResult
from callsheet.testing import Recorder, check_tool

module = import_module("callsheet.tools.builtin.move")


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


async def move(
    cwd: Path, source: str, destination: str, *more: str, recorder: Any = None, **options: Any
) -> ToolResult:
    async with Session(
        cwd=cwd, additional_directories=more, on_update=recorder, strict=True, **options
    ) as session:
        return await session.run("move", {"source": source, "destination": destination})


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    for place in ("/dev/shm", "/run", "/var/tmp"):
        if os.access(place, os.W_OK) and Path(place).stat().st_dev != tmp_path.stat().st_dev:
            with TemporaryDirectory(dir=place) as made:
                yield Path(made).resolve()
            return
    pytest.skip("there is no other file system on this machine that can be written to")


async def test_move_keeps_the_standard(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    await check_tool(
        "move",
        good={"source": "a", "destination": "b"},
        failing={"source": "missing", "destination": "c"},
        cwd=tmp_path,
    )


async def test_a_file_gets_a_new_name_and_missing_directories(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    recorder = Recorder()
    result = await move(tmp_path, "a.txt", "new/deep/b.txt", recorder=recorder)
    assert result.success
    assert result.output == "Moved a.txt → new/deep/b.txt"
    assert result.metadata["source"] == str(tmp_path / "a.txt")
    assert result.metadata["destination"] == str(tmp_path / "new/deep/b.txt")
    assert (tmp_path / "new/deep/b.txt").read_text() == "text"
    assert not (tmp_path / "a.txt").exists()
    (report,) = recorder.fold()
    assert report.title == "Moving a.txt → new/deep/b.txt"
    assert report.kind == "move"
    places = [place.path for place in report.locations]
    assert places == [str(tmp_path / "a.txt"), str(tmp_path / "new/deep/b.txt")]


async def test_a_directory_is_moved_with_everything(tmp_path: Path) -> None:
    (tmp_path / "old/sub").mkdir(parents=True)
    (tmp_path / "old/sub/f").write_text("f")
    assert (await move(tmp_path, "old/", "new/")).success
    assert (tmp_path / "new/sub/f").read_text() == "f"
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize("kind", ["file", "directory", "link", "dangling"])
async def test_an_existing_destination_is_never_replaced(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_text("new")
    there = tmp_path / "b"
    match kind:
        case "file":
            there.write_text("old")
        case "directory":
            there.mkdir()
        case "link":
            (tmp_path / "c").write_text("old")
            there.symlink_to("c")
        case _:
            there.symlink_to("nowhere")
    before = there.lstat()
    result = await move(tmp_path, "a", "b")
    assert not result.success
    assert "exists, and nothing is replaced" in result.output
    assert ("give b/a as destination" in result.output) == (kind == "directory")
    after = there.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (tmp_path / "a").read_text() == "new"


async def test_an_empty_directory_is_not_replaced_by_a_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before = (tmp_path / "b").stat().st_ino
    assert not (await move(tmp_path, "a", "b")).success
    assert (tmp_path / "b").stat().st_ino == before
    assert (tmp_path / "a").is_dir()


async def test_files_links_and_directories_are_moved_with_and_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    (tmp_path / "f").write_text("f")
    (tmp_path / "l").symlink_to("nowhere")
    (tmp_path / "d").mkdir()
    for name in "fld":
        assert (await move(tmp_path, name, f"new_{name}")).success
    assert names_in(tmp_path) == ["new_d", "new_f", "new_l"]
    assert (tmp_path / "new_f").stat().st_nlink == 1
    assert (tmp_path / "new_l").readlink() == Path("nowhere")
    monkeypatch.setattr(module.os, "link", refuse)
    assert (await move(tmp_path, "new_f", "f")).success
    assert not (await move(tmp_path, "f", "new_d")).success


def test_of_many_movers_to_one_name_one_wins(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    wins: list[str] = []

    def run(name: str) -> None:
        barrier.wait()
        try:
            module.rename_new(fd, name, fd, "target")
        except FileExistsError:
            return
        wins.append(name)

    try:
        for turn in range(30):
            names = [f"{turn}-{each}" for each in range(4)]
            for name in names:
                (tmp_path / name).write_text(name)
            barrier = threading.Barrier(len(names))
            wins.clear()
            threads = [threading.Thread(target=run, args=(name,)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(wins) == 1
            assert (tmp_path / "target").read_text() == wins[0]
            assert names_in(tmp_path) == sorted({*names, "target"} - {*wins})
            for path in tmp_path.iterdir():
                path.unlink()
    finally:
        os.close(fd)


async def test_a_link_is_moved_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("t")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "out").symlink_to("/etc/passwd")
    assert (await move(tmp_path, "link", "moved")).success
    assert (tmp_path / "moved").readlink() == Path("target")
    assert (await move(tmp_path, "out", "out2")).success
    assert (tmp_path / "out2").readlink() == Path("/etc/passwd")
    assert (tmp_path / "target").read_text() == "t"


async def test_a_dangling_link_is_moved(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert (await move(tmp_path, "link", "d/link")).success
    assert (tmp_path / "d/link").readlink() == Path("nowhere")


async def test_a_missing_source_leaves_no_directories_behind(tmp_path: Path) -> None:
    result = await move(tmp_path, "missing", "new/deep/x")
    assert result.metadata["error_code"] == "not_found"
    assert names_in(tmp_path) == []


async def test_a_failed_move_takes_back_the_directories_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "broken")

    (tmp_path / "a").write_text("a")
    (tmp_path / "there").mkdir()
    monkeypatch.setattr("callsheet.tools.builtin.move.rename_new", broken)
    result = await move(tmp_path, "a", "there/new/deep/x")
    assert result.metadata["error_code"] == "io_error"
    assert names_in(tmp_path) == ["a", "there"]
    assert names_in(tmp_path / "there") == []


@pytest.mark.parametrize(
    ("source", "destination", "says"),
    [
        ("d", "d/sub/x", "inside the source"),
        ("d", "./d", "same as the source"),
        ("../ws", "x", "workspace itself"),
        ("d", "../ws", "workspace itself"),
        ("extra", "x", "workspace itself"),
        (".", "x", "no name at its end"),
        ("d/..", "x", "no name at its end"),
        ("f/x", "y", "f"),
        ("d", "f/x", "f"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    tmp_path: Path, source: str, destination: str, says: str
) -> None:
    (tmp_path / "ws/d/sub").mkdir(parents=True)
    (tmp_path / "ws/extra/root").mkdir(parents=True)
    (tmp_path / "ws/f").write_text("f")
    before = sorted(tmp_path.rglob("*"))
    result = await move(tmp_path / "ws", source, destination, str(tmp_path / "ws/extra/root"))
    assert not result.success
    assert says in result.output
    assert sorted(tmp_path.rglob("*")) == before


async def test_a_change_of_case_only_is_a_move(tmp_path: Path) -> None:
    (tmp_path / "readme").write_text("r")
    assert (await move(tmp_path, "readme", "README")).success
    assert names_in(tmp_path) == ["README"]


async def test_two_names_of_one_file_stay_two(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("n")
    os.link(tmp_path / "name", tmp_path / "NAME")
    assert not (await move(tmp_path, "name", "NAME")).success
    assert names_in(tmp_path) == ["NAME", "name"]


def test_another_spelling_of_the_same_entry_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that doesn't tell upper from lower case, which is rarely at hand."""
    (tmp_path / "name").write_text("n")
    real = os.stat
    monkeypatch.setattr(module.os, "stat", lambda _, **named: real("name", **named))
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        module.rename_new(fd, "name", fd, "NAME")
    finally:
        os.close(fd)
    monkeypatch.undo()
    assert names_in(tmp_path) == ["NAME"]


async def test_outside_of_the_workspace_needs_permission(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a").write_text("a")
    (tmp_path / "b").write_text("b")
    for source, destination in (("a", "../x"), ("../b", "b"), ("a", str(tmp_path / "x"))):
        result = await move(tmp_path / "ws", source, destination, permission="allow")
        assert result.metadata["error_code"] == "permission_denied"
    assert names_in(tmp_path) == ["b", "ws"]

    async def yes(request: Any) -> str:
        return "allow_once"

    assert (await move(tmp_path / "ws", "a", "../x", on_permission=yes)).success
    assert (tmp_path / "x").read_text() == "a"


async def test_nothing_is_moved_to_another_file_system(tmp_path: Path, elsewhere: Path) -> None:
    (tmp_path / "a").write_text("a")
    result = await move(tmp_path, "a", f"{elsewhere}/new/b", str(elsewhere))
    assert "is on another file system" in result.output
    assert (tmp_path / "a").read_text() == "a"
    assert names_in(elsewhere) == []
