"""Parse ages, sizes and times as users type them, and format times for users and for machines.

Users type `90d`, `2GB`, `2026-11-01`, or `2h` for two hours ago. Sizes and durations are formatted by
`callsheet.report.humanize`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SECONDS = {
    "s": 1, "sec": 1, "second": 1,
    "m": _MINUTE, "min": _MINUTE, "minute": _MINUTE,
    "h": _HOUR, "hour": _HOUR,
    "d": _DAY, "day": _DAY,
    "w": 7 * _DAY, "week": 7 * _DAY,
}  # fmt: skip
_BYTES = {
    "": 1, "b": 1,
    "k": 1000, "kb": 1000, "kib": 1 << 10,
    "m": 1000**2, "mb": 1000**2, "mib": 1 << 20,
    "g": 1000**3, "gb": 1000**3, "gib": 1 << 30,
    "t": 1000**4, "tb": 1000**4, "tib": 1 << 40,
}  # fmt: skip
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

AGES = "expected a number and a unit: 45s, 30min, 2h, 90d or 4w"
SIZES = "expected a number of bytes, or one with a unit: 500MB, 2GB or 1GiB"
MOMENTS = (
    "expected an age (30min, 2h, 3d), a day (2026-11-01), a time (2026-11-01T12:00:00Z), "
    "today or yesterday"
)


class BadAmount(ValueError):
    """A value can't be parsed. The message describes the expected form."""


# Reading


def parse_age(text: str) -> float:
    """Return an age in seconds. Raise `BadAmount` if it can't be parsed."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None:
        raise BadAmount(f"{text!r}: {AGES}")
    unit = found[2] if found[2] in _SECONDS else found[2].removesuffix("s")
    if unit not in _SECONDS:
        raise BadAmount(f"{text!r}: {AGES}")
    return _finite(float(found[1]) * _SECONDS[unit], text, AGES)


def parse_size(text: str) -> int:
    """Return a size in bytes. Raise `BadAmount` if it can't be parsed."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None or found[2] not in _BYTES:
        raise BadAmount(f"{text!r}: {SIZES}")
    return int(_finite(float(found[1]) * _BYTES[found[2]], text, SIZES))


def parse_moment(text: str, now: float) -> float:
    """Return a time in seconds since 1970; without a zone, it is local. Raise `BadAmount` if it is none."""
    word = text.strip()
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if word.lower() in ("today", "yesterday"):
            return (today - timedelta(days=word.lower() == "yesterday")).timestamp()
        if _DATE.match(word):
            return datetime.fromisoformat(word).timestamp()
        return now - parse_age(word)
    except (ValueError, OverflowError, OSError):
        raise BadAmount(f"{text!r}: {MOMENTS}") from None


def _finite(number: float, text: str, expected: str) -> float:
    if not math.isfinite(number) or number > 1e18:
        raise BadAmount(f"{text!r} is too much; {expected}")
    return number


# Writing


def ago(at: float, now: float) -> str:
    """Return how long ago a moment was; of one that is long past, the date."""
    age = now - at
    if -_MINUTE < age < 5:
        return "just now"
    for limit, size, unit in (
        (_MINUTE, 1, "s"), (_HOUR, _MINUTE, "min"), (_DAY, _HOUR, "h"), (30 * _DAY, _DAY, "d"),
    ):  # fmt: skip
        if 0 <= age < limit:
            return f"{age // size:.0f} {unit} ago"
    return f"{datetime.fromtimestamp(at):%Y-%m-%d}"


def local_time(at: float) -> str:
    """Return a moment as a local date and time."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def utc_time(at: float) -> str:
    """Return a moment for machines: RFC 3339, in UTC."""
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")
