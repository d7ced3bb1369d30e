"""The tables, and how those of earlier versions become the present ones.

They stand in a schema of their own, `callsheet`. All that belongs to a session is keyed by `session_id` first
and partitioned by its hash; every unique key has it, and there are no foreign keys. So the tables can be
distributed over a cluster (Citus) by that key. Blobs belong to no session: they are keyed and partitioned by
their hash, and what many sessions show is kept once. `facts`, `dictionaries` and `writers` are small.

`facts` holds how many of the steps a database has gone through. A step that has been released is never
changed; a new one is added to the end. Whoever migrates holds a lock, so many may start at once.
"""

from __future__ import annotations

from typing import Any

from callsheet.history.errors import StoreTooNew

LOCK = 0x63616C6C73680001
"""What is locked while the tables are made."""

PARTITIONS = 16

# The order of texts is that of their bytes, as in SQLite. Payloads are compressed already.
STEPS = (
    """
    CREATE TABLE callsheet.dictionaries (
        id bigint PRIMARY KEY, data bytea NOT NULL, at float8 NOT NULL, source text NOT NULL
    );
    CREATE TABLE callsheet.writers (
        id text PRIMARY KEY, pid int NOT NULL, started_at float8 NOT NULL, seen_at float8 NOT NULL
    );
    CREATE TABLE callsheet.sessions (
        session_id text COLLATE "C" PRIMARY KEY, cwd text COLLATE "C" NOT NULL, title text NOT NULL,
        info text NOT NULL, created_at float8 NOT NULL, updated_at float8 NOT NULL
    ) PARTITION BY HASH (session_id);
    CREATE INDEX sessions_by_use ON callsheet.sessions (updated_at, session_id);
    CREATE TABLE callsheet.calls (
        session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL, position bigint NOT NULL,
        name text COLLATE "C" NOT NULL, title text NOT NULL, kind text NOT NULL,
        status text COLLATE "C" NOT NULL, reason text COLLATE "C",
        at float8 NOT NULL, updated_at float8 NOT NULL, duration_ms float8,
        writer text COLLATE "C", size bigint NOT NULL, payload bytea NOT NULL,
        PRIMARY KEY (session_id, call_id)
    ) PARTITION BY HASH (session_id);
    ALTER TABLE callsheet.calls ALTER payload SET STORAGE EXTERNAL;
    CREATE INDEX calls_by_id ON callsheet.calls (call_id);
    CREATE INDEX calls_by_place ON callsheet.calls (session_id, position);
    CREATE INDEX calls_by_time ON callsheet.calls (at, session_id, call_id);
    CREATE INDEX calls_by_tool ON callsheet.calls (name, at);
    CREATE INDEX calls_unusual ON callsheet.calls (status, at) WHERE status <> 'completed';
    CREATE INDEX calls_by_reason ON callsheet.calls (reason, at) WHERE status <> 'completed';
    CREATE INDEX calls_open ON callsheet.calls (writer) WHERE writer IS NOT NULL;
    CREATE TABLE callsheet.messages (
        session_id text COLLATE "C" NOT NULL, message_id text COLLATE "C" NOT NULL, part int NOT NULL,
        position bigint NOT NULL, kind text NOT NULL, at float8 NOT NULL,
        size bigint NOT NULL, payload bytea NOT NULL,
        PRIMARY KEY (session_id, message_id, part)
    ) PARTITION BY HASH (session_id);
    ALTER TABLE callsheet.messages ALTER payload SET STORAGE EXTERNAL;
    CREATE INDEX messages_by_place ON callsheet.messages (session_id, position);
    CREATE TABLE callsheet.blob_uses (
        session_id text COLLATE "C" NOT NULL, owner text COLLATE "C" NOT NULL, hash bytea NOT NULL,
        PRIMARY KEY (session_id, owner, hash)
    ) PARTITION BY HASH (session_id);
    CREATE INDEX blob_uses_by_hash ON callsheet.blob_uses (hash);
    -- What can be found of a call: its words, and the same in their order, for phrases.
    CREATE TABLE callsheet.calls_text (
        session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
        words tsvector NOT NULL, texts text COLLATE "C" NOT NULL,
        PRIMARY KEY (session_id, call_id)
    ) PARTITION BY HASH (session_id);
    CREATE INDEX calls_text_words ON callsheet.calls_text USING gin (words);
    -- The calls that have ended and are not in calls_text yet.
    CREATE TABLE callsheet.unindexed (
        session_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
        PRIMARY KEY (session_id, call_id)
    ) PARTITION BY HASH (session_id);
    CREATE TABLE callsheet.blobs (
        hash bytea PRIMARY KEY, size bigint NOT NULL, data bytea NOT NULL
    ) PARTITION BY HASH (hash);
    ALTER TABLE callsheet.blobs ALTER data SET STORAGE EXTERNAL;
    -- The blobs that a row has used and uses no more: perhaps nobody does.
    CREATE TABLE callsheet.leftovers (hash bytea PRIMARY KEY) PARTITION BY HASH (hash);
    """
    + f"""
    DO $$
    DECLARE name text; part int;
    BEGIN
        FOREACH name IN ARRAY ARRAY['sessions', 'calls', 'messages', 'blob_uses', 'calls_text',
                                    'unindexed', 'blobs', 'leftovers'] LOOP
            FOR part IN 0..{PARTITIONS - 1} LOOP
                EXECUTE format(
                    'CREATE TABLE callsheet.%I PARTITION OF callsheet.%I '
                    'FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER %s)',
                    name || '_' || to_char(part, 'FM00'), name, part);
            END LOOP;
        END LOOP;
    END $$;
    """,
    # A row is told from others by a key of ours. `seq` is the order in which calls were written.
    """
    ALTER TABLE callsheet.calls ADD COLUMN key text COLLATE "C";
    UPDATE callsheet.calls SET key = call_id;
    ALTER TABLE callsheet.calls ALTER key SET NOT NULL;
    CREATE UNIQUE INDEX calls_by_key ON callsheet.calls (session_id, key);
    ALTER TABLE callsheet.messages ADD COLUMN key text COLLATE "C";
    UPDATE callsheet.messages SET key = message_id || ' ' || part;
    ALTER TABLE callsheet.messages ALTER key SET NOT NULL;
    ALTER TABLE callsheet.messages DROP CONSTRAINT messages_pkey;
    ALTER TABLE callsheet.messages ADD PRIMARY KEY (session_id, key);
    CREATE SEQUENCE callsheet.calls_seq;
    ALTER TABLE callsheet.calls ADD COLUMN seq bigint;
    ALTER TABLE callsheet.calls ALTER seq SET DEFAULT nextval('callsheet.calls_seq');
    CREATE INDEX calls_by_seq ON callsheet.calls (seq NULLS FIRST, at);
    """,
)

