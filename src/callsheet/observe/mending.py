"""What is wrong with a line that can't be read as it is, and what a patient reader can make out of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from callsheet.observe.lines import Line

Fault: TypeAlias = Literal[
    "blank", "long", "binary", "encoding", "surrogate", "cut", "several", "split", "json", "no_message",
    "lost",
]  # fmt: skip

_LOSES = ("long", "lost", "binary", "encoding", "cut", "several")

_MOST_PARTS = 64
"""Lines that are taken together to find a message, at most."""

_MOST_BYTES = 16 << 20

_PAIR_OR_LONE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_decoder = json.JSONDecoder()


def fault_of(data: bytes, exc: Exception) -> tuple[Fault, str]:
    """Say what is wrong with a line that is no JSON."""
    if b"\0" in data[:1000]:
        return "binary", "it is binary"
    if not _is_utf8(data):
        return "encoding", "it is no UTF-8"
    if isinstance(exc, RecursionError):
        return "json", "it is nested too deeply"
    if len(messages(data)) > 1 or data.count(b'"jsonrpc"') > 1:
        return "several", "it has several messages"
    if data.lstrip()[:1] == b"{" and "truncated" in str(exc):
        return "cut", "it breaks off in the middle of a message"
    return "json", "it is no JSON"


def loses_a_message(data: bytes, fault: Fault | None) -> bool:
    """Whether a line of which nothing can be read was more than noise: less can be known after it."""
    return fault in _LOSES or data.lstrip()[:1] == b"{"


def messages(data: bytes) -> list[Any]:
    """Return the objects of a line that has several, one after the other or in a list."""
    try:
        text = _without_surrogates(data).decode()
    except UnicodeDecodeError:
        return []
    found: list[Any] = []
    place = 0
    while place < len(text):
        if text[place] in " \t\r,":
            place += 1
            continue
        try:
            value, place = _decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found += cast("list[Any]", value) if isinstance(value, list) else [value]
    return [value for value in found if isinstance(value, dict) and value]


def size_of(message: Any, line: bytes) -> int:
    """Return the bytes of a message of such a line, also with numbers that others would not write."""
    try:
        return len(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode())
    except (RecursionError, ValueError):  # it is all the same deeper here than where it was read
        return len(line)


def is_batch(value: Any) -> bool:
    """Whether it is a list of messages."""
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return any(isinstance(item, dict) and "jsonrpc" in item for item in items)


def readings(data: bytes, fault: Fault) -> Iterator[tuple[bytes, Fault, str]]:
    """Return how a line could be meant, with signs for what can't be shown, and what is wrong with it then."""
    if fault == "encoding":
        yield data.decode(errors="replace").encode(), fault, "it is no UTF-8"
    elif b"\\ud" in data or b"\\uD" in data:
        yield _without_surrogates(data), "surrogate", "it has half of a surrogate pair"


def _without_surrogates(data: bytes) -> bytes:
    return _PAIR_OR_LONE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)


class Parts:
    """Lines that may be parts of one message."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._size: int = 0
        self._whole: bytes = b""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def begin(self, line: Line) -> None:
        """Keep a line that breaks off."""
        self._lines, self._size = [line], len(line.raw)

    def joins(self, line: Line) -> bool:
        """Take one more, and say whether they make a message now."""
        if not self._lines:
            return False
        self._lines.append(line)
        self._size += len(line.raw)
        if self._size > _MOST_BYTES or not line.raw.rstrip().endswith(b"}"):
            return False
        if len({part.sender for part in self._lines}) > 1:
            return False
        for glue in (b"\n", b"", b"\\n"):
            self._whole = glue.join(part.raw for part in self._lines)
            if len(messages(self._whole)) == 1 and _is_json(self._whole):
                return True
        return False

    def take(self) -> tuple[Line, bytes]:
        """Return the message, and the line that it begins on."""
        first, self._lines = self._lines[0], []
        return first, self._whole

    def are_too_many(self) -> bool:
        """Whether there is no more hope."""
        return len(self._lines) >= _MOST_PARTS or self._size > _MOST_BYTES

    def drop(self) -> Iterator[Line]:
        """Return the lines back, each for itself."""
        lines, self._lines = self._lines, []
        yield from lines


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
