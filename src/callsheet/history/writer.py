"""Writing to one store, whatever becomes of it: encoding, writing in batches, spooling, upkeep.

Entries wait as sessions report them, then as rows, encoded and compressed; a later state of a call replaces
an earlier one. A store that can't be written is no reason to stop: users are notified once, the rows wait,
and the store is tried again and again. `spool` writes them to the local disk meanwhile. What waits in memory
is bounded: if it becomes too much, the oldest goes, and users are notified of that, too. All of this happens
in the thread of a `History`, but for `put`, `spool` and `leave`, which any thread may call.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import TypeVar

from msgspec import MsgspecError, Struct

from callsheet.history.codec import Codec
from callsheet.history.rows import Pruned, Retention, SessionRow
from callsheet.history.sink import Waiting
from callsheet.history.spool import Key, Row, Rows, Spool, claimed
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
from callsheet.history.url import store_at
from callsheet.report.humanize import plural

_T = TypeVar("_T")

BATCH_ROWS, BATCH_BYTES = 1000, 8 << 20
"""Rows that are written at once, and bytes of them."""

MOST_WAITING = 64 << 20
"""Bytes that may wait in memory for a store that can't be written."""

LEFT = "left"
"""The writer of open calls in a spool whose process is gone: none that lives, so that they are closed."""

UPKEEP_EVERY = 3600.0
SELDOM = 50
"""Of so many processes that never had time for upkeep, one does at its end."""

