"""The tool `read`: what of a file is shown, what is said about it, and what is refused."""

from __future__ import annotations

import os
import socket
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Session
from callsheet.report.content import ImageContent
from callsheet.testing import Recorder
from callsheet.tools.errors import InvalidArguments, NotPermitted
from callsheet.tools.files.dirfd import open_regular
from callsheet.tools.files.document import explained
from callsheet.tools.files.text_encoding import codec_of
from callsheet.tools.workspace import Workspace
from tests.support.files import shown, without_rights


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=tmp_path, strict=True) as session:
        yield session


# Lines


async def test_lines_are_numbered_and_the_end_is_said(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ttwo\n")
    result = await session.run("read", {"path": "a.txt"})
    assert result.output == "1→one\n2→\ttwo\n(end of file, 2 lines)"
    expected = {"total_lines": 2, "lines_read": 2, "start_line": 1, "end_line": 2, "size_bytes": 9}
    expected |= {"file_path": str(tmp_path / "a.txt"), "truncated": False, "encoding": "utf-8"}
    assert expected.items() <= result.metadata.items()


async def test_a_range_says_how_to_go_on(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 3001)))
    result = await session.run("read", {"path": "a.txt", "offset": 10, "limit": 2})
    assert (
        result.output == "10→line 10\n11→line 11\n(lines 10–11 of 3,000; continue with offset=12)"
    )
    assert result.metadata["next_offset"] == 12
    assert result.metadata["truncated"] is False
    whole = await session.run("read", {"path": "a.txt"})
    assert (whole.metadata["lines_read"], whole.metadata["truncated"]) == (2000, True)


