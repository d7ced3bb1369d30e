"""Where a name can stand whose value goes on beyond the end of the data. Only streams ask."""

from __future__ import annotations

_BEFORE_VALUE = 256
_MANY = 64
_NO_STOPS = bytes(set(range(256)) - set(b" \t\r\n\v\f\"'`<>;&|()\x1b\0"))
_QUOTES = tuple(bytes([quote]) for quote in b"\"'`")
_SLASHES = tuple(b"\\" * count for count in range(4))


def windows(data: bytes, start: int) -> list[tuple[int, int]]:
    """Return the parts in which a name must stand for its value to go on to the end of the data.

    A value without quotes has no space in it, and one in quotes no second quote like its first, so few
    places are left where it can begin. No value goes on beyond its line.
    """
    line = max(start, data.rfind(b"\n") + 1)
    rest = data[line:]
    bare = line + max(0, len(rest.rstrip(_NO_STOPS)) - 1)
    found = [(_name_from(data, bare, start), len(data))]
    for quote in _QUOTES:
        for slashes in _SLASHES if quote in rest else ():
            place = _last_quote(data, slashes, quote, line)
            if line <= place < found[0][0]:
                found.append((_name_from(data, place, start), place + 1))
    return sorted(found)


def _name_from(data: bytes, place: int, line: int) -> int:
    """Go back over the gap before a value, and the longest name before that."""
    gap = len(data[line:place].rstrip(b" \t\x1b[0123456789;m\\\"'`bBfFrRuU"))
    return line + max(0, gap - _BEFORE_VALUE)


def _last_quote(data: bytes, slashes: bytes, quote: bytes, line: int) -> int:
    """Find the last quote with just so many backslashes before it; if there are very many others, any."""
    place = data.rfind(slashes + quote, line)
    for _ in range(_MANY):
        if place <= line or data[place - 1] != 0x5C:
            break
        place = data.rfind(slashes + quote, line, place)
    return place + len(slashes) if place >= 0 else place
