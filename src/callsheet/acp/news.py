"""What is new in a text, beside one that was there before.

Output is told again in three ways: grown, changed at one place (a header that counts seconds), or
moved on (the beginning is dropped, the end goes on). Each is seen by a few comparisons and searches:
the cost is linear, whatever the texts are. What is told in no such way counts as new.
"""

from __future__ import annotations

ANCHOR = 64
"""Characters that tell where something was moved to."""


def changed(old: str, new: str) -> tuple[str, str]:
    """Return both without what they share at the beginning, and then at the end."""
    begin = _same_begin(old, new)
    old, new = old[begin:], new[begin:]
    end = _same_end(old, new)
    return old[: len(old) - end], new[: len(new) - end]


def count_moved(old: str, new: str) -> int:
    """Count the characters of `new` that were moved there: a run that both have, found by a few places."""
    best = 0
    if min(len(old), len(new)) <= ANCHOR:
        return best
    for at in (len(old) - ANCHOR, len(old) // 2, len(old) // 4):
        anchor = old[at : at + ANCHOR]
        for place in {new.find(anchor), new.rfind(anchor)} - {-1}:
            run = _same_end(old[:at], new[:place]) + _same_begin(old[at:], new[place:])
            best = max(best, run)
    return best


def _same_begin(one: str, other: str) -> int:
    """Count the characters at the beginning that are the same, by halves."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _same_end(one: str, other: str) -> int:
    """Count the characters at the end that are the same, by halves."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        here = one[len(one) - middle : len(one) - same]
        if here == other[len(other) - middle : len(other) - same]:
            same = middle
        else:
            most = middle - 1
    return same
