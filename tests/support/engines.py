"""Stores for tests: both engines, empty, and rows to put into them.

Import `postgres`, `database`, `engine`, `url` and `store` into a module to use them as fixtures there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from callsheet.history import Query, Store, store_at
from callsheet.history.call_records import WaitingCall, WaitingMessage, to_rows
from callsheet.history.codec import Codec
from callsheet.history.rows import SessionRow, WaitingRow
from callsheet.report.content import TextContent
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import CallRecord
from tests.support.postgres import Server, database, needs_postgres, postgres

__all__ = ["database", "engine", "postgres", "store", "url"]

ENGINES = ["sqlite", pytest.param("postgres", marks=needs_postgres)]
NOON = 1_750_000_000.0


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine: each of them in turn."""
    return request.param


@pytest.fixture
def url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where a history may be, of which there is nothing yet."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite'}"
    server: Server = request.getfixturevalue("postgres")
    return server.url(request.getfixturevalue("database"))


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An empty store, open."""
    made = store_at(url)
    made.open()
    yield made
    made.close()


def call(number: int, text: str = "done", **told: Any) -> WaitingCall:
    """Return a call as a session's log has it; `number` is its place and its second."""
    session = told.pop("session", "s1")
    status = ToolCallStatus(told.pop("status", "completed"))
    name = told.pop("name", "bash")
    command = told.pop("command", f"make {number}")
    at = told.pop("at", NOON + number)
    notes: dict[str, Any] = {"startedAt": "2025-06-15T15:06:40.000Z", **told.pop("notes", {})}
    if status.is_final:
        notes.setdefault("durationMs", float(number))
    assert not told
    report = ToolCallReport(
        f"call_{session}_{number}",
        name,
        f"Running {command}",
        "execute",
        status,
        (TextContent(text),),
        raw_input={"command": command},
        meta={"callsheet": notes},
    )
    return WaitingCall(_session(session, at), number, at, at + 1, CallRecord(report))


def message(number: int, text: str, session: str = "s1") -> WaitingMessage:
    """Return a message as a session's log has it."""
    blocks = ({"type": "text", "text": text},)
    return WaitingMessage(
        _session(session, NOON + number), f"msg_{number}", 0, number, "agent", NOON + number, blocks
    )


def batch(
    items: Iterable[WaitingCall | WaitingMessage], codec: Codec | None = None
) -> list[WaitingRow]:
    """Return what is written for these."""
    return to_rows(list(items), codec or Codec())


def _session(key: str, used: float) -> SessionRow:
    return SessionRow(session_id=key, cwd="/code", title=key, created_at=NOON, updated_at=used)


def ids(store: Store, **query: Any) -> list[str]:
    """Return the ids of the calls that are asked for."""
    return [head.call_id for head in store.heads(Query(**query))]
