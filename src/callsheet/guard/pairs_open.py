"""Where a name can stand whose value goes on beyond the end of the data. Only streams ask."""

from __future__ import annotations

_BEFORE_VALUE = 256
_STOPS = tuple(bytes([byte]) for byte in b" \t\r\n\v\f\"'`<>;&|()\x1b\0")
_MARKS = tuple((b"\\" * n, bytes([quote])) for n in range(4) for quote in b"\"'`")


def windows(data: bytes, start: int) -> list[tuple[int, int]]:
    """Give the parts in which a name must stand for its value to go on to the end of the data.

    A value without quotes has no space in it, and one in quotes no second quote like its first, so few
    places are left where it can begin. No value goes on beyond its line.
    """
    line = max(start, data.rfind(b"\n") + 1)
    bare = max(line, *(data.rfind(stop, line) for stop in _STOPS))
    found = [(_name_from(data, bare, line), len(data))]
    for slashes, quote in _MARKS:
        place = _last_quote(data, slashes, quote, line)
        if line <= place < found[0][0]:
            found.append((_name_from(data, place, line), place + 1))
    return sorted(found)


def _name_from(data: bytes, place: int, line: int) -> int:
    """Go back over the gap before a value, and the longest name before that."""
    gap = len(data[line:place].rstrip(b" \t\x1b[0123456789;m\\\"'`bBfFrRuU"))
    return line + max(0, gap - _BEFORE_VALUE)


def _last_quote(data: bytes, slashes: bytes, quote: bytes, line: int) -> int:
    """Find the last quote with just so many backslashes before it."""
    place = data.rfind(slashes + quote, line)
    while place > line and data[place - 1] == 0x5C:
        place = data.rfind(slashes + quote, line, place)
    return place + len(slashes) if place >= 0 else place
