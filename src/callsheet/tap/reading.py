"""Reads a line as a message, patiently: what most parsers refuse may still tell how a call goes.

Agents in JavaScript cut texts in the middle of a surrogate pair, and agents in Python write NaN. Numbers may
be too large for one that counts in 64 bits.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

import msgspec

from callsheet.observe.lines import fault_of, readings
from callsheet.observe.model import Json

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that is looked into. A longer one is not."""

_BOM = b"\xef\xbb\xbf"
_NO_NUMBERS = re.compile(rb"NaN|Infinity|\d[eE][+]?\d{3}").search
_decode = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


def read(line: bytes) -> Json | None:
    """Return the message that a line is; None if it can't be made out."""
    if len(line) > LONGEST:
        return None
    try:
        value: Any = _decode(line)
    except _UNREADABLE as exc:
        value = _mended(line.removeprefix(_BOM), exc)
    return cast("Json", value) if type(value) is dict else None


def _mended(data: bytes, exc: Exception) -> Any:
    fault, _ = fault_of(data, exc)
    for reading in [one for one, _, _ in readings(data, fault)] or [data]:
        for decode in (_decode, _patient):
            try:
                return decode(reading)
            except _UNREADABLE:
                continue
    return None


def _patient(data: bytes) -> Any:
    if not _NO_NUMBERS(data):
        raise ValueError
    return json.loads(data)
