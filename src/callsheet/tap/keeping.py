"""What a tap keeps in the history: calls as the client saw them, and what was said around them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from callsheet.check.recording.moments import Json
from callsheet.check.recording.values import many, obj, text
from callsheet.report.errors import CallsheetError
from callsheet.report.record import CallRecord
from callsheet.report.values import JsonObject
from callsheet.runtime.guard import Guard

if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.history.log import SessionLog

PATIENCE = 1.0
"""Seconds that the history has to tell where a session ended that goes on now."""

LAST = 4.0
"""Seconds that the history has at the end."""

MOST_LOGS = 64
"""Sessions that are written to at once; of more, the oldest begins anew."""

_KINDS = {
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
    "user_message_chunk": "user",
    "agent_message": "agent",
    "agent_thought": "thought",
    "user_message": "user",
}


class Keeping:
    """The history of a tap. It is opened when there is something to keep."""

    def __init__(self, make: Callable[[], History], command: str) -> None:
        self._make: Callable[[], History] = make
        self._history: History | None = None
        self._info: JsonObject = {"source": "tap", "command": command}
        self._logs: dict[str, SessionLog] = {}
        self._reopened: set[str] = set()
        self._message: tuple[str, str, str] = ("", "", "")
        self._count: int = 0

    def reopened(self, session: str) -> None:
        """Hear that a session of before goes on."""
        self._logs.pop(session, None)
        self._reopened.add(session)

    def call(self, session: str, cwd: str, record: CallRecord) -> None:
        """Keep a call as it is now."""
        self._message = ("", "", "")
        self._log(session, cwd).send(deque([record]))

    def prompt(self, session: str, cwd: str, params: Json, guard: Guard) -> None:
        """Keep what the user has typed, without secrets."""
        blocks = _blocks(many(params.get("prompt")))
        self._say(session, cwd, "user", None, [guard.value(block)[0] for block in blocks])
        title = next((text(block.get("text")) for block in blocks if "text" in block), None)
        if title:
            self._log(session, cwd).name(guard.clean(title))

    def update(self, session: str, cwd: str, update: Json) -> None:
        """Keep what the agent says, as the client is shown it."""
        kind = _KINDS.get(text(update.get("sessionUpdate")) or "")
        content = update.get("content")
        blocks = _blocks(many(content) or [content])
        if kind is not None and blocks and any(block.get("text") != "" for block in blocks):
            self._say(session, cwd, kind, text(update.get("messageId")), blocks)
        elif update.get("sessionUpdate") == "plan":
            entries: list[Json] = [
                obj(entry) for entry in many(update.get("entries")) if obj(entry)
            ]
            self._log(session, cwd).plan("plan", entries)

    def close(self) -> None:
        """Write what waits, and let go of the history."""
        if self._history is not None:
            self._history.close_now(LAST)

    def _say(self, session: str, cwd: str, kind: str, given: str | None, blocks: list[Any]) -> None:
        now = (session, kind, given or "")
        if now != self._message or kind == "user":
            self._message, self._count = now, self._count + 1
        key = given or f"message-{self._count}"
        self._log(session, cwd).say(kind, key, blocks)

    def _log(self, session: str, cwd: str) -> SessionLog:
        log = self._logs.get(session)
        if log is None:
            if self._history is None:
                self._history = self._make()
            log = self._logs[session] = self._history.session(
                session, cwd=cwd, info=self._info, position=self._end_of(session)
            )
            if len(self._logs) > MOST_LOGS:
                del self._logs[next(iter(self._logs))]
        return log

    def _end_of(self, session: str) -> int:
        """Give where a session's timeline goes on."""
        history = self._history
        if session not in self._reopened or history is None:
            return 0
        self._reopened.discard(session)
        try:
            last = asyncio.run(
                asyncio.wait_for(history.ask(lambda store: store.last_position(session)), PATIENCE)
            )
        except (CallsheetError, TimeoutError):
            return 0
        return 1 + last


def _blocks(told: list[Any]) -> list[Json]:
    """Give those of some blocks that are what they say."""
    found = [obj(one) for one in told if type(obj(one).get("type")) is str]
    return [one for one in found if one["type"] != "text" or type(one.get("text")) is str]
