"""A recording, line by line: raw JSON-RPC, or lines that say when and which way a message went.

Whatever a file holds, nothing here raises: what can't be read is a line with a `problem`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec
from msgspec import Struct

from .values import obj

Way: TypeAlias = Literal["client", "agent"]
"""Who has sent a message."""

LONGEST = 256 * 1024 * 1024
"""Bytes of a line that are looked into. A longer one is passed over."""

PIECE = 1 << 20

_decode = msgspec.json.Decoder().decode
_WAYS: dict[object, Way] = {"client->agent": "client", "agent->client": "agent"}
_NO_MESSAGE = frozenset(("raw", "base64", "lost"))
"""What `callsheet record` writes in the place of `msg` where there was no message."""


class Line(Struct):
    """One line. `size` is that of the message, without the recording's own words around it, as near as known.

    `sender` is None where the recording does not say it.
    """

    number: int
    size: int
    message: dict[str, Any] | None = None
    sender: Way | None = None
    time: float | None = None
    problem: str | None = None
    raw: bytes = b""


def read(stream: BinaryIO) -> Iterator[Line]:
    """Give the lines of a file. Empty ones are counted, and left out."""
    for number, (data, whole) in enumerate(_split(stream), 1):
        if not whole:
            yield Line(number, len(data), problem=f"the line is longer than {LONGEST >> 20} MB")
        elif data.strip():
            yield line_of(number, data)


def line_of(number: int, data: bytes) -> Line:
    """Make sense of one line."""
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return Line(number, len(data), problem=_why(data, exc), raw=data)
    told = obj(value)
    if not told:
        return Line(number, len(data), problem="it is JSON, but no message", raw=data)
    if "msg" in told and "jsonrpc" not in told:
        return _wrapped(number, data, told)
    if "dir" in told and not _NO_MESSAGE.isdisjoint(told):
        return _unread(number, told)
    return Line(number, len(data), told, raw=data)


def _wrapped(number: int, data: bytes, value: dict[str, Any]) -> Line:
    message, time = obj(value["msg"]), value.get("t")
    if not message:
        return Line(number, len(data), problem="its msg is no message", raw=data)
    # The envelope is `{"t": 1.5, "dir": "agent->client", "msg": …}`: what is around the message.
    begin = data.find(b'"msg"')
    size = max(2, len(data.rstrip()) - begin - 7) if begin >= 0 else len(data)
    when = float(time) if isinstance(time, (int, float)) else None
    return Line(number, size, message, _WAYS.get(value.get("dir")), when, raw=data)


def _unread(number: int, value: dict[str, Any]) -> Line:
    """Give what was recorded of a line that was no message, as if it stood in the recording itself."""
    data = _bytes_in(value)
    size, lost, time = value.get("size"), value.get("lost"), value.get("t")
    if lost is not None:
        line = Line(number, 0, problem=f"{lost} bytes are missing: they could not be recorded")
    elif isinstance(size, int) and size > len(data):
        line = Line(number, size, problem=f"only the beginning of its {size >> 20} MB was recorded")
    else:
        line = line_of(number, data)
    line.sender = _WAYS.get(value.get("dir"))
    line.time = float(time) if isinstance(time, (int, float)) else None
    return line


def _bytes_in(value: dict[str, Any]) -> bytes:
    try:
        return b64decode(value["base64"]) if "base64" in value else value["raw"].encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        return b""


def _why(data: bytes, exc: Exception) -> str:
    if b"\0" in data[:1000]:
        return "it is binary"
    if isinstance(exc, UnicodeDecodeError) or "utf-8" in str(exc).lower():
        return "it is no UTF-8"
    if data[:1] == b"{" and not data.rstrip().endswith(b"}"):
        return "it breaks off in the middle of a message"
    if data.count(b'{"jsonrpc"') > 1:
        return "it has several messages"
    return f"it is no JSON ({exc})"


def _split(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Give the lines of a stream, and whether each is whole: of one that is too long, the beginning."""
    rest: list[bytes] = []
    size = 0
    for piece in _pieces(stream):
        *lines, last = piece.split(b"\n")
        for found in lines:
            line = found
            if rest:
                line = b"".join((*rest, found))
                rest, size = [], 0
            yield line[:LONGEST], len(line) <= LONGEST
        if size <= LONGEST:
            rest.append(last)
        size += len(last)
    if size:
        yield b"".join(rest), size <= LONGEST


def _pieces(stream: BinaryIO) -> Iterable[bytes]:
    while piece := stream.read(PIECE):
        yield piece
