"""JSON-RPC 2.0, one message on a line: framing for both directions.

In: a `LineBuffer` cuts bytes into lines, and `decode_line` returns the message on a line, or what is wrong
with it. Nothing that a peer sends raises anything: a bad line becomes a `ProtocolError` in its place.

Out: `encode_line` returns the bytes of one message and holds them to a budget, counted on what really
goes over the wire.

Not here: what the messages mean (`v1`, `v2`), and reading, writing and waiting (`runtime.rpc`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object

RequestId: TypeAlias = str | int | None

FRAME_BUDGET = 8 * 1024 * 1024
"""Default limit of a line, in bytes. Known readers fail at 10 MiB (some at 64 KiB)."""

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line that are held until it is complete."""

EXCERPT = 1000
"""Bytes of a line that is too long, where the rest is dropped."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ProtocolError(CallsheetError):
    """What is wrong with a message, in JSON-RPC's terms. `request_id` is the message's, if it had one."""

    code: int = -32603
    label: str = "Internal error"

    def __init__(
        self, detail: str, *, request_id: RequestId = None, data: JsonValue = None
    ) -> None:
        super().__init__(f"{self.label}: {detail}")
        self.detail: str = detail
        self.request_id: RequestId = request_id
        self.data: JsonValue = data

    def to_error(self) -> JsonObject:
        """Return the `error` object of a response."""
        error: JsonObject = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return error


class ParseError(ProtocolError):
    """A line is not JSON."""

    code = -32700
    label = "Parse error"


class InvalidRequest(ProtocolError):
    """A line is JSON, but not a JSON-RPC message."""

    code = -32600
    label = "Invalid request"


class InvalidAnswer(InvalidRequest):
    """A line is an answer, but not a valid one."""


class UnknownMethod(ProtocolError):
    """The method has no handler here."""

    code = -32601
    label = "Method not found"


class InvalidParams(ProtocolError):
    """The method is known, but its parameters are malformed."""

    code = -32602
    label = "Invalid params"


class FrameTooLarge(CallsheetError):
    """A message of ours would not fit its budget. Nothing was sent."""

    def __init__(self, size: int, budget: int) -> None:
        super().__init__(
            f"the message has {size} bytes, the budget is {budget}; send less, or raise the budget"
        )
        self.size: int = size
        self.budget: int = budget


UNENCODABLE = (FrameTooLarge, ValueError, TypeError, OverflowError, RecursionError)
"""What encoding raises where a value is too large, too deep, or a number beyond 64 bits."""


class Request(Struct, frozen=True):
    """A message that wants an answer."""

    id: RequestId
    method: str
    params: JsonValue = None
    extra: JsonObject | None = None


class Notification(Struct, frozen=True):
    """A message that wants none."""

    method: str
    params: JsonValue = None
    extra: JsonObject | None = None


class Response(Struct, frozen=True):
    """An answer: `result`, or `error` if it is set."""

    id: RequestId
    result: JsonValue = None
    error: JsonObject | None = None
    extra: JsonObject | None = None


Message: TypeAlias = Request | Notification | Response


class LineBuffer:
    """Cuts bytes that arrive in pieces into whole lines, in bounded memory.

    At most `limit` bytes of a line are held until its line feed arrives. A line that grows longer is not
    held: its parts are returned as they arrive, apart from the whole lines, so that nothing is lost.

    Args:
        limit: The bytes of a line that are held.
        drops_long: Whether what was held of a line that is too long is dropped, but for an excerpt. That
            saves the memory of a copy, for readers that only have to know of it.
    """

    def __init__(self, limit: int = LONGEST_LINE, *, drops_long: bool = False) -> None:
        self.limit: int = limit
        self._drops_long: bool = drops_long
        # One block of memory: many small ones, with others among them, would stay with the process.
        self._rest: bytearray = bytearray()
        self._is_long: bool = False

    def feed(self, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Take in a piece.

        Returns:
            More of a line that is too long, up to its end; whole lines, which `split_lines` separates; and
            the beginning of another line that is too long. Joined, they are all that came and is not held.
        """
        if not self._rest and not self._is_long and data.endswith(b"\n"):
            return b"", data, b""
        more = b""
        if self._is_long:
            end = data.find(b"\n") + 1
            if not end:
                return data, b"", b""
            self._is_long = False
            more, data = data[:end], data[end:]
        end = data.rfind(b"\n") + 1
        whole = data[:end]
        if whole and self._rest:
            whole = bytes(self._rest) + whole
            self._rest = bytearray()
        return more, whole, self._hold(data[end:])

    def end(self) -> bytes:
        """Return the line whose end never came."""
        rest, self._rest = bytes(self._rest), bytearray()
        return rest

    def _hold(self, data: bytes) -> bytes:
        self._rest += data
        if len(self._rest) <= self.limit:
            return b""
        begun = bytes(self._rest[:EXCERPT] if self._drops_long else self._rest)
        self._rest, self._is_long = bytearray(), True
        return begun


