"""Writes to one store, whatever becomes of it: opens it, packs, writes in batches, tidies up.

A store that can't be written is no reason to stop. It is said once; what is to be written waits, packed, and
the store is tried again and again. Whoever needs it on a disk meanwhile asks for `put_by`. What waits is
bounded: if it becomes too much, the oldest goes, and that is said, too. All of this happens in the thread of
a `History`, but for `take`, `put_by` and `leave`, which any thread may ask for.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from threading import RLock

from msgspec import MsgspecError, Struct

from callsheet.history.codec import Codec
from callsheet.history.errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
    counted,
    sentence,
)
from callsheet.history.rows import Pruned, Retention, SessionRow
from callsheet.history.sink import Waiting
from callsheet.history.spool import MUCH, Key, PendingRows, Spool, claimed, is_encodable
from callsheet.history.store import Store
from callsheet.history.url import store_at, without_password

MOST_WAITING = 64 << 20
"""Bytes that may wait in memory for a store that can't be written."""

LEFT = "left"
"""Whom the open calls of a spool belong to whose process is gone: nobody, so that they are closed."""

TIDY_EVERY = 3600.0
SELDOM = 50
"""Of so many processes that never had time to tidy up, one does at its end."""

_OF_THE_STORE = (BadUrl, StoreTooNew, NotKept, StoreDamaged, StoreUnavailable)
"""Errors that say nothing of what was to be written."""


_GOES_ON = "The work goes on; what is to be kept waits, and is written when it can be."


class HistoryHealth(Struct):
    """How well it goes. `problem` is what keeps the store from being written now.

    `spooled` is how many entries wait on the disk of this machine.
    """

    written: int = 0
    spooled: int = 0
    lost: int = 0
    problem: str | None = None


