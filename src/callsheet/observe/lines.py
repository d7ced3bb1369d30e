"""A recording, line by line: raw JSON-RPC, or lines that say when and which way a message went.

Whatever a file holds, nothing here raises: what can't be read is a line with a `fault`. `mending.py` says
what is wrong with such a line, and what can still be read of it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec
from msgspec import Struct

from callsheet.observe import mending
from callsheet.observe.values import obj

Way: TypeAlias = Literal["client", "agent"]
"""Who has sent a message."""

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that are looked into. A longer one is passed over."""

PIECE = 1 << 20

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode
_WAYS: dict[object, Way] = {"client->agent": "client", "agent->client": "agent"}
_NO_MESSAGE = frozenset(("raw", "base64", "lost"))
"""What `callsheet record` writes in the place of `msg` where there was no message."""


class Line(Struct):
    """One line. `size` is that of the message, without the recording's own words around it, as near as known.

    `sender` is None where the recording does not say it. A line with a `fault` has no message, or one that
    a patient reader can make out.
    """

    number: int
    size: int
    message: dict[str, Any] | None = None
    sender: Way | None = None
    time: float | None = None
    problem: str | None = None
    raw: bytes = b""
    fault: mending.Fault | None = None


def read(stream: BinaryIO) -> Iterator[Line]:
    """Return the lines of a file. Of empty ones that follow each other, the first is told."""
    parts = mending.Parts()
    was_blank = False
    for number, (data, whole) in enumerate(_split(stream), 1):
        if whole and data and not data.isspace():
            was_blank = False
            line = line_of(number, data)
            if line.fault is None and not parts:
                yield line
            else:
                yield from _lines(line, parts)
        elif not whole:
            yield from _apart(parts)
            yield _faulty(number, len(data), "long", f"it is longer than {LONGEST >> 20} MB")
        elif not was_blank:
            was_blank = True
            yield _faulty(number, 0, "blank", "it is empty")
    yield from _apart(parts)


def _lines(line: Line, parts: mending.Parts) -> Iterator[Line]:
    """Return what is on a line with a fault, or on it and those before it that were only parts of a message."""
    if line.message is None and parts.joins(line):
        first, whole = parts.take()
        yield _whole(first, whole)
    elif line.fault == "cut" and not parts:
        parts.begin(line)
    elif parts and line.message is None:
        if parts.are_too_many():
            yield from _apart(parts)
    else:
        yield from _apart(parts)
        yield from _each(line)


def _whole(first: Line, data: bytes) -> Line:
    line = line_of(first.number, data)
    line.sender, line.time = line.sender or first.sender, line.time or first.time
    line.fault, line.problem = "split", "its message goes on on the next line"
    return line


def _apart(parts: mending.Parts) -> Iterator[Line]:
    """Give up on parts that make no message."""
    for line in parts.drop():
        yield from _each(line)


def _each(line: Line) -> Iterator[Line]:
    """Return the messages of a line that has several; the first with the fault."""
    if line.fault != "several":
        yield line
        return
    fault, problem = line.fault, line.problem
    for value in mending.messages(line.raw):
        found = _made(line.number, line.raw, value, mending.size_of(value, line.raw))
        found.fault, found.problem = fault, problem
        found.sender, found.time = found.sender or line.sender, found.time or line.time
        yield found
        fault = problem = None
    if fault is not None:
        yield line


def line_of(number: int, data: bytes) -> Line:
    """Make sense of one line."""
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if number == 1 and data.startswith(_BOM):
            return line_of(number, data[len(_BOM) :])
        return _mended(number, data, exc)
    return _made(number, data, value, len(data))


def _mended(number: int, data: bytes, exc: Exception) -> Line:
    fault, problem = mending.fault_of(data, exc)
    for mended, why, what in mending.readings(data, fault):
        try:
            line = _made(number, data, _decode(mended), len(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if line.fault != "several":  # each of them is mended when they are read
            line.fault, line.problem = why, what
        return line
    return Line(number, len(data), problem=problem, raw=data, fault=fault)


def _made(number: int, data: bytes, value: Any, size: int) -> Line:
    told = obj(value)
    if "msg" in told and "jsonrpc" not in told:
        return _wrapped(number, data, told, size)
    if not told:
        several = mending.is_batch(value)
        fault = "several" if several else "no_message"
        why = "it has several messages" if several else "it is JSON, but no message"
        return Line(number, size, problem=why, raw=data, fault=fault)
    if "dir" in told and not _NO_MESSAGE.isdisjoint(told):
        return _unread(number, told)
    return Line(number, size, told, raw=data)


def _wrapped(number: int, data: bytes, value: dict[str, Any], size: int) -> Line:
    message, time = obj(value["msg"]), value.get("t")
    if not message:
        why = "its msg is no message"
        return Line(number, size, problem=why, raw=data, fault="no_message")
    # The envelope is `{"t": 1.5, "dir": "agent->client", "msg": …}`: what is around the message.
    begin = data.find(b'"msg"')
    if begin >= 0 and size == len(data):
        size = max(2, len(data.rstrip()) - begin - 7)
    when = float(time) if isinstance(time, (int, float)) else None
    return Line(number, size, message, _WAYS.get(value.get("dir")), when, raw=data)


def _unread(number: int, value: dict[str, Any]) -> Line:
    """Return what was recorded of a line that was no message, as if it stood in the recording itself."""
    data = _bytes_in(value)
    size, lost, time = value.get("size"), value.get("lost"), value.get("t")
    if lost is not None:
        line = _faulty(number, 0, "lost", f"{lost} bytes are missing: they could not be recorded")
    elif isinstance(size, int) and size > len(data):
        why = f"only the beginning of its {size >> 20} MB was recorded"
        line = _faulty(number, size, "long", why)
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


def _faulty(number: int, size: int, fault: mending.Fault, problem: str) -> Line:
    return Line(number, size, problem=problem, fault=fault)


def _split(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Return the lines of a stream, and whether each is whole: of one that is too long, the beginning."""
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
