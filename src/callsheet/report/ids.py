"""Ids of calls: how ours are made, and which ones from outside are fit to use.

Ours are `call_` and a ULID: 48 bits of milliseconds, then 80 bits that start at random in each
millisecond and count up within it. So they sort by the time they were made, and one factory never
gives the same id twice, whatever the clock does.

A factory is given its clock and its randomness; the one for the whole process is made in
`callsheet.runtime`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock

from .errors import InvalidId
from .values import check_text

PREFIX = "call_"
MAX_ID_CHARS = 256

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]  # ten bits at a time
_OURS = re.compile(rf"{PREFIX}[0-7][{_DIGITS}]{{25}}")
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# The 80 random bits are a head that is drawn anew in each millisecond and a tail that counts up.
# The tail starts in the lower half of its range, so half a million ids fit into the worst
# millisecond. What doesn't fit borrows from the next one.
_HEAD_BITS = 60
_TAIL_BITS = 20
_TAIL_END = 1 << _TAIL_BITS
_TIME_END = 1 << 48


class IdFactory:
    """Makes ids that strictly increase, from any number of threads.

    `now_ns` gives nanoseconds since 1970; `random_bits(n)` gives n random bits.
    """

    def __init__(self, now_ns: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._now_ns: Callable[[], int] = now_ns
        self._random_bits: Callable[[int], int] = random_bits
        self._lock: Lock = Lock()
        self._ms: int = -1
        self._head: str = ""
        self._tail: int = 0

    def __call__(self) -> str:
        """Make the next id."""
        lock = self._lock
        lock.acquire()  # `with` takes twice as long
        try:
            now = self._now_ns() // 1_000_000
            if now > self._ms:
                self._begin(now)
            elif self._tail == _TAIL_END:
                self._begin(self._ms + 1)
            tail = self._tail
            self._tail = tail + 1
            return self._head + _PAIRS[tail >> 10] + _PAIRS[tail & 1023]
        finally:
            lock.release()

    def _begin(self, ms: int) -> None:
        """Start the millisecond `ms`: fix the head of its ids and draw the first tail."""
        if not 0 <= ms < _TIME_END:
            raise InvalidId(f"the clock says {ms} ms since 1970; a ULID holds 0 to {_TIME_END - 1}")
        self._ms = ms
        self._head = PREFIX + _base32(ms, 10) + _base32(self._random_bits(_HEAD_BITS), 12)
        self._tail = self._random_bits(_TAIL_BITS - 1)

    def reseed(self) -> None:
        """Start afresh, as a forked child must: it inherits its parent's head and tail."""
        self._lock = Lock()
        self._ms = -1


def is_ours(tool_call_id: str) -> bool:
    """Whether the id has the format that `IdFactory` gives."""
    return _OURS.fullmatch(tool_call_id) is not None


def check_id(value: object, what: str = "tool call id") -> str:
    """Return an id from outside back if it is fit to use, else raise `InvalidId`."""
    text = check_text(value, what, InvalidId)
    if not text or len(text) > MAX_ID_CHARS:
        raise InvalidId(f"{what}: has {len(text)} characters; an id has 1 to {MAX_ID_CHARS}")
    if not text.isprintable() and _UNFIT.search(text):
        raise InvalidId(f"{what}: {text!r} has control characters")
    return text


def _base32(number: int, digits: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(digits)))
