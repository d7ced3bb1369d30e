"""Payloads: a call record as compressed bytes, and back.

A payload is a zstd frame around JSON: `{"call": {…}, "terminals": […], "odd": {…}}`.

- `call` is a `tool_call` of ACP v1, which can express nearly everything that a report can.
- `odd` holds what v1 can't express. Only reports of other agents have any of it, and reports whose `_meta`
  uses keys that belong to the protocol.
- Texts of `LARGE` characters or more are taken out of the JSON and stored as blobs, named by their hash. A
  text that a hundred calls show is stored once. In the JSON, a text that begins with NUL is a reference:
  `\\0blob:HASH` stands for a blob, `\\0text:…` for a text that itself begins with NUL.

Small payloads are compressed with the dictionary that ships with this package (`dictionary.zstd`, made by
`scripts/train_dictionary.py`): one call alone is too short for zstd to find repetitions in it. A frame names
the dictionary that it needs by its id, and every store holds the dictionaries that its frames need. So a
store stays readable when a later release ships another dictionary, and stores of 0.1.0, which trained
dictionaries of their own, are readable too.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from operator import is_not
from typing import Any, Protocol, cast

import msgspec
import zstandard
from msgspec import Struct
from msgspec.structs import replace

from callsheet.acp import v1
from callsheet.acp.codec import KEYS, TOOL_NAME
from callsheet.acp.terminals import EXIT, INFO, MORE, OUTPUT, encode_exit
from callsheet.history.rows import BlobRow
from callsheet.history.store_errors import StoreDamaged
from callsheet.report import content as content_types
from callsheet.report.content import DiffContent, TextContent, ToolCallContent, UnknownContent
from callsheet.report.errors import CallsheetError
from callsheet.report.events import CallOpened, ExitStatus
from callsheet.report.fields import NOTES
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord, TerminalRecord

LARGE = 8192
"""Characters from which a text is stored as a blob."""

SMALL = 1 << 15
"""Bytes up to which a payload is compressed with the dictionary: larger ones don't gain by it."""

LEVEL = 1
"""The compression level of zstd. A higher one makes payloads 5 % smaller, and takes a third longer."""

BULK_FROM, BULK_MOST = 8, 256
"""How many payloads are compressed in one call of zstd, at least and at most."""

_MAX_BYTES = 1 << 30
_MARK = "\0"
_BLOB = _MARK + "blob:"
_TEXT = _MARK + "text:"
_BLOB_NAMES = re.compile(rb"\\u0000blob:([0-9a-f]{32})")
_MARK_IN_JSON = b"\\u0000"

_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode

FindBlob = Callable[[bytes], bytes | None]
"""Returns the compressed data of a blob by its hash, or None if the store does not have it."""


@lru_cache(maxsize=1)
def shipped_dictionary() -> bytes:
    """Return the dictionary that payloads are compressed with."""
    return files("callsheet.history").joinpath("dictionary.zstd").read_bytes()


class HasPayload(Protocol):
    """Something with a payload: an `Encoded`, or a row."""

    payload: bytes


class Encoded(Struct):
    """What `Codec` makes of a record. `size` is the length of the whole as plain JSON."""

    payload: bytes
    size: int
    blobs: list[BlobRow]


