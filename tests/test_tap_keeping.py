"""A tap's history: whatever becomes of it, the session goes on as if there were none."""

from __future__ import annotations

import time
from typing import Any, cast

from callsheet.history.history import History
from callsheet.tap.account import Account
from callsheet.tap.context import Context
from callsheet.tap.keeping import Keeping
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.settings import TapSettings

from .made_recordings import announced, completed, opening
from .tapped import line_of


class Log:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, kind: str, key: str, blocks: list[Any]) -> None:
        del key, blocks
        self.said.append(kind)


class Slow:
    """A history that takes its time to say where a session ended."""

    def __init__(self) -> None:
        self.log: Log = Log()
        self.position: int | None = None

    async def ask(self, question: object) -> int:
        del question
        time.sleep(0.2)
        return 41

    def session(self, session: str, *, cwd: str, info: object, position: int) -> Log:
        del session, cwd, info
        self.position = position
        return self.log

    def close_now(self, timeout: float) -> None:
        """Nothing waits."""


def chunk(said: str) -> dict[str, Any]:
    content = {"type": "text", "text": said}
    return {"sessionUpdate": "agent_message_chunk", "content": content}


def test_nobody_waits_for_a_history_that_looks_up_where_a_session_ended() -> None:
    slow = Slow()
    keeping = Keeping(lambda: cast("History", slow), "agent", print)
    keeping.reopened("s1")
    began = time.monotonic()
    keeping.update("s1", "/code", chunk("one"))
    keeping.update("s1", "/code", {**chunk("two"), "sessionUpdate": "agent_thought_chunk"})
    assert time.monotonic() - began < 0.15
    keeping.close()
    assert (slow.position, slow.log.said) == (42, ["agent", "thought"])


def test_a_history_that_fails_changes_nothing_that_the_client_is_told() -> None:
    def broken() -> History:
        raise RuntimeError("can't start new thread")

    said: list[str] = []
    told: list[list[bytes]] = []
    for keeping in (None, Keeping(broken, "agent", said.append)):
        keep = None if keeping is None else keeping.call
        tap = Context(TapSettings(locale="en"), Account(), keep=keep, spill=False)
        pipeline = Pipeline(tap, said.append, keeping)
        for message in (*opening(), announced(), completed()):
            is_clients = "method" in message and "id" in message
            (pipeline.from_client if is_clients else pipeline.from_agent)(line_of(message), 0.0)
        told.append(pipeline.to_client)
        assert pipeline.account.faults == 0
    assert told[0] == told[1]
    assert said == ["the history fails, and something is not kept (RuntimeError)"]
