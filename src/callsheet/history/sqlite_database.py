"""SQLite's dialect: running statements, the index of words, and the space of a file.

The index is a table of FTS5 without content: it holds which words a call has, and not the call. To take a
call out of it, it needs just the words that it was made from. `indexed_to` is the `seq` up to
which the index has looked. Calls that it has passed by because they were open wait in `calls_later`, and so
do those that have changed since: with their payload (`was`) that the index was made from. A trigger puts them
there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from callsheet.history import queries
from callsheet.history.codec import Codec
from callsheet.history.database import Database, Removed, Values
from callsheet.history.rows import BlobRow, CallRow, Fill
from callsheet.history.store_errors import StoreDamaged

Transact = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Does something in one transaction."""

MERGED_PAGES = 500
"""Pages of the index that are merged in one step."""

FREED_PAGES = 25_000
"""Pages that are released to the file system at once: 100 MB."""

SPARE = 0.9
"""Of the bytes that there may be, how many are used after something was removed."""

# How many calls stay, decided once for a limit of bytes: see `surplus`.
_STAY, _STAY_FOR = "calls_to_stay", "bytes_to_stay"

_NOTHING = ("", "", "", "")
_FORGET_WORDS = (
    "INSERT INTO calls_text (calls_text, rowid, title, command, paths, output) "
    "VALUES ('delete', ?, ?, ?, ?, ?)"
)
_NEW = "SELECT seq, writer, payload FROM calls WHERE seq > ? ORDER BY seq LIMIT ?"
_LATER = (
    "SELECT l.seq, l.was, c.payload FROM calls_later l JOIN calls c ON c.seq = l.seq "
    "WHERE c.writer IS NULL ORDER BY l.seq LIMIT ?"
)


