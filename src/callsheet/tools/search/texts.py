"""Files as ripgrep reads them: byte order marks go, UTF-16 becomes UTF-8, a NUL makes a file binary."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from .descent import open_file

BLOCK = 1 << 20
"""Bytes that are read at once."""

_SPOOLED = 16 << 20
"""Bytes of a file in UTF-16 that are kept in memory."""

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Text(NamedTuple):
    """An open file, and where its text begins. Offsets are those of the text."""

    file: BinaryIO
    begin: int

    def read_at(self, offset: int, size: int) -> bytes:
        """Read a piece of the text."""
        self.file.seek(self.begin + offset)
        return self.file.read(size)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Return the text in pieces of whole lines, each with its offset."""
        self.file.seek(self.begin)
        offset, rest = 0, b""
        while piece := self.file.read(BLOCK):
            piece = rest + piece
            end = piece.rfind(b"\n") + 1
            if end:
                yield offset, piece[:end]
                offset += end
            rest = piece[end:]
        if rest:
            yield offset, rest

    def is_binary(self) -> bool:
        """Return whether there is a NUL anywhere in it."""
        self.file.seek(self.begin)
        while piece := self.file.read(BLOCK):
            if b"\0" in piece:
                return True
        return False

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def open_text(path: str) -> Text:
    """Open a regular file, and nothing else, by an absolute path without links. Raises `OSError`."""
    return text_of(open_file(path))


def text_of(file_or_path: int | str) -> Text:
    """Open a descriptor, or what a path leads to, as a text."""
    file = open(file_or_path, "rb")  # noqa: PTH123, SIM115
    head = file.read(3)
    if head == codecs.BOM_UTF8:
        return Text(file, 3)
    encoding = _UTF16.get(head[:2])
    if encoding is None:
        return Text(file, 0)
    with file:
        file.seek(2)
        return Text(_transcoded(file, encoding), 0)


def _transcoded(file: BinaryIO, encoding: str) -> BinaryIO:
    spool = tempfile.SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while piece := file.read(BLOCK):
        spool.write(decoder.decode(piece).encode())
    spool.write(decoder.decode(b"", final=True).encode())
    spool.seek(0)
    return spool  # pyright: ignore[reportReturnType]
