"""Writing to one store, whatever becomes of it: opening it, encoding, writing in batches, upkeep.

A store that can't be written is no reason to stop. Users are notified once; what is to be written waits,
encoded, and the store is tried again and again. `spool_pending` puts it on the local disk meanwhile.
What waits is bounded: if it becomes too much, the oldest goes, and users are notified of that, too. All of
this happens in the thread of a `History`, but for `take`, `spool_pending` and `leave`, which any thread may
call.
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
from callsheet.history.rows import Pruned, Retention, SessionRow
from callsheet.history.sink import Waiting
from callsheet.history.spool import BATCH_ROWS, Key, PendingRows, Spool, claimed, is_encodable
from callsheet.history.store import Store
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
    counted,
    sentence,
)
from callsheet.history.url import store_at, without_password

MOST_WAITING = 64 << 20
"""Bytes that may wait in memory for a store that can't be written."""

LEFT = "left"
"""The writer of open calls in a spool whose process is gone: none that lives, so that they are closed."""

UPKEEP_EVERY = 3600.0
SELDOM = 50
"""Of so many processes that never had time for upkeep, one does at its end."""

_OF_THE_STORE = (BadUrl, StoreTooNew, NotKept, StoreDamaged, StoreUnavailable)
"""Errors that are not about what was to be written."""


_GOES_ON = "The work goes on; what is to be kept waits, and is written when it can be."


class HistoryHealth(Struct):
    """How many entries were written, wait in the spool of this machine, and are lost.

    `problem` is why the store can't be written now, or None.
    """

    written: int = 0
    spooled: int = 0
    lost: int = 0
    problem: str | None = None


