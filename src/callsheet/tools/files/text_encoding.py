"""Text as it is on disk: its encoding, its byte order mark, its line endings.

Whatever is decoded here can be encoded to the same bytes again. A byte order mark declares UTF-8 or UTF-16;
without one, text is UTF-8, or, where the bytes are not, Windows-1252. Only LF ends a line; a CR before it
belongs to the line's ending.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from callsheet.report.patterns import lazy

BINARY_HEAD = 8192
"""A NUL among so many first bytes makes a file binary, as it does for git and ripgrep."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
_ESCAPED = lazy("[\udc80-\udcff]")
_SURROGATES = lazy("[\ud800-\udfff]")


class Unencodable(ValueError):
    """A character that an encoding doesn't have."""

    def __init__(self, character: str, encoding: str) -> None:
        super().__init__(f"{encoding} has no {character!r} (U+{ord(character):04X})")


class TextCodec(NamedTuple):
    """How the bytes of a file are text. `errors` is how bytes that are none are preserved."""

    name: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"

    def decode(self, data: bytes) -> str:
        """Return the text, without a byte order mark."""
        return data.removeprefix(self.bom).decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """Encode the text, with the byte order mark.

        Raises:
            Unencodable: The encoding lacks a character of the text.
        """
        try:
            return self.bom + text.encode(self.name, self.errors)
        except UnicodeEncodeError as exc:
            raise Unencodable(text[exc.start], self.name) from None


UTF8 = TextCodec()


def codec_of_bom(data: bytes) -> TextCodec | None:
    """Return the codec that a byte order mark declares, if there is one."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return TextCodec(name, bom, "surrogateescape" if name == "utf-8" else "surrogatepass")
    return None


def codec_of(data: bytes) -> TextCodec:
    """Return the codec of a text. It decodes the bytes of a whole file, and encodes them again unchanged."""
    declared = codec_of_bom(data)
    if declared is not None and _decodes(data, declared):
        return declared
    if _decodes(data, UTF8):
        return UTF8
    text = data.decode("utf-8", "surrogateescape")
    broken = len(_ESCAPED.findall(text))
    others = len(text) - broken - sum(map(len, re.findall(r"[\x00-\x7f]+", text)))
    if others * 4 > broken:  # UTF-8 with some bytes that are none; by chance, it would be far less
        return TextCodec("utf-8", b"", "surrogateescape")
    legacy = TextCodec("cp1252")
    return legacy if _decodes(data, legacy) else TextCodec("latin-1")


def _decodes(data: bytes, codec: TextCodec) -> bool:
    try:
        codec.decode(data)
    except UnicodeDecodeError:
        return False
    return True


def is_binary(data: bytes) -> bool:
    """Return whether a file that begins with these bytes is binary."""
    return b"\0" in data[:BINARY_HEAD] and codec_of_bom(data) is None


def image_type(data: bytes) -> str | None:
    """Return the MIME type of an image that models and editors can show, by its first bytes."""
    return next((mime_type for magic, mime_type in _IMAGES if magic.match(data)), None)


def presentable(text: str) -> str:
    """Return a text that can be shown: with a mark where bytes were no text."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def has_surrogates(text: str) -> bool:
    """Return whether a text has halves of characters, which no file can hold as text."""
    return not text.isascii() and _SURROGATES.search(text) is not None


# Lines


def count_lines(text: str) -> int:
    """Return the number of lines, including a last line without a newline."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def newline_of(text: str) -> str:
    """Return the line ending that a text mostly has; LF where it has none."""
    windows = text.count("\r\n")
    return "\r\n" if windows > text.count("\n") - windows else "\n"


def with_newlines(text: str, newline: str) -> str:
    """Return a text with the line endings of a file. A text that contains CRLF is returned unchanged."""
    return text if newline == "\n" or "\r\n" in text else text.replace("\n", newline)
