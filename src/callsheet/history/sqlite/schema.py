"""The tables, and how those of earlier versions become the present ones.

`user_version` is how many of the steps a file has gone through. A step that has been released is never
changed; a new one is added to the end.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from callsheet.history.errors import BadUrl, StoreDamaged, StoreTooNew

STEPS = (
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE dictionaries (
        id INTEGER PRIMARY KEY, data BLOB NOT NULL, at REAL NOT NULL, source TEXT NOT NULL
    );
    CREATE TABLE writers (
        id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_at REAL NOT NULL, seen_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        session_id TEXT PRIMARY KEY, cwd TEXT NOT NULL, title TEXT NOT NULL, info TEXT NOT NULL,
        created_at REAL NOT NULL, updated_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_by_use ON sessions (updated_at, session_id);
    CREATE TABLE calls (
        seq INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL, call_id TEXT NOT NULL, position INTEGER NOT NULL,
        name TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL,
        status TEXT NOT NULL, reason TEXT,
        at REAL NOT NULL, updated_at REAL NOT NULL, duration_ms REAL,
        writer TEXT, size INTEGER NOT NULL, payload BLOB NOT NULL
    );
    CREATE UNIQUE INDEX calls_by_id ON calls (call_id, session_id);
    CREATE INDEX calls_by_place ON calls (session_id, position);
    CREATE INDEX calls_by_time ON calls (at);
    CREATE INDEX calls_by_tool ON calls (name, at);
    CREATE INDEX calls_unusual ON calls (status, at) WHERE status <> 'completed';
    CREATE INDEX calls_open ON calls (writer) WHERE writer IS NOT NULL;
    CREATE TABLE messages (
        session_id TEXT NOT NULL, message_id TEXT NOT NULL, part INTEGER NOT NULL,
        position INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
        size INTEGER NOT NULL, payload BLOB NOT NULL,
        PRIMARY KEY (session_id, message_id, part)
    );
    CREATE INDEX messages_by_place ON messages (session_id, position);
    CREATE TABLE blobs (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE blob_uses (
        session_id TEXT NOT NULL, owner TEXT NOT NULL, hash BLOB NOT NULL,
        PRIMARY KEY (session_id, owner, hash)
    ) WITHOUT ROWID;
    CREATE INDEX blob_uses_by_hash ON blob_uses (hash);
    CREATE VIRTUAL TABLE calls_text USING fts5 (
        title, command, paths, output, content = '', tokenize = 'unicode61 remove_diacritics 2'
    );
    -- Calls that the index has passed by, because they were open, or that have changed since it took them:
    -- an index of words can only forget what it was given, so that is kept.
    CREATE TABLE calls_later (seq INTEGER PRIMARY KEY, was BLOB);
    CREATE TRIGGER calls_changed AFTER UPDATE OF payload ON calls
    WHEN OLD.writer IS NULL AND OLD.seq <= (SELECT value FROM facts WHERE name = 'indexed_to')
    BEGIN
        INSERT OR IGNORE INTO calls_later VALUES (OLD.seq, OLD.payload);
    END;
    """,
    # A row is told from others by a key of ours. The trigger looks for itself whether a row is there: its
    # OR IGNORE was overridden by the upsert that fires it.
    """
    ALTER TABLE calls ADD COLUMN key TEXT NOT NULL DEFAULT '';
    UPDATE calls SET key = call_id;
    CREATE UNIQUE INDEX calls_by_key ON calls (session_id, key);
    CREATE TABLE messages_2 (
        session_id TEXT NOT NULL, key TEXT NOT NULL, message_id TEXT NOT NULL, part INTEGER NOT NULL,
        position INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
        size INTEGER NOT NULL, payload BLOB NOT NULL,
        PRIMARY KEY (session_id, key)
    );
    INSERT INTO messages_2 SELECT session_id, message_id || ' ' || part, message_id, part, position, kind, at,
        size, payload FROM messages ORDER BY rowid;
    DROP TABLE messages;
    ALTER TABLE messages_2 RENAME TO messages;
    CREATE INDEX messages_by_place ON messages (session_id, position);
    DROP TRIGGER calls_changed;
    CREATE TRIGGER calls_changed AFTER UPDATE OF payload ON calls
    WHEN OLD.writer IS NULL AND OLD.seq <= (SELECT value FROM facts WHERE name = 'indexed_to')
        AND NOT EXISTS (SELECT 1 FROM calls_later WHERE seq = OLD.seq)
    BEGIN
        INSERT INTO calls_later VALUES (OLD.seq, OLD.payload);
    END;
    """,
)

VERSION = len(STEPS)

_KNOWN = ("blob_uses", "calls_later", "facts", "writers")
_NEVER = 1000
"""A version that no history will ever have."""

OURS = 0x63616C6C
"""What a file says to be one of ours (`application_id`): "call"."""


def prepare(db: sqlite3.Connection, file: Path) -> None:
    """Make the tables, or bring those of an earlier version up to date."""
    if _version_at_once(db, file) == VERSION:
        return
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect only in an empty file
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        found = _version(db, file)  # another process may have been quicker
        for step in STEPS[found:]:
            for statement in _statements(step):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {OURS}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def _version_at_once(db: sqlite3.Connection, file: Path) -> int:
    """Return the version in one moment: a file that is being begun would else look like somebody else's."""
    db.execute("BEGIN")
    try:
        return _version(db, file)
    finally:
        db.rollback()


def _version(db: sqlite3.Connection, file: Path) -> int:
    """Return how many steps a file has gone through. What is somebody else's, or too new, is left alone."""
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (found,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (known,) = db.execute(
        f"SELECT count(*) FROM sqlite_master WHERE name IN ({', '.join('?' * len(_KNOWN))})", _KNOWN
    ).fetchone()
    if known == len(_KNOWN) and (owner != OURS or not 0 < found < _NEVER):
        raise StoreDamaged(f"{file} is damaged: it has a history's tables, but not its marks.")
    if owner != OURS and (owner or found or tables):
        raise BadUrl(
            f"{file} is the database of another program; name another file: --history sqlite:///PATH."
        )
    if found > VERSION:
        raise StoreTooNew(
            f"{file} is a history of version {found}, and this callsheet knows up to {VERSION}; "
            "use the newer callsheet, or another file: --history sqlite:///PATH."
        )
    return found


def _statements(script: str) -> list[str]:
    """Return the statements of a script, each of which ends a line: `executescript` would commit at once."""
    found: list[str] = []
    rest = ""
    for line in script.splitlines():
        rest += line + "\n"
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found
