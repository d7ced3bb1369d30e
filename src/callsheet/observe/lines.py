"""The file format of recordings: parse the lines of any file, and encode lines.

A recording has one message per line, in one of two forms that may be mixed:

- the JSON-RPC message as it is: `{"jsonrpc": "2.0", "method": "session/update", …}`
- an envelope with time and direction: `{"t": 1.5, "dir": "agent->client", "msg": {…}}`. For a line that
  is no JSON, `callsheet record` writes `raw` in place of `msg`, or `base64` if it is no text; a line that
  was cut has a `size`, which is greater than what there is of it.

The log that Zed copies is read, too (`zed_log.py`): it is one array over many lines.

Reading never raises. A line that is not exactly one message has a `fault`; where one message can be made
out all the same (bad bytes or half a surrogate pair replaced, odd numbers), the line has both the message
and the fault. Several messages on one line are not taken apart, and one that is spread over several lines
is not put together: each of the lines is a finding.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct

from callsheet.acp.jsonrpc import LineBuffer
from callsheet.observe.model import obj
from callsheet.observe.zed_log import is_zed_log, read_log

Sender: TypeAlias = Literal["client", "agent"]
"""Who has sent a message."""

Direction: TypeAlias = Literal["client->agent", "agent->client"]
"""How an envelope states the sender of its message."""

Fault: TypeAlias = Literal[
    "blank", "long", "binary", "encoding", "surrogate", "cut", "several", "json", "no_message",
]  # fmt: skip

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that are parsed. A longer line is skipped."""

PIECE = 1 << 20
"""Bytes that are read at once."""

_EXCERPT = 1000
"""Bytes that are written of a line that is too long to be recorded."""

NO_RECORDING = "not a recording: it has no ACP messages; callsheet record makes one"
EMPTY_RECORDING = "not a recording: it is empty; callsheet record makes one"

_BOM = b"\xef\xbb\xbf"
_ENVELOPES = (b'{"t":', b'{"dir')
_SENDERS: dict[object, Sender] = {"client->agent": "client", "agent->client": "agent"}
_OF_MESSAGES = frozenset(("jsonrpc", "method", "result", "error"))
_NO_MESSAGE = frozenset(("raw", "base64"))
_LOSES_A_MESSAGE = ("long", "binary", "encoding", "cut", "several")

# An escaped backslash, a whole surrogate pair, or (in the group) half of one.
_PAIR_OR_LONE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class _Envelope(Struct):
    """The envelope that `callsheet record` writes. Decoding into it is faster than into a dict."""

    msg: dict[str, Any]
    dir: Direction
    t: float | None = None
    jsonrpc: Any = UNSET


_decode = msgspec.json.Decoder().decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.encode
_ODD_NUMBERS = re.compile(rb"NaN|Infinity|\d[eE][+]?\d{3}").search


class RecordedLine(Struct):
    """One line of a recording.

    `size` is that of the message without the envelope, as near as it is known. `sender` is None where the
    recording does not state it. A line with a `fault` has no message, or one that could be made out.
    """

    number: int
    size: int
    message: dict[str, Any] | None = None
    sender: Sender | None = None
    time: float | None = None
    problem: str | None = None
    raw: bytes = b""
    fault: Fault | None = None


# Reading


def is_rpc(message: Mapping[str, Any]) -> bool:
    """Return whether an object is meant as a message of JSON-RPC. A file without any is no recording."""
    return not _OF_MESSAGES.isdisjoint(message)


def read_lines(stream: BinaryIO) -> Iterator[RecordedLine]:
    """Yield the lines of a recording. It never raises for what a line contains.

    Of consecutive empty lines, only the first is yielded.
    """
    first = stream.read(PIECE)
    if is_zed_log(first):
        yield from _of_zed(b"".join([first, *iter(lambda: stream.read(PIECE), b"")]))
        return
    was_blank = False
    for number, (data, is_whole) in enumerate(_split(first, stream), 1):
        if is_whole and data and not data.isspace():
            was_blank = False
            yield parse_line(number, data)
        elif not is_whole:
            yield _faulty(number, len(data), "long", f"it is longer than {LONGEST >> 20} MB")
        elif not was_blank:
            was_blank = True
            yield _faulty(number, 0, "blank", "it is empty")


