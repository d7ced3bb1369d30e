"""Payloads: a record as bytes, compressed, and back.

A payload is a zstd frame around JSON: `{"call": {…}, "terminals": […]}`, where the call is a `tool_call` of
ACP v1 (which can say nearly everything that a report can; for the rest, see `odd`). Small frames are made
with a trained dictionary; a frame names the one that it needs by its id, and every store keeps those that it
was written with. Large texts are taken out, and stand in blobs that are named by their hash: what is shown a
hundred times is kept once.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
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
from callsheet.acp.terminals import encode_exit
from callsheet.report.errors import CallsheetError
from callsheet.report.events import CallOpened, ExitStatus
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.terminal import CallRecord, TerminalRecord

from . import odd
from .errors import StoreDamaged
from .rows import BlobRow

LARGE = 8192
"""Characters from which a text is kept in a blob."""

SMALL = 1 << 15
"""Bytes up to which a payload is compressed with a dictionary."""

SAMPLES = 4000
"""Payloads that a dictionary is learned from."""

BETTER = 0.95
"""A dictionary is taken if payloads become that much smaller by it."""

LEVEL = 1
"""Of zstd. More of it makes payloads a twentieth smaller, and takes a third longer."""

FEW, MANY = 8, 256
"""How many payloads are compressed at once, at least and at most."""

_MOST = 1 << 30
_MARK = "\0"
_BLOB = _MARK + "blob:"
_TEXT = _MARK + "text:"
_NAMED = re.compile(rb"\\u0000blob:([0-9a-f]{32})")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@lru_cache(maxsize=1)
def shipped_dictionary() -> bytes:
    """Return the dictionary that every store begins with."""
    return files("callsheet.history").joinpath("dictionary.zstd").read_bytes()


class Payload(Protocol):
    """Something with a payload: what was packed, or a row."""

    payload: bytes


class Packed(msgspec.Struct):
    """What was made of a record."""

    payload: bytes
    size: int
    blobs: list[BlobRow]


class Packer:
    """Packs and unpacks. It belongs to one thread."""

    def __init__(self) -> None:
        self._dictionaries: dict[int, zstandard.ZstdDecompressor] = {}
        self._data: dict[int, bytes] = {}
        self._plain: zstandard.ZstdCompressor = zstandard.ZstdCompressor(level=LEVEL)
        self._small: zstandard.ZstdCompressor = self._plain
        self._open: zstandard.ZstdDecompressor = zstandard.ZstdDecompressor()
        self.dictionary: int = 0
        self.use(shipped_dictionary())

    def use(self, dictionary: bytes) -> int:
        """Compress with this dictionary from now on. Gives its id."""
        key = self.know(dictionary)
        data = zstandard.ZstdCompressionDict(dictionary)
        data.precompute_compress(level=LEVEL)  # pyright: ignore[reportUnknownMemberType]
        self._small = zstandard.ZstdCompressor(dict_data=data)
        self.dictionary = key
        return key

    def know(self, dictionary: bytes) -> int:
        """Be able to read what was compressed with this dictionary. Gives its id."""
        data = zstandard.ZstdCompressionDict(dictionary)
        key = data.dict_id()
        if key not in self._dictionaries:
            self._dictionaries[key] = zstandard.ZstdDecompressor(dict_data=data)
            self._data[key] = dictionary
        return key

    def knows(self, payload: bytes) -> bool:
        """Whether the dictionary that a payload needs is known."""
        try:
            key = zstandard.get_frame_parameters(payload).dict_id
        except (zstandard.ZstdError, TypeError):
            return True  # no dictionary helps
        return not key or key in self._dictionaries

    # Records

    @property
    def known(self) -> list[bytes]:
        """The dictionaries that payloads may have been made with, the one in use last."""
        return [self._data[key] for key in self._data if key != self.dictionary] + [
            self._data[self.dictionary]
        ]

    def pack(self, record: CallRecord) -> Packed:
        """Return a call as bytes."""
        return self.squeeze(_body(record))

    def fold_call(self, record: CallRecord) -> Packed:
        """Return a call as bytes that are still to be pressed."""
        return self.fold(_body(record))

    def unpack(self, payload: bytes, blob: Callable[[bytes], bytes | None]) -> CallRecord:
        """Return a call that was packed; `blob` finds the blobs by their hashes."""
        return record_of(self.expand(payload, blob))

    # Any JSON

    def squeeze(self, body: JsonObject) -> Packed:
        """Return an object as bytes, and its large texts as blobs."""
        packed = self.fold(body)
        self.press([packed], packed.blobs)
        return packed

    def fold(self, body: JsonObject) -> Packed:
        """Do the same, but compress nothing yet: that is better done with many at once."""
        data = _encode(body)
        size, blobs = len(data), list[BlobRow]()
        if size >= LARGE or b"\\u0000" in data:
            texts: dict[bytes, bytes] = {}
            rest = _take_out(body, texts)
            if rest is not body:
                data = _encode(rest)
            blobs = [BlobRow(key, len(text), text) for key, text in texts.items()]
        return Packed(data, size, blobs)

    def press(self, rows: Sequence[Payload], blobs: Sequence[BlobRow]) -> None:
        """Compress what was folded."""
        small = [row for row in rows if len(row.payload) <= SMALL]
        others = [row for row in rows if len(row.payload) > SMALL]
        for compressor, some in ((self._small, small), (self._plain, others)):
            for row, data in zip(
                some, _pressed(compressor, [r.payload for r in some]), strict=True
            ):
                row.payload = data
        for blob, data in zip(blobs, _pressed(self._plain, [b.data for b in blobs]), strict=True):
            blob.data = data

    def expand(self, payload: bytes, blob: Callable[[bytes], bytes | None]) -> JsonObject:
        """Return an object that was made small."""
        data = self._inflate(payload)

        def find(key: bytes) -> str:
            found = blob(key)
            if found is None:
                raise StoreDamaged(f"the text {key.hex()} is not in the store any more")
            return self._inflate(found).decode()

        try:
            body = _decode(data)
            body = body if b"\\u0000" not in data else _put_back(body, find)
        except (ValueError, RecursionError) as exc:  # no JSON, no UTF-8, no hash
            raise StoreDamaged(f"a payload can't be read: {exc}") from None
        if not isinstance(body, dict):
            raise StoreDamaged("a payload is no object")
        return cast("JsonObject", body)

    def plain(self, payload: bytes) -> bytes:
        """Return a payload's JSON, with the names of its blobs."""
        return self._inflate(payload)

    def blobs_of(self, payload: bytes) -> list[bytes]:
        """Return the hashes of the blobs that a payload may name, for those who can't look for one by one."""
        return [bytes.fromhex(name.decode()) for name in _NAMED.findall(self._inflate(payload))]

    def learn(self, samples: Sequence[bytes], better: float) -> bytes | None:
        """Make a dictionary out of payloads' JSON, if others of them become so much smaller by it."""
        learned = train(samples[::2])
        if learned is None:
            return None
        judged = samples[1::2]
        data = zstandard.ZstdCompressionDict(learned)
        trial = zstandard.ZstdCompressor(dict_data=data, level=LEVEL)
        now = sum(len(self._small.compress(one)) for one in judged)
        then = sum(len(trial.compress(one)) for one in judged)
        return learned if then < better * now else None

    def _inflate(self, data: bytes) -> bytes:
        try:
            frame = zstandard.get_frame_parameters(data)
            key = frame.dict_id
            reader = self._dictionaries.get(key) if key else self._open
            if reader is None:
                raise StoreDamaged(f"the dictionary {key} is not in the store")
            if (
                frame.content_size > _MOST
            ):  # as much would be set aside for it; unknown is the largest
                raise StoreDamaged("a payload can't be read: it says that it is too large")
            return reader.decompress(data)
        except (zstandard.ZstdError, TypeError) as exc:
            raise StoreDamaged(f"a payload can't be read: {exc}") from None


