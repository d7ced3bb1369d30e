"""Payloads: a call record as compressed bytes, and back.

A payload is a zstd frame around JSON: `{"call": {…}, "terminals": […], "odd": {…}}`.

- `call` is a `tool_call` of ACP v1, which can express nearly everything that a report can.
- `odd` holds what v1 can't express. Only reports of other agents have any of it, and reports whose `_meta`
  uses keys that belong to the protocol.

The payload of a message is `{"blocks": […]}`. Small payloads are compressed with the dictionary that ships
with this package (`dictionary.zstd`, made by `scripts/train_dictionary.py`): one call alone is too short for
zstd to find repetitions in it. A frame names its dictionary by an id, so a later release can add another one,
and still read what was compressed with this one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from pkgutil import get_data  # importlib.resources takes long to import
from threading import Lock
from typing import Any, cast

import msgspec
import zstandard
from msgspec.structs import replace

from callsheet.acp import v1
from callsheet.acp.codec import KEYS, TOOL_NAME
from callsheet.acp.terminals import EXIT, INFO, MORE, OUTPUT, encode_exit
from callsheet.history.origin import is_hiding, revealed
from callsheet.history.store_errors import StoreDamaged
from callsheet.report import content as content_types
from callsheet.report.content import DiffContent, TextContent, ToolCallContent, UnknownContent
from callsheet.report.errors import CallsheetError
from callsheet.report.events import CallOpened, ExitStatus
from callsheet.report.fields import NOTES
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord, TerminalRecord

SMALL = 1 << 15
"""Bytes up to which a payload is compressed with the dictionary: larger ones don't gain by it."""

LEVEL = 1
"""The compression level of zstd. A higher one makes payloads 5 % smaller, and takes a third longer."""

BULK_FROM, BULK_MOST = 8, 256
"""How many payloads are compressed in one call of zstd, at least and at most."""

_MAX_BYTES = 1 << 30

_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode


@cache
def shipped_dictionary() -> bytes:
    """Return the dictionary that payloads are compressed with."""
    return get_data("callsheet.history", "dictionary.zstd") or b""


class Codec:
    """Compress and read payloads. Any thread may compress; only one at a time may read.

    Args:
        dictionaries: Further dictionaries that payloads to read may need.
    """

    def __init__(self, dictionaries: Iterable[bytes] = ()) -> None:
        self._large: zstandard.ZstdCompressor = zstandard.ZstdCompressor(level=LEVEL)
        data = zstandard.ZstdCompressionDict(shipped_dictionary())
        data.precompute_compress(level=LEVEL)  # pyright: ignore[reportUnknownMemberType]
        self._small: zstandard.ZstdCompressor = zstandard.ZstdCompressor(dict_data=data)
        self._compressing: Lock = Lock()
        self._readers: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}
        self.dictionary_id: int = data.dict_id()
        for one in (*dictionaries, shipped_dictionary()):
            data = zstandard.ZstdCompressionDict(one)
            if key := data.dict_id():
                self._readers[key] = zstandard.ZstdDecompressor(dict_data=data)

    def compress(self, texts: Sequence[bytes]) -> list[bytes]:
        """Return the payloads for the JSON of some records."""
        with self._compressing:
            if all(len(one) <= SMALL for one in texts):  # nearly always
                return _compress_all(self._small, list(texts))
            return [
                (self._small if len(one) <= SMALL else self._large).compress(one) for one in texts
            ]

    def decompress(self, payload: bytes) -> bytes:
        """Return a payload's JSON. Raise `StoreDamaged` if it can't be read."""
        try:
            frame = zstandard.get_frame_parameters(payload)
            reader = self._readers.get(frame.dict_id)
            if reader is None:
                raise StoreDamaged(f"the dictionary {frame.dict_id} is not known")
            # A frame declares its content's size, and zstd allocates that much at once: a damaged or hostile
            # frame must not exhaust the memory.
            if frame.content_size > _MAX_BYTES:
                raise StoreDamaged("a payload can't be read: it says that it is too large")
            return reader.decompress(payload)
        except (zstandard.ZstdError, TypeError) as exc:
            raise StoreDamaged(f"a payload can't be read: {exc}") from None

    def decode(self, payload: bytes, *, reveal: bool = False) -> CallRecord:
        """Return the record of a call's payload. Raise `StoreDamaged` if that can't be read.

        With `reveal`, paths are as they were for this user: see `origin`.
        """
        return record_of(self._object(payload, reveal))

    def readable(self, payload: bytes) -> CallRecord | None:
        """Return the record of a call's payload, or None if it can't be read."""
        try:
            return self.decode(payload)
        except StoreDamaged:
            return None

    def decode_blocks(self, payload: bytes) -> list[JsonObject]:
        """Return the blocks of a message's payload; none if that can't be read."""
        try:
            blocks = self._object(payload, reveal=True).get("blocks")
        except StoreDamaged:
            return []
        return cast("list[JsonObject]", blocks) if isinstance(blocks, list) else []

    def _object(self, payload: bytes, reveal: bool) -> JsonObject:
        try:
            data = self.decompress(payload)
            body = _decode_json(revealed(data.decode()) if reveal and is_hiding() else data)
        except (ValueError, RecursionError) as exc:  # no JSON, or no UTF-8
            raise StoreDamaged(f"a payload can't be read: {exc}") from None
        if not isinstance(body, dict):
            raise StoreDamaged("a payload is no object")
        return cast("JsonObject", body)