class Codec:
    """Encode and decode payloads. A codec is not thread-safe: use one per thread."""

    def __init__(self) -> None:
        self._large: zstandard.ZstdCompressor = zstandard.ZstdCompressor(level=LEVEL)
        self._without_dictionary: zstandard.ZstdDecompressor = zstandard.ZstdDecompressor()
        self._by_dictionary: dict[int, zstandard.ZstdDecompressor] = {}
        self.dictionary_id: int = self.add_dictionary(shipped_dictionary())
        data = zstandard.ZstdCompressionDict(shipped_dictionary())
        data.precompute_compress(level=LEVEL)  # pyright: ignore[reportUnknownMemberType]
        self._small: zstandard.ZstdCompressor = zstandard.ZstdCompressor(dict_data=data)

    def add_dictionary(self, dictionary: bytes) -> int:
        """Make payloads readable that were compressed with this dictionary. Return its id."""
        data = zstandard.ZstdCompressionDict(dictionary)
        key = data.dict_id()
        self._by_dictionary.setdefault(key, zstandard.ZstdDecompressor(dict_data=data))
        return key

    # Encoding: first `prepare` each, then `compress` many at once

    def encode(self, record: CallRecord) -> Encoded:
        """Return a record as a compressed payload with its blobs."""
        encoded = self.prepare_call(record)
        self.compress([encoded], encoded.blobs)
        return encoded

    def prepare_call(self, record: CallRecord) -> Encoded:
        """Return a record as JSON and blobs that are still to be compressed."""
        return self.prepare(_body_of(record))

    def prepare(self, body: JsonObject) -> Encoded:
        """Return an object as JSON and blobs that are still to be compressed."""
        data = _encode_json(body)
        size, blobs = len(data), list[BlobRow]()
        if size >= LARGE or _MARK_IN_JSON in data:
            texts: dict[bytes, bytes] = {}
            rest = _take_out_texts(body, texts)
            if rest is not body:
                data = _encode_json(rest)
            blobs = [BlobRow(key, len(text), text) for key, text in texts.items()]
        return Encoded(data, size, blobs)

    def compress(self, rows: Sequence[HasPayload], blobs: Sequence[BlobRow]) -> None:
        """Compress, in place, what `prepare` has returned."""
        small = [row for row in rows if len(row.payload) <= SMALL]
        large = [row for row in rows if len(row.payload) > SMALL]
        for compressor, some in ((self._small, small), (self._large, large)):
            compressed = _compress_all(compressor, [row.payload for row in some])
            for row, data in zip(some, compressed, strict=True):
                row.payload = data
        compressed = _compress_all(self._large, [blob.data for blob in blobs])
        for blob, data in zip(blobs, compressed, strict=True):
            blob.data = data

    # Decoding

    def decode(self, payload: bytes, find_blob: FindBlob) -> CallRecord:
        """Return the record of a payload. Raise `StoreDamaged` if that can't be read."""
        return record_of(self.parse(self.decompress(payload), find_blob))

    def decompress(self, data: bytes) -> bytes:
        """Return a payload's JSON, with references to its blobs, or a blob's text."""
        try:
            frame = zstandard.get_frame_parameters(data)
            key = frame.dict_id
            reader = self._by_dictionary.get(key) if key else self._without_dictionary
            if reader is None:
                raise StoreDamaged(f"the dictionary {key} is not in the store")
            # A frame declares its content's size, and zstd allocates that much at once: a damaged or hostile
            # frame must not exhaust the memory.
            if frame.content_size > _MAX_BYTES:
                raise StoreDamaged("a payload can't be read: it says that it is too large")
            return reader.decompress(data)
        except (zstandard.ZstdError, TypeError) as exc:
            raise StoreDamaged(f"a payload can't be read: {exc}") from None

    def parse(self, data: bytes, find_blob: FindBlob) -> JsonObject:
        """Return the object that the JSON of a payload stands for, with its large texts."""

        def text_of(key: bytes) -> str:
            found = find_blob(key)
            if found is None:
                raise StoreDamaged(f"the text {key.hex()} is not in the store any more")
            return self.decompress(found).decode()

        try:
            body = _decode_json(data)
            body = body if _MARK_IN_JSON not in data else _put_back_texts(body, text_of)
        except (ValueError, RecursionError) as exc:  # no JSON, no UTF-8, no hash
            raise StoreDamaged(f"a payload can't be read: {exc}") from None
        if not isinstance(body, dict):
            raise StoreDamaged("a payload is no object")
        return cast("JsonObject", body)


def blob_names(data: bytes) -> list[bytes]:
    """Return the hashes of the blobs that the JSON of a payload may refer to."""
    return [bytes.fromhex(name.decode()) for name in _BLOB_NAMES.findall(data)]


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


# Large texts


def _take_out_texts(value: Any, texts: dict[bytes, bytes]) -> Any:
    """Return a value with references for its large texts; the value itself if it has none."""
    if isinstance(value, str):
        if len(value) >= LARGE:
            data = value.encode()
            key = sha256(data).digest()[:16]
            texts[key] = data
            return _BLOB + key.hex()
        return _TEXT + value if value.startswith(_MARK) else value
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {**pairs, **rest} if (rest := _changed_fields(pairs, texts)) else pairs
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        rest = [_take_out_texts(one, texts) for one in items]
        return rest if any(map(is_not, rest, items)) else items
    if isinstance(value, Struct):  # an ACP message that is not encoded yet
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return replace(value, **rest) if (rest := _changed_fields(fields, texts)) else value
    return value


def _changed_fields(fields: dict[str, Any], texts: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the fields that have large texts, with references for these."""
    changed: dict[str, Any] = {}
    for name, value in fields.items():
        if not isinstance(value, str) or len(value) >= LARGE or value.startswith(_MARK):
            rest = _take_out_texts(value, texts)
            if rest is not value:
                changed[name] = rest
    return changed


def _put_back_texts(value: Any, text_of: Callable[[bytes], str]) -> Any:
    if type(value) is str:
        if value.startswith(_BLOB):
            return text_of(bytes.fromhex(value[len(_BLOB) :]))
        return value[len(_TEXT) :] if value.startswith(_TEXT) else value
    if type(value) is dict:
        pairs = cast("dict[str, Any]", value)
        return {key: _put_back_texts(one, text_of) for key, one in pairs.items()}
    if type(value) is list:
        return [_put_back_texts(one, text_of) for one in cast("list[Any]", value)]
    return value


# Records as JSON


def as_json_bytes(record: CallRecord) -> bytes:
    """Return a record as the plain JSON of its payload."""
    return _encode_json(_body_of(record))


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


def _body_of(record: CallRecord) -> JsonObject:
    report, odd = _take_out_odd(record.report)
    body: JsonObject = {"call": v1.announce(report)}
    if record.terminals:
        body["terminals"] = [_encode_terminal(terminal) for terminal in record.terminals]
    if odd:
        body["odd"] = odd
    return body


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
    """Return a report that v1 can express, and the rest of it: nearly always, nothing."""
    odd: JsonObject = {}
    items = {
        str(place): [type(item).__name__, msgspec.to_builtins(item)]
        for place, item in enumerate(report.content)
        if type(item) is not UnknownContent and _is_odd(item)
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
    if item.meta and NOTES in item.meta:
        return True
    if item.extra or (type(item) is DiffContent and item.patch is not None):
        return True
    annotations: JsonObject = getattr(item, "annotations", None) or EMPTY
    outer: JsonObject | None = getattr(item, "outer", None)
    return bool(outer or annotations.get("audience"))