def _pressed(compressor: zstandard.ZstdCompressor, texts: list[bytes]) -> list[bytes]:
    """Compress many: all of them without the interpreter's lock, which isn't fought for again and again."""
    together: Any = getattr(compressor, "multi_compress_to_buffer", None)
    if together is None or len(texts) < FEW:
        return [compressor.compress(text) for text in texts]
    return [
        one.tobytes()
        for begin in range(0, len(texts), MANY)
        for one in together(texts[begin : begin + MANY])
    ]


def as_json_bytes(record: CallRecord) -> bytes:
    """Return a call as the JSON that is packed."""
    return _encode(_body(record))


def record_of(body: JsonObject) -> CallRecord:
    """Return the call that was told as JSON."""
    try:
        (event,) = [e for e in v1.decode(body["call"]) if isinstance(e, CallOpened)]
        report = event.report
        if "odd" in body:
            report = odd.put_back(report, body["odd"])
        return CallRecord(report, tuple([_kept(one) for one in body.get("terminals", ())]))
    except (CallsheetError, LookupError, TypeError, ValueError, AttributeError) as exc:
        raise StoreDamaged(f"a payload is no call: {type(exc).__name__}: {exc}") from None


def _body(record: CallRecord) -> JsonObject:
    report, rest = odd.take_out(record.report)
    body: JsonObject = {"call": v1.announce(report)}
    if record.terminals:
        body["terminals"] = [_told(terminal) for terminal in record.terminals]
    if rest:
        body["odd"] = rest
    return body


