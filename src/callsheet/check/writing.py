"""The lines of a recording, as they are written; `lines.py` reads them.

A line is `{"t": seconds, "dir": "agent->client", "msg": …}` with the message as it came, byte for byte. One
that is no JSON has `raw` instead, or `base64` if it is no text. `size` says how long a line was that is cut,
and `lost` how many bytes are missing.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Literal, TypeAlias

import msgspec

Way: TypeAlias = Literal["client->agent", "agent->client"]

_BEGINNING = 1000
"""Bytes that are kept of a line that is too long to be kept."""

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.encode


def wrapped(
    when: float | None, way: Way, data: bytes, size: int | None = None
) -> tuple[bytes, ...]:
    """Return the parts of a line that says when, if that is known, and which way a message went.

    There are none for an empty one. `data` is without its end; if it was cut, `size` is more than
    there is of it.
    """
    size = len(data) if size is None else size
    if data.endswith(b"\r"):
        data, size = data[:-1], size - 1
    if not data or data.isspace():
        return ()
    head = _head(when, way)
    if size > len(data):
        return (head, b'"size": %d, ' % size, *_quoted(data[:_BEGINNING]))
    if is_json(data):
        return (head, b'"msg": ', data, b"}\n")
    return (head, *_quoted(data))


def lost(when: float, way: Way, count: int) -> bytes:
    """Return a line that says how many bytes are missing here."""
    return _head(when, way) + b'"lost": %d}\n' % count


def is_json(data: bytes) -> bool:
    """Whether this is one JSON value, in UTF-8."""
    try:
        _skip(data)
        return data.isascii() or bool(data.decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _head(when: float | None, way: Way) -> bytes:
    if when is None:
        return b'{"dir": "%s", ' % way.encode()
    return b'{"t": %.6f, "dir": "%s", ' % (when, way.encode())


def _quoted(data: bytes) -> tuple[bytes, bytes, bytes]:
    try:
        return (b'"raw": ', _encode(data.decode()), b"}\n")
    except UnicodeDecodeError:
        return (b'"base64": "', b64encode(data), b'"}\n')