class StoreWriter:
    """Writes to one store. `notify` is called with each message that users should see."""

    def __init__(
        self,
        url: str,
        keep: Retention,
        notify: Callable[[str], None],
        forget_spills: Callable[[list[str]], object] | None,
    ) -> None:
        self.health: HistoryHealth = HistoryHealth()
        self.store: Store = store_at(url)
        self._shown: str = without_password(url)
        self._keep: Retention = keep
        self._notify_users: Callable[[str], None] = notify
        self._forget_spills: Callable[[list[str]], object] | None = forget_spills
        self.lock: RLock = RLock()
        """Held by whoever changes what waits."""
        self.spool: Spool = Spool(self.store.url)
        self._pending: PendingRows = PendingRows()
        self._most: int = BATCH_ROWS
        self._opening: asyncio.Lock = asyncio.Lock()
        self._is_open: bool = False
        self._is_hopeless: bool = False
        self._has_taken_over: bool = False
        self._claimed: list[Spool] = []
        self._notified_lost: bool = False
        self._notified_refused: bool = False
        self._notified_spool: bool = False
        self._notified_left: int = 0
        self._kept_up_at: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether something waits that was to be written."""
        return bool(self.spool) or (bool(self._pending) and self.health.problem is not None)

    # Taking and writing

    def take(
        self,
        waiting: dict[Key, Waiting],
        sessions: dict[str, SessionRow],
        codec: Codec | None = None,
    ) -> None:
        """Encode entries; with a `codec` of its own, in any thread. What is too much is spooled."""
        with self.lock:
            self._pending.put(waiting, codec or self.store.codec, self._refused)
            if (
                self.health.problem is not None
                and self._is_too_much
                and not self.spool_pending(sessions)
            ):
                self._drop()

    @property
    def _is_too_much(self) -> bool:
        return self._pending.size > (0 if self._is_hopeless else MOST_WAITING)

    def spool_pending(self, sessions: dict[str, SessionRow]) -> bool:
        """Put what waits in memory on the disk, beside the store. Return whether all of it is there."""
        with self.lock:
            if self._is_hopeless:
                return False
            if not self._pending:
                return True
            try:
                known = [row for row in sessions.values() if is_encodable(row)]
                self._pending.drop_unencodable(self._refused)
                self.spool.append(self._pending.all(known))
            except (OSError, RuntimeError) as exc:
                if not self._notified_spool:
                    self._notified_spool = True
                    text = "What waits can't be spooled, and is in memory only"
                    self._notify(sentence(f"{text}: {exc}"))
                return False
            self._pending.clear()
            self._notified_spool = False
            self.health.spooled = len(self.spool.entries)
            return True

    async def write(self, sessions: dict[str, SessionRow]) -> bool:
        """Write what waits, and these sessions. Return whether it is written. What is not, stays."""
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
            pending = spool.first()
            await self._write_all(pending, pending.sessions, writer)
            spool.done()

    async def _write_all(
        self, pending: PendingRows, sessions: dict[str, SessionRow], writer: str | None = None
    ) -> None:
        """Write pending rows in batches. A row that can't be written is found, and dropped."""
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
                        if pending.drop_written(some):  # else it was refused by whoever spools
                            self._refused(exc)
            else:
                with self.lock:
                    pending.drop_written(some)
                self._most = min(BATCH_ROWS, 2 * self._most)
                self.health.written += len(some)
            sessions.clear()

    async def open(self) -> None:
        """Open the store, if it is not open."""
        async with self._opening:
            if self._is_hopeless:
                raise StoreUnavailable(self.health.problem or "The history can't be used.")
            if not self._is_open:
                for news in await self.store.open():
                    self._notify(news)
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
                self._notify(sentence(f"What waits in {spool.file} can't be read: {exc}"))
            self._claimed.pop(0).close()
        entries = self.health.written - before
        if entries:
            await self.store.recover()
            text = counted(entries, "entry that", "entries that")
            verb = "is" if entries == 1 else "are"
            self._notify(f"{text} could not be written earlier {verb} kept now.")

    async def end(self, sessions: dict[str, SessionRow]) -> None:
        """Close the store. What could not be written is spooled, for the next process."""
        self.leave(sessions)
        if self._kept_up_at is None and random.randrange(SELDOM) == 0:
            await self.upkeep()
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
        """Spool what waits, and notify of what becomes of it: the process ends."""
        with self.lock:
            if not self.spool_pending(sessions):
                self._lose()
            left = len(self.spool.entries) if self.spool else 0
            if left != self._notified_left:
                self._notified_left = left
                wait, are = ("waits", "is") if left == 1 else ("wait", "are")
                text = f"{counted(left, 'entry', 'entries')} for {self._shown}"
                self._notify(
                    f"{text} {wait} in {self.spool.file}, and {are} written the next time."
                )

    def _lose(self) -> None:
        left = len(self._pending)
        self._pending.clear()
        if left and not self._is_hopeless:
            self.health.lost += left
            text = counted(left, "entry", "entries")
            are = "is" if left == 1 else "are"
            self._notify(f"{text} could not be written to {self._shown}, and {are} lost.")

    # How it goes

    def _succeeded(self) -> None:
        problem, self.health.problem = self.health.problem, None
        if problem is not None:
            text = counted(self.health.lost, "entry was", "entries were")
            lost = f"; {text} lost" if self._notified_lost else ""
            self._notify(f"{self._shown} is written again, with all that has waited{lost}.")
            self._notified_lost = False

    async def _failed(self, exc: Exception) -> None:
        """Notify once of what is wrong, and hold what waits within its bounds."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        first, self.health.problem = self.health.problem is None, str(exc)
        self._has_taken_over = False  # meanwhile, others may have left something
        self._is_hopeless |= isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        if first:
            self._notify(f"{sentence(exc)} {'Nothing is kept.' if self._is_hopeless else _GOES_ON}")
        if isinstance(exc, StoreDamaged):
            await self.renew()
        with self.lock:
            self._drop()

    async def renew(self) -> None:
        """Close a damaged store: when it is opened again, it is set aside."""
        with suppress(Exception):
            await self.store.close()
        self._is_open = False

    def stuck(self, why: str) -> None:
        """Record that nothing can be written for now."""
        if self.health.problem is None:
            self.health.problem = why
            self._notify(f"{sentence(why)} {_GOES_ON}")

    def _refused(self, exc: Exception) -> None:
        """Record that an entry is lost, because it can't be stored in any store."""
        self.health.lost += 1
        if not self._notified_refused:
            self._notified_refused = True
            self._notify(sentence(f"An entry can't be kept: {type(exc).__name__}: {exc}"))

    def _drop(self) -> None:
        """Drop the oldest entries, until what waits is small enough."""
        limit = 0 if self._is_hopeless else MOST_WAITING
        lost = self._pending.drop_oldest(limit)
        self.health.lost += lost
        if lost and not self._notified_lost and not self._is_hopeless:
            self._notified_lost = True
            much = f"More than {limit >> 20} MB wait for {self._shown} in memory"
            self._notify(f"{much}: the oldest calls are let go.")

    def _notify(self, text: str) -> None:
        with suppress(Exception):  # whoever is notified must not keep us from writing
            self._notify_users(text)

    # Upkeep

    async def upkeep(self) -> bool:
        """Do a little of what can be done when there is time. Return whether there is more."""
        if not self._is_open:
            return False
        try:
            if await self.store.index():
                return True
            if self._kept_up_at is None or time.monotonic() - self._kept_up_at > UPKEEP_EVERY:
                pruned = await self.store.prune(self._keep)
                self._let_go(pruned)
                if pruned.calls or pruned.messages:
                    return True
                self._kept_up_at = time.monotonic()
        except StoreDamaged:
            await self.renew()
        except Exception:  # noqa: BLE001 - whatever it is, the next write reports it
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