def _take_out(value: Any, texts: dict[bytes, bytes]) -> Any:
    """Return a value with its large texts replaced by their names; the value itself, if it has none."""
    if isinstance(value, str):
        if len(value) >= LARGE:
            data = value.encode()
            key = sha256(data).digest()[:16]
            texts[key] = data
            return _BLOB + key.hex()
        return _TEXT + value if value.startswith(_MARK) else value
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {**pairs, **rest} if (rest := _changed(pairs, texts)) else pairs
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        rest = [_take_out(one, texts) for one in items]
        return rest if any(map(is_not, rest, items)) else items
    if isinstance(value, Struct):  # a message of the wire, as it is made
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return replace(value, **rest) if (rest := _changed(fields, texts)) else value
    return value


def _changed(fields: dict[str, Any], texts: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the fields that have large texts, without them."""
    changed: dict[str, Any] = {}
    for name, value in fields.items():
        if not isinstance(value, str) or len(value) >= LARGE or value.startswith(_MARK):
            rest = _take_out(value, texts)
            if rest is not value:
                changed[name] = rest
    return changed


def _put_back(value: Any, find: Callable[[bytes], str]) -> Any:
    if type(value) is str:
        if value.startswith(_BLOB):
            return find(bytes.fromhex(value[len(_BLOB) :]))
        return value[len(_TEXT) :] if value.startswith(_TEXT) else value
    if type(value) is dict:
        pairs = cast("dict[str, Any]", value)
        return {key: _put_back(one, find) for key, one in pairs.items()}
    if type(value) is list:
        return [_put_back(one, find) for one in cast("list[Any]", value)]
    return value


def _told(terminal: TerminalRecord) -> JsonObject:
    told: JsonObject = {"id": terminal.terminal_id, "total": terminal.total}
    for name in ("command", "cwd", "newlines", "meta", "extra", "late"):
        value = getattr(terminal, name)
        if value or value == "":
            told[name] = value
    if terminal.exit_status is not None:
        told["exit"] = encode_exit(terminal.exit_status)
    told |= _bytes_told("tail", terminal.tail)
    if not terminal.tail.startswith(terminal.head):
        told |= _bytes_told("head", terminal.head)
    elif terminal.head:
        told["headSize"] = len(terminal.head)
    return told


def _kept(told: JsonObject) -> TerminalRecord:
    tail = _bytes_kept("tail", told)
    size = told.get("headSize")
    ended = told.get("exit")
    return TerminalRecord(
        told["id"],
        told.get("command"),
        told.get("cwd"),
        None if ended is None else _exit(ended),
        told["total"],
        told.get("newlines", 0),
        tail[:size] if size is not None else _bytes_kept("head", told),
        tail,
        told.get("meta", EMPTY),
        told.get("extra", EMPTY),
        told.get("late", False),
    )


def _exit(told: JsonObject) -> ExitStatus:
    rest = {key: value for key, value in told.items() if key not in ("exitCode", "signal")}
    return ExitStatus(exit_code=told.get("exitCode"), signal=told.get("signal"), extra=rest or None)


def _bytes_told(name: str, data: bytes) -> JsonObject:
    if not data:
        return {}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + "Base64": b64encode(data).decode()}


def _bytes_kept(name: str, told: JsonObject) -> bytes:
    text = told.get(name)
    return text.encode() if text is not None else b64decode(told.get(name + "Base64", ""))


def train(samples: Iterable[bytes], size: int = 1 << 14) -> bytes | None:
    """Make a dictionary out of payloads as JSON; None if there are too few to learn from."""
    given: list[Any] = list(samples)
    try:
        return zstandard.train_dictionary(size, given).as_bytes()
    except (zstandard.ZstdError, MemoryError):
        return None