VERSION = len(STEPS)

TABLES = (
    "facts", "dictionaries", "writers", "sessions", "calls", "messages", "blob_uses", "calls_text",
    "unindexed", "blobs", "leftovers",
)  # fmt: skip


# Asked of the tables themselves: what a connection remembers of names may be older than its lock.
_IS_THERE = """
SELECT EXISTS (
    SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'callsheet' AND c.relname = 'facts'
)
"""


async def version(db: Any) -> int | None:
    """Return how many steps a database has gone through; None if there is no history in it."""
    if not await db.fetchval(_IS_THERE):
        return None
    found = await db.fetchval("SELECT value FROM callsheet.facts WHERE name = 'version'")
    if found is not None and found > VERSION:
        raise StoreTooNew(
            f"the history is of version {found}, and this callsheet knows up to {VERSION}; "
            "use the newer callsheet, or another database: --history postgresql://…"
        )
    return found or 0


async def prepare(db: Any) -> None:
    """Make the tables, or bring those of an earlier version up to date. Called within a transaction."""
    await db.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
    found = await version(db)  # another process may have been quicker
    if found == VERSION:
        return
    if found is None:
        await db.execute("CREATE SCHEMA IF NOT EXISTS callsheet")
        await db.execute(
            "CREATE TABLE callsheet.facts (name text PRIMARY KEY, value bigint NOT NULL)"
        )
    for step in STEPS[found or 0 :]:
        await db.execute(step)
    await note(db, "version", VERSION)


async def fact(db: Any, name: str) -> int | None:
    """Return a number that the store notes about itself."""
    return await db.fetchval("SELECT value FROM callsheet.facts WHERE name = $1", name)


async def note(db: Any, name: str, value: int) -> None:
    """Note a number about the store."""
    await db.execute(
        "INSERT INTO callsheet.facts VALUES ($1, $2) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name,
        value,
    )
