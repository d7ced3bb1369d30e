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
    """Return a duration: `320 ms`, `4.2 s`, `3 min 05 s`, `2 h 03 min`, `1 d 04 h`."""
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24:02} h"


def money_text(amount: float, currency: str) -> str:
    """Return an amount of money: `$2.00`, `$0.0032`, `1,204.50 EUR`."""
    places = 2 if amount >= 0.995 or round(amount, 4) == round(amount, 2) else 4
    number = f"{amount:.1e}" if 0 < amount < 0.00005 else f"{amount:,.{places}f}"
    return f"${number}" if currency == "USD" else f"{number} {currency}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun: `1 call`, `2,000 calls`, `3 pieces of advice`.

    Args:
        count: How many there are.
        noun: The noun of one of them.
        nouns: Its plural, where that is not made by adding an `s`.
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"
