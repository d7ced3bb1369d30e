"""Which calls there are: how they begin, what is known of them, and how long they are kept.

What has ended is kept for a while, for what may come late. Memory does not grow with the recording: by number
and by bytes, the oldest are let go, and only their ids stay known.

Which terminals there are, which calls show them, and what comes by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any
from weakref import ref

from callsheet.observe.events import CallClosed, CallLeftOpen, TerminalUpdated
from callsheet.observe.evidence import note_streaming
from callsheet.observe.lines import RecordedLine
from callsheet.observe.model import (
    FINAL,
    Json,
    ObservedCall,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
    UsedIds,
    many,
    obj,
    text,
)
from callsheet.observe.repetition import note_repetition

KEEP_ENDED = 1024
"""Calls that have ended and are still known."""

KEEP_BYTES = 32 << 20
"""Bytes of messages about those."""

KEEP_OPEN = 4096
"""Calls of a session that are known at once, ended or not."""

KEEP_CONTENT = 64 << 20
"""Bytes of a call's messages after which its content is no more added to."""

KEEP_STATUSES = 100
"""Moves of a call that are known."""

MUCH = 8 << 10
"""Bytes of an update that is worth a message of its own, however many there are in a second."""

_FIELDS = (
    "title",
    "kind",
    "status",
    "content",
    "locations",
    "rawInput",
    "rawOutput",
    "name",
    "_meta",
)


class CallTracker:
    """All calls of a recording."""

    def __init__(self) -> None:
        self.count: int = 0
        self.gone: list[ObservedCall] = []
        """Those that were let go now."""
        self._due: list[CallClosed | CallLeftOpen] = []
        self.used: UsedIds = UsedIds()
        self._ended: deque[tuple[ObservedCall, int]] = deque()
        self._bytes: int = 0

    def begin(
        self, line: RecordedLine, session: ObservedSession, key: str, connection: ObservedConnection
    ) -> ObservedCall:
        """Begin a call. One that had its id before is over."""
        before = session.calls.get(key)
        call = ObservedCall(key, session, line.number, turn=session.turn, last=line.number)
        call.is_replayed = session.tells_history
        known = self.used.has(session.id, key)
        call.is_reused = known and _is_reused(session, before, connection)
        if before is not None:
            call.ended_before = before.ended
            self.let_go(before, connection)
        self.used.add(session.id, key)
        self.count += 1
        session.calls[key] = call
        if session.turn is not None:
            session.turn.calls[key] = call
        if len(session.calls) > KEEP_OPEN:
            self.let_go(next(iter(session.calls.values())), connection)
        return call

    def fold(
        self,
        call: ObservedCall,
        kind: str,
        update: Json,
        line: RecordedLine,
        connection: ObservedConnection,
    ) -> None:
        """Take in an update of a call."""
        call.updates += 1
        _count(call, line)
        self.heard(call, line)
        if call.ended is not None or _is_late(call):
            call.late += 1
        if kind == "tool_call_content_chunk":
            _append(call, update.get("content"), line)
            return
        note_repetition(call, update, line)
        self.patch(call, update, line, connection)
        if call.announced is None and _is_announced(call, kind, update, connection):
            self.announce(call, update, line)

    def heard(self, call: ObservedCall, line: RecordedLine) -> None:
        """Note that a message was about a call."""
        call.wire_bytes += line.size
        call.last = line.number

    def announce(self, call: ObservedCall, update: Json, line: RecordedLine) -> None:
        """Note what announced a call. One that says no status is pending."""
        call.announced, call.opening = line.number, update
        if call.status is None:
            _move(call, "pending", line)

    def patch(
        self, call: ObservedCall, update: Json, line: RecordedLine, connection: ObservedConnection
    ) -> None:
        """Take over the fields that an update has."""
        for name in _FIELDS:
            if name in update:
                _set(call, name, update[name], clears=connection.is_v2)
        if "content" in update:
            note_streaming(call, update)
        if "status" not in update:
            return
        status = text(update["status"])
        if status is None and update["status"] is None and connection.is_v2:
            status = "pending"
        if status is not None:
            _move(call, status, line)
            if status in FINAL and call.ended is None:
                call.ended, call.ended_at = line.number, line.time
                if (
                    not call.session.is_replaying
                ):  # a history may tell all calls, and then their results
                    self._note_end(call, connection)

    def were_told(self, session: ObservedSession, connection: ObservedConnection) -> None:
        """Note that a session's history was told: calls in it that have ended need not be known for long."""
        for call in list(session.calls.values()):
            if call.is_replayed and call.ended is not None:
                self._note_end(call, connection)

    def _note_end(self, call: ObservedCall, connection: ObservedConnection) -> None:
        self._ended.append((call, call.wire_bytes))
        self._bytes += call.wire_bytes
        self._tidy(connection)

    def _tidy(self, connection: ObservedConnection) -> None:
        """Let go of what ended long ago."""
        while len(self._ended) > KEEP_ENDED or (self._bytes > KEEP_BYTES and len(self._ended) > 1):
            call, size = self._ended.popleft()
            self._bytes -= size
            self.let_go(call, connection)

    def let_go(self, call: ObservedCall, connection: ObservedConnection) -> None:
        """Forget a call. It is over."""
        _remove(call.session.calls, call)
        if call.turn is not None:
            _remove(call.turn.calls, call)
        self._due.extend(over(call, connection, at_the_end=False))
        self.gone.append(call)

    def told(self) -> Iterator[CallClosed | CallLeftOpen]:
        """Tell what is due. Then nothing refers to the calls that were let go, not even their questions."""
        yield from self._due
        for call in self.gone:
            call.questions = []
        self._due, self.gone = [], []

    def left_open(
        self, turn: ObservedTurn, line: int, connection: ObservedConnection
    ) -> Iterator[CallClosed | CallLeftOpen]:
        """Tell of a turn's calls, now that the turn is over: which are over, which were left open."""
        following = turn.session.turn
        for call in list(turn.calls.values()):
            if call.ended is not None:
                yield from over(call, connection, at_the_end=False)
            elif following is not None and call.first > following.begun:
                call.turn, following.calls[call.id] = following, call
            elif _must_be_over(call, connection):
                call.is_left = True
                yield CallLeftOpen(line, connection, call, turn)
        turn.calls = {}


