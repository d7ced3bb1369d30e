"""Writing to one store, whatever becomes of it: encoding, writing in batches, spooling, upkeep.

Entries wait as sessions report them; a later state of a call replaces an earlier one. They become rows,
encoded and compressed, and are written. A store that can't be written is no reason to stop: users are
notified once, the rows go into the spool, and the store is tried again and again. If even the spool takes no
more, rows wait in memory, which is bounded: if it becomes too much, the oldest go, and users are notified of
that, too. All of this happens in the thread of a `History`, but for `spool` and `leave`, which any thread may
call: so what waits is spooled also while the thread hangs in a store that does not answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from threading import RLock
from typing import TypeVar

from msgspec import Struct

from callsheet.history import spool
from callsheet.history.call_records import Price, Waiting, to_rows
from callsheet.history.retention import Pruning
from callsheet.history.rows import Pruned, Retention, WaitingRow, limits
from callsheet.history.store import Store
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
    sentence,
)
from callsheet.history.url import is_postgres, store_at
from callsheet.report.humanize import plural

_T = TypeVar("_T")

BATCH_ROWS, BATCH_BYTES = 1000, 8 << 20
"""Rows that are written at once, and bytes of them."""

MOST_WAITING = 1000
"""Rows that may wait in memory, where they can't be spooled."""

LEFT = "left"
"""The writer of open calls in a spool whose process is gone: none that lives, so that they are closed."""

UPKEEP_EVERY = 3600.0
SELDOM = 50
"""Of so many processes that never had time for upkeep, one does at its end."""

_GOES_ON = "The work goes on; what is to be kept waits, and is written when it can be."


def _entries(count: int) -> str:
    return plural(count, "entry", "entries")


class HistoryHealth(Struct):
    """How many entries were written, wait in the spool of this machine, and are lost.

    `problem` is why the store can't be written now, or None.
    """

    written: int = 0
    spooled: int = 0
    lost: int = 0
    problem: str | None = None


