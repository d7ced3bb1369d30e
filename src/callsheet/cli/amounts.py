"""Ages, sizes and moments as people write them: `90d`, `2GB`, `2026-11-01`, `2h` for two hours ago."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

_SECONDS = {
    "s": 1, "sec": 1, "second": 1,
    "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hour": 3600,
    "d": 86400, "day": 86400,
    "w": 604800, "week": 604800,
}  # fmt: skip
_BYTES = {
    "": 1, "b": 1,
    "k": 1000, "kb": 1000, "kib": 1 << 10,
    "m": 1000**2, "mb": 1000**2, "mib": 1 << 20,
    "g": 1000**3, "gb": 1000**3, "gib": 1 << 30,
    "t": 1000**4, "tb": 1000**4, "tib": 1 << 40,
}  # fmt: skip
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

AGES = "expected a number and a unit: 45s, 30min, 2h, 90d or 4w"
SIZES = "expected a number of bytes, or one with a unit: 500MB, 2GB or 1GiB"
MOMENTS = (
    "expected an age (30min, 2h, 3d), a day (2026-11-01), a time (2026-11-01T12:00:00Z), "
    "today or yesterday"
)


class BadAmount(ValueError):
    """It is not written like that. The message says how."""


def age_of(text: str) -> float:
    """Return an age in seconds."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None:
        raise BadAmount(f"{text!r}: {AGES}")
    unit = found[2] if found[2] in _SECONDS else found[2].removesuffix("s")
    if unit not in _SECONDS:
        raise BadAmount(f"{text!r}: {AGES}")
    return _finite(float(found[1]) * _SECONDS[unit], text, AGES)


def size_of(text: str) -> int:
    """Return a size in bytes."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None or found[2] not in _BYTES:
        raise BadAmount(f"{text!r}: {SIZES}")
    return int(_finite(float(found[1]) * _BYTES[found[2]], text, SIZES))


def moment_of(text: str, now: float) -> float:
    """Return a moment in seconds since 1970. Without a zone, it is meant as clocks here show it."""
    word = text.strip()
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if word.lower() in ("today", "yesterday"):
            return (today - timedelta(days=word.lower() == "yesterday")).timestamp()
        if _DAY.match(word):
            return datetime.fromisoformat(word).timestamp()
        return now - age_of(word)
    except (ValueError, OverflowError, OSError):
        raise BadAmount(f"{text!r}: {MOMENTS}") from None


def _finite(number: float, text: str, expected: str) -> float:
    if not math.isfinite(number) or number > 1e18:
        raise BadAmount(f"{text!r} is too much; {expected}")
    return number