def parse_line(number: int, data: bytes) -> RecordedLine:
    """Parse one line, without its newline."""
    if data[:5] in _ENVELOPES:
        try:
            value = _decode_envelope(data)
            if value.msg and value.jsonrpc is UNSET:
                size = _size_within(data)
                return RecordedLine(number, size, value.msg, _SENDERS[value.dir], value.t, raw=data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # it is in another form, or no JSON
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if number == 1 and data.startswith(_BOM):
            return parse_line(number, data[len(_BOM) :])
        return _repaired(number, data, exc)
    return _line_of(number, data, value)


def loses_a_message(line: RecordedLine) -> bool:
    """Whether a line without a message was more than noise, so that less is certain after it."""
    return line.fault in _LOSES_A_MESSAGE or line.raw.lstrip()[:1] == b"{"


def _repaired(number: int, data: bytes, exc: Exception) -> RecordedLine:
    """Parse a line that is no JSON as it is."""
    value, fault, problem = decode_leniently(data, exc)
    if value is None:
        return RecordedLine(number, len(data), problem=problem, raw=data, fault=fault)
    line = _line_of(number, data, value)
    line.fault, line.problem = line.fault or fault, line.problem or problem
    return line


def _line_of(number: int, data: bytes, value: Any) -> RecordedLine:
    found = obj(value)
    if "msg" in found and "jsonrpc" not in found:
        return _unwrapped(number, data, found)
    if not found:
        several = _is_batch(value)
        fault = "several" if several else "no_message"
        why = "it has several messages" if several else "it is JSON, but no message"
        return RecordedLine(number, len(data), problem=why, raw=data, fault=fault)
    if "dir" in found and not _NO_MESSAGE.isdisjoint(found):
        return _unrecorded(number, found)
    return RecordedLine(number, len(data), found, raw=data)


def _unwrapped(number: int, data: bytes, value: dict[str, Any]) -> RecordedLine:
    message = obj(value["msg"])
    if not message:
        why = "its msg is no message"
        return RecordedLine(number, len(data), problem=why, raw=data, fault="no_message")
    return RecordedLine(
        number,
        _size_within(data),
        message,
        _SENDERS.get(value.get("dir")),
        _time_in(value),
        raw=data,
    )


def _size_within(data: bytes) -> int:
    """Return the size of the message in an envelope: `{"t": 1.5, "dir": "agent->client", "msg": …}`."""
    begin = data.find(b'"msg"')
    return max(2, len(data.rstrip()) - begin - 7) if begin >= 0 else len(data)


def _unrecorded(number: int, value: dict[str, Any]) -> RecordedLine:
    """Return what was recorded of a line that was no message, as if it stood in the recording itself."""
    data = _bytes_in(value)
    size = value.get("size")
    if isinstance(size, int) and size > len(data):
        why = f"it is longer than {size >> 20} MB, and only its beginning was recorded"
        line = _faulty(number, size, "long", why)
    else:
        line = parse_line(number, data)
    line.sender, line.time = _SENDERS.get(value.get("dir")), _time_in(value)
    return line


def _time_in(value: dict[str, Any]) -> float | None:
    time = value.get("t")
    return float(time) if isinstance(time, (int, float)) else None


def _bytes_in(value: dict[str, Any]) -> bytes:
    try:
        return b64decode(value["base64"]) if "base64" in value else value["raw"].encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        return b""


def _faulty(number: int, size: int, fault: Fault, problem: str) -> RecordedLine:
    return RecordedLine(number, size, problem=problem, fault=fault)


def _of_zed(data: bytes) -> Iterator[RecordedLine]:
    """Yield the messages of Zed's log, as if they stood in a recording of ours."""
    for entry in read_log(data):
        if entry.message is None:
            yield _faulty(entry.line, 0, "cut", "it breaks off in the middle of a message")
            continue
        message = _encode(entry.message)
        way: Direction = "client->agent" if entry.is_of_client else "agent->client"
        raw = b"".join(encode_line(None, way, message)).rstrip(b"\n")
        yield RecordedLine(entry.line, len(message), entry.message, _SENDERS[way], raw=raw)


def _split(piece: bytes, stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a stream that begins with a piece, and whether each is whole.

    Of one that is too long, the beginning is yielded.
    """
    buffer = LineBuffer(LONGEST)
    while piece:
        _, whole, begun = buffer.feed(piece)
        for line in whole.split(b"\n")[:-1]:
            yield line[:LONGEST], len(line) <= LONGEST
        if begun:
            yield begun[:LONGEST], False
        piece = stream.read(PIECE)
    rest = buffer.end()
    if rest:
        yield rest, True


# What is wrong with a line, and how it could be meant


def fault_of(data: bytes, exc: Exception) -> tuple[Fault, str]:
    """Return what is wrong with a line for which a decoder raised `exc`, as a code and as a sentence."""
    if b"\0" in data[:1000]:
        return "binary", "it is binary"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "encoding", "it is no UTF-8"
    if isinstance(exc, RecursionError):
        return "json", "it is nested too deeply"
    if data.count(b'"jsonrpc"') > 1:
        return "several", "it has several messages"
    if data.lstrip()[:1] == b"{" and "truncated" in str(exc):
        return "cut", "it breaks off in the middle of a message"
    return "json", "it is no JSON"


def decode_leniently(data: bytes, exc: Exception) -> tuple[Any, Fault, str]:
    """Decode a line for which a decoder raised `exc`, with U+FFFD for what can't be decoded.

    What strict decoders refuse may still report how a call goes: agents in JavaScript cut texts in the
    middle of a surrogate pair, agents in Python write NaN, and numbers may be too large for 64 bits.

    Returns:
        The value, or None if there is none to be made out; and what is wrong with the line.
    """
    fault, problem = fault_of(data, exc)
    found = data
    why: tuple[Fault, str] = (fault, problem)
    if fault == "encoding":
        found = data.decode(errors="replace").encode()
    elif b"\\ud" in data or b"\\uD" in data:
        found = _without_surrogates(data)
        why = ("surrogate", "it has half of a surrogate pair")
    for decode in (_decode, _decode_odd_numbers):
        try:
            return decode(found), why[0], why[1]
        except (ValueError, RecursionError):
            continue
    return None, fault, problem


def _decode_odd_numbers(data: bytes) -> Any:
    if not _ODD_NUMBERS(data):
        raise ValueError
    return json.loads(data)


def _is_batch(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return any(isinstance(item, dict) and "jsonrpc" in item for item in items)


def _without_surrogates(data: bytes) -> bytes:
    return _PAIR_OR_LONE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)


# Writing


def encode_line(
    when: float | None, direction: Direction, data: bytes, size: int | None = None
) -> tuple[bytes, ...]:
    """Return the parts of a line with the envelope, which the caller writes one after the other.

    Args:
        when: The time in seconds, or None if it is not known.
        direction: Which way the message went.
        data: The message as it came, without its newline.
        size: How long the message was at least, if `data` is only its beginning.

    Returns:
        The parts; none if the message is empty. They are not joined, because that would copy `data`.
    """
    size = len(data) if size is None else size
    if data.endswith(b"\r"):
        data, size = data[:-1], size - 1
    if not data or data.isspace():
        return ()
    head = _head(when, direction)
    if size > len(data):
        return (head, b'"size": %d, ' % size, *_quoted(data[:_EXCERPT]))
    if is_json(data):
        return (head, b'"msg": ', data, b"}\n")
    return (head, *_quoted(data))


def is_json(data: bytes) -> bool:
    """Whether the data is one JSON value, in UTF-8."""
    try:
        _decode_raw(data)
        return data.isascii() or bool(data.decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _head(when: float | None, direction: Direction) -> bytes:
    if when is None:
        return b'{"dir": "%s", ' % direction.encode()
    return b'{"t": %.6f, "dir": "%s", ' % (when, direction.encode())


def _quoted(data: bytes) -> tuple[bytes, bytes, bytes]:
    try:
        return (b'"raw": ', _encode(data.decode()), b"}\n")
    except UnicodeDecodeError:
        return (b'"base64": "', b64encode(data), b'"}\n')