def split_lines(lines: bytes) -> list[bytes]:
    """Return whole lines one by one, each with its line feed. Nothing else ends a line."""
    return [line + b"\n" for line in lines.split(b"\n")[:-1]]


def decode_line(line: bytes | str) -> Message | ProtocolError | None:
    """Return the message on a line, or what is wrong with it; None if the line is blank."""
    if not line.strip():
        return None
    try:
        value = _decode(line)
    except (msgspec.MsgspecError, ValueError) as exc:  # UnicodeDecodeError is a ValueError
        return ParseError(str(exc))
    except RecursionError:
        return ParseError("nested too deeply")
    return to_message(value)


def to_message(value: JsonValue) -> Message | ProtocolError:
    """Return the message that a JSON value is, or what is wrong with it."""
    if not is_object(value):
        return InvalidRequest(f"expected an object, got {_name(value)}")
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, (str, int, NoneType)):
        return InvalidRequest(f"id: expected text, a whole number or null, got {_name(request_id)}")
    if value.get("jsonrpc") != "2.0":
        return InvalidRequest('jsonrpc: expected "2.0"', request_id=request_id)
    if "method" in value:
        return _to_call(value, request_id)
    return _to_response(value, request_id)


def encode_line(message: Message | Mapping[str, Any], budget: int = FRAME_BUDGET) -> bytes:
    """Return the line for a message, or raise `FrameTooLarge`."""
    return bounded(_encode(message if isinstance(message, Mapping) else to_json(message)), budget)


def to_json(message: Message) -> JsonObject:
    """Return the JSON object that a message is."""
    out: JsonObject = {"jsonrpc": "2.0"}
    if isinstance(message, Response):
        out["id"] = message.id
        if message.error is None:
            out["result"] = message.result
        else:
            out["error"] = message.error
    else:
        if isinstance(message, Request):
            out["id"] = message.id
        out["method"] = message.method
        if message.params is not None:
            out["params"] = message.params
    return out if message.extra is None else {**message.extra, **out}


def bounded(line: bytes, budget: int = FRAME_BUDGET) -> bytes:
    """End an encoded message with its line feed, or raise `FrameTooLarge`."""
    if len(line) >= budget:
        raise FrameTooLarge(len(line) + 1, budget)
    return line + b"\n"


def error_response(error: ProtocolError) -> Response:
    """Return the response that reports to a peer what was wrong with its message."""
    return Response(error.request_id, error=error.to_error())


def _to_call(value: JsonObject, request_id: RequestId) -> Message | ProtocolError:
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        return InvalidRequest(f"method: expected text, got {_name(method)}", request_id=request_id)
    if params is not None and not isinstance(params, (dict, list)):
        return InvalidRequest(
            f"params: expected an object or a list, got {_name(params)}", request_id=request_id
        )
    if "result" in value or "error" in value:
        return InvalidRequest("both a method and an answer", request_id=request_id)
    extra = rest(value, "jsonrpc", "id", "method", "params")
    if "id" in value:
        return Request(request_id, method, params, extra)
    return Notification(method, params, extra)


def _to_response(value: JsonObject, request_id: RequestId) -> Message | ProtocolError:
    error = value.get("error", UNSET)
    if (error is UNSET) == ("result" not in value):
        if error is UNSET:
            return InvalidRequest("neither a method, a result nor an error", request_id=request_id)
        return InvalidAnswer("both result and error", request_id=request_id)
    if "id" not in value:
        return InvalidRequest("an answer without an id")
    if error is not UNSET and not _is_error(error):
        return InvalidAnswer(
            "error: expected an object with code and message", request_id=request_id
        )
    extra = rest(value, "jsonrpc", "id", "result", "error")
    return Response(request_id, value.get("result"), None if error is UNSET else error, extra)


def _is_error(error: JsonValue | UnsetType) -> bool:
    return (
        is_object(error)
        and type(error.get("code")) is int
        and isinstance(error.get("message"), str)
    )


def rest(raw: JsonObject, *known: str) -> JsonObject | None:
    """Return the keys that we don't know, or None if there are none."""
    return {key: value for key, value in raw.items() if key not in known} or None


_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    float: "a fraction",
    NoneType: "null",
}


def _name(value: object) -> str:
    return _NAMES.get(type(value), "a number")
