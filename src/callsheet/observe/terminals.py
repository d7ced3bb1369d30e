"""Which terminals there are, which calls show them, and what comes by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import ref

from callsheet.observe.lines import Line
from callsheet.observe.moments import Call, Connection, Json, Session, TerminalTold
from callsheet.observe.values import many, obj, text

KEEP = 10_000
"""Terminals that are known. Of more, the oldest is forgotten."""


class Terminals:
    """All terminals of a recording."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], ref[Call]] = {}  # what is over is not kept for them

    def owner(self, session: Session, key: str | None) -> Call | None:
        """Return the call that shows a terminal."""
        owner = None if key is None else self._owners.get((session.id, key))
        return None if owner is None else owner()

    def shown(self, call: Call, update: Json) -> None:
        """Note the terminals that an update lets a call show."""
        content = update.get("content")
        for item in many(content) or [content]:
            told = obj(item)
            key = text(told.get("terminalId"))
            if key is not None and told.get("type") == "terminal":
                _note(self._owners, (call.session.id, key), ref(call))

    def created(self, session: Session, key: str | None, line: Line) -> None:
        """Note that a terminal was made."""
        if key is not None and key not in session.terminals:
            _note(session.terminals, key, line.number)

    def background(self, session: Session, listed: Any) -> frozenset[str] | None:
        """Return the calls that go on in the background, by v2's list of calls and terminals.

        None if that is not said, or said in words that nobody knows.
        """
        found: set[str] = set()
        for item in many(listed):
            told = obj(item)
            owner = self.owner(session, text(told.get("terminalId")))
            key = text(told.get("toolCallId")) or (owner.id if owner is not None else None)
            if key is None and told.get("type") != "terminal":
                return None
            found.add(key or "")
        return frozenset(found) if isinstance(listed, list) else None

    def in_meta(
        self, line: Line, connection: Connection, session: Session, update: Json
    ) -> Iterator[TerminalTold]:
        """Return what an update of a call tells of terminals by the way, as some v1 agents do."""
        meta = obj(update.get("_meta"))
        if not meta:
            return
        self.created(session, text(obj(meta.get("terminal_info")).get("terminal_id")), line)
        for name in ("terminal_output", "terminal_output_delta", "terminal_exit"):
            told = obj(meta.get(name))
            key = text(told.get("terminal_id"))
            if key is not None:
                yield self.told(line, connection, session, key, told)

    def ended(self, session: Session, key: str | None, told: Json) -> None:
        """Note the exit code of a terminal's command, if that is told."""
        call, status = self.owner(session, key), obj(told.get("exitStatus")) or told
        code = status.get("exitCode", status.get("exit_code"))
        if call is not None and type(code) is int:
            call.exit_code = code

    def told(
        self, line: Line, connection: Connection, session: Session, key: str, update: Json
    ) -> TerminalTold:
        """Take in what is told of a terminal."""
        known, kind = key in session.terminals, update.get("sessionUpdate")
        if kind == "terminal_update":
            self.created(session, key, line)
        call = self.owner(session, key)
        if call is not None:
            if kind is not None:
                call.wire_bytes += line.size
            call.output_bytes += len(text(update.get("data")) or "")
            self.ended(session, key, update)
        return TerminalTold(line, connection, session, key, update, known)


def _note(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= KEEP:
        del known[next(iter(known))]
    known[key] = value
