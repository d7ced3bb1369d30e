"""Text as it is on disk: its encoding, its byte order mark, its line endings.

Whatever is decoded here can be encoded to the same bytes again. A byte order mark declares the encoding;
without one it is UTF-8, or, where the bytes are not, a legacy encoding. Only LF ends a line;
a CR before it belongs to the line's ending.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

BINARY_HEAD = 8192
"""A NUL among so many first bytes makes a file binary, as it does for git and ripgrep."""

_MAX_CONTROLS = 0.05
"""What is not UTF-8 and has a larger share of control characters is no text in a legacy encoding."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16's, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_ESCAPED = re.compile("[\udc80-\udcff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_WIDTHS = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}


class Unencodable(ValueError):
    """A character that an encoding doesn't have."""

    def __init__(self, character: str, encoding: str) -> None:
        super().__init__(f"{encoding} has no {character!r} (U+{ord(character):04X})")


class TextCodec(NamedTuple):
    """How the bytes of a file are text. `errors` is how bytes that are none are preserved."""

    name: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"

    @property
    def width(self) -> int:
        """Bytes that a newline takes."""
        return _WIDTHS.get(self.name, 1)

    def decode(self, data: bytes) -> str:
        """Return the text, without a byte order mark."""
        return data.removeprefix(self.bom).decode(self.name, self.errors)

    def decode_part(self, data: bytes) -> str:
        """Return the text of a part of a file, whatever it is."""
        return data.decode(self.name, "surrogateescape" if self.name == "utf-8" else "replace")

    def size_of(self, part: str) -> int:
        """Return the bytes that such a part takes in the file."""
        errors = "surrogateescape" if self.name == "utf-8" else "replace"
        return len(part.encode(self.name, errors))

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


def is_binary(data: bytes) -> bool:
    """Return whether a file that begins with these bytes is binary."""
    if codec_of_bom(data) is not None:
        return False
    head = data[:BINARY_HEAD]
    if b"\0" in head:
        return True
    if is_utf8(head, cut=len(data) > len(head)):
        return False
    return len(head) - len(head.translate(None, _CONTROLS)) > len(head) * _MAX_CONTROLS


def is_utf8(data: bytes, *, cut: bool = False) -> bool:
    """Return whether bytes are UTF-8; where they are cut, the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return False
    return True


def codec_of(data: bytes) -> TextCodec:
    """Return the codec of a text. It decodes the bytes of a whole file, and encodes them again unchanged."""
    declared = codec_of_bom(data)
    if declared is not None:
        return declared if _decodes(data, declared) else _plain_codec(data)
    return _plain_codec(data)


def _plain_codec(data: bytes) -> TextCodec:
    if is_utf8(data):
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


def name_endings(windows: int, others: int) -> str | None:
    """Return the name of line endings by their counts with and without CR: lf, crlf, mixed, or None."""
    if windows and others:
        return "mixed"
    return "crlf" if windows else "lf" if others else None


def with_newlines(text: str, newline: str) -> str:
    """Return a text with the line endings of a file. A text that contains CRLF is returned unchanged."""
    return text if newline == "\n" or "\r\n" in text else text.replace("\n", newline)


def common_prefix(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def size_text(size: int) -> str:
    """Return a readable size for a number of bytes: "5.3 MB"."""
    if size < 1000:
        return f"{size} byte{'' if size == 1 else 's'}"
    units, amount = iter(("KB", "MB", "GB", "TB", "PB")), size / 1000
    unit = next(units)
    while amount >= 999.5 and unit != "PB":
        amount, unit = amount / 1000, next(units)
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"