def _compress_all(compressor: zstandard.ZstdCompressor, texts: list[bytes]) -> list[bytes]:
    """Compress many texts without taking the interpreter's lock for each of them."""
    in_bulk: Any = getattr(compressor, "multi_compress_to_buffer", None)
    if in_bulk is None or len(texts) < BULK_FROM:
        return [compressor.compress(text) for text in texts]
    return [
        one.tobytes()
        for begin in range(0, len(texts), BULK_MOST)
        for one in in_bulk(texts[begin : begin + BULK_MOST])
    ]


# Records as JSON


def blocks_as_json(blocks: Sequence[JsonObject]) -> bytes:
    """Return the blocks of a message as the plain JSON of its payload."""
    return _encode_json({"blocks": blocks})


def as_json_bytes(record: CallRecord) -> bytes:
    """Return a record as the plain JSON of its payload."""
    report, odd = record.report, EMPTY
    if (
        report.extra
        or not _PROTOCOL_META.isdisjoint(report.meta)
        or any(map(_is_odd, report.content))
    ):
        report, odd = _take_out_odd(report)
    body: JsonObject = {"call": v1.announce(report)}
    if record.terminals:
        body["terminals"] = [_encode_terminal(terminal) for terminal in record.terminals]
    if odd:
        body["odd"] = odd
    return _encode_json(body)


def record_of(body: JsonObject) -> CallRecord:
    """Return the record that a payload's object stands for. Raise `StoreDamaged` if it is none."""
    try:
        (event,) = [e for e in v1.decode(body["call"]) if isinstance(e, CallOpened)]
        report = event.report
        if "odd" in body:
            report = _put_back_odd(report, body["odd"])
        terminals = tuple([_decode_terminal(one) for one in body.get("terminals", ())])
        return CallRecord(report, terminals)
    except (CallsheetError, LookupError, TypeError, ValueError, AttributeError) as exc:
        raise StoreDamaged(f"a payload is no call: {type(exc).__name__}: {exc}") from None


