"""Track calls and terminals: how calls begin, how updates are applied, and when calls are forgotten.

A call that has ended stays known for a while, for updates that arrive late. Memory does not grow with the
traffic: the oldest calls are forgotten, by number and by bytes, and only their ids are remembered.

`CallTracker` owns the calls. `TerminalTracker` knows which terminals there are and which calls show them,
and adds their output and exit codes to these calls.
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
    ObservedSession,
    ObservedTurn,
    SeenIds,
    many,
    obj,
    text,
)
from callsheet.observe.repetition import note_repetition

KEEP_ENDED = 1024
"""Calls that have ended and stay known."""

KEEP_BYTES = 32 << 20
"""Bytes of messages about calls that have ended and stay known."""

KEEP_OPEN = 4096
"""Calls of a session that are known at the same time, ended or not."""

KEEP_CONTENT = 64 << 20
"""Bytes of a call's messages after which nothing is appended to its content."""

KEEP_STATUSES = 100
"""Status changes of a call that are remembered."""

MUCH = 8 << 10
"""Bytes of an update that is worth a message of its own, however many there are in a second."""

_FIELDS = frozenset(
    ("title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "name", "_meta")
)


class CallTracker:
    """All calls: those that are known, and the ids of those that were forgotten."""

    def __init__(self) -> None:
        self.count: int = 0
        self.gone: list[ObservedCall] = []
        """Calls that were forgotten, and whose events were not emitted yet."""
        self._due: list[CallClosed | CallLeftOpen] = []
        self.used: SeenIds = SeenIds()
        self._ended: deque[tuple[ObservedCall, int]] = deque()
        self._bytes: int = 0

    def begin(self, line: RecordedLine, session: ObservedSession, key: str) -> ObservedCall:
        """Begin a call, and return it. An earlier call of the same id is forgotten."""
        before = session.calls.get(key)
        call = ObservedCall(key, session, line.number, turn=session.turn, last=line.number)
        call.is_replayed = session.shows_history
        known = self.used.has(session.id, key)
        call.is_reused = known and _is_reused(session, before)
        if before is not None:
            call.ended_before = before.ended
            self.let_go(before)
        self.used.add(session.id, key)
        self.count += 1
        session.calls[key] = call
        if session.turn is not None:
            session.turn.calls[key] = call
        if len(session.calls) > KEEP_OPEN:
            self.let_go(next(iter(session.calls.values())))
        return call

    def apply(self, call: ObservedCall, kind: str, update: Json, line: RecordedLine) -> None:
        """Apply an update of a call."""
        call.updates += 1
        if line.time is not None and line.size < MUCH:
            _count(call, line.time)
        self.mentioned(call, line)
        if call.ended is not None or (call.turn is not None and call.turn.ended is not None):
            call.late += 1
        if kind == "tool_call_content_chunk":
            _append(call, update.get("content"), line)
            return
        if call.asked_since:
            held = call.asked_since.items()
            call.asked_since = {name: value for name, value in held if not update.get(name)}
        note_repetition(call, update, line)
        self.patch(call, update, line)
        if call.announced is None and _is_announced(call, kind, update):
            self.announce(call, update, line)

    def mentioned(self, call: ObservedCall, line: RecordedLine) -> None:
        """Note that a message mentions a call."""
        call.wire_bytes += line.size
        call.last = line.number

    def announce(self, call: ObservedCall, update: Json, line: RecordedLine) -> None:
        """Note what announced a call. Without a status, it is pending."""
        call.announced, call.opening = line.number, update
        if call.status is None:
            _move(call, "pending", line)

    def patch(self, call: ObservedCall, update: Json, line: RecordedLine) -> None:
        """Set the fields that an update has. In v2, null clears one."""
        is_v2 = call.session.connection.is_v2
        for name in update:
            if name in _FIELDS:
                _set(call, name, update[name], clears=is_v2)
        if "content" in update:
            note_streaming(call, update)
        if "status" not in update:
            return
        status = text(update["status"])
        if status is None and update["status"] is None and is_v2:
            status = "pending"
        if status is not None:
            _move(call, status, line)
            if status in FINAL and call.ended is None:
                call.ended, call.ended_at = line.number, line.time
                # A history may have all calls first, and then their results: none may be forgotten yet.
                if not call.session.is_replaying:
                    self._note_end(call)

    def replayed(self, session: ObservedSession) -> None:
        """Note that a session's history was replayed: its ended calls may be forgotten from now on."""
        for call in list(session.calls.values()):
            if call.is_replayed and call.ended is not None:
                self._note_end(call)

    def _note_end(self, call: ObservedCall) -> None:
        """Note that a call has ended, and forget those that ended first, as far as there are too many."""
        self._ended.append((call, call.wire_bytes))
        self._bytes += call.wire_bytes
        while len(self._ended) > KEEP_ENDED or (self._bytes > KEEP_BYTES and len(self._ended) > 1):
            call, size = self._ended.popleft()
            self._bytes -= size
            self.let_go(call)

    def let_go(self, call: ObservedCall) -> None:
        """Forget a call, and close it."""
        _remove(call.session.calls, call)
        if call.turn is not None:
            _remove(call.turn.calls, call)
        self._due.extend(close_call(call, at_the_end=False))
        self.gone.append(call)

    def closed(self) -> Iterator[CallClosed | CallLeftOpen]:
        """Yield the events of forgotten calls, and break reference cycles to free memory at once."""
        yield from self._due
        for call in self.gone:
            call.questions = []
        self._due, self.gone = [], []

    def left_open(self, turn: ObservedTurn, line: int) -> Iterator[CallClosed | CallLeftOpen]:
        """Yield the events of a turn's end: which of its calls are closed, and which were left open.

        A call that began after the next turn was requested may belong to that turn, and is moved to it.
        """
        following = turn.session.turn
        for call in list(turn.calls.values()):
            if call.ended is not None:
                yield from close_call(call, at_the_end=False)
            elif following is not None and call.first > following.begun:
                call.turn, following.calls[call.id] = following, call
            elif _must_be_over(call):
                call.is_left = True
                yield CallLeftOpen(line, call, turn)
        turn.calls = {}


def close_call(call: ObservedCall, *, at_the_end: bool) -> Iterator[CallClosed | CallLeftOpen]:
    """Yield the events that close a call, of which nothing more is expected; none if it is closed already."""
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
            yield CallLeftOpen(line, call, turn)
    yield CallClosed(call.last, call, at_the_end)


def announces(kind: str, update: Json, session: ObservedSession) -> bool:
    """Whether an update looks like the first of a call. v2 has one kind for all."""
    if kind == "tool_call":
        return True
    named = any(name in update for name in ("title", "name", "kind", "rawInput"))
    return named and kind == "tool_call_update" and session.connection.is_v2


def _is_announced(call: ObservedCall, kind: str, update: Json) -> bool:
    """Whether an update announces a call. In v2 it may be of one that began before the recording."""
    session = call.session
    return (session.connection.is_v2 and session.is_whole) or announces(kind, update, session)


def begins_again(call: ObservedCall, kind: str, update: Json) -> bool:
    """Whether an update is about a new call that has the id of one that is known."""
    session = call.session
    opens = kind == "tool_call" or (kind == "tool_call_update" and session.connection.is_v2)
    if not opens:
        is_over = call.ended is not None and kind == "tool_call_update"
        return is_over and _is_described_as_another(call, update)
    if session.shows_history and call.first < (session.asked or 0):
        return True
    if call.ended is None:
        return False
    if kind == "tool_call":
        return True
    # v2 has one kind of update: one that describes the call anew, and is not final, is another call.
    status = text(update.get("status"))
    return (
        status is not None and status not in FINAL and ("title" in update or "rawInput" in update)
    )


def _is_described_as_another(call: ObservedCall, update: Json) -> bool:
    """Whether an update after a call's end describes other work, which is pending."""
    value, title = update.get("rawInput"), text(update.get("title"))
    return (
        text(update.get("status")) == "pending"
        and bool(value and call.last_input and title)
        and value != call.last_input
        and title != call.fields.get("title")
    )


def _is_reused(session: ObservedSession, before: ObservedCall | None) -> bool:
    """Whether a new call uses the id of another one. A replayed call is the same one, not another."""
    if session.shows_history:
        return before is not None and before.first > (session.asked or 0)
    if session.connection.has_both_ways:
        return True
    # In the agent's lines alone a replay can't be seen; but within one turn there is none.
    return before is not None and before.turn is not None and before.turn is session.turn


def _must_be_over(call: ObservedCall) -> bool:
    is_certain = not call.session.connection.is_v2 or call.session.background is not None
    return is_certain and not call.is_background


def _remove(calls: dict[str, ObservedCall], call: ObservedCall) -> None:
    if calls.get(call.id) is call:
        del calls[call.id]


def _move(call: ObservedCall, status: str, line: RecordedLine) -> None:
    call.status = status
    known = call.statuses
    if not known or (known[-1][0] != status and len(known) < KEEP_STATUSES):
        known.append((status, line.number))


def _count(call: ObservedCall, time: float) -> None:
    """Count an update in its second."""
    begun, count = call.second or (time, 0)
    if not 0 <= time - begun < 1:
        begun, count = time, 0
    count += 1
    call.second = begun, count
    if count > call.busiest:
        call.busiest = count


def _append(call: ObservedCall, item: Any, line: RecordedLine) -> None:
    if call.wire_bytes > KEEP_CONTENT:
        call.output_bytes += line.size
        return
    content = many(call.fields.get("content"))
    if call.chunks == 0:
        content = call.fields["content"] = [*content]  # a copy: the list belongs to a message
    call.chunks += 1
    content.append(item)


def _set(call: ObservedCall, name: str, value: Any, *, clears: bool) -> None:
    if name == "content":
        call.chunks = 0
    if value is None:
        if clears:
            call.fields.pop(name, None)
            if name == "rawInput":
                call.last_input = None
    elif name == "_meta":
        if name not in call.fields:
            call.fields[name] = {}  # the call's own object: that of a message must not be changed
        call.fields[name].update(obj(value))
    else:
        call.fields[name] = value
        if name == "rawInput" and value:
            call.last_input = value


MOST_TERMINALS = 10_000
"""Terminals that are known. Of more, the oldest is forgotten."""


class TerminalTracker:
    """The terminals, and the calls that show them."""

    def __init__(self) -> None:
        self._owners: dict[
            tuple[str, str], ref[ObservedCall]
        ] = {}  # weak, so that terminals keep no call alive

    def owner(self, session: ObservedSession, key: str | None) -> ObservedCall | None:
        """Return the call that shows a terminal."""
        owner = None if key is None else self._owners.get((session.id, key))
        return None if owner is None else owner()

    def shown(self, call: ObservedCall, update: Json) -> None:
        """Note the terminals in the content of a call's update."""
        content = update.get("content")
        for item in many(content) or [content]:
            fields = obj(item)
            key = text(fields["terminalId"]) if "terminalId" in fields else None
            if key is not None and fields.get("type") == "terminal":
                _note(self._owners, (call.session.id, key), ref(call))

    def created(self, session: ObservedSession, key: str | None, line: RecordedLine) -> None:
        """Note that a terminal was created."""
        if key is not None and key not in session.terminals:
            _note(session.terminals, key, line.number)

    def background(self, session: ObservedSession, listed: Any) -> frozenset[str] | None:
        """Return the calls that run in the background, by v2's list of calls and terminals.

        None if there is no list, or one in an unknown form.
        """
        found: set[str] = set()
        for item in many(listed):
            fields = obj(item)
            owner = self.owner(session, text(fields.get("terminalId")))
            key = text(fields.get("toolCallId")) or (owner.id if owner is not None else None)
            if key is None and fields.get("type") != "terminal":
                return None
            found.add(key or "")
        return frozenset(found) if isinstance(listed, list) else None

    def in_meta(
        self, line: RecordedLine, session: ObservedSession, update: Json
    ) -> Iterator[TerminalUpdated]:
        """Yield the updates of terminals in a call's `_meta`, where some v1 agents put them."""
        meta = obj(update.get("_meta"))
        self.created(session, text(obj(meta.get("terminal_info")).get("terminal_id")), line)
        for name in ("terminal_output", "terminal_output_delta", "terminal_exit"):
            fields = obj(meta.get(name))
            key = text(fields.get("terminal_id"))
            if key is not None:
                yield self.updated(line, session, key, fields)

    def ended(self, session: ObservedSession, key: str | None, fields: Json) -> None:
        """Note the exit code of a terminal's command, if there is one."""
        call, status = self.owner(session, key), obj(fields.get("exitStatus")) or fields
        code = status.get("exitCode", status.get("exit_code"))
        if call is not None and type(code) is int:
            call.exit_code = code

    def updated(
        self, line: RecordedLine, session: ObservedSession, key: str, update: Json
    ) -> TerminalUpdated:
        """Apply an update of a terminal."""
        known, kind = key in session.terminals, update.get("sessionUpdate")
        if kind == "terminal_update":
            self.created(session, key, line)
        call = self.owner(session, key)
        if call is not None:
            if kind is not None:
                call.wire_bytes += line.size
            call.output_bytes += len(text(update.get("data")) or "")
            self.ended(session, key, update)
        return TerminalUpdated(line, session, key, update, known)


def _note(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= MOST_TERMINALS:
        del known[next(iter(known))]
    known[key] = value
