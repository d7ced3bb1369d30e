"""What other programs read of a store: four views with plain types, the same in SQLite and PostgreSQL.

`callsheet_calls`, `callsheet_sessions`, `callsheet_turns` and `callsheet_usage` are made with the tables, and
are part of what we promise: the tables below them may change. Times are `timestamptz` in PostgreSQL and
RFC 3339 in SQLite; inputs and outputs are JSON, without secrets. What nobody knows is NULL.
"""

from __future__ import annotations

_WHO = """nullif(o.user_name, '') AS user_name, nullif(o.host, '') AS host, nullif(o.agent, '') AS agent,
    nullif(o.agent_version, '') AS agent_version, nullif(o.client, '') AS client,
    nullif(o.client_version, '') AS client_version, nullif(o.source, '') AS source"""

_TOKENS = """t.model, t.input_tokens, t.output_tokens, t.cached_read_tokens, t.cached_write_tokens,
    t.thought_tokens, t.total_tokens, t.cost, t.currency, t.cost_source"""

# Not a join: what it is joined by would be read of each row, and is in no index that holds the rest.
_WORKSPACE = "(SELECT s.cwd FROM sessions s WHERE s.session_id = {}.session_id) AS workspace"

_VIEWS = f"""
CREATE VIEW callsheet_calls AS
SELECT c.session_id, c.call_id, c.name AS tool, c.kind, c.title, c.status, c.reason,
    {{started_at}} AS started_at, c.duration_ms, c.input, c.output, c.size AS bytes, c.turn AS turn_id,
    {_WORKSPACE.format("c")}, {_WHO}
FROM calls c LEFT JOIN origins o ON o.key = c.origin;
CREATE VIEW callsheet_sessions AS
SELECT s.session_id, s.title, s.cwd AS workspace, {{created_at}} AS started_at, {{updated_at}} AS updated_at,
    {_WHO}
FROM sessions s LEFT JOIN origins o ON o.key = s.origin;
CREATE VIEW callsheet_turns AS
SELECT t.session_id, t.key AS turn_id, {{turn_at}} AS started_at, {{ended_at}} AS ended_at,
    (t.ended_at - t.at) * 1000 AS duration_ms, t.stop_reason, {_TOKENS},
    t.context_used, t.context_size, {_WORKSPACE.format("t")}, {_WHO}
FROM turns t LEFT JOIN origins o ON o.key = t.origin;
CREATE VIEW callsheet_usage AS
SELECT {{day}} AS day, t.session_id, {_TOKENS}, {_WHO}
FROM turns t LEFT JOIN origins o ON o.key = t.origin
WHERE t.cost IS NOT NULL OR t.input_tokens IS NOT NULL OR t.output_tokens IS NOT NULL
    OR t.total_tokens IS NOT NULL;
"""


# A publisher may send any number, and one that is no time must not break the view for the others.
POSTGRES_TIME = "CASE WHEN {0} BETWEEN 0 AND 2.5e11 THEN to_timestamp({0}) END"
"""The SQL for the time in a column."""


def _sqlite(column: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {column}, 'unixepoch')"


SQLITE_VIEWS = _VIEWS.format(
    started_at=_sqlite("c.at"),
    created_at=_sqlite("s.created_at"),
    updated_at=_sqlite("s.updated_at"),
    turn_at=_sqlite("t.at"),
    ended_at=_sqlite("t.ended_at"),
    day="date(t.at, 'unixepoch')",
)

POSTGRES_VIEWS = _VIEWS.format(
    started_at="c.started_at",
    created_at=POSTGRES_TIME.format("s.created_at"),
    updated_at=POSTGRES_TIME.format("s.updated_at"),
    turn_at=POSTGRES_TIME.format("t.at"),
    ended_at=POSTGRES_TIME.format("t.ended_at"),
    day=f"({POSTGRES_TIME.format('t.at')} AT TIME ZONE 'UTC')::date",
)

NAMES = ("callsheet_calls", "callsheet_sessions", "callsheet_turns", "callsheet_usage")
"""The views. A role that reads them needs nothing else: see `READER`."""

READER = "callsheet_reader"
"""A role of PostgreSQL that may read the views, and nothing else of the store."""

# A server may refuse to make a role: then its administrator does, as docs/how-to/dashboards.md says.
GRANT = f"""
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{READER}') THEN
        CREATE ROLE {READER} NOLOGIN;
    END IF;
    GRANT USAGE ON SCHEMA callsheet TO {READER};
    GRANT SELECT ON {", ".join(f"callsheet.{name}" for name in NAMES)} TO {READER};
EXCEPTION WHEN insufficient_privilege OR unique_violation OR duplicate_object THEN
    NULL;
END $$
"""
