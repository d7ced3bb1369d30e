"""The tool `write`: what is in the file afterwards, what is kept of the old one, what is refused."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Session
from callsheet.report.content import DiffContent
from callsheet.testing import Recorder
from callsheet.tools.errors import Cancelled, ExecutionFailed
from callsheet.tools.files import document
from callsheet.tools.files.document import replace_file, run_to_end
from callsheet.tools.files.text_encoding import codec_of, newline_of, with_newlines
from tests.support.files import without_rights


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=tmp_path, strict=True) as session:
        yield session


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# What is written


async def test_a_new_file_is_made_with_its_directories(session: Session, tmp_path: Path) -> None:
    result = await session.run("write", {"path": "a/b/c.txt", "content": "one\ntwo\n"})
    assert result.output == "Created a/b/c.txt: 2 lines, 8 B"
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    told = {"created": True, "size_bytes": 8, "lines_written": 2, "encoding": "utf-8"}
    assert (told | {"file_path": str(tmp_path / "a/b/c.txt")}).items() <= result.metadata.items()
    assert names(tmp_path / "a/b") == ["c.txt"]


async def test_an_old_file_is_replaced(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    result = await session.run("write", {"path": "a.txt", "content": "new"})
    assert result.output == "Replaced a.txt: 1 line, 3 B"
    assert result.metadata["created"] is False
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


async def test_what_is_there_already_is_not_written(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("same\n")
    before = (tmp_path / "a.txt").stat()
    result = await session.run("write", {"path": "a.txt", "content": "same\n"})
    assert result.output == "a.txt has this content already"
    assert (tmp_path / "a.txt").stat() == before


async def test_the_change_is_shown_with_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    recorder = Recorder()
    async with Session("s", cwd=tmp_path, on_update=recorder, strict=True) as session:
        await session.run("write", {"path": "a.txt", "content": "a\nb\nc\n"})
        await session.run("write", {"path": "a.txt", "content": "a\nb\nd\n"})
        changes = [
            (change.old_text, change.new_text)
            for report in session.reports
            for item in report.content
            if isinstance(item, DiffContent)
            for change in item.changes
        ]
    assert changes == [(None, "a\nb\nc\n"), ("a\nb\nc\n", "a\nb\nd\n")]
    places = [update["locations"] for update in recorder.updates if "locations" in update]
    assert places[-1] == [{"path": str(path), "line": 3}]
    assert recorder.updates[0]["title"] == "Writing to a.txt"
    assert recorder.updates[0]["kind"] == "edit"


async def test_an_empty_file_can_be_written(session: Session, tmp_path: Path) -> None:
    result = await session.run("write", {"path": "a.txt", "content": ""})
    assert (result.metadata["size_bytes"], result.metadata["lines_written"]) == (0, 0)
    assert (tmp_path / "a.txt").read_bytes() == b""


# What is kept


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\nb\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"a\nb\r\nc\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"no newline", "x\ny\n", b"x\ny\n"),
    ],
)
async def test_line_endings_are_kept_unless_the_content_has_its_own(
    session: Session, tmp_path: Path, old: bytes, content: str, new: bytes
) -> None:
    (tmp_path / "a.txt").write_bytes(old)
    result = await session.run("write", {"path": "a.txt", "content": content})
    assert (tmp_path / "a.txt").read_bytes() == new
    assert result.metadata["size_bytes"] == len(new)


@given(st.text(st.sampled_from("ab \t\n")), st.text(st.sampled_from("xy\n")))
def test_a_file_keeps_the_style_of_its_newlines(old: str, new: str) -> None:
    windows = old.replace("\n", "\r\n")
    written = with_newlines(new, newline_of(windows))
    if "\n" in new and "\n" in old:
        assert written.count("\r\n") == written.count("\n")
    assert written.replace("\r\n", "\n") == new
    assert with_newlines(new, newline_of(old)) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\xef\xbb\xbfalt", b"\xef\xbb\xbfn\xc3\xa4u"),
        (b"\xff\xfe" + "alt".encode("utf-16-le"), b"\xff\xfe" + "näu".encode("utf-16-le")),
        (b"\xfe\xff" + "alt".encode("utf-16-be"), b"\xfe\xff" + "näu".encode("utf-16-be")),
        ("ält".encode("cp1252"), "näu".encode("cp1252")),
    ],
)
async def test_encoding_and_byte_order_mark_are_kept(
    session: Session, tmp_path: Path, old: bytes, new: bytes
) -> None:
    (tmp_path / "a.txt").write_bytes(old)
    await session.run("write", {"path": "a.txt", "content": "näu"})
    assert (tmp_path / "a.txt").read_bytes() == new
    await session.run("write", {"path": "a.txt", "content": "\ufeffnä"})
    if codec_of(new).bom:
        assert codec_of(new).decode((tmp_path / "a.txt").read_bytes()) == "nä"


async def test_what_an_old_encoding_has_not_makes_the_file_utf8(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes("ält".encode("cp1252"))
    result = await session.run("write", {"path": "a.txt", "content": "→ neu"})
    assert result.output.endswith("it is UTF-8 now, because cp1252 has no '→' (U+2192)")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "→ neu"


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o640, 0o4755])
async def test_the_mode_is_kept(session: Session, tmp_path: Path, mode: int) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.txt").chmod(mode)
    await session.run("write", {"path": "a.txt", "content": "b"})
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o077])
async def test_the_mode_of_a_new_file_obeys_the_umask(
    session: Session, tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        await session.run("write", {"path": "d/a.txt", "content": "a"})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "d/a.txt").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o777 & ~umask


async def test_attributes_and_owner_are_kept(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a")
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    try:
        os.setxattr(path, "user.tag", b"red")
    except OSError as exc:
        if exc.errno != errno.ENOTSUP:
            raise
        pytest.skip("this file system has no attributes")
    owner = path.stat().st_uid
    await session.run("write", {"path": "a.txt", "content": "b"})
    assert os.getxattr(path, "user.tag") == b"red"
    assert path.stat().st_uid == owner


async def test_a_link_stays_a_link_and_other_names_keep_what_they_had(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "link").symlink_to("a.txt")
    os.link(tmp_path / "a.txt", tmp_path / "other")
    result = await session.run("write", {"path": "link", "content": "new"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert (tmp_path / "other").read_text() == "old"
    assert result.output.endswith("its other names (hard links) keep the old content")


async def test_a_binary_file_is_replaced_without_a_diff_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2" * 9)
    recorder = Recorder()
    async with Session("s", cwd=tmp_path, on_update=recorder, strict=True) as session:
        result = await session.run("write", {"path": "a.bin", "content": "text\n"})
    assert result.output.endswith("it was binary, 27 B, so there is no diff")
    assert (tmp_path / "a.bin").read_text() == "text\n"
    shown = [item["type"] for update in recorder.updates for item in update.get("content", ())]
    assert set(shown) == {"content"}


# What is refused


async def test_a_file_that_was_changed_since_it_was_read_is_refused(
    session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    await session.run("read", {"path": "a.txt"})
    path.write_text("changed\n")
    result = await session.run("write", {"path": "a.txt", "content": "mine\n"})
    assert "was changed since it was read" in (result.error or "")
    assert path.read_text() == "changed\n"
    await session.run("read", {"path": "a.txt"})
    assert (await session.run("write", {"path": "a.txt", "content": "mine\n"})).success
    assert (await session.run("write", {"path": "a.txt", "content": "more\n"})).success


async def test_a_file_that_was_deleted_since_it_was_read_is_refused_once(
    session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    await session.run("read", {"path": "a.txt"})
    path.unlink()
    result = await session.run("write", {"path": "a.txt", "content": "b\n"})
    assert "was deleted since it was read" in (result.error or "")
    assert not path.exists()
    assert (await session.run("write", {"path": "a.txt", "content": "b\n"})).metadata["created"]


async def test_directories_and_files_in_the_way_are_refused(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    os.mkfifo(tmp_path / "pipe")
    for path, error in (
        ("d", "d is a directory, not a file; use list to see what is in it"),
        ("f/a.txt", "f/a.txt can't be written: f is a file, not a directory"),
        ("pipe", "pipe is a named pipe, not a file"),
    ):
        result = await session.run("write", {"path": path, "content": "a"})
        assert result.error == error
        assert result.metadata["error_code"] == "invalid_arguments"
    assert names(tmp_path) == ["d", "f", "pipe"]


async def test_a_read_only_file_is_refused(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.txt").chmod(0o444)
    result = await session.run("write", {"path": "a.txt", "content": "b"})
    assert (result.error or "").startswith("a.txt is read-only (mode 0444)")
    assert result.metadata["error_code"] == "permission_denied"
    assert (tmp_path / "a.txt").read_text() == "a"


async def test_a_read_only_directory_is_refused(session: Session) -> None:
    await session.run("write", {"path": "a.txt", "content": "a"})
    with without_rights() as here:
        (here / "d").mkdir()
        (here / "d" / "a.txt").write_text("a")
        (here / "d").chmod(0o555)
        async with Session("s", cwd=here, strict=True) as session:
            for name in ("a.txt", "b.txt"):
                result = await session.run("write", {"path": f"d/{name}", "content": "b"})
                wanted = f"d/{name} can't be written: its directory may not be written to"
                assert result.error == wanted
                assert result.metadata["error_code"] == "permission_denied"
        assert (here / "d" / "a.txt").read_text() == "a"


async def test_half_characters_are_refused(session: Session, tmp_path: Path) -> None:
    result = await session.run("write", {"path": "a.txt", "content": "\ud83d"})
    assert result.metadata["error_code"] == "invalid_arguments"
    assert names(tmp_path) == []


# Others who write


def test_a_change_in_the_last_moment_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ExecutionFailed, match="was changed by somebody else meanwhile"):
        replace_file(path, b"mine", path.stat(), lambda: path.write_text("theirs") and None)
    assert path.read_text() == "theirs"
    with pytest.raises(ExecutionFailed, match="was deleted by somebody else"):
        replace_file(path, b"mine", path.stat(), path.unlink)
    with pytest.raises(ExecutionFailed, match="was created by somebody else"):
        replace_file(path, b"mine", None, lambda: path.write_text("theirs") and None)
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["a.txt"]


async def test_a_link_put_in_the_way_never_leads_outside(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (inside / "real").mkdir(parents=True)
    (outside / "f.txt").write_text("outside")
    (inside / "link").symlink_to(outside)
    done = Event()

    def swap() -> None:
        """Let `d` be a directory, nothing, or a link that leads outside, in turns."""
        number = 0
        while not done.is_set():
            for name in ("real", "link"):
                with suppress(OSError):  # a write has made the directory
                    (inside / name).rename(inside / "d")
                    time.sleep(0.0001)
                    (inside / "d").rename(inside / name)
                    continue
                number += 1
                (inside / "d").rename(inside / f"made-{number}")

    async with Session("s", cwd=inside, strict=True) as session:
        swapping = asyncio.create_task(asyncio.to_thread(swap))
        try:
            for number in range(200):
                await session.run("write", {"path": "d/f.txt", "content": str(number)})
                result = await session.run("read", {"path": "d/f.txt"})
                assert "1→outside" not in result.output
        finally:
            done.set()
            await swapping
    assert [path.name for path in outside.iterdir()] == ["f.txt"]
    assert (outside / "f.txt").read_text() == "outside"


def test_nothing_is_left_behind_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(document.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"mine", path.stat(), lambda: None)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


# Cancelling


async def test_a_cancelled_write_changes_nothing_or_says_that_it_was_too_late(
    session: Session, tmp_path: Path
) -> None:
    async with session.call("write", {}) as call:
        for late in (False, True):
            path = tmp_path / f"{late}.txt"
            begun, go = Event(), Event()

            def work(go_on, path=path, begun=begun, go=go, late=late):
                if late:
                    replace_file(path, b"a", None, go_on)
                begun.set()
                go.wait(5)
                if not late:
                    replace_file(path, b"a", None, go_on)
                return call.success("done")

            task = asyncio.create_task(run_to_end(work))
            await asyncio.to_thread(begun.wait, 5)
            task.cancel()
            await asyncio.sleep(0)
            go.set()
            with pytest.raises(Cancelled) as caught:
                await task
            assert caught.value.output == ("done" if late else "Nothing was written")
            assert path.exists() is late
        call.succeed("done")


async def test_cancelling_a_write_leaves_the_file_as_its_result_says(
    session: Session, tmp_path: Path
) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.txt"
        path.write_text("old")
        running = asyncio.create_task(
            session.run("write", {"path": path.name, "content": "new"}, alias=f"c{number}")
        )
        for _ in range(number):
            await asyncio.sleep(0.0002)
        session.cancel(f"c{number}")
        result = await running
        told_new = result.success or "Replaced" in result.output
        assert result.success or result.metadata["error_code"] == "cancelled"
        assert path.read_text() == ("new" if told_new else "old"), result.output
    assert not [name for name in names(tmp_path) if name.startswith(".")]