class SqliteDatabase(Database):
    """A connection to a file. SQLite has one writer at a time, so no rows have to be locked."""

    indexed_calls: str = "calls_text_docsize"

    def __init__(self, db: sqlite3.Connection, codec: Codec) -> None:
        super().__init__(codec)
        self.db: sqlite3.Connection = db

    async def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        """Run a statement, and return its rows."""
        return self.db.execute(sql, values).fetchall()

    async def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once with each of these rows of values."""
        if rows:
            self.db.executemany(sql, rows)

    # Blobs

    async def store_blobs(self, blobs: Iterable[BlobRow]) -> None:
        """Store large texts that are not there yet."""
        rows = [(blob.hash, blob.size, blob.data) for blob in blobs]
        await self.execute_many("INSERT INTO blobs VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)

    async def release_blobs(self, hashes: Iterable[bytes]) -> None:
        """Remove blobs that a row uses no more, if no other row uses them."""
        await self.remove_unused_blobs(hashes)

    async def is_settled(self, row: CallRow) -> bool:
        """Return whether a state of a call was accepted, and the index has forgotten earlier ones."""
        later = (
            "SELECT 1 FROM calls_later l JOIN calls c ON c.seq = l.seq "
            "WHERE c.session_id = ? AND c.key = ? AND l.was IS NOT NULL"
        )
        is_waiting = await self.fetch(later, row.session_id, row.owner)
        return not is_waiting and await super().is_settled(row)

    # The index of words

    def match(self, phrases: list[list[str]]) -> tuple[str, list[tuple[str, Values]]]:
        """Return what to join to calls, and conditions, for a search: in the terms of FTS5."""
        terms = [" + ".join(f'"{word}"' for word in phrase) for phrase in phrases]
        question = " AND ".join(terms) + " *"
        return " JOIN calls_text ON calls_text.rowid = c.seq", [("calls_text MATCH ?", [question])]

    async def index(self, limit: int, transact: Transact) -> int:
        """Index so many calls that have ended, at most. Return how many were looked at."""
        if await self.fact("text_version") != queries.WORDS_VERSION:
            await transact(self._begin_anew)
        new, later = await self._to_index(limit)
        if not new and not later:
            return 0
        # Taking texts apart takes time, in which nobody is to be held up.
        ended = [payload for _, writer, payload in new if writer is None]
        words = await self._words([*ended, *(payload for _, _, payload in later)])
        return await transact(lambda: self._index(limit, words))

    async def _to_index(self, limit: int) -> tuple[Sequence[Values], Sequence[Values]]:
        new = await self.fetch(_NEW, await self.fact("indexed_to"), limit)
        return new, await self.fetch(_LATER, limit)

    async def _index(self, limit: int, words: dict[bytes, tuple[str, ...]]) -> int:
        new, later = await self._to_index(limit)  # which may have changed meanwhile
        before = [(seq, was) for seq, was, _ in later if was is not None]
        ended = [(seq, payload) for seq, writer, payload in new if writer is None]
        ended += [(seq, payload) for seq, _, payload in later]
        unknown = [payload for _, payload in (*before, *ended) if payload not in words]
        words = {**words, **await self._words(unknown)}
        await self.execute_many(_FORGET_WORDS, [(seq, *words[was]) for seq, was in before])
        await self.execute_many(
            "INSERT INTO calls_text (rowid, title, command, paths, output) VALUES (?, ?, ?, ?, ?)",
            [(seq, *words[payload]) for seq, payload in ended],
        )
        done = [row[0] for row in later]
        gone = await self.fetch_in("DELETE FROM calls_later WHERE seq IN ({}) RETURNING seq", done)
        if len(gone) < len(done):  # they would be found again and again
            raise StoreDamaged("The history is damaged: an index has rows that its table has not.")
        await self.execute_many(
            "INSERT INTO calls_later VALUES (?, NULL) ON CONFLICT DO NOTHING",
            [(seq,) for seq, writer, _ in new if writer is not None],
        )
        if new:
            await self.note("indexed_to", new[-1][0])
        return len(new) + len(later)

    async def _words(self, payloads: Sequence[bytes]) -> dict[bytes, tuple[str, ...]]:
        """Return what the index holds of calls. Of one that can't be read, it is nothing."""
        records = await self.records(payloads)
        words = [queries.search_fields(one) if one else _NOTHING for one in records]
        return dict(zip(payloads, words, strict=True))

    async def _begin_anew(self) -> None:
        """Empty the index: its words were made in another way than they would be now."""
        await self.fetch("INSERT INTO calls_text (calls_text) VALUES ('delete-all')")
        await self.fetch("DELETE FROM calls_later")
        await self.note("indexed_to", 0)
        await self.note("text_version", queries.WORDS_VERSION)

    async def unindex(self, removed: Sequence[Removed]) -> None:
        """Remove calls from the index after their rows were removed."""
        count, is_current = 0, await self.fact("text_version") == queries.WORDS_VERSION
        for (seq, *_), record in removed:
            was = await self.fetch_value("DELETE FROM calls_later WHERE seq = ? RETURNING was", seq)
            known = await self.fetch("SELECT 1 FROM calls_text_docsize WHERE id = ?", seq)
            if known and is_current:
                (indexed,) = [record] if was is None else await self.records([was])
                words = queries.search_fields(indexed) if indexed else _NOTHING
                await self.fetch(_FORGET_WORDS, seq, *words)
                count += 1
        await self.note("removed", await self.fact("removed") + count)
        # SQLite reuses the `seq` of removed calls for new ones, which the index must not skip.
        await self.fetch(
            "UPDATE facts SET value = min(value, (SELECT coalesce(max(seq), 0) FROM calls)) "
            "WHERE name = 'indexed_to'"
        )

    async def is_loose(self) -> bool:
        """Return whether much of the index is about removed calls: it holds their words and tombstones."""
        removed = await self.fact("removed")
        known = await self.fetch_value("SELECT count(*) FROM calls_text_docsize")
        return removed > 0 and removed * 10 >= known

    async def compact(self, transact: Transact) -> None:
        """Make the index small again, in steps between which others can write."""
        size = -MERGED_PAGES  # in FTS5, a negative first step starts a merge of the whole index
        merge = "INSERT INTO calls_text (calls_text, rank) VALUES ('merge', ?)"
        while True:
            before = self.db.total_changes
            await transact(lambda size=size: self.fetch(merge, size))
            if self.db.total_changes - before < 2:  # as SQLite's documents have it
                break
            size = MERGED_PAGES
        await transact(lambda: self.note("removed", 0))

    # Space

    async def disk_bytes(self) -> int:
        """Return what the file takes on the disk, with what was not yet moved into it."""
        pages = await self._pragma("page_count") * await self._pragma("page_size")
        wal = Path(f"{self.db.execute('PRAGMA database_list').fetchone()[2]}-wal")
        return pages + (wal.stat().st_size if wal.exists() else 0)

    async def fill(self, limit: int) -> Fill:
        """Return how full the file is, and how many calls go for it to have so many bytes."""
        used, least = await self._used_bytes(), await self._least_bytes()
        if used <= limit:
            return Fill(used, least, 0)
        count = await self.fetch_value("SELECT count(*) FROM calls")
        share = (limit - least) / (used - least) if limit > least else 0.0
        return Fill(used, least, count - int(count * SPARE * share))

    async def surplus(self, limit: int, most: int) -> int:
        """Return how many calls are to be removed now for the file to have so many bytes.

        The index releases the space of removed calls only when it is compacted, which takes time. So how many
        calls stay is decided once, with some room to spare, and not again after every step. The limit is
        recorded with that decision: an interrupted process may have had a smaller one.
        """
        count = await self.fetch_value("SELECT count(*) FROM calls")
        stay = await self.fact(_STAY, -1)
        if stay < 0 or await self.fact(_STAY_FOR) != limit:
            found = await self.fill(limit)
            if found.used <= limit:
                return 0
            stay = count - found.surplus
            await self.note(_STAY, stay)
            await self.note(_STAY_FOR, limit)
        return min(most, count - stay)

    async def is_full(self, limit: int) -> bool:
        """Return whether the file has too many bytes still, after all calls were removed that were to go."""
        await self.note(_STAY, -1)
        return await self._used_bytes() > limit and not await self.is_loose()

    async def _used_bytes(self) -> int:
        """Return the bytes of the pages that are in use."""
        pages = await self._pragma("page_count") - await self._pragma("freelist_count")
        return pages * await self._pragma("page_size")

    async def _least_bytes(self) -> int:
        """Return what the file takes without a call: a page per table and index, and the dictionaries."""
        size = await self._pragma("page_size")
        trees = await self.fetch_value("SELECT count(*) FROM sqlite_master WHERE rootpage > 0")
        sql = "SELECT coalesce(sum(length(data) / ?), 0) FROM dictionaries"
        pages = await self.fetch_value(sql, size)
        return (trees + 4 + pages) * size  # and four in which SQLite notes where all is

    async def _pragma(self, name: str) -> int:
        return await self.fetch_value(f"PRAGMA {name}")

    def give_back(self) -> None:
        """Return free pages to the system, as many as a step may have freed."""
        # `execute` would end after the first page.
        self.db.executescript(f"PRAGMA incremental_vacuum({FREED_PAGES})")
        self._checkpoint()

    async def vacuum(self) -> None:
        """Make the file as small as it can be."""
        await self.fetch("INSERT INTO calls_text (calls_text) VALUES ('optimize')")
        await self.note("removed", 0)
        await self.fetch("VACUUM")
        self._checkpoint()

    def _checkpoint(self) -> None:
        """Move what was written into the file, unless somebody reads: that would hold up all who write."""
        (patience,) = self.db.execute("PRAGMA busy_timeout").fetchone()
        self.db.execute("PRAGMA busy_timeout = 0")
        try:
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self.db.execute(f"PRAGMA busy_timeout = {patience}")
