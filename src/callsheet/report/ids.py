"""Ids of calls: how ours are made, which ones from outside are fit to use, and what each leads to.

Ours are `call_` and a ULID: 48 bits of milliseconds, then 80 bits that start at random in each
millisecond and count up within it. So they sort by the time they were made, and one `IdFactory`
never returns the same id twice, whatever the clock does. A factory is passed its clock and its
randomness; the one for the whole process is made in `callsheet.runtime`.

`CallIndex` is the ledger's index. It leads from aliases to calls. It also knows which ids are used
up, because an editor that receives a used id again rewrites the card of an old call. For our own
ids that takes no memory: they increase, so everything between the first and the last is used. Ids
from outside are found among the calls while their call is known; afterwards, the latest
`MOST_USED` of them are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING

from callsheet.report.errors import InvalidId
from callsheet.report.json import check_text
from callsheet.report.patterns import lazy

if TYPE_CHECKING:
    from callsheet.report.report import ToolCallReport

PREFIX = "call_"
MAX_ID_CHARS = 256

MOST_USED = 1 << 15
"""Ids from outside that stay used up when their calls are forgotten: more than a session has calls."""

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]  # ten bits at a time
_OURS = lazy(rf"{PREFIX}[0-7][{_DIGITS}]{{25}}")
_UNFIT = lazy(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# The 80 random bits are a head that is drawn anew in each millisecond and a tail that counts up.
# The tail starts in the lower half of its range, so half a million ids fit into the worst
# millisecond. What doesn't fit borrows from the next one.
_HEAD_BITS = 60
_TAIL_BITS = 20
_TAIL_END = 1 << _TAIL_BITS
_TIME_END = 1 << 48


class IdFactory:
    """Makes ids that strictly increase, from any number of threads.

    `now_ns` returns nanoseconds since 1970; `random_bits(n)` returns n random bits.
    """

    def __init__(self, now_ns: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._now_ns: Callable[[], int] = now_ns
        self._random_bits: Callable[[int], int] = random_bits
        self.reseed()

    def reseed(self) -> None:
        """Start afresh, as a forked child must: it inherits its parent's head and tails."""
        self._lock: RLock = RLock()  # a signal's handler may make an id in the midst of making one
        # The millisecond, the head of its ids, and the tails that are left. Replaced as a whole, and
        # each tail is taken once, so that no lock is needed to make an id.
        self._current: tuple[int, str, count[int]] = (-1, "", count(_TAIL_END))

    def __call__(self) -> str:
        """Make the next id."""
        now = self._now_ns() // 1_000_000
        while True:
            ms, head, tails = self._current
            if now <= ms:
                tail = next(tails)
                if tail < _TAIL_END:
                    return head + _PAIRS[tail >> 10] + _PAIRS[tail & 1023]
                now = ms + 1
            self._begin(now)

    def _begin(self, ms: int) -> None:
        """Start the millisecond `ms`, unless another thread has: fix the head of its ids, draw a tail."""
        if not 0 <= ms < _TIME_END:
            raise InvalidId(f"the clock says {ms} ms since 1970; a ULID holds 0 to {_TIME_END - 1}")
        drawn = self._random_bits(_HEAD_BITS + _TAIL_BITS - 1)
        number, digits = ms << _HEAD_BITS | drawn >> _TAIL_BITS - 1, ""
        for _ in range(11):  # 110 bits are 22 digits, two at a time
            digits = _PAIRS[number & 1023] + digits
            number >>= 10
        begun = (ms, PREFIX + digits, count(drawn & (_TAIL_END // 2 - 1)))
        with self._lock:
            if ms > self._current[0]:
                self._current = begun


def is_ours(tool_call_id: str) -> bool:
    """Return whether the id has the format of those that `IdFactory` makes."""
    return _OURS.fullmatch(tool_call_id) is not None


def check_id(value: object, what: str = "tool call id") -> str:
    """Return an id from outside back if it is fit to use, else raise `InvalidId`."""
    text = check_text(value, what, InvalidId)
    if not text or len(text) > MAX_ID_CHARS:
        raise InvalidId(f"{what}: has {len(text)} characters; an id has 1 to {MAX_ID_CHARS}")
    if not text.isprintable() and _UNFIT.search(text):
        raise InvalidId(f"{what}: {text!r} has control characters")
    return text


class CallIndex:
    """What leads to which call of one session. `calls` are those that the session still knows."""

    def __init__(self, calls: Container[str]) -> None:
        self.aliases: dict[str, str] = {}
        self._first_own: str = ""
        self._last_own: str = ""
        self._calls: Container[str] = calls
        self._has_foreign: bool = False
        self._came_as: dict[str, str] = {}
        # Ids from outside whose calls have left, the oldest first.
        self._used: dict[str, None] = {}

    def is_used(self, tool_call_id: str) -> bool:
        """Return whether an id was ever used here."""
        return (
            tool_call_id in self._calls
            or tool_call_id in self.aliases
            or self._is_own(tool_call_id)
            or tool_call_id in self._used
        )

    def note_own(self, tool_call_id: str) -> str:
        """Note the latest of our own ids, and return it."""
        self._first_own = self._first_own or tool_call_id
        self._last_own = tool_call_id
        return tool_call_id

    def use_foreign(self) -> None:
        """Note that there are ids from outside. They are stored when their calls are forgotten."""
        self._has_foreign = True

    def rename(self, old: str, new: str) -> None:
        """Make a call that came under a used id findable under it, beside its new one."""
        self._came_as[new] = old
        self._name(old, new)

    def relink(self, before: ToolCallReport | None, call: ToolCallReport) -> None:
        """Make a call findable by its alias, and no longer by the one that it had before."""
        if before is not None:
            self._unlink(before)
        alias = call.notes.get("alias")
        if isinstance(alias, str) and alias != call.tool_call_id:
            self._name(alias, call.tool_call_id)

    def _unlink(self, call: ToolCallReport) -> None:
        alias = call.notes.get("alias")
        if isinstance(alias, str) and self.aliases.get(alias) == call.tool_call_id:
            del self.aliases[alias]

    def forget(self, calls: Iterable[ToolCallReport]) -> None:
        """Forget calls. All that remains of them is that their ids are used up."""
        if not (self._has_foreign or self.aliases):
            return
        for call in calls:
            tool_call_id = call.tool_call_id
            self._unlink(call)
            if not self._is_own(tool_call_id):
                self._used[tool_call_id] = None
                if len(self._used) > MOST_USED:
                    del self._used[next(iter(self._used))]
            came_as = self._came_as.pop(tool_call_id, None)
            if came_as is not None and self.aliases.get(came_as) == tool_call_id:
                del self.aliases[came_as]

    def _is_own(self, tool_call_id: str) -> bool:
        """Whether we made an id. They increase, so the first and the last decide about all of them."""
        return self._first_own <= tool_call_id <= self._last_own and is_ours(tool_call_id)

    def _name(self, alias: str, tool_call_id: str) -> None:
        """Make an alias name its latest holder.

        Whoever holds one of our own ids reaches that call, whatever aliases a model makes up.
        """
        if not (alias in self._calls and is_ours(alias)):
            self.aliases[alias] = tool_call_id