_GOES_ON = "The work goes on; what is to be kept waits, and is written when it can be."


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
    ) -> None:
        self.health: HistoryHealth = HistoryHealth()
        self.store: Store = store_at(url)
        self.spool_file: Spool = Spool(self.store.url)
        self.lock: RLock = RLock()
        self.busy: RLock = RLock()
        self.entries: dict[Key, Waiting] = {}
        self.rows: Rows = Rows()
        self.put_count: int = 0
        self.durable: int = 0
        self._sessions: dict[str, SessionRow] = {}
        self._keep: Retention = keep
        self._notify_users: Callable[[str], None] = notify
        self._forget_spills: Callable[[list[str]], object] | None = forget_spills
        self._most: int = BATCH_ROWS
        self._is_open: bool = False
        self._is_hopeless: bool = False
        self._has_taken_over: bool = False
        self._claimed: list[Spool] = []
        self._notified: set[str] = set()
        self._notified_left: int = 0
        self._kept_up_at: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether something waits that was to be written."""
        return bool(self.spool_file) or (bool(self.rows) and self.health.problem is not None)

    # Writing

    def put(self, key: Key, entry: Waiting, session: SessionRow) -> None:
        """Add an entry, which replaces an earlier one with the same key. The caller holds `lock`."""
        self.entries[key] = entry
        self._sessions[session.session_id] = session
        self.put_count += 1

    def write(self) -> bool:
        """Write what waits. Return whether it is written. What is not, stays."""
        count = self.encode()
        try:
            self.open()
            self._write_spool(self.spool_file)
            self.health.spooled = len(self.spool_file.entries)
            self._write_rows(self.rows)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the work goes on
            self._failed(exc)
            return False
        self._set_durable(count)
        problem, self.health.problem = self.health.problem, None
        if problem is not None:
            text = plural(self.health.lost, "entry was", "entries were")
            lost = f"; {text} lost" if "lost" in self._notified else ""
            self._notify(f"{self.store.url} is written again, with all that has waited{lost}.")
            self._notified.discard("lost")
        return True

    def encode(self) -> int:
        """Encode the entries that wait, and return how many ever were. What is too much is spooled."""
        with self.busy:
            count = self._encode(self.store.codec)
            is_too_much = self.health.problem is not None and self.rows.size > self._limit
            if is_too_much and not self._spool_rows():
                self._drop()
        return count

    def _encode(self, codec: Codec) -> int:
        """Encode the entries, with a codec of this thread. The caller holds `busy`."""
        with self.lock:
            entries, self.entries = self.entries, {}
            self.rows.sessions |= self._sessions
            self._sessions = {}
            count = self.put_count
        rows: list[Row] = []
        for entry in entries.values():
            try:
                row = entry.to_row()
                if row.position >> 63:
                    raise ValueError(f"no position is {row.position}")  # noqa: TRY301
                rows.append(row)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the others are stored
                self._refused(exc)
        codec.compress(rows)
        self.rows.add(rows)
        return count

    def _set_durable(self, count: int) -> None:
        """Record that the first so many entries are durable."""
        with self.lock:
            self.durable = max(self.durable, count)

    def _write_spool(self, spool: Spool, writer: str | None = None) -> None:
        """Write what was spooled, in order."""
        while spool:
            self._write_rows(spool.first(), writer)
            spool.done()

    def _write_rows(self, rows: Rows, writer: str | None = None) -> None:
        """Write rows in batches. A row that can't be written is found, and dropped."""
        while rows or rows.sessions:
            with self.busy:
                batch = rows.batch(self._most, BATCH_BYTES)
                sessions, rows.sessions = rows.sessions, {}
            some = [*batch.calls, *batch.messages]
            try:
                self.store.write(batch, writer)
            except HistoryError as exc:
                # Something in it, or so much of it, can't be written.
                self._most = max(1, len(some) // 2)
                is_refused = type(exc) is HistoryError
                with self.busy:
                    if not is_refused or len(some) > 1:
                        rows.sessions = {**sessions, **rows.sessions}
                    elif not sessions and rows.remove(some):  # else who spools has refused it
                        self._refused(exc)
                if not is_refused:
                    raise
            else:
                with self.busy:
                    rows.remove(some)
                self._most = min(BATCH_ROWS, 2 * self._most)
                self.health.written += len(some)

    def open(self) -> None:
        """Open the store, if it is not open."""
        if self._is_hopeless:
            raise StoreUnavailable(self.health.problem or "The history can't be used.")
        if not self._is_open:
            for news in self.store.open():
                self._notify(news)
            self._is_open = True
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
        self._claimed += claimed(self.store.url)
        while self._claimed:
            spool = self._claimed[0]
            try:
                self._write_spool(spool, LEFT)
            except (OSError, MsgspecError) as exc:
                self._notify(sentence(f"What waits in {spool.file} can't be read: {exc}"))
            self._claimed.pop(0).close()
        entries = self.health.written - before
        if entries:
            self.store.recover()
            text = plural(entries, "entry that", "entries that")
            verb = "is" if entries == 1 else "are"
            self._notify(f"{text} could not be written earlier {verb} kept now.")

    def _close_store(self) -> None:
        """Close the store. A damaged one is set aside when it is opened again."""
        with suppress(Exception):
            self.store.close()
        self._is_open = False

    # The spool

    def spool(self) -> None:
        """Write what waits to the local disk."""
        with self.busy:
            count = self._encode(Codec())  # a codec belongs to one thread
            if self.durable < count and self._spool_rows():
                self._set_durable(count)

    def _spool_rows(self) -> bool:
        """Move the rows that wait to the spool. Return whether all of them are there."""
        if self._is_hopeless or not self.rows:
            return not self._is_hopeless
        try:
            self.spool_file.append(self.rows.batch())
        except Exception as exc:  # noqa: BLE001 - whoever flushes gets an answer
            text = "What waits can't be spooled, and is in memory only"
            self._notify(sentence(f"{text}: {exc}"), once="spool")
            return False
        self.rows.clear()  # in place: the thread may be about to write them
        self._notified.discard("spool")
        self.health.spooled = len(self.spool_file.entries)
        return True

    def leave(self) -> None:
        """Spool what waits, and notify of what becomes of it: the process ends."""
        with self.busy:
            self._encode(Codec())
            if not self._spool_rows():
                lost = self.rows.remove_oldest(0)
                if lost and not self._is_hopeless:
                    self.health.lost += lost
                    text = plural(lost, "entry", "entries")
                    end = "is lost" if lost == 1 else "are lost"
                    self._notify(f"{text} could not be written to {self.store.url}, and {end}.")
            left = len(self.spool_file.entries) if self.spool_file else 0
            if left != self._notified_left:
                self._notified_left = left
                wait, are = ("waits", "is") if left == 1 else ("wait", "are")
                text = f"{plural(left, 'entry', 'entries')} for {self.store.url}"
                file = self.spool_file.file
                self._notify(f"{text} {wait} in {file}, and {are} written the next time.")

    def end(self) -> None:
        """Close the store. What could not be written is spooled, for the next process."""
        self.leave()
        if self._kept_up_at is None and random.randrange(SELDOM) == 0:
            self.upkeep()
        self._close_store()
        self.drop_claimed()
        with suppress(OSError):
            self.spool_file.close()

    def drop_claimed(self) -> None:
        """Leave to others what other processes have left."""
        while self._claimed:
            self._claimed.pop().drop()

    # How it goes

    def _failed(self, exc: Exception) -> None:
        """Notify once of what is wrong, and hold what waits within its bounds."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        self._has_taken_over = False  # meanwhile, others may have left something
        self._is_hopeless |= isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        self.stuck(str(exc))
        if isinstance(exc, StoreDamaged):
            self._close_store()
        with self.busy:
            self._drop()

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

    @property
    def _limit(self) -> int:
        return 0 if self._is_hopeless else MOST_WAITING

    def _drop(self) -> None:
        """Drop the oldest rows, until what waits is small enough."""
        lost = self.rows.remove_oldest(self._limit)
        self.health.lost += lost
        if lost and not self._is_hopeless:
            much = f"More than {MOST_WAITING >> 20} MB wait for {self.store.url} in memory"
            self._notify(f"{much}: the oldest calls are let go.", once="lost")

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
        if not self._is_open:
            return False
        try:
            if self.store.index():
                return True
            if self._kept_up_at is None or time.monotonic() - self._kept_up_at > UPKEEP_EVERY:
                pruned = self.store.prune(self._keep)
                self.release_spills(pruned)
                if pruned.calls or pruned.messages:
                    return True
                self._kept_up_at = time.monotonic()
        except StoreDamaged:
            self._close_store()
        except Exception:  # noqa: BLE001 - whatever it is, the next write reports it
            return False
        return False

    def release_spills(self, pruned: Pruned) -> None:
        """Forget the spill files of calls that were removed."""
        if pruned.spills and self._forget_spills is not None:
            self._forget_spills(list(pruned.spills))