async def test_a_negative_offset_counts_from_the_end(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\nd\n")
    result = await session.run("read", {"path": "a.txt", "offset": -2})
    assert result.output == "3→c\n4→d\n(end of file, 4 lines)"
    part = await session.run("read", {"path": "a.txt", "offset": -3, "limit": 1})
    assert part.output == "2→b\n(line 2 of 4; continue with offset=3)"
    everything = await session.run("read", {"path": "a.txt", "offset": -99})
    assert everything.metadata["start_line"] == 1


async def test_offset_0_is_the_beginning(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    assert (await session.run("read", {"path": "a.txt", "offset": 0})).output.startswith("1→a\n")


async def test_numbers_may_be_as_large_as_they_like(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n" * 60_000)
    result = await session.run("read", {"path": "a.txt", "offset": -(10**30), "limit": 10**30})
    assert result.metadata["truncated"] is True
    assert 10_000 < result.metadata["lines_read"] < 60_000
    result = await session.run("read", {"path": "a.txt", "offset": 10**30})
    assert "it has 60,000 lines" in (result.error or "")


async def test_an_offset_beyond_the_end_is_an_error_that_says_how_many_lines_there_are(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n")
    result = await session.run("read", {"path": "a.txt", "offset": 3})
    assert result.error == "offset 3 is beyond the end of a.txt: it has 2 lines"
    assert result.metadata["error_code"] == "invalid_arguments"
    assert result.metadata["total_lines"] == 2
    assert result.metadata["file_path"] == str(tmp_path / "a.txt")


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
async def test_an_empty_file_says_so(session: Session, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    result = await session.run("read", {"path": "a.txt"})
    assert result.success
    assert result.output == "(the file is empty)"
    assert (result.metadata["total_lines"], result.metadata["lines_read"]) == (0, 0)
    beyond = await session.run("read", {"path": "a.txt", "offset": 2})
    assert beyond.error == "offset 2 is beyond the end of a.txt: it is empty"


async def test_a_missing_newline_and_unusual_endings_are_said(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\nc")
    result = await session.run("read", {"path": "a.txt"})
    assert result.output.endswith(
        "3→c\n(end of file, 3 lines; CRLF line endings; no newline at the end)"
    )
    assert result.metadata["line_endings"] == "crlf"
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\n")
    result = await session.run("read", {"path": "a.txt"})
    assert result.output == "1→a\n2→b\n(end of file, 2 lines; mixed line endings)"


async def test_a_long_line_is_cut_with_what_was_left_out(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ä" * 2000 + "é" * 10 + "\nshort\n")
    result = await session.run("read", {"path": "a.txt"})
    assert shown(result.output) == ["ä" * 2000 + "… [20 more bytes in this line]", "short"]
    assert result.metadata["truncated"] is True


async def test_one_line_without_end_is_passed_and_not_loaded(
    session: Session, tmp_path: Path
) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.write(b"x" * 10_000)
        file.truncate(50_000_000)
        file.seek(0, 2)
        file.write(b"\nlast\n")
    result = await session.run("read", {"path": "a.txt"})
    assert shown(result.output) == ["x" * 2000 + "… [49,998,000 more bytes in this line]", "last"]


async def test_output_is_bounded_and_following_it_gives_the_whole_file(
    session: Session, tmp_path: Path
) -> None:
    wanted = [f"{n}: " + "é" * (n % 900) for n in range(1500)]
    (tmp_path / "a.txt").write_text("\n".join(wanted) + "\n")
    got: list[str] = []
    offset: int | None = 1
    while offset is not None:
        result = await session.run("read", {"path": "a.txt", "offset": offset})
        assert len(result.output.encode()) < 101_000
        got += shown(result.output)
        offset = result.metadata.get("next_offset")
        assert result.metadata["truncated"] is (offset is not None)
    assert got == wanted


async def test_the_lines_read_are_the_place_that_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n" * 50)
    recorder = Recorder()
    async with Session("s", cwd=tmp_path, on_update=recorder, strict=True) as session:
        await session.run("read", {"path": "a.txt", "offset": -5})
    places = [update["locations"] for update in recorder.updates if "locations" in update]
    assert places[-1] == [{"path": str(tmp_path / "a.txt"), "line": 46}]
    assert recorder.updates[0]["title"] == "Reading a.txt"
    assert recorder.updates[0]["kind"] == "read"


@pytest.mark.parametrize("limit", [0, -1, "many"])
async def test_a_limit_below_one_is_refused(
    session: Session, tmp_path: Path, limit: object
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    result = await session.run("read", {"path": "a.txt", "limit": limit})
    assert result.metadata["error_code"] == "invalid_arguments"
    assert "limit" in (result.error or "")


# Encodings


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("Grüße\n→ ok\n".encode(), "utf-8"),
        ("Grüße\n→ ok\n".encode("utf-8-sig"), "utf-8"),
        (b"\xff\xfe" + "Grüße\n→ ok\n".encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + "Grüße\n→ ok\n".encode("utf-16-be"), "utf-16-be"),
    ],
)
async def test_encodings_are_reported_and_read(
    session: Session, tmp_path: Path, data: bytes, encoding: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    result = await session.run("read", {"path": "a.txt"})
    assert shown(result.output) == ["Grüße", "→ ok"]
    assert result.metadata["encoding"] == encoding
    assert result.metadata["total_lines"] == 2


async def test_legacy_and_damaged_text_is_read_as_what_it_most_likely_is(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes("Grüße “x”\n".encode("cp1252"))
    result = await session.run("read", {"path": "a.txt"})
    assert result.output == "1→Grüße “x”\n(end of file, 1 line; encoding cp1252 (guessed))"
    (tmp_path / "a.txt").write_bytes(b"\x81 caf\xe9\n")
    result = await session.run("read", {"path": "a.txt"})
    assert result.metadata["encoding"] == "latin-1"
    (tmp_path / "a.txt").write_bytes("Grüße, überall\n".encode() + b"bad: \xff\n")
    result = await session.run("read", {"path": "a.txt"})
    assert shown(result.output) == ["Grüße, überall", "bad: \ufffd"]
    assert result.metadata["encoding"] == "utf-8"


@given(st.text(st.characters(codec="utf-8")), st.sampled_from(["", "\ufeff"]))
def test_what_is_decoded_is_encoded_to_the_same_bytes(text: str, bom: str) -> None:
    for name in ("utf-8", "utf-16-le", "utf-16-be"):
        data = (bom + text).encode(name)
        codec = codec_of(data)
        assert codec.encode(codec.decode(data)) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_and_encoded_to_themselves(data: bytes) -> None:
    codec = codec_of(data)
    assert codec.encode(codec.decode(data)) == data


# Other files


PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
        (b"GIF89a\x40\0\x30\0\xf0\0\0", "image/gif"),
        (b"RIFF\x24\n\0\0WEBPVP8X\x0a\0\0\0", "image/webp"),
    ],
)
async def test_an_image_is_shown(
    session: Session, tmp_path: Path, data: bytes, mime_type: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)  # its bytes count, not its name
    result = await session.run("read", {"path": "a.txt"})
    assert result.output == f"An image ({mime_type}, {len(data)} B)"
    assert result.content == (ImageContent(b64encode(data).decode(), mime_type),)
    expected = {"mime_type": mime_type, "size_bytes": len(data), "total_lines": None}
    assert expected.items() <= result.metadata.items()


async def test_an_image_that_is_too_large_is_described(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG + bytes(4_000_000))
    result = await session.run("read", {"path": "a.png"})
    assert result.output == "An image (image/png, 4.0 MB); too large to be shown, 3.8 MB at most"
    assert (result.content, result.metadata["truncated"]) == ((), True)


@pytest.mark.parametrize(
    ("name", "data", "mime_type"),
    [
        ("a.bin", b"\x7fELF\x02\x01\x01\0" + bytes(99), "application/octet-stream"),
        ("a.zip", b"PK\x03\x04\0\0", "application/zip"),
        ("a.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "application/pdf"),
    ],
)
async def test_a_binary_file_is_described_and_not_dumped(
    session: Session, tmp_path: Path, name: str, data: bytes, mime_type: str
) -> None:
    (tmp_path / name).write_bytes(data)
    result = await session.run("read", {"path": name})
    assert result.success
    assert result.output == f"{name} is not text ({mime_type}, {len(data)} B)"
    assert result.metadata["mime_type"] == mime_type
    assert result.metadata["lines_read"] == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
async def test_a_file_that_is_made_up_as_it_is_read_is_not_empty(tmp_path: Path) -> None:
    async with Session("s", cwd=tmp_path, additional_directories=["/proc"], strict=True) as session:
        result = await session.run("read", {"path": "/proc/self/status", "limit": 1})
    assert result.output.startswith("1→Name:")


# What is refused


async def test_a_directory_is_refused_with_what_to_use(session: Session, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    result = await session.run("read", {"path": "src"})
    assert result.error == "src is a directory, not a file; use list to see what is in it"
    assert result.metadata["error_code"] == "invalid_arguments"


async def test_a_missing_file_is_refused_with_the_near_names(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "settings.py").touch()
    (tmp_path / "src" / "other.txt").touch()
    result = await session.run("read", {"path": "src/setings.py"})
    assert result.error == "src/setings.py does not exist; did you mean src/settings.py?"
    assert result.metadata["error_code"] == "not_found"
    result = await session.run("read", {"path": "scr/settings.py"})
    wanted = (
        "scr/settings.py does not exist: there is no directory scr; did you mean src/settings.py?"
    )
    assert result.error == wanted
    result = await session.run("read", {"path": "zzz"})
    assert result.error == "zzz does not exist"


async def test_pipes_sockets_and_devices_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(tmp_path, os.O_RDONLY)
        try:
            server.bind(
                f"/proc/self/fd/{here}/socket" if Path("/proc/self/fd").exists() else "socket"
            )
        finally:
            os.close(here)
    async with Session("s", cwd=tmp_path, additional_directories=["/dev"], strict=True) as session:
        for path, kind in (
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
            ("/dev/zero", "a device"),
        ):
            result = await session.run("read", {"path": path}, timeout=5)
            assert result.error == f"{path} is {kind}, not a file"


def test_a_link_that_was_put_in_the_way_is_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    (outside / "d").mkdir(parents=True)
    (outside / "d" / "secret").write_text("secret")
    inside.mkdir()
    (inside / "d").symlink_to(outside / "d")
    (inside / "secret").symlink_to(outside / "d" / "secret")
    workspace = Workspace(str(inside))
    for name, error in (("d/secret", NotPermitted), ("secret", InvalidArguments)):
        with pytest.raises(error, match="link"):
            with explained(inside / name, workspace, "read"), open_regular(inside / name, name):
                pass


async def test_a_file_that_may_not_be_read_is_refused(session: Session) -> None:
    await session.run("read", {"path": "missing"})
    with without_rights() as here:
        (here / "a.txt").write_text("a")
        (here / "a.txt").chmod(0)
        async with Session("s", cwd=here, strict=True) as session:
            result = await session.run("read", {"path": "a.txt"})
    assert result.error == "a.txt can't be read: permission denied"
    assert result.metadata["error_code"] == "permission_denied"