def over(
    call: ObservedCall, connection: ObservedConnection, *, at_the_end: bool
) -> Iterator[CallClosed | CallLeftOpen]:
    """Tell that nothing more is expected of a call; once."""
    if call.is_judged:
        return
    call.is_judged = True
    if call.ended is None and not call.is_left:
        done = call.turn is None or call.turn.ended is not None
        in_turn = call.turn is not None and done and not call.is_background
        if in_turn or (done and call.cancelled is not None):
            call.is_left = True
            turn = call.turn
            line = (turn.ended if turn is not None else None) or call.last
            yield CallLeftOpen(line, connection, call, turn)
    yield CallClosed(call.last, connection, call, at_the_end)


def announces(kind: str, update: Json, connection: ObservedConnection) -> bool:
    """Whether an update reads as the first of a call. v2 has one kind for all."""
    if kind == "tool_call":
        return True
    named = any(name in update for name in ("title", "name", "kind", "rawInput"))
    return named and kind == "tool_call_update" and connection.is_v2


def _is_announced(
    call: ObservedCall, kind: str, update: Json, connection: ObservedConnection
) -> bool:
    """Whether an update announces a call. v2's may be of one that began before the recording did."""
    if connection.is_v2 and call.session.is_whole:
        return True
    return announces(kind, update, connection)


def begins_again(
    call: ObservedCall, kind: str, update: Json, connection: ObservedConnection
) -> bool:
    """Whether an update is about a new call that has the id of one that is known."""
    session = call.session
    opens = kind == "tool_call" or (kind == "tool_call_update" and connection.is_v2)
    if not opens:
        return kind == "tool_call_update" and _is_told_as_another(call, update)
    if session.tells_history and call.first < (session.asked or 0):
        return True
    if call.ended is None:
        return False
    if kind == "tool_call":
        return True
    # v2 has one update for all: what tells anew what it is, and is not over, is another call.
    status = text(update.get("status"))
    return (
        status is not None and status not in FINAL and ("title" in update or "rawInput" in update)
    )


def _is_told_as_another(call: ObservedCall, update: Json) -> bool:
    """Whether an update tells of something else to be done, which has not begun, after a call has."""
    given, title = update.get("rawInput"), text(update.get("title"))
    return (
        call.ended is not None
        and text(update.get("status")) == "pending"
        and bool(given and call.given and title)
        and given != call.given
        and title != call.fields.get("title")
    )


