"""What tests of the history are made with: stores of their own, calls, rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import settings

from callsheet import ToolCallReport
from callsheet.history import HistoryError
from callsheet.history.codec import Codec
from callsheet.history.rows import Batch, SessionRow
from callsheet.history.sink import WaitingCall, WaitingMessage
from callsheet.history.sqlite_store import SqliteStore
from callsheet.report.content import TextContent
from callsheet.report.terminal import CallRecord

FULL = os.environ.get("CALLSHEET_FULL") == "1"
NOW = 1_800_000_000.0


def examples(count: int) -> settings:
    """Return how many examples a property is tried with: more with CALLSHEET_EXAMPLES."""
    return settings(max_examples=max(1, count * settings().max_examples // 150))


@contextmanager
def store_in(folder: Path, *, write: bool = True, quick: bool = False) -> Iterator[SqliteStore]:
    """Open a store. With `quick`, nobody waits for the disk: for tests that make many."""
    store = SqliteStore(folder / "history.sqlite")
    run(store.open(write=write))
    if quick:
        store.db.execute("PRAGMA synchronous = OFF")
    try:
        yield store
    finally:
        run(store.close())


def run(work: Any) -> Any:
    """Run what is async and does not wait, also where a loop runs."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the store in a file has waited")


def report(call_id: str, name: str = "read", **fields: Any) -> ToolCallReport:
    fields.setdefault("title", f"{name} {call_id}")
    fields.setdefault("status", "completed")
    if "text" in fields:
        fields["content"] = (TextContent(fields.pop("text")),)
    if "reason" in fields:
        fields["meta"] = {"callsheet": {"reason": fields.pop("reason")}}
    return ToolCallReport(call_id, name, **fields)


def call(
    call_id: str, *, session: str = "s", at: float = NOW, position: int = 0, **fields: Any
) -> WaitingCall:
    record = fields.pop("record", None) or CallRecord(report(call_id, **fields))
    return WaitingCall(session, position, at, at + 1, record)


def message(
    message_id: str,
    text: str,
    *,
    session: str = "s",
    position: int = 0,
    at: float = NOW,
    part: int = 0,
    kind: str = "agent",
) -> WaitingMessage:
    return WaitingMessage(
        session, message_id, part, position, kind, at, ({"type": "text", "text": text},)
    )


def batch(codec: Codec, *items: WaitingCall | WaitingMessage, info: str = "{}") -> Batch:
    made = Batch()
    for item in items:
        row, blobs = item.to_row(codec)
        codec.compress([row], blobs)
        (made.calls if isinstance(item, WaitingCall) else made.messages).append(row)  # type: ignore[arg-type]
        made.blobs += blobs
    for key in dict.fromkeys(item.session_id for item in items):
        times = [item.at for item in items if item.session_id == key]
        made.sessions.append(
            SessionRow(
                session_id=key,
                cwd=f"/{key}",
                info=info,
                created_at=min(times),
                updated_at=max(times),
            )
        )
    return made


def keep(store: SqliteStore, *items: WaitingCall | WaitingMessage, info: str = "{}") -> None:
    run(store.write(batch(store.codec, *items, info=info)))


def count(store: SqliteStore, table: str) -> int:
    return store.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def check_whole(store: SqliteStore) -> None:
    """Hold that nothing refers to what is not there, and nothing is there that nobody refers to."""
    db = store.db
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.execute("INSERT INTO calls_text (calls_text) VALUES ('integrity-check')")
    orphans = "SELECT count(*) FROM blobs b WHERE NOT EXISTS (SELECT 1 FROM blob_uses u WHERE u.hash = b.hash)"
    missing = "SELECT count(*) FROM blob_uses u WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE u.hash = b.hash)"
    owners = (
        "SELECT count(*) FROM blob_uses u WHERE NOT EXISTS (SELECT 1 FROM calls c WHERE c.session_id = "
        "u.session_id AND c.key = u.owner) AND NOT EXISTS (SELECT 1 FROM messages m WHERE "
        "m.session_id = u.session_id AND m.key = u.owner)"
    )
    indexed = "SELECT count(*) FROM calls_text_docsize d WHERE d.id NOT IN (SELECT seq FROM calls)"
    for question in (orphans, missing, owners, indexed):
        assert db.execute(question).fetchone() == (0,), question
    for (session,) in db.execute("SELECT session_id FROM sessions").fetchall():
        try:
            run(store.timeline(session, limit=1 << 30))
        except HistoryError as exc:
            raise AssertionError(f"session {session} can't be read") from exc
