"""A tap's history: whatever becomes of it, the session goes on as if there were none."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import RLock
from typing import Any, cast

from callsheet.history.call_records import Waiting, WaitingMessage, WaitingTurn
from callsheet.history.history import History
from callsheet.history.rows import Origin, SessionRow
from callsheet.history.sink import SessionLog
from callsheet.report.json import JsonObject
from callsheet.tap.context import Context, TapSettings
from callsheet.tap.history_sink import HistorySink
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from tests.support.made_recordings import SESSION, announced, completed, opening
from tests.support.tap_harness import line_of


class Stored:
    """What a tap stores, in the order in which it does."""

    def __init__(self) -> None:
        self.run: str = "run"
        self.lock: AbstractContextManager[Any] = RLock()
        self.entries: dict[str, Waiting] = {}

    def put(self, entry: Waiting) -> None:
        self.entries[entry.key] = entry

    def session(
        self, session: str, *, cwd: str, info: JsonObject, origin: Origin, position: int
    ) -> SessionLog:
        row = SessionRow(session_id=session, cwd=cwd, info=info, origin=origin)
        return SessionLog(self, row, position)

    def at_last(self, until: float) -> bool:
        return until > 0

    def close_now(self, timeout: float) -> None:
        """Nothing waits."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of all messages, and `call` for a call; no turns."""
        return [
            one.kind if isinstance(one, WaitingMessage) else "call"
            for one in self.entries.values()
            if not isinstance(one, WaitingTurn)
        ]


def chunk(said: str) -> dict[str, Any]:
    content = {"type": "text", "text": said}
    return {"sessionUpdate": "agent_message_chunk", "content": content}


def test_a_session_that_is_loaded_goes_on_after_all_that_was_kept_of_it() -> None:
    store = Stored()
    keeping = HistorySink(lambda: cast("History", store), "agent", print)
    for said in ("one", "two"):
        keeping.reopened("s1")
        keeping.update("s1", "/code", chunk(said))
    keeping.close()
    assert store.kinds == ["agent", "agent"]
    first, second = (entry.position for entry in store.entries.values())
    assert 1_000_000 < first <= second


def test_a_history_that_fails_changes_nothing_that_the_client_receives() -> None:
    def broken() -> History:
        raise RuntimeError("can't start new thread")

    said: list[str] = []
    told: list[list[bytes]] = []
    for keeping in (None, HistorySink(broken, "agent", said.append)):
        keep = None if keeping is None else keeping.call
        tap = Context(TapSettings(locale="en"), Account(), store=keep, spill=False)
        pipeline = Pipeline(tap, said.append, keeping)
        for message in (*opening(), announced(), completed()):
            is_clients = "method" in message and "id" in message
            (pipeline.from_client if is_clients else pipeline.from_agent)(line_of(message), 0.0)
        told.append(pipeline.to_client)
        assert pipeline.account.faults == 0
    assert told[0] == told[1]
    assert said == ["the history fails, and something is not stored (RuntimeError)"]


def kept(*messages: dict[str, Any]) -> list[str]:
    """Return what a tap keeps of messages, after those that open a session without a prompt."""
    store = Stored()
    keeping = HistorySink(lambda: cast("History", store), "agent", print)
    tap = Context(TapSettings(locale="en"), Account(), store=keeping.call, spill=False)
    pipeline = Pipeline(tap, print, keeping)
    for message in (*opening()[:-1], *messages):
        is_clients = "method" in message and "id" in message
        (pipeline.from_client if is_clients else pipeline.from_agent)(line_of(message), 0.0)
    pipeline.agent_gone(1.0)
    assert pipeline.account.faults == 0
    return store.kinds


def prompt(key: int) -> dict[str, Any]:
    params = {"sessionId": SESSION, "prompt": [{"type": "text", "text": "hello"}]}
    return {"jsonrpc": "2.0", "id": key, "method": "session/prompt", "params": params}


def says(text: str) -> dict[str, Any]:
    params = {"sessionId": SESSION, "update": chunk(text)}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def answer(key: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "result": {"stopReason": "end_turn"}}


def refusal(key: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "error": {"code": -32603, "message": "busy"}}


def test_a_prompt_is_stored_when_it_is_sent_whatever_comes_of_it() -> None:
    assert kept(prompt(90), refusal(90)) == ["user"]
    assert kept(prompt(90), says("hi"), answer(90)) == ["user", "agent"]
    assert kept(prompt(90), announced(), completed(), refusal(90))[:2] == ["user", "call"]
    assert kept(prompt(90), says("one"), prompt(91), refusal(91)) == ["user", "agent", "user"]
