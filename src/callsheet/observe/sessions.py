"""Which sessions there are. Of too many, the oldest are let go with their calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.observe.calls import Calls
from callsheet.observe.ids import UsedIds
from callsheet.observe.lines import Line
from callsheet.observe.moments import Connection, Json, Session
from callsheet.observe.values import obj, text

KEEP = 256
"""Sessions that are known. Of more, the one that was opened first is let go."""


class Sessions:
    """The sessions of a recording."""

    def __init__(self, calls: Calls) -> None:
        self.by_id: dict[str, Session] = {}
        self._calls: Calls = calls
        self._used: UsedIds = UsedIds()

    def __iter__(self) -> Iterator[Session]:
        return iter(self.by_id.values())

    def of(self, given: Any, connection: Connection) -> Session | None:
        """Return the session of an id, a new one if nobody knows it. None if it is no id."""
        key = text(given)
        if key is None:
            return None
        session = self.by_id.get(key)
        if session is None:
            session = self.by_id[key] = Session(key)
            if self._used.has("", key):
                session.opened = 0  # it was let go
            self._used.add("", key)
            if len(self.by_id) > KEEP:
                self._let_go_of_one(connection)
        return session

    def elsewhere(self, session: Session, call_id: str) -> str | None:
        """Return the other session in which a call of this id is open.

        Where both are at work, each may have a call of this id: then it is the one that it is said to be of.
        """
        for other in self:
            call = other.calls.get(call_id)
            if call is None or call.ended is not None or other is session:
                continue
            if session.turn is None or other.turn is None:
                return other.id
        return None

    def note_child(
        self, line: Line, session: Session, update: Json, connection: Connection
    ) -> None:
        """Note the session of a subagent, which a call's `_meta` or an update of its own tells of."""
        if update.get("sessionUpdate") == "subagent_update":
            key, cwd = update.get("sessionId"), text(update.get("cwd"))
        else:
            key, cwd = (
                obj(obj(update.get("_meta")).get("subagent_session_info")).get("session_id"),
                None,
            )
        child = self.of(key, connection)
        if child is not None and not child.is_known:
            child.opened, child.cwd = line.number, cwd or session.cwd

    def forget(self) -> None:
        """Forget all of them, because the agent was started again."""
        for session in self:
            session.let_go()
        self.by_id = {}

    def _let_go_of_one(self, connection: Connection) -> None:
        others = list(self)[:-1]
        session = next((one for one in others if one.turn is None), others[0])
        for call in list(session.calls.values()):
            self._calls.let_go(call, connection)
        session.let_go()
        del self.by_id[session.id]
