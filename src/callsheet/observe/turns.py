"""Track sessions and their turns: which prompt began a turn, whether it was rejected, and when it ends.

In v1 a turn ends with the response to its prompt. In v2 it ends when the session is idle: prompts may join
a turn, and an agent may begin one without a prompt.

Of too many sessions, old ones are forgotten together with their calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.observe.calls import CallTracker
from callsheet.observe.lines import RecordedLine
from callsheet.observe.model import (
    Json,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
    SeenIds,
    obj,
    text,
)

KEEP_PROMPTS = 1024
"""Prompts that may wait for a response. Of more, the oldest is forgotten."""

Key = Any


class TurnTracker:
    """The turns, by the ids of their prompts."""

    def __init__(self) -> None:
        self._asked: dict[Key, ObservedTurn] = {}

    def prompted(self, line: RecordedLine, key: Key, session: ObservedSession) -> bool:
        """Note that the client has sent a prompt, and return whether a turn begins with it."""
        now = session.turn
        begins = now is None or now.is_implied
        if now is not None and not begins:
            if session.connection.is_v2:
                return False  # it joins the turn
            turn = ObservedTurn(session, line.number, key, overlaps=now)
            session.queue.append(turn)
        else:
            turn = session.turn = ObservedTurn(session, line.number, key)
        if len(self._asked) >= KEEP_PROMPTS:
            self._drop(next(iter(self._asked)))
        self._asked[key] = turn
        return begins

    def answered(self, key: Key, message: Json) -> ObservedTurn | None:
        """Return the turn that ends by a response to a prompt."""
        turn = self._asked.pop(key, None)
        if turn is None:
            return None
        failed = "error" in message
        if turn.session.connection.is_v2:
            if failed and not turn.is_active and turn.session.turn is turn:
                turn.session.turn = None
            return None
        if turn in turn.session.queue:
            turn.session.queue.remove(turn)
            if failed:
                return None  # the agent rejected the prompt, so there was no turn
        turn.is_failed = failed
        return turn

    def state(
        self, line: RecordedLine, session: ObservedSession, update: Json
    ) -> ObservedTurn | None:
        """Apply the session's state in v2, and return the turn that ends by it."""
        state, turn = text(update.get("state")), session.turn
        if state in ("running", "requires_action"):
            if turn is None:
                turn = session.turn = ObservedTurn(session, line.number)
            turn.is_active = True
        elif state == "idle" and turn is not None and turn.is_active:
            return turn
        return None

    def over(self, line: RecordedLine, turn: ObservedTurn, reason: Any) -> None:
        """Note that a turn has ended. The next one in the queue begins."""
        turn.ended, turn.stop_reason = line.number, text(reason)
        session = turn.session
        session.last_turn = turn
        if session.turn is turn:
            session.turn = session.queue.pop(0) if session.queue else None

    def cancelled(self, line: RecordedLine, session: ObservedSession) -> None:
        """Note that the client has cancelled a session's turns."""
        for turn in (session.turn, *session.queue):
            if turn is not None:
                _cancel(turn, line)

    def cancelled_request(self, line: RecordedLine, key: Key) -> None:
        """Note that the client has cancelled a request, which may be a prompt."""
        turn = self._asked.get(key)
        if turn is not None:
            _cancel(turn, line)

    def _drop(self, key: Key) -> None:
        turn = self._asked.pop(key)
        if turn in turn.session.queue:
            turn.session.queue.remove(turn)


def _cancel(turn: ObservedTurn, line: RecordedLine) -> None:
    if turn.cancelled is None:
        turn.cancelled, turn.cancelled_at = line.number, line.time


MOST_SESSIONS = 256
"""Sessions that are known. Of more, the first without a turn is forgotten; if all have one, the first."""


class SessionTracker:
    """The sessions, by their ids."""

    def __init__(self, calls: CallTracker) -> None:
        self.by_id: dict[str, ObservedSession] = {}
        self._calls: CallTracker = calls
        self._used: SeenIds = SeenIds()

    def __iter__(self) -> Iterator[ObservedSession]:
        return iter(self.by_id.values())

    def of(self, value: Any, connection: ObservedConnection) -> ObservedSession | None:
        """Return the session of an id, a new one if it is unknown; None if the value is no id."""
        key = text(value)
        if key is None:
            return None
        session = self.by_id.get(key)
        if session is None:
            session = self.by_id[key] = ObservedSession(key, connection)
            if self._used.has("", key):
                session.opened = 0  # it was forgotten, and must not count as never opened
            self._used.add("", key)
            if len(self.by_id) > MOST_SESSIONS:
                self._let_go_of_one()
        return session

    def elsewhere(self, session: ObservedSession, call_id: str) -> str | None:
        """Return the other session in which a call of this id is open.

        Where both are in a turn, each may have a call of this id: then the update's own session counts.
        """
        for other in self:
            call = other.calls.get(call_id)
            if call is None or call.ended is not None or other is session:
                continue
            if session.turn is None or other.turn is None:
                return other.id
        return None

    def note_child(self, line: RecordedLine, session: ObservedSession, update: Json) -> None:
        """Note the session of a subagent, from a call's `_meta` or from an update of its own."""
        if update.get("sessionUpdate") == "subagent_update":
            key, cwd = update.get("sessionId"), text(update.get("cwd"))
        else:
            info = obj(obj(update.get("_meta")).get("subagent_session_info"))
            key, cwd = info.get("session_id"), None
        child = self.of(key, session.connection)
        if child is not None and not child.is_known:
            child.opened, child.cwd = line.number, cwd or session.cwd

    def forget(self) -> None:
        """Forget all of them, because the agent was started again."""
        for session in self:
            session.let_go()
        self.by_id = {}

    def _let_go_of_one(self) -> None:
        others = list(self)[:-1]
        session = next((one for one in others if one.turn is None), others[0])
        for call in list(session.calls.values()):
            self._calls.let_go(call)
        session.let_go()
        del self.by_id[session.id]
