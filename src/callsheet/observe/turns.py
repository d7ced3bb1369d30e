"""Which turns there are: who has asked for one, whether it was refused, and when it is over.

In v1 a turn is over when its prompt is answered. In v2 it is over when the session is idle: prompts may
join a turn, and an agent may begin one by itself.
"""

from __future__ import annotations

from typing import Any

from callsheet.observe.lines import Line
from callsheet.observe.moments import Connection, Json, Session, Turn
from callsheet.observe.values import text

KEEP_PROMPTS = 1024
"""Prompts that wait for an answer at most."""

Key = Any


class Turns:
    """The turns of a recording, by the ids of their prompts."""

    def __init__(self) -> None:
        self._asked: dict[Key, Turn] = {}

    def prompted(self, line: Line, key: Key, session: Session, connection: Connection) -> None:
        """Note that the client has asked for a turn."""
        now = session.turn
        if now is not None and not now.is_implied:
            if connection.is_v2:
                return  # it joins the turn
            turn = Turn(session, line.number, key, overlaps=now)
            session.queue.append(turn)
        else:
            turn = session.turn = Turn(session, line.number, key)
        if len(self._asked) >= KEEP_PROMPTS:
            self._drop(next(iter(self._asked)))
        self._asked[key] = turn

    def answered(self, key: Key, message: Json, connection: Connection) -> Turn | None:
        """Return the turn that is over by an answer to a prompt."""
        turn = self._asked.pop(key, None)
        if turn is None:
            return None
        failed = "error" in message
        if connection.is_v2:
            if failed and not turn.is_active and turn.session.turn is turn:
                turn.session.turn = None
            return None
        if turn in turn.session.queue:
            turn.session.queue.remove(turn)
            if failed:
                return None  # it was refused, and never was
        turn.is_failed = failed
        return turn

    def state(self, line: Line, session: Session, update: Json) -> Turn | None:
        """Take in what v2 tells of the session's state, and give the turn that is over by it."""
        state, turn = text(update.get("state")), session.turn
        if state in ("running", "requires_action"):
            if turn is None:
                turn = session.turn = Turn(session, line.number)
            turn.is_active = True
        elif state == "idle" and turn is not None and turn.is_active:
            return turn
        return None

    def over(self, line: Line, turn: Turn, reason: Any) -> None:
        """Note that a turn is over. The next that waits begins."""
        turn.ended, turn.stop_reason = line.number, text(reason)
        session = turn.session
        session.last_turn = turn
        if session.turn is turn:
            session.turn = session.queue.pop(0) if session.queue else None

    def cancelled(self, line: Line, session: Session) -> None:
        """Note that the client has cancelled what the session does."""
        for turn in (session.turn, *session.queue):
            if turn is not None:
                _cancel(turn, line)

    def cancelled_request(self, line: Line, key: Key) -> None:
        """Note that the client has cancelled a request, which may be a prompt."""
        turn = self._asked.get(key)
        if turn is not None:
            _cancel(turn, line)

    def _drop(self, key: Key) -> None:
        turn = self._asked.pop(key)
        if turn in turn.session.queue:
            turn.session.queue.remove(turn)


def _cancel(turn: Turn, line: Line) -> None:
    if turn.cancelled is None:
        turn.cancelled, turn.cancelled_at = line.number, line.time
