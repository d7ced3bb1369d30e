"""Messages of v2 for clients of v1, which can only be given more of a message, never another one.

A message of v2 may be told anew as a whole. So it is remembered how much of each was shown: not the text,
which may be long, but its length and its digest. If what is told now begins with that, only the rest is new.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from callsheet.report.json import JsonObject

MANY = 256
"""Messages of a session that are remembered."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class _Shown(Struct):
    """What was shown of a message."""

    key: str
    """The id that it has for the client."""
    size: int = 0
    digest: blake2b = field(default_factory=lambda: blake2b(digest_size=16))

    def add(self, block: JsonObject) -> None:
        data = _bytes(block)
        self.size += len(data)
        self.digest.update(data)

    def rest(self, blocks: list[JsonObject]) -> list[JsonObject] | None:
        """Return what is new in the whole message; None if it does not begin with what was shown."""
        digest, left, rest = blake2b(digest_size=16), self.size, list(blocks)
        while rest and left:
            data = _bytes(rest[0])
            digest.update(data[:left])
            if len(data) > left:
                break
            left -= len(data)
            del rest[0]
        if digest.digest() != self.digest.digest():
            return None
        if left and _is_plain(rest[0]):
            rest[0] = {"type": "text", "text": _text(_bytes(rest[0])[left:])}
        return rest


class Shown:
    """What a client of v1 was shown of the messages of one session."""

    def __init__(self) -> None:
        self._messages: dict[str, _Shown] = {}

    def grow(self, key: str, block: JsonObject) -> str:
        """Note a chunk of a message. Gives the id that the message has for the client."""
        shown = self._of(key)
        shown.add(block)
        return shown.key

    def rest(self, key: str, blocks: list[JsonObject]) -> tuple[str, list[JsonObject]] | None:
        """Note that a message is told as a whole. Gives its id and what is new; None if it is another now."""
        shown = self._of(key)
        rest = shown.rest(blocks)
        if rest is None:
            return None
        for block in rest:
            shown.add(block)
        return shown.key, rest

    def replace(self, key: str, new: str, blocks: list[JsonObject]) -> None:
        """Note that a message goes on under another id, with other words."""
        self._messages.pop(key, None)
        shown = self._of(key)
        shown.key = new
        for block in blocks:
            shown.add(block)

    def _of(self, key: str) -> _Shown:
        found = self._messages.get(key)
        if found is None:
            if len(self._messages) >= MANY:
                del self._messages[next(iter(self._messages))]
            found = self._messages[key] = _Shown(key)
        return found


def _is_plain(block: JsonObject) -> bool:
    return block.keys() == {"type", "text"} and isinstance(block["text"], str)


def _bytes(block: JsonObject) -> bytes:
    """Return a block as a part of one long string. Where text is cut into blocks does not matter."""
    if _is_plain(block):
        return block["text"].encode("utf-8", "surrogatepass")
    return b"\0" + _encode(block) + b"\0"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