class StoreWriter:
    """Writes to one store. `tell` hears of what people should know."""

    def __init__(
        self,
        url: str,
        keep: Retention,
        tell: Callable[[str], None],
        forget_spills: Callable[[list[str]], object] | None,
    ) -> None:
        self.health: HistoryHealth = HistoryHealth()
        self.store: Store = store_at(url)
        self._shown: str = without_password(url)
        self._keep: Retention = keep
        self._tell: Callable[[str], None] = tell
        self._forget_spills: Callable[[list[str]], object] | None = forget_spills
        self.lock: RLock = RLock()
        """Held by whoever changes what waits."""
        self.spool: Spool = Spool(self.store.url)
        self._pending: PendingRows = PendingRows()
        self._most: int = MUCH
        self._opening: asyncio.Lock = asyncio.Lock()
        self._is_open: bool = False
        self._is_hopeless: bool = False
        self._has_taken_over: bool = False
        self._claimed: list[Spool] = []
        self._said_lost: bool = False
        self._said_refused: bool = False
        self._said_spool: bool = False
        self._said_left: int = 0
        self._tidied: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether something waits that was to be written."""
        return bool(self.spool) or (bool(self._pending) and self.health.problem is not None)

    # Taking and writing

    def take(
        self,
        given: dict[Key, Waiting],
        sessions: dict[str, SessionRow],
        codec: Codec | None = None,
    ) -> None:
        """Pack what was given; with a `codec` of its own, in any thread. What is too much is spooled."""
        with self.lock:
            self._pending.put(given, codec or self.store.codec, self._refused)
            if self.health.problem is not None and self._is_too_much and not self.put_by(sessions):
                self._drop()

    @property
    def _is_too_much(self) -> bool:
        return self._pending.size > (0 if self._is_hopeless else MOST_WAITING)

    def put_by(self, sessions: dict[str, SessionRow]) -> bool:
        """Put what waits in memory on the disk, beside the store. Return whether all of it is there."""
        with self.lock:
            if self._is_hopeless:
                return False
            if not self._pending:
                return True
            try:
                known = [row for row in sessions.values() if is_encodable(row)]
                self._pending.refuse(lambda row: not is_encodable(row), self._refused)
                self.spool.append(self._pending.all(known))
            except (OSError, RuntimeError) as exc:
                if not self._said_spool:
                    self._said_spool = True
                    told = "What waits can't be spooled, and is in memory only"
                    self._say(sentence(f"{told}: {exc}"))
                return False
            self._pending.clear()
            self._said_spool = False
            self.health.spooled = len(self.spool.entries)
            return True

    async def write(self, sessions: dict[str, SessionRow]) -> bool:
        """Write what waits, and these sessions. Gives whether it is written. What is not, stays."""
        try:
            await self.open()
            await self._write_spool(self.spool)
            self.health.spooled = len(self.spool.entries)
            await self._write_all(self._pending, sessions)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the work goes on
            await self._failed(exc)
            return False
        self._succeeded()
        return True

    async def _write_spool(self, spool: Spool, writer: str | None = None) -> None:
        """Write what was spooled, in order."""
        while spool:
            waiting = spool.first()
            await self._write_all(waiting, waiting.sessions, writer)
            spool.done()

    async def _write_all(
        self, pending: PendingRows, sessions: dict[str, SessionRow], writer: str | None = None
    ) -> None:
        """Write what is on a pending, in batches. What can't be written is found, and let go."""
        while pending or sessions:
            with self.lock:
                batch, some = pending.batch(sessions.values(), self._most)
            try:
                await self.store.write(batch, writer)
            except (HistoryError, ValueError, TypeError, OverflowError) as exc:
                self._most = max(
                    1, len(some) // 2
                )  # something in it, or so much of it, can't be written
                if type(exc) in _OF_THE_STORE:
                    raise
                if len(some) > 1:
                    continue
                if not sessions:
                    with self.lock:
                        if pending.wrote(some):  # else it was refused by whoever spools
                            self._refused(exc)
            else:
                with self.lock:
                    pending.wrote(some)
                self._most = min(MUCH, 2 * self._most)
                self.health.written += len(some)
            sessions.clear()

    async def open(self) -> None:
        """Open the store, if it is not open."""
        async with self._opening:
            if self._is_hopeless:
                raise StoreUnavailable(self.health.problem or "The history can't be used.")
            if not self._is_open:
                for news in await self.store.open():
                    self._say(news)
                self._is_open = True
            if not self._has_taken_over:
                await self._take_over()
                self._has_taken_over = True

    async def _take_over(self) -> None:
        """Write what processes have spooled that are gone."""
        before = self.health.written
        self._claimed += claimed(self.store.url)
        while self._claimed:
            spool = self._claimed[0]
            try:
                await self._write_spool(spool, LEFT)
            except (OSError, MsgspecError) as exc:
                self._say(sentence(f"What waits in {spool.file} can't be read: {exc}"))
            self._claimed.pop(0).close()
        entries = self.health.written - before
        if entries:
            await self.store.recover()
            told = counted(entries, "entry that", "entries that")
            verb = "is" if entries == 1 else "are"
            self._say(f"{told} could not be written earlier {verb} kept now.")

    async def end(self, sessions: dict[str, SessionRow]) -> None:
        """Let go of the store. What could not be written is spooled, for the next process."""
        self.leave(sessions)
        if self._tidied is None and random.randrange(SELDOM) == 0:
            await self.tidy()
        with suppress(Exception):
            await self.store.close()
        self.drop_claimed()
        with suppress(OSError):
            self.spool.close()

    def drop_claimed(self) -> None:
        """Leave to others what other processes have left."""
        while self._claimed:
            self._claimed.pop().drop()

    def leave(self, sessions: dict[str, SessionRow]) -> None:
        """Spool what waits, and say what becomes of it: the process ends."""
        with self.lock:
            if not self.put_by(sessions):
                self._lose()
            left = len(self.spool.entries) if self.spool else 0
            if left != self._said_left:
                self._said_left = left
                wait, are = ("waits", "is") if left == 1 else ("wait", "are")
                told = f"{counted(left, 'entry', 'entries')} for {self._shown}"
                self._say(f"{told} {wait} in {self.spool.file}, and {are} written the next time.")

    def _lose(self) -> None:
        left = len(self._pending)
        self._pending.clear()
        if left and not self._is_hopeless:
            self.health.lost += left
            told = counted(left, "entry", "entries")
            are = "is" if left == 1 else "are"
            self._say(f"{told} could not be written to {self._shown}, and {are} lost.")

    # How it goes

    def _succeeded(self) -> None:
        problem, self.health.problem = self.health.problem, None
        if problem is not None:
            told = counted(self.health.lost, "entry was", "entries were")
            lost = f"; {told} lost" if self._said_lost else ""
            self._say(f"{self._shown} is written again, with all that has waited{lost}.")
            self._said_lost = False

    async def _failed(self, exc: Exception) -> None:
        """Say once what is wrong, and hold what waits within its bounds."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        first, self.health.problem = self.health.problem is None, str(exc)
        self._has_taken_over = False  # meanwhile, others may have left something
        self._is_hopeless |= isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        if first:
            self._say(f"{sentence(exc)} {'Nothing is kept.' if self._is_hopeless else _GOES_ON}")
        if isinstance(exc, StoreDamaged):
            await self.renew()
        with self.lock:
            self._drop()

    async def renew(self) -> None:
        """Let go of a store that is damaged: when it is opened again, it is set aside."""
        with suppress(Exception):
            await self.store.close()
        self._is_open = False

    def stuck(self, why: str) -> None:
        """Note that nothing can be written for now."""
        if self.health.problem is None:
            self.health.problem = why
            self._say(f"{sentence(why)} {_GOES_ON}")

    def _refused(self, exc: Exception) -> None:
        """Note that something can't be kept, whatever the store does."""
        self.health.lost += 1
        if not self._said_refused:
            self._said_refused = True
            self._say(sentence(f"An entry can't be kept: {type(exc).__name__}: {exc}"))

    def _drop(self) -> None:
        """Let go of the oldest, until what waits is small enough."""
        limit = 0 if self._is_hopeless else MOST_WAITING
        lost = self._pending.drop(limit)
        self.health.lost += lost
        if lost and not self._said_lost and not self._is_hopeless:
            self._said_lost = True
            much = f"More than {limit >> 20} MB wait for {self._shown} in memory"
            self._say(f"{much}: the oldest calls are let go.")

    def _say(self, text: str) -> None:
        with suppress(Exception):  # whoever is told must not keep us from writing
            self._tell(text)

    # Tidying up

    async def tidy(self) -> bool:
        """Do a little of what can be done when there is time. Gives whether there is more."""
        if not self._is_open:
            return False
        try:
            if await self.store.index():
                return True
            if self._tidied is None or time.monotonic() - self._tidied > TIDY_EVERY:
                pruned = await self.store.prune(self._keep)
                self._let_go(pruned)
                if pruned.calls or pruned.messages:
                    return True
                self._tidied = time.monotonic()
        except StoreDamaged:
            await self.renew()
        except Exception:  # noqa: BLE001 - whatever it is, the next write will say so
            return False
        return False

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, and its spill files."""
        pruned = await self.store.forget(session_id)
        self._let_go(pruned)
        return pruned

    def _let_go(self, pruned: Pruned) -> None:
        if pruned.spills and self._forget_spills is not None:
            self._forget_spills(list(pruned.spills))
