"""`delete`: what was named goes, and nothing else; what could not go is said."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session, ToolResult
from callsheet.testing import Recorder, check_tool

module = import_module("callsheet.tools.builtin.delete")


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


async def delete(
    cwd: Path, path: str, *more: str, recorder: Any = None, **given: Any
) -> ToolResult:
    async with Session(
        cwd=cwd, additional_directories=more, on_update=recorder, strict=True
    ) as session:
        return await session.run("delete", {"path": path, **given})


async def test_delete_keeps_the_standard(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    await check_tool("delete", good={"path": "a"}, failing={"path": "missing"}, cwd=tmp_path)


async def test_a_file_is_deleted_and_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    recorder = Recorder()
    result = await delete(tmp_path, "a.txt", recorder=recorder)
    assert result.success
    assert result.output == "Deleted a.txt"
    assert result.metadata["files_deleted"] == 1
    assert result.metadata["file_path"] == str(tmp_path / "a.txt")
    assert names_in(tmp_path) == []
    (report,) = recorder.fold()
    assert report.title == "Deleting a.txt"
    assert report.kind == "delete"
    (change,) = report.content[0].changes
    assert (change.path, change.operation) == (str(tmp_path / "a.txt"), "delete")
    assert (change.old_text, change.new_text) == ("one\ntwo\n", None)


@pytest.mark.parametrize("data", [b"\0binary", b"x" * (module.SHOWN + 1), b""])
async def test_what_is_no_small_text_has_no_diff(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    recorder = Recorder()
    assert (await delete(tmp_path, "a", recorder=recorder)).success
    (report,) = recorder.fold()
    assert [type(item).__name__ for item in report.content] == ["TextContent"]


async def test_a_link_goes_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "ws/dir").mkdir(parents=True)
    (tmp_path / "ws/dir/file").write_text("f")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("o")
    for name, target in {"a": "dir", "b": "dir/file", "c": "../outside", "d": "nowhere"}.items():
        (tmp_path / "ws" / name).symlink_to(target)
        result = await delete(tmp_path / "ws", name, recursive=True)
        assert result.success, result.output
        assert result.metadata["files_deleted"] == 1
    assert names_in(tmp_path / "ws") == ["dir"]
    assert (tmp_path / "ws/dir/file").read_text() == "f"
    assert (tmp_path / "outside/file").read_text() == "o"


async def test_pipes_and_sockets_are_deleted_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "socket"))
    async with asyncio.timeout(5):
        assert (await delete(tmp_path, "pipe")).success
        assert (await delete(tmp_path, "socket")).success
    assert names_in(tmp_path) == []


async def test_an_empty_directory_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    result = await delete(tmp_path, "d/")
    assert result.success
    assert (result.metadata["files_deleted"], result.metadata["directories_deleted"]) == (0, 1)
    assert names_in(tmp_path) == []


async def test_a_directory_that_is_not_empty_needs_recursive(tmp_path: Path) -> None:
    (tmp_path / "d/sub").mkdir(parents=True)
    (tmp_path / "d/file").write_text("f")
    (tmp_path / "d/sub/link").symlink_to("/etc")
    result = await delete(tmp_path, "d")
    assert not result.success
    assert "recursive=true" in result.output
    assert (tmp_path / "d/file").read_text() == "f"
    result = await delete(tmp_path, "d", recursive=True)
    assert result.success
    assert result.output == "Deleted d with 2 files and 1 directory in it"
    assert (result.metadata["files_deleted"], result.metadata["directories_deleted"]) == (2, 2)
    assert names_in(tmp_path) == []
    assert Path("/etc").is_dir()


@pytest.mark.parametrize("path", [".", "..", "../ws", "sub/..", "a", "/", ""])
async def test_the_workspace_and_what_is_above_it_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "ws/a/root").mkdir(parents=True)
    (tmp_path / "ws/sub").mkdir()

    async def yes(request: Any) -> str:
        return "allow_once"

    async with Session(
        cwd=tmp_path / "ws",
        additional_directories=[str(tmp_path / "ws/a/root")],
        on_permission=yes,
        strict=True,
    ) as session:
        result = await session.run("delete", {"path": path, "recursive": True})
    assert not result.success
    assert names_in(tmp_path / "ws") == ["a", "sub"]


async def test_a_missing_path_is_not_found(tmp_path: Path) -> None:
    assert (await delete(tmp_path, "a")).metadata["error_code"] == "not_found"
    assert (await delete(tmp_path, "a/b/c")).metadata["error_code"] == "not_found"


def test_a_tree_that_is_too_deep_is_left_from_there_on_and_no_descriptor_is(tmp_path: Path) -> None:
    (tmp_path / "d/" / "/".join(["d"] * module.MAX_DEPTH)).mkdir(parents=True)
    top = os.open(tmp_path, os.O_RDONLY)
    try:
        before = os.dup(top)
        os.close(before)
        removal = module.Removal()
        assert not removal.remove(top, "d")
        after = os.dup(top)
        os.close(after)
        assert after == before, "a descriptor was left open"
        assert removal.directories == 0
        assert "nested 200 directories deep" in removal.problem
        assert module.Removal().remove(top, "d") is False
        os.rename("d/d", "e", src_dir_fd=top, dst_dir_fd=top)
        removal = module.Removal()
        assert removal.remove(top, "e")
        assert removal.directories == module.MAX_DEPTH
    finally:
        os.close(top)


async def test_what_cannot_be_deleted_is_named_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d/locked").mkdir(parents=True)
    (tmp_path / "d/locked/kept").write_text("k")
    (tmp_path / "d/first").mkdir()
    (tmp_path / "d/first/gone").write_text("g")
    (tmp_path / "d/more").write_text("m")
    (tmp_path / "d/locked").chmod(0o555)
    real = module.Removal.remove

    def as_nobody(*given: Any) -> bool:
        """Remove as a user who may not write in one of the directories: the superuser may anything."""
        if os.geteuid():
            return real(*given)
        os.seteuid(65534)
        try:
            return real(*given)
        finally:
            os.seteuid(0)

    for path in (tmp_path, tmp_path / "d", tmp_path / "d/first"):
        path.chmod(0o777)
    monkeypatch.setattr(module.Removal, "remove", as_nobody)
    result = await delete(tmp_path, "d", recursive=True)
    (tmp_path / "d/locked").chmod(0o755)
    assert not result.success
    assert result.metadata["files_deleted"] == 1
    assert "1 file deleted, d/locked/kept could not be: Permission denied" in result.output
    assert names_in(tmp_path / "d") == ["locked", "more"]
    assert (tmp_path / "d/locked/kept").read_text() == "k"


async def test_a_cancelled_deletion_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    for number in range(400):
        (tmp_path / f"d/{number:03}").write_text("x")
    begun, unlink = threading.Event(), os.unlink

    def slowly(*given: Any, **named: Any) -> None:
        begun.set()
        time.sleep(0.005)
        unlink(*given, **named)

    monkeypatch.setattr(module.os, "unlink", slowly)
    async with Session(cwd=tmp_path, strict=True) as session:
        running = asyncio.ensure_future(
            session.run("delete", {"path": "d", "recursive": True}, alias="it")
        )
        await asyncio.to_thread(begun.wait)
        assert session.cancel("it")
        result = await running
    assert result.metadata["error_code"] == "cancelled"
    left = -1
    async with asyncio.timeout(10):
        while left != (left := len(names_in(tmp_path / "d"))):
            await asyncio.sleep(0.05)
    assert left > 300


def test_a_directory_moved_away_meanwhile_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "ws/d/sub").mkdir(parents=True)
    (tmp_path / "ws/d/sub/x").write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("s")
    fd = os.open(tmp_path / "ws", os.O_RDONLY)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        if asked == 3:  # d/sub is open
            (tmp_path / "ws/d/sub").rename(tmp_path / "outside/sub")
            (tmp_path / "ws/d/sub").symlink_to(tmp_path / "outside")
        return False

    try:
        removal = module.Removal(stop=stop)
        removal.remove(fd, "d")
    finally:
        os.close(fd)
    assert names_in(tmp_path / "outside") == ["secret", "sub"]
    assert (tmp_path / "outside/secret").read_text() == "s"
