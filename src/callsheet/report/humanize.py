"""Readable amounts: sizes, durations, and plurals. The one place that formats them."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """Return a size: `812 B`, `1.4 MB`. Units are decimal, as disks and networks count."""
    if count < 1000:
        return f"{count:.0f} B"
    unit = ""
    for unit in ("kB", "MB", "GB"):  # noqa: B007 - the last one is shown
        count /= 1000
        if count < 999.5:
            break
    return f"{count:.0f} {unit}" if count >= 9.95 else f"{count:.1f} {unit}"


def duration_text(milliseconds: float) -> str:
    """Return a duration: `320 ms`, `4.2 s`, `3 min 05 s`, `2 h 03 min`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def short_duration(milliseconds: float) -> str:
    """Return a duration in at most seven characters, for columns: `320 ms`, `4.2 s`, `3.1 min`."""
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    amount, unit = milliseconds / 1000, "s"
    for size, larger in ((60, "min"), (60, "h"), (24, "d")):
        if amount < 59.95:
            break
        amount, unit = amount / size, larger
    return f"{amount:.1f} {unit}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun: `1 call`, `2,000 calls`, `3 pieces of advice`.

    Args:
        count: How many there are.
        noun: The noun of one of them.
        nouns: Its plural, where that is not made by adding an `s`.
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"
