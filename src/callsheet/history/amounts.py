"""Parse ages, sizes and times as users type them, and format times for users and for machines.

Users type `90d`, `2GB`, `2026-11-01`, or `2h` for two hours ago. Sizes and durations are formatted by
`callsheet.report.humanize`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from callsheet.report.patterns import lazy

_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE = lazy(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w)", re.ASCII | re.IGNORECASE)
_SIZE = lazy(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.ASCII | re.IGNORECASE)
_DATE = lazy(r"\d{4}-\d{2}-\d{2}", re.ASCII)

LARGEST = 1e18
"""An amount beyond which there is no sense in one."""

AGES = "expected a number and a unit: 45s, 30min, 2h, 90d or 4w"
SIZES = "expected a number of bytes, or one with a unit: 500MB, 2GB or 1GiB"
MOMENTS = (
    "expected an age (30min, 2h, 3d), a day (2026-11-01), a time (2026-11-01T12:00:00Z), "
    "today or yesterday"
)


class BadAmount(ValueError):
    """A value can't be parsed. The message describes the expected form."""


def parse_age(text: str) -> float:
    """Return an age in seconds. Raise `BadAmount` if it can't be parsed."""
    found = _AGE.fullmatch(text.strip())
    age = float(found[1]) * _SECONDS[found[2].lower()] if found else LARGEST
    if age >= LARGEST:
        raise BadAmount(f"{text!r}: {AGES}")
    return age


def parse_size(text: str) -> int:
    """Return a size in bytes. Raise `BadAmount` if it can't be parsed."""
    found = _SIZE.fullmatch(text.strip())
    size = LARGEST
    if found is not None:
        power = " kmgt".index(found[2].lower() or " ")
        size = float(found[1]) * (1024 if found[3] else 1000) ** power
    if size >= LARGEST:
        raise BadAmount(f"{text!r}: {SIZES}")
    return int(size)


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


def ago(at: float, now: float) -> str:
    """Return how long ago a moment was; of one that is long past, the date."""
    age = now - at
    if -60 < age < 5:
        return "just now"
    for limit, size, unit in (
        (60, 1, "s"),
        (3600, 60, "min"),
        (86400, 3600, "h"),
        (30 * 86400, 86400, "d"),
    ):
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
