"""The upkeep of a store: indexing words, removing calls that exceed the limits, and forgetting sessions.

Calls go in the order in which they were written (`seq`), the oldest first, and never while they run. With a
call go the messages before it in its session, and its words in the index. A session of which nothing is left
goes, too. Each step is a transaction, and others can write between two of them.

How old calls are is judged by the calls themselves, and not by the clock: see `_steady_now`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from callsheet.history.call_records import column_text, spills_of
from callsheet.history.database import Values
from callsheet.history.figures import UsageReader
from callsheet.history.origin import revealed
from callsheet.history.queries import guarded
from callsheet.history.rows import Fill, Pruned, Retention
from callsheet.history.search_text import index_words, words_of
from callsheet.history.store_errors import StoreDamaged
from callsheet.report.terminal import CallRecord

PROOF = 10
"""Calls that a clock must have been right for, more or less, until what it says makes others old."""

SPARE = 0.9
"""Of the bytes that there may be, how many are used after something was removed."""

EVERY = 1 << 62

_REMOVED = "seq, session_id, position, payload"
_REMOVE_MESSAGES = """
DELETE FROM messages WHERE (session_id, key) IN (
    SELECT m.session_id, m.key FROM messages m
    WHERE m.at < ? AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.session_id = m.session_id)
    ORDER BY m.at LIMIT ?
) RETURNING 1
"""


class Upkeep(UsageReader):
    """The part of a store that indexes and removes."""

    @guarded
    def index(self, limit: int = 200) -> int:
        """Index calls for the search.

        Args:
            limit: How many calls to index at most.

        Returns:
            How many calls waited for it, of those. 0 means that nothing is left.
        """
        return index_words(self.db, limit)

    # Removing

    def prune(
        self, keep: Retention, *, now: float | None = None, most: int = 500
    ) -> Iterator[Pruned]:
        """Remove what exceeds the limits, step by step, and release the space.

        Args:
            keep: The limits.
            now: The time that ages are measured from. Default: derived from the calls, as a clock may jump.
            most: How many calls to remove in one step.

        Yields:
            What each step has removed.
        """
        steps = self._steps(keep, now, most)
        while (pruned := self._next(steps)) is not None:
            yield pruned

    @guarded
    def _next(self, steps: Iterator[Pruned]) -> Pruned | None:
        return next(steps, None)

    def _steps(self, keep: Retention, now: float | None, most: int) -> Iterator[Pruned]:
        known = self._steady_now() if now is None else now
        if keep.max_age is not None:
            old = known - keep.max_age
            for table in self.db.partitions_before(old):
                if not (yield from self._drop_partition(table, most)):
                    return  # another time
            yield from self._remove_calls(EVERY, most, "at < ?", old)
            yield from self._remove_messages(old, most)
        if keep.max_calls is not None:
            count = self.db.fetch_value("SELECT count(*) FROM calls")
            yield from self._remove_calls(count - keep.max_calls, most)
        if keep.max_bytes is not None:
            # How many calls are too many is an estimate, so it is made again.
            while surplus := self._fill(keep.max_bytes).surplus:
                removed = list[Pruned]()
                for pruned in self._remove_calls(surplus, most):
                    removed.append(pruned)
                    yield pruned
                self.db.release()  # the index of words holds on to the space of removed calls
                if not removed:
                    break
            yield from self._remove_messages(known, most, keep.max_bytes)
        self.db.release()

    def _steady_now(self) -> float:
        """Return the time that the age of calls is measured from.

        That is the time of one of the newest calls. A clock that is wrong for a few calls makes nothing old,
        and nor does a long absence.
        """
        now = time.time()
        recent = "SELECT at FROM calls WHERE at <= ? ORDER BY at DESC LIMIT 1 OFFSET ?"
        return min(now, self.db.fetch_value(recent, now, PROOF) or 0.0)

    @guarded
    def fill(self, limit: int) -> Fill:
        """Return how full the store is, and how many calls must go to meet a limit of bytes."""
        return self._fill(limit)

    def _fill(self, limit: int) -> Fill:
        if self.db.disk_bytes() <= limit:  # then there is nothing to count
            return Fill(0, 0)
        used = self.db.used_bytes()
        count = self.db.fetch_value("SELECT count(*) FROM calls")
        return Fill(used, count - int(count * SPARE * limit / used) if used > limit else 0)

    def _remove_calls(
        self, surplus: int, most: int, condition: str = "1 = 1", *values: Any
    ) -> Iterator[Pruned]:
        """Remove the oldest calls that meet a condition and have ended, so many at most."""
        while surplus > 0:
            with self.db.transaction():
                rows = self.db.fetch(
                    f"SELECT {_REMOVED} FROM calls WHERE {condition} AND writer IS NULL "
                    f"ORDER BY seq LIMIT ?{self.db.for_update}",
                    *values,
                    min(surplus, most),
                )
                pruned = self._remove(rows)
            if not rows:
                return
            surplus -= len(rows)
            yield pruned

    def _drop_partition(self, table: str, most: int) -> Generator[Pruned, None, bool]:
        """Drop a table of calls, with the messages before them, and what only they refer to.

        Return whether that was possible. While the table is dropped, nobody reads or writes calls, so all
        else is done before or after that.
        """
        seq, spilled = -1, f"SELECT seq, payload FROM {table} WHERE marks LIKE '%\"spills\":%'"
        while rows := self.db.fetch(f"{spilled} AND seq > ? ORDER BY seq LIMIT ?", seq, most):
            seq = rows[-1][0]
            records = [self.db.codec.readable(payload) for _, payload in rows]
            yield Pruned(spills=_spills_of(records))
        with self.db.patiently():
            calls = self.db.fetch_value(f"SELECT count(*) FROM {table}")
            reached = self.db.fetch(f"SELECT session_id, max(position) FROM {table} GROUP BY 1")
            for name in ("unindexed", self.db.index_table):
                self.db.fetch(f"DELETE FROM {name} WHERE seq IN (SELECT seq FROM {table})")
        if not self.db.drop_partition(table):
            return False
        for begin in range(0, len(reached), most):
            some = dict(map(tuple, reached[begin : begin + most]))
            with self.db.transaction():
                messages, sessions = self._remove_reached(some), self._drop_empty([*some])
            yield Pruned(calls=0 if begin else calls, messages=messages, sessions=sessions)
        return True

    def _remove_reached(self, reached: Mapping[str, int]) -> int:
        """Remove what came in sessions before calls that are removed. Return how many messages that were."""
        before = "session_id = ? AND position < ?"
        messages = 0
        for session, position in reached.items():
            sql = f"DELETE FROM messages WHERE {before} RETURNING 1"
            messages += len(self.db.fetch(sql, session, position))
            self.db.fetch(
                f"DELETE FROM turns WHERE {before} AND ended_at IS NOT NULL AND NOT EXISTS "
                "(SELECT 1 FROM calls c WHERE c.session_id = turns.session_id AND c.turn = turns.key)",
                session,
                position,
            )
        return messages

    def _remove(self, rows: Sequence[Values]) -> Pruned:
        """Remove calls, the messages before them, and what only they refer to, within a transaction."""
        pruned = Pruned(calls=len(rows))
        records = [(row[0], self.db.codec.readable(row[3])) for row in rows]
        pruned.spills = _spills_of([one for _, one in records])
        seqs = [seq for seq, _ in records]
        gone = self.db.fetch_in("DELETE FROM calls WHERE seq IN ({}) RETURNING seq", seqs)
        if len(gone) < len(rows):  # they would be found again and again
            raise StoreDamaged("The history is damaged: an index has rows that its table has not.")
        queued = self.db.fetch_in("DELETE FROM unindexed WHERE seq IN ({}) RETURNING seq", seqs)
        waiting = {seq for (seq,) in queued}
        self.db.remove_words([(seq, words_of(one)) for seq, one in records if seq not in waiting])
        reached: dict[str, int] = {}
        for _, session, position, _ in rows:
            reached[session] = max(position, reached.get(session, -1))
        pruned.messages = self._remove_reached(reached)
        pruned.sessions = self._drop_empty(list(reached))
        return pruned

    def _remove_messages(self, before: float, most: int, limit: int = -1) -> Iterator[Pruned]:
        """Remove the oldest messages of sessions that have no calls, and sessions that are empty.

        With a limit, stop as soon as the store takes no more bytes than that.
        """
        while limit < 0 or self._fill(limit).used > limit:
            with self.db.transaction():
                gone = self.db.fetch(_REMOVE_MESSAGES, before, most)
                unused = self.db.fetch(
                    "SELECT session_id FROM sessions WHERE updated_at < ?", before
                )
                pruned = Pruned(
                    messages=len(gone), sessions=self._drop_empty([key for (key,) in unused])
                )
            if pruned.messages or pruned.sessions:
                yield pruned
            if not gone:
                return

    def _drop_empty(self, sessions: Sequence[str]) -> int:
        """Remove those sessions of which nothing is left. Return how many."""
        if self.db.for_update:
            # Whoever writes to a session holds its row: only after waiting for them is all of it visible.
            lock = "SELECT 1 FROM sessions WHERE session_id IN ({}) ORDER BY session_id FOR UPDATE"
            self.db.fetch_in(lock, sorted(sessions))
        gone = self.db.fetch_in(
            "DELETE FROM sessions WHERE session_id IN ({}) AND NOT EXISTS "
            "(SELECT 1 FROM calls c WHERE c.session_id = sessions.session_id) AND NOT EXISTS "
            "(SELECT 1 FROM messages m WHERE m.session_id = sessions.session_id) RETURNING session_id",
            sessions,
        )
        self.db.fetch_in("DELETE FROM turns WHERE session_id IN ({})", [key for (key,) in gone])
        return len(gone)

    @guarded
    def forget(self, session_id: str) -> Pruned:
        """Remove a session, with its calls and messages. `prune` releases their space."""
        key = column_text(session_id)
        with self.db.transaction():
            self.db.fetch(f"SELECT 1 FROM sessions WHERE session_id = ?{self.db.for_update}", key)
            rows = self.db.fetch(
                f"SELECT {_REMOVED} FROM calls WHERE session_id = ?{self.db.for_update}", key
            )
            pruned = self._remove(rows)
            gone = self.db.fetch("DELETE FROM messages WHERE session_id = ? RETURNING 1", key)
            self.db.fetch("DELETE FROM turns WHERE session_id = ?", key)
            left = self.db.fetch("DELETE FROM sessions WHERE session_id = ? RETURNING 1", key)
            pruned.messages += len(gone)
            pruned.sessions += len(left)
        return pruned

    @guarded
    def vacuum(self) -> None:
        """Make the store as small as it can be."""
        self.db.vacuum()


def _spills_of(records: Sequence[CallRecord | None]) -> list[str]:
    return [revealed(path) for one in records if one for path in spills_of(one.report)]


class Pruning:
    """Removes what exceeds the limits of a store, a little at a time, and again `every` so many seconds."""

    def __init__(self, store: Upkeep, keep: Retention, every: float) -> None:
        self.done_at: float | None = None
        """When it was last done, or has failed, by `time.monotonic`."""
        self._store: Upkeep = store
        self._keep: Retention = keep
        self._every: float = every
        self._steps: Iterator[Pruned] | None = None

    def step(self) -> Pruned | None:
        """Remove some, if it is time to. Return what was removed; None if there is no more for now."""
        if self._steps is None:
            if self.done_at is not None and time.monotonic() < self.done_at + self._every:
                return None
            self._steps = self._store.prune(self._keep)
        pruned = None
        try:
            pruned = next(self._steps, None)
        finally:
            if pruned is None:
                self._steps, self.done_at = None, time.monotonic()
        return pruned