class Writer:
    """Writes to one store. `notify` is called with each message that users should see.

    `lock` is held for moments only, by whoever puts an entry. `busy` is held by whoever encodes entries, or
    takes rows away. An entry is durable when `durable` reaches the `put_count` that was seen after its `put`.
    """

    def __init__(
        self,
        url: str,
        keep: Retention,
        notify: Callable[[str], None],
        forget_spills: Callable[[list[str]], object] | None,
        price: Price | None = None,
    ) -> None:
        self.health: HistoryHealth = HistoryHealth()
        self.store: Store = store_at(url)
        self.lock: RLock = RLock()
        self.busy: RLock = RLock()
        # By their keys, of which no other log has the same.
        self.entries: dict[str, Waiting] = {}
        self.rows: dict[str, WaitingRow] = {}
        self.put_count: int = 0
        self.durable: int = 0
        self._spool: spool.Spool = spool.Spool(self.store.url)
        self._notify_users: Callable[[str], None] = notify
        self._forget_spills: Callable[[list[str]], object] | None = forget_spills
        self._price: Price | None = price
        self._most: int = BATCH_ROWS
        self._is_hopeless: bool = False
        self._has_taken_over: bool = False
        self._notified: set[str] = set()
        limited = limits(keep, is_shared=is_postgres(url))
        self._pruning: Pruning = Pruning(self.store, limited, UPKEEP_EVERY)

    @property
    def is_behind(self) -> bool:
        """Whether something waits that was to be written."""
        return self._spool.count > 0 or (bool(self.rows) and self.health.problem is not None)

    # Writing

    def write(self) -> bool:
        """Write what waits. Return whether it is written. What is not, is spooled."""
        count = self._encode()
        try:
            self.open()
            self._write_spool(self._spool)
            self._write_rows()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the work goes on
            self._failed(exc)
            return False
        self._set_durable(count)
        problem, self.health.problem = self.health.problem, None
        if problem is not None:
            lost = f"; {_entries(self.health.lost)} lost" if "lost" in self._notified else ""
            self._notify(f"{self.store.url} is written again, with all that has waited{lost}.")
            self._notified.discard("lost")
        return True

    def _encode(self) -> int:
        """Make rows of the entries that wait. Return how many entries there ever were."""
        with self.busy:
            with self.lock:
                entries, self.entries = self.entries, {}
                count = self.put_count
            self._add_rows(entries.values())
        return count

    def _add_rows(self, entries: Collection[Waiting]) -> None:
        """Make rows of entries. One that no row can be made of is found, and dropped."""
        try:
            rows = to_rows(entries, self.store.codec, self._price)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the others are stored
            if len(entries) == 1:
                self._refused(exc)
            else:
                for one in entries:
                    self._add_rows([one])
            return
        self.rows.update({waiting[1].key: waiting for waiting in rows})

    def _set_durable(self, count: int) -> None:
        """Record that the first so many entries are durable."""
        with self.lock:
            self.durable = max(self.durable, count)

    def _write_rows(self) -> None:
        """Write the rows that wait, in batches."""
        while self.rows:
            with self.busy:
                some, size = list[WaitingRow](), 0
                for waiting in self.rows.values():
                    some.append(waiting)
                    size += waiting[1].room
                    if len(some) >= self._most or size >= BATCH_BYTES:
                        break
            self._write(some)
            with self.busy:  # meanwhile, they may have been spooled, or have changed
                for waiting in some:
                    if self.rows.get(waiting[1].key) is waiting:
                        del self.rows[waiting[1].key]

    def _write_spool(self, some: spool.Spool, writer: str | None = None) -> None:
        """Write what was spooled, in order."""
        while rows := some.first(self._most):
            self._write(rows, writer)
            some.remove(rows)
            self.health.spooled = self._spool.count

    def _write(self, rows: Sequence[WaitingRow], writer: str | None = None) -> None:
        """Write rows at once. One that can't be written to any store is found, and dropped."""
        try:
            self.store.write(rows, writer)
        except HistoryError as exc:
            half = len(rows) // 2
            self._most = max(1, half)  # a store may have no time for so much
            if type(exc) is not HistoryError:
                raise
            if not half:
                self._refused(exc)
            else:
                self._write(rows[:half], writer)
                self._write(rows[half:], writer)
        else:
            self._most = min(BATCH_ROWS, 2 * self._most)
            self.health.written += len(rows)

    def open(self) -> None:
        """Open the store, if it is not open."""
        if self._is_hopeless:
            raise StoreUnavailable(self.health.problem or "The history can't be used.")
        if not self.store.is_open:
            for news in self.store.open():
                self._notify(news)
        if not self._has_taken_over:
            self._take_over()
            self._has_taken_over = True

    def ask(self, question: Callable[[Store], _T]) -> _T:
        """Return the answer of the open store to a question. A damaged one is replaced, and asked again."""
        self.open()
        try:
            return question(self.store)
        except StoreDamaged:
            self._close_store()
        self.open()
        return question(self.store)

    def _take_over(self) -> None:
        """Write what processes have spooled that are gone."""
        before = self.health.written
        for file in spool.left_files(self.store.url):
            left = spool.Spool(self.store.url)
            try:
                if left.claim(file):
                    self._write_spool(left, LEFT)
            except (OSError, ValueError) as exc:
                self._notify(sentence(f"What waits in {file} can't be read: {exc}"))
                with suppress(OSError):
                    file.rename(file.with_suffix(".damaged"))
            finally:
                left.close()
        if entries := self.health.written - before:
            self.store.recover()
            self._notify(f"Wrote {_entries(entries)} that earlier processes could not write.")

    def _close_store(self) -> None:
        """Close the store. A damaged one is set aside when it is opened again."""
        with suppress(Exception):
            self.store.close()

    # The spool

    def spool(self) -> None:
        """Put what waits on the local disk."""
        with self.busy:
            count = self._encode()
            if self.durable < count and self._spool_rows():
                self._set_durable(count)

    def _spool_rows(self) -> bool:
        """Move the rows that wait to the spool. Return whether all of them are there."""
        if self._is_hopeless or not self.rows:
            return not self._is_hopeless
        try:
            self._spool.append(self.rows.values())
        except Exception as exc:  # noqa: BLE001 - whoever flushes gets an answer
            text = "What waits can't be spooled, and is in memory only"
            self._notify(sentence(f"{text}: {exc}"), once="spool")
            return False
        self.rows.clear()
        self._notified.discard("spool")
        self.health.spooled = self._spool.count
        return True

    def leave(self) -> None:
        """Spool what waits, and notify of what becomes of it: the process ends."""
        with self.busy:
            self._encode()
            if not self._spool_rows():
                lost = self._drop_to(0)
                if lost and not self._is_hopeless:
                    self._notify(
                        f"{_entries(lost)} could not be written to {self.store.url}: lost."
                    )
            if self._spool.count:
                text = f"{_entries(self._spool.count)} for {self.store.url}"
                text += f" will be written the next time, from {self._spool.file}."
                self._notify(text, once=text)

    def end(self) -> None:
        """Close the store. What could not be written is spooled, for the next process."""
        self.leave()
        if self._pruning.done_at is None and random.randrange(SELDOM) == 0:
            self.upkeep()
        self._close_store()
        with suppress(OSError):
            self._spool.close()

    def release_locks(self) -> None:
        """Close what holds locks, in a forked child: they last as long as the parent."""
        self.store.db.release_lock()
        self._spool.release_lock()

    # How it goes

    def _failed(self, exc: Exception) -> None:
        """Notify once of what is wrong, and put what waits in safety."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        self._has_taken_over = False  # meanwhile, others may have left something
        self._is_hopeless |= isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        self.stuck(str(exc))
        if isinstance(exc, StoreDamaged):
            self._close_store()
        with self.busy:
            self.spool()
            if self._drop_to(0 if self._is_hopeless else MOST_WAITING) and not self._is_hopeless:
                much = f"More than {_entries(MOST_WAITING)} wait for {self.store.url} in memory"
                self._notify(f"{much}: the oldest calls are let go.", once="lost")

    def _drop_to(self, limit: int) -> int:
        """Drop the oldest rows until `limit` are left at most. Return how many that were."""
        gone = list(self.rows)[: max(0, len(self.rows) - limit)]
        for key in gone:
            del self.rows[key]
        self.health.lost += len(gone)
        return len(gone)

    def stuck(self, why: str) -> None:
        """Record that nothing can be written for now, and notify of it once."""
        first, self.health.problem = self.health.problem is None, why
        if first:
            self._notify(f"{sentence(why)} {'Nothing is kept.' if self._is_hopeless else _GOES_ON}")

    def _refused(self, exc: Exception) -> None:
        """Record that an entry is lost, because it can't be stored in any store."""
        self.health.lost += 1
        self._notify(
            sentence(f"An entry can't be kept: {type(exc).__name__}: {exc}"), once="refused"
        )

    def _notify(self, text: str, once: str | None = None) -> None:
        if once is not None:
            if once in self._notified:
                return
            self._notified.add(once)
        with suppress(Exception):  # whoever is notified must not keep us from writing
            self._notify_users(text)

    # Upkeep

    def upkeep(self) -> bool:
        """Do a little of what can be done when there is time. Return whether there is more."""
        if not self.store.is_open:
            return False
        try:
            if self.store.index():
                return True
            if (pruned := self._pruning.step()) is not None:
                self.release_spills(pruned)
                return True
        except StoreDamaged:
            self._close_store()
        except Exception:  # noqa: BLE001 - whatever it is, the next write reports it
            pass
        return False

    def release_spills(self, pruned: Pruned) -> None:
        """Forget the spill files of calls that were removed."""
        if pruned.spills and self._forget_spills is not None:
            self._forget_spills(list(pruned.spills))