def _is_reused(
    session: ObservedSession, before: ObservedCall | None, connection: ObservedConnection
) -> bool:
    """Whether a known id is another call's now. What a replay tells again is the same call."""
    if session.tells_history:
        return before is not None and before.first > (session.asked or 0)
    if connection.has_both_ways:
        return True
    # Of the agent's lines alone, nobody can tell a replay; but in one turn there is none.
    return before is not None and before.turn is not None and before.turn is session.turn


def _is_late(call: ObservedCall) -> bool:
    return call.turn is not None and call.turn.ended is not None


def _must_be_over(call: ObservedCall, connection: ObservedConnection) -> bool:
    if call.is_background:
        return False
    return not connection.is_v2 or call.session.background is not None


def _remove(calls: dict[str, ObservedCall], call: ObservedCall) -> None:
    if calls.get(call.id) is call:
        del calls[call.id]


def _move(call: ObservedCall, status: str, line: RecordedLine) -> None:
    call.status = status
    known = call.statuses
    if not known or (known[-1][0] != status and len(known) < KEEP_STATUSES):
        known.append((status, line.number))


def _count(call: ObservedCall, line: RecordedLine) -> None:
    """Count an update in its second. One that brings much could not be sent together with others."""
    time = line.time
    if time is None or line.size >= MUCH:
        return
    begun, count = call.second or (time, 0)
    if not 0 <= time - begun < 1:
        begun, count = time, 0
    call.second = begun, count + 1
    call.busiest = max(call.busiest, count + 1)


def _append(call: ObservedCall, item: Any, line: RecordedLine) -> None:
    if call.wire_bytes > KEEP_CONTENT:
        call.output_bytes += line.size
        return
    content = many(call.fields.get("content"))
    if call.chunks == 0:
        content = call.fields["content"] = [*content]  # the first is that of a message
    call.chunks += 1
    content.append(item)


def _set(call: ObservedCall, name: str, value: Any, *, clears: bool) -> None:
    if name == "content":
        call.chunks = 0
    if value is None:
        if clears:
            call.fields.pop(name, None)
            if name == "rawInput":
                call.given = None
    elif name == "_meta":
        if name not in call.fields:
            call.fields[name] = {}  # its own, which may be added to
        call.fields[name].update(obj(value))
    else:
        call.fields[name] = value
        if name == "rawInput" and value:
            call.given = value


MOST_TERMINALS = 10_000
"""Terminals that are known. Of more, the oldest is forgotten."""


class TerminalTracker:
    """All terminals of a recording."""

    def __init__(self) -> None:
        self._owners: dict[
            tuple[str, str], ref[ObservedCall]
        ] = {}  # what is over is not kept for them

    def owner(self, session: ObservedSession, key: str | None) -> ObservedCall | None:
        """Return the call that shows a terminal."""
        owner = None if key is None else self._owners.get((session.id, key))
        return None if owner is None else owner()

    def shown(self, call: ObservedCall, update: Json) -> None:
        """Note the terminals that an update lets a call show."""
        content = update.get("content")
        for item in many(content) or [content]:
            told = obj(item)
            key = text(told.get("terminalId"))
            if key is not None and told.get("type") == "terminal":
                _note(self._owners, (call.session.id, key), ref(call))

    def created(self, session: ObservedSession, key: str | None, line: RecordedLine) -> None:
        """Note that a terminal was made."""
        if key is not None and key not in session.terminals:
            _note(session.terminals, key, line.number)

    def background(self, session: ObservedSession, listed: Any) -> frozenset[str] | None:
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
        self,
        line: RecordedLine,
        connection: ObservedConnection,
        session: ObservedSession,
        update: Json,
    ) -> Iterator[TerminalUpdated]:
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

    def ended(self, session: ObservedSession, key: str | None, told: Json) -> None:
        """Note the exit code of a terminal's command, if that is told."""
        call, status = self.owner(session, key), obj(told.get("exitStatus")) or told
        code = status.get("exitCode", status.get("exit_code"))
        if call is not None and type(code) is int:
            call.exit_code = code

    def told(
        self,
        line: RecordedLine,
        connection: ObservedConnection,
        session: ObservedSession,
        key: str,
        update: Json,
    ) -> TerminalUpdated:
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
        return TerminalUpdated(line, connection, session, key, update, known)


def _note(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= MOST_TERMINALS:
        del known[next(iter(known))]
    known[key] = value
