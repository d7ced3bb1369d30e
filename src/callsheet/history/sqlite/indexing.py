"""The index of words: which calls are in it, and how they get in and out.

`indexed_to` is up to where the index has looked. Calls that it has passed by because they were open wait in
`calls_later`, and so do those that have changed since: with what the index holds of them, which is what it
must be told to forget.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from callsheet.history.errors import StoreDamaged
from callsheet.history.packing import Packer
from callsheet.history.words import VERSION, fields
from callsheet.report.terminal import CallRecord

_FORGET = (
    "INSERT INTO calls_text (calls_text, rowid, title, command, paths, output) "
    "VALUES ('delete', ?, ?, ?, ?, ?)"
)
_MERGE = "INSERT INTO calls_text (calls_text, rank) VALUES ('merge', ?)"

MERGE = 500
"""Pages of the index that are merged in one step."""

_NEW = "SELECT seq, writer, payload FROM calls WHERE seq > ? ORDER BY seq LIMIT ?"
_LATER = (
    "SELECT l.seq, l.was, c.payload FROM calls_later l JOIN calls c ON c.seq = l.seq "
    "WHERE c.writer IS NULL ORDER BY l.seq LIMIT ?"
)


class Unpacking(Protocol):
    """What makes sense of payloads, and makes changes in one transaction."""

    packer: Packer

    def unpack(self, payload: bytes) -> CallRecord:
        """Return the record that a payload stands for."""
        ...

    def plain(self, payload: bytes) -> bytes:
        """Return a payload's JSON."""
        ...

    def transact(self, work: Callable[[], Any]) -> Any:
        """Do something in one transaction."""
        ...


def index(db: sqlite3.Connection, store: Unpacking, limit: int) -> int:
    """Index so many calls that have ended, at most. Gives how many were looked at; 0 means all were."""
    if fact(db, "text_version") != VERSION:
        store.transact(lambda: _begin_anew(db))
    new, later = _todo(db, limit)
    if not new and not later:
        return 0
    # Taking texts apart takes time, in which nobody is to be held up.
    ended = [payload for _, writer, payload in new if writer is None]
    words = {one: words_of(store, one) for one in [*ended, *(row[2] for row in later)]}
    return store.transact(lambda: _index(db, store, limit, words))


def _todo(db: sqlite3.Connection, limit: int) -> tuple[list[Any], list[Any]]:
    new = db.execute(_NEW, (fact(db, "indexed_to"), limit)).fetchall()
    return new, db.execute(_LATER, (limit,)).fetchall()


def _index(
    db: sqlite3.Connection, store: Unpacking, limit: int, words: dict[bytes, tuple[str, ...]]
) -> int:
    new, later = _todo(db, limit)  # which may have changed meanwhile
    for seq, was, _ in later:
        if was is not None:
            db.execute(_FORGET, (seq, *words_of(store, was)))
    ended = [(seq, payload) for seq, writer, payload in new if writer is None]
    ended += [(seq, payload) for seq, _, payload in later]
    db.executemany(
        "INSERT INTO calls_text (rowid, title, command, paths, output) VALUES (?, ?, ?, ?, ?)",
        [(seq, *(words.get(payload) or words_of(store, payload))) for seq, payload in ended],
    )
    remove(db, "calls_later WHERE seq = ?", [(row[0],) for row in later])
    db.executemany(
        "INSERT OR IGNORE INTO calls_later VALUES (?, NULL)",
        [(seq,) for seq, writer, _ in new if writer is not None],
    )
    if new:
        note(db, "indexed_to", new[-1][0])
    return len(new) + len(later)


def words_of(store: Unpacking, payload: bytes) -> tuple[str, ...]:
    """Return what the index holds of a call. Of one that can't be read, it is nothing."""
    try:
        return fields(store.unpack(payload))
    except StoreDamaged:
        return "", "", "", ""


def forget(db: sqlite3.Connection, store: Unpacking, seq: int, payload: bytes) -> None:
    """Take a call out of the index, which is about to be removed."""
    later = db.execute("DELETE FROM calls_later WHERE seq = ? RETURNING was", (seq,)).fetchone()
    known = db.execute("SELECT 1 FROM calls_text_docsize WHERE id = ?", (seq,)).fetchone()
    if known and fact(db, "text_version") == VERSION:
        was = later[0] if later and later[0] is not None else payload
        db.execute(_FORGET, (seq, *words_of(store, was)))
        note(db, "removed", fact(db, "removed") + 1)


def is_loose(db: sqlite3.Connection) -> bool:
    """Whether much of the index is about calls that were removed: it keeps their words, and what goes."""
    removed = fact(db, "removed")
    (known,) = db.execute("SELECT count(*) FROM calls_text_docsize").fetchone()
    return removed > 0 and removed * 10 >= known


def compact(db: sqlite3.Connection, store: Unpacking) -> None:
    """Make the index small again, in steps between which others can write."""
    size = -MERGE  # which is how the first step says that all is to be merged
    while True:
        before = db.total_changes
        store.transact(lambda size=size: db.execute(_MERGE, (size,)))
        if db.total_changes - before < 2:  # as SQLite's documents have it
            break
        size = MERGE
    store.transact(lambda: note(db, "removed", 0))


def step_back(db: sqlite3.Connection) -> None:
    """Look again at the numbers that calls to come will have: those of removed ones are given anew."""
    db.execute(
        "UPDATE facts SET value = min(value, (SELECT coalesce(max(seq), 0) FROM calls)) "
        "WHERE name = 'indexed_to'"
    )


def _begin_anew(db: sqlite3.Connection) -> None:
    """Empty the index: it was made in another way than it would be now."""
    db.execute("INSERT INTO calls_text (calls_text) VALUES ('delete-all')")
    db.execute("DELETE FROM calls_later")
    note(db, "indexed_to", 0)
    note(db, "text_version", VERSION)


def remove(db: sqlite3.Connection, what: str, rows: Sequence[Any]) -> None:
    """Remove rows that were just found. If an index has some that the table has not, that would never end."""
    if db.executemany(f"DELETE FROM {what}", rows).rowcount < len(rows):
        raise StoreDamaged("The history is damaged: an index has rows that its table has not.")


def fact(db: sqlite3.Connection, name: str, default: int = 0) -> int:
    """Return a number that the file has noted."""
    found = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return found[0] if found else default


def note(db: sqlite3.Connection, name: str, value: int) -> None:
    """Note a number in the file."""
    db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
