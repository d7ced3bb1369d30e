"""The tables of a store, in the dialects of both engines.

Both have the same tables, columns and indexes. They differ in the index of words, in how calls that have
ended get into its queue, `unindexed`, and in that PostgreSQL keeps the calls of each week in a table of their
own, so that old ones can be dropped at once. `views` shows all of it to other programs.
"""

from __future__ import annotations

import re

_ORIGINS = """
-- Who made calls: see `rows.Origin`.
CREATE TABLE origins (
    key text PRIMARY KEY, user_name text NOT NULL, host text NOT NULL, agent text NOT NULL,
    agent_version text NOT NULL, client text NOT NULL, client_version text NOT NULL, source text NOT NULL
);
CREATE TABLE turns (
    session_id text NOT NULL, key text NOT NULL, position bigint NOT NULL, at float8 NOT NULL,
    ended_at float8, stop_reason text, origin text, trace text,
    input_tokens bigint, output_tokens bigint, cached_read_tokens bigint, cached_write_tokens bigint,
    thought_tokens bigint, total_tokens bigint, model text, cost float8, currency text, cost_source text,
    context_used bigint, context_size bigint,
    PRIMARY KEY (session_id, key)
);
CREATE INDEX turns_by_time ON turns (at);
"""

_CALLS_INDEXES = """
CREATE INDEX calls_by_id ON calls (call_id, session_id);
-- All states of a call have the time of the first one, which a unique index of partitions must have, too.
CREATE UNIQUE INDEX calls_by_key ON calls (session_id, key, at);
CREATE INDEX calls_by_place ON calls (session_id, position);
-- With what filters compare, so that they need not read the rows, which are many times its size.
CREATE INDEX calls_by_time ON calls (at, name, kind, status, duration_ms, size, origin);
CREATE INDEX calls_by_tool ON calls (name, at);
CREATE INDEX calls_unusual ON calls (status, at) WHERE status <> 'completed';
CREATE INDEX calls_marked ON calls (at) WHERE marks IS NOT NULL;
CREATE INDEX calls_open ON calls (writer) WHERE writer IS NOT NULL;
"""

_CALLS = """
-- `seq` is the order in which calls were written. None is used again: the index of words knows calls by it.
CREATE TABLE calls (
    seq {serial},
    session_id text NOT NULL, call_id text NOT NULL, position bigint NOT NULL,
    name text NOT NULL, title text NOT NULL, kind text NOT NULL, status text NOT NULL, reason text,
    at float8 NOT NULL, updated_at float8 NOT NULL, duration_ms float8,
    writer text, size bigint NOT NULL, marks text, payload bytea NOT NULL, key text NOT NULL,
    origin text, turn text, input {json}, output {json}{more}
"""

_SHARED = (
    _ORIGINS
    + """
CREATE TABLE sessions (
    session_id text PRIMARY KEY, cwd text NOT NULL, title text NOT NULL, info text NOT NULL,
    created_at float8 NOT NULL, updated_at float8 NOT NULL, origin text
);
CREATE INDEX sessions_by_use ON sessions (updated_at, session_id);
CREATE TABLE messages (
    session_id text NOT NULL, key text NOT NULL, message_id text NOT NULL, part bigint NOT NULL,
    position bigint NOT NULL, kind text NOT NULL, at float8 NOT NULL,
    size bigint NOT NULL, payload bytea NOT NULL,
    PRIMARY KEY (session_id, key)
);
CREATE INDEX messages_by_place ON messages (session_id, position);
-- The calls that have ended and are not in the index of words yet.
CREATE TABLE unindexed (seq {integer} PRIMARY KEY);
"""
)

# SQLite takes any name of a type, and knows what is meant.

SQLITE_TABLES = (
    _SHARED.format(integer="INTEGER")
    + _CALLS.format(serial="INTEGER PRIMARY KEY AUTOINCREMENT", json="text", more="\n);")
    + _CALLS_INDEXES
    + """
-- Which words a call has, and not the call. To take a call out, it needs the words that it was given.
CREATE VIRTUAL TABLE calls_text USING fts5 (
    title, command, paths, output, content = '', tokenize = 'unicode61 remove_diacritics 2'
);
"""
)

ADD_ORIGIN = """
INSERT INTO origins (user_name, host, agent, agent_version, client, client_version, source, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING
"""

ADD_MARKS = """
ALTER TABLE calls ADD COLUMN marks text;
CREATE INDEX calls_marked ON calls (at) WHERE marks IS NOT NULL;
"""
"""What makes tables of version 4 (of PostgreSQL, 5) of those before: the rows stay where they are."""

