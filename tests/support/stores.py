"""Histories for tests: stores with calls and rows made by hand, and ones that real sessions have filled."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

import callsheet.cli
from callsheet import Session, ToolCallReport
from callsheet.history import History, HistoryError, Pruned, Retention
from callsheet.history.call_records import WaitingCall, WaitingMessage, to_rows
from callsheet.history.codec import Codec
from callsheet.history.rows import SessionRow, WaitingRow
from callsheet.history.sqlite import SqliteDatabase
from callsheet.history.store import Store
from callsheet.limits.limits import Limits
from callsheet.report.content import TextContent
from callsheet.report.json import JsonObject
from callsheet.report.terminal import CallRecord
from callsheet.runtime.sanitizer import GuardSettings
from callsheet.runtime.sinks import Sink
from callsheet.runtime.spill_store import SpillStore, default_directory

FULL = os.environ.get("CALLSHEET_FULL") == "1"
NOW = 1_800_000_000.0


def examples(count: int) -> settings:
    """Return how many examples a property is tried with: more with CALLSHEET_EXAMPLES."""
    return settings(max_examples=max(1, count * settings().max_examples // 150))


@contextmanager
def store_in(folder: Path, *, write: bool = True, quick: bool = False) -> Iterator[Store]:
    """Open a store. With `quick`, nobody waits for the disk: for tests that make many."""
    store = store_of(folder / "history.sqlite")
    store.open(write=write)
    if quick:
        raw(store).execute("PRAGMA synchronous = OFF")
    try:
        yield store
    finally:
        store.close()


def store_of(file: Path) -> Store:
    """Return the store in a file, whatever that is called."""
    return Store(SqliteDatabase(file))


def raw(store: Store) -> sqlite3.Connection:
    """Return the connection of the driver."""
    assert isinstance(store.db, SqliteDatabase)
    return store.db.raw


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
    return WaitingCall(SessionRow(session_id=session), position, at, at + 1, record)


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
        SessionRow(session_id=session),
        message_id,
        part,
        position,
        kind,
        at,
        ({"type": "text", "text": text},),
    )


def batch(codec: Codec, *items: WaitingCall | WaitingMessage) -> list[WaitingRow]:
    sessions: dict[str, SessionRow] = {}
    for key in dict.fromkeys(item.session.session_id for item in items):
        times = [item.at for item in items if item.session.session_id == key]
        sessions[key] = SessionRow(
            session_id=key, cwd=f"/{key}", created_at=min(times), updated_at=max(times)
        )
    return [(sessions[row.session_id], row) for _, row in to_rows(items, codec)]


def keep(store: Store, *items: WaitingCall | WaitingMessage) -> None:
    store.write(batch(store.codec, *items))


def pruned(store: Store, rule: Retention, **how: Any) -> Pruned:
    """Prune, and return the sum of what all steps have removed."""
    total, spills = Pruned(), list[str]()
    for step in store.prune(rule, **how):
        assert step.calls <= how.get("most", 500)
        assert step.calls or step.messages or step.sessions
        total.calls += step.calls
        total.messages += step.messages
        total.sessions += step.sessions
        spills += step.spills
    total.spills = spills
    return total


def count(store: Store, table: str) -> int:
    return raw(store).execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def check_whole(store: Store) -> None:
    """Assert that a file is whole, and that nothing refers to what is not there."""
    db = raw(store)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.execute("INSERT INTO calls_text (calls_text) VALUES ('integrity-check')")
    queued = "SELECT count(*) FROM unindexed WHERE seq NOT IN (SELECT seq FROM calls)"
    assert db.execute(queued).fetchone() == (0,)
    for (session,) in db.execute("SELECT session_id FROM sessions").fetchall():
        try:
            store.timeline(session, limit=1 << 30)
        except HistoryError as exc:
            raise AssertionError(f"session {session} can't be read") from exc


ONE = "sess_01M7HA0000AAAAAAAAAAAAAAAA"
TWO = "sess_01M7HB0000BBBBBBBBBBBBBBBB"

Step = tuple[str, JsonObject]


class Done(NamedTuple):
    """What a command has said, and its exit code."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


def cli_in_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str
) -> Cli:
    """Return what runs a command with this history, without a process of its own."""

    def run(*args: str) -> Done:
        monkeypatch.setenv("CALLSHEET_HISTORY", url)
        monkeypatch.setattr(sys, "argv", ["callsheet", *args])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            callsheet.cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, out, err)

    return run


async def fill(url: str, cwd: Path, *sinks: Sink, title: str = "Fix the parser") -> None:
    """Keep two sessions: one with ends of all kinds, one with a single call."""
    (cwd / "a.txt").write_text("one\ntwo\n")
    steps: list[Step] = [
        ("read", {"path": "a.txt"}),
        ("bash", {"command": "echo needle in the hay; exit 3"}),
        ("bash", {"command": "sleep 20"}),
        ("read", {"path": "missing.txt"}),
        ("write", {"path": "b.txt", "content": "=1+1\n"}),
    ]
    history = History(url, notify=print)
    log = history.session(ONE, cwd=str(cwd))
    log.say("user", "msg_1", [{"type": "text", "text": title}])
    log.name(title)
    async with Session(
        ONE, cwd=cwd, permission="allow", locale="en", sinks=[log, *sinks]
    ) as session:
        for name, arguments in steps:
            slow = arguments.get("command") == "sleep 20"
            await session.run(name, arguments, timeout=0.2 if slow else 30)
        log.say("agent", "msg_2", [{"type": "text", "text": "It is done."}])
    log = history.session(TWO, cwd=str(cwd), title="Another one")
    async with Session(TWO, cwd=cwd, permission="allow", locale="en", sinks=[log]) as session:
        await session.run("think", {"thought": "=cmd()"}, alias="toolu_1")
    await history.close()


async def fill_with_spill(url: str, cwd: Path) -> Path:
    """Keep one call of which a part is in a file, and give that file."""
    spills = SpillStore(default_directory())
    before = set(spills.directory.glob("spill-*"))
    guard = GuardSettings(limits=Limits(content=2000, raw_output=2000), spill=spills)
    history = History(url, notify=print)
    log = history.session(ONE, cwd=str(cwd))
    async with Session(ONE, cwd=cwd, sinks=[log], guard=guard, locale="en") as session:
        async with session.call("report", {}) as call:
            call.start()
            call.succeed("long line\n" * 2000)
    await history.close()
    (file,) = set(spills.directory.glob("spill-*")) - before
    return file