def _encode_terminal(terminal: TerminalRecord) -> JsonObject:
    encoded: JsonObject = {"id": terminal.terminal_id, "total": terminal.total}
    for name in ("command", "cwd", "newlines", "meta", "extra", "late"):
        value = getattr(terminal, name)
        if value or value == "":
            encoded[name] = value
    if terminal.exit_status is not None:
        encoded["exit"] = encode_exit(terminal.exit_status)
    encoded |= _encode_bytes("tail", terminal.tail)
    # The head of short output is the beginning of its tail, and isn't stored twice.
    if not terminal.tail.startswith(terminal.head):
        encoded |= _encode_bytes("head", terminal.head)
    elif terminal.head:
        encoded["headSize"] = len(terminal.head)
    return encoded


def _decode_terminal(encoded: JsonObject) -> TerminalRecord:
    tail = _decode_bytes("tail", encoded)
    size = encoded.get("headSize")
    ended = encoded.get("exit")
    return TerminalRecord(
        encoded["id"],
        encoded.get("command"),
        encoded.get("cwd"),
        None if ended is None else _decode_exit(ended),
        encoded["total"],
        encoded.get("newlines", 0),
        tail[:size] if size is not None else _decode_bytes("head", encoded),
        tail,
        encoded.get("meta", EMPTY),
        encoded.get("extra", EMPTY),
        encoded.get("late", False),
    )


def _decode_exit(encoded: JsonObject) -> ExitStatus:
    extra = {key: value for key, value in encoded.items() if key not in ("exitCode", "signal")}
    code, signal = encoded.get("exitCode"), encoded.get("signal")
    return ExitStatus(exit_code=code, signal=signal, extra=extra or None)


def _encode_bytes(name: str, data: bytes) -> JsonObject:
    if not data:
        return {}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + "Base64": b64encode(data).decode()}


def _decode_bytes(name: str, encoded: JsonObject) -> bytes:
    text = encoded.get(name)
    return text.encode() if text is not None else b64decode(encoded.get(name + "Base64", ""))


# What ACP v1 can't express

_PROTOCOL_META = frozenset((INFO, OUTPUT, EXIT, MORE, TOOL_NAME))
_CONTENT_TYPES: dict[str, type[ToolCallContent]] = {
    one.__name__: one
    for one in vars(content_types).values()
    if isinstance(one, type) and issubclass(one, ToolCallContent)
}


def _take_out_odd(report: ToolCallReport) -> tuple[ToolCallReport, JsonObject]:
    """Return a report that v1 can express, and the rest of it."""
    odd: JsonObject = {}
    items = {
        str(place): [type(item).__name__, msgspec.to_builtins(item)]
        for place, item in enumerate(report.content)
        if _is_odd(item)
    }
    if items:
        odd["content"] = items
    for name, keys in (("extra", KEYS), ("meta", _PROTOCOL_META)):
        value: JsonObject = getattr(report, name)
        if value and not keys.isdisjoint(value):
            odd[name] = {key: one for key, one in value.items() if key in keys}
            rest = {key: one for key, one in value.items() if key not in keys}
            report = replace(report, **{name: rest})
    return report, odd


def _put_back_odd(report: ToolCallReport, odd: JsonObject) -> ToolCallReport:
    items: list[Any] = list(report.content)
    for place, (kind, encoded) in odd.get("content", {}).items():
        items[int(place)] = msgspec.convert(encoded, _CONTENT_TYPES[kind])
    return replace(
        report,
        content=tuple(items),
        meta={**report.meta, **odd.get("meta", {})},
        extra={**report.extra, **odd.get("extra", {})},
    )


def _is_odd(item: Any) -> bool:
    """Return whether v1 would lose something of an item."""
    if type(item) is TextContent and item.annotations is item.meta is item.extra is item.outer:
        return False  # nearly always: all are None
    if type(item) is UnknownContent:
        return False
    if item.meta and NOTES in item.meta:
        return True
    if item.extra or (type(item) is DiffContent and item.patch is not None):
        return True
    annotations: JsonObject = getattr(item, "annotations", None) or EMPTY
    outer: JsonObject | None = getattr(item, "outer", None)
    return bool(outer or annotations.get("audience"))