SQLITE_ADD_ORIGINS = (
    _ORIGINS
    + """
ALTER TABLE sessions ADD COLUMN origin text;
ALTER TABLE calls ADD COLUMN origin text;
ALTER TABLE calls ADD COLUMN turn text;
ALTER TABLE calls ADD COLUMN input text;
ALTER TABLE calls ADD COLUMN output text;
DROP INDEX calls_by_id;
DROP INDEX calls_by_key;
DROP INDEX calls_by_place;
DROP INDEX calls_by_time;
DROP INDEX calls_by_tool;
DROP INDEX calls_unusual;
DROP INDEX calls_marked;
DROP INDEX calls_open;
"""
    + _CALLS_INDEXES
)
"""What makes the tables of this version of those before."""

# A call that was closed by mistake and gets its true end becomes another row for the index: what that has of
# the first end can't be found any more, as nothing has the `seq` that it is known by.
SQLITE_TRIGGERS = """
CREATE TRIGGER calls_added AFTER INSERT ON calls WHEN NEW.writer IS NULL
BEGIN
    INSERT INTO unindexed VALUES (NEW.seq);
END;
CREATE TRIGGER calls_ended AFTER UPDATE OF payload ON calls
WHEN NEW.writer IS NULL AND OLD.writer IS NOT NULL
BEGIN
    INSERT INTO unindexed VALUES (NEW.seq);
END;
CREATE TRIGGER calls_corrected AFTER UPDATE OF payload ON calls WHEN OLD.writer IS NULL
BEGIN
    DELETE FROM unindexed WHERE seq = OLD.seq;
    UPDATE calls SET seq = (SELECT max(seq) FROM calls) + 1 WHERE seq = OLD.seq;
    INSERT INTO unindexed SELECT max(seq) FROM calls;
END;
"""

# In PostgreSQL, the order of texts is that of their bytes, as in SQLite. Payloads are compressed already.


def _bytewise(script: str) -> str:
    return re.sub(r"(?<= )text\b", 'text COLLATE "C"', script)


# Other programs compare `started_at`, which is `at` as their type for times.
_PARTITIONED = """, started_at timestamptz GENERATED ALWAYS AS (to_timestamp(at)) STORED
) PARTITION BY RANGE (at);"""
_SERIAL = "bigint NOT NULL DEFAULT nextval('calls_seq')"
_POSTGRES_CALLS = f"""
CREATE SEQUENCE calls_seq;
{_CALLS.format(serial=_SERIAL, json="jsonb", more=_PARTITIONED)}
ALTER TABLE calls ALTER payload SET STORAGE EXTERNAL;
{_CALLS_INDEXES}
CREATE INDEX calls_by_seq ON calls (seq);
CREATE INDEX calls_by_start ON calls (started_at, name, status, duration_ms, origin);
CREATE TABLE calls_other PARTITION OF calls DEFAULT;
"""

_POSTGRES_TABLES = f"""
CREATE SCHEMA IF NOT EXISTS callsheet;
CREATE TABLE facts (name text PRIMARY KEY, value bigint NOT NULL);
{_SHARED.format(integer="bigint")}
{_POSTGRES_CALLS}
ALTER TABLE messages ALTER payload SET STORAGE EXTERNAL;
-- What can be found of a call: its words, and the same in their order, for phrases.
CREATE TABLE calls_text (seq bigint PRIMARY KEY, words tsvector NOT NULL, texts text NOT NULL);
CREATE INDEX calls_text_words ON calls_text USING gin (words);
"""
POSTGRES_TABLES = _bytewise(_POSTGRES_TABLES)

POSTGRES_ADD_ORIGINS = _bytewise(f"""
DROP TRIGGER calls_added ON calls;
DROP TRIGGER calls_changed ON calls;
DROP FUNCTION queue_for_index();
ALTER TABLE calls RENAME TO calls_before;
DROP INDEX calls_by_id, calls_by_key, calls_by_place, calls_by_time, calls_by_tool, calls_unusual,
    calls_marked, calls_open;
ALTER SEQUENCE IF EXISTS calls_seq_seq RENAME TO calls_before_seq;
{_ORIGINS}
ALTER TABLE sessions ADD COLUMN origin text;
{_POSTGRES_CALLS}
""")
"""What makes the tables of this version of those before: the calls are copied then."""

POSTGRES_TRIGGERS = """
CREATE FUNCTION queue_for_index() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO callsheet.unindexed SELECT seq FROM changed WHERE writer IS NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER calls_added AFTER INSERT ON calls REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION queue_for_index();
CREATE TRIGGER calls_changed AFTER UPDATE ON calls REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION queue_for_index();
"""
