"""What a patient reader of a recording knows: who spoke, which sessions, turns and calls there are.

Lines go in, moments come out. Nothing is judged here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from . import files, senders
from .ids import UsedIds
from .lines import Line, Way
from .moments import (
    FINAL,
    Asked,
    Call,
    CallOver,
    Connection,
    Decided,
    Folded,
    Heard,
    Json,
    Outcome,
    Over,
    Question,
    Session,
    TerminalTold,
    Told,
    Turn,
    TurnOver,
    Unreadable,
    Updated,
)
from .values import many, obj, text

KEEP_ENDED = 256
"""Calls of a session that have ended and are still known, for what may come late."""

KEEP_ASKED = 4096
"""Requests that wait for an answer at most. One that nobody answers must not be kept for ever."""

CALLS = ("tool_call", "tool_call_update", "tool_call_content_chunk")
TERMINALS = ("terminal_update", "terminal_output_chunk")
OPENING = ("session/new", "session/load", "session/resume", "session/fork")
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


class Watch:
    """Watches one recording."""

    def __init__(self) -> None:
        self.connection: Connection = Connection()
        self.sessions: dict[str, Session] = {}
        self.calls: int = 0
        self.line: int = 0
        self._asked: dict[tuple[Way, Any], tuple[str, Json, int]] = {}
        self._questions: dict[Any, Question] = {}
        self._turns: dict[Any, Turn] = {}
        self._used: UsedIds = UsedIds()
        self._ended: dict[str, deque[str]] = {}
        self._owners: dict[tuple[str, str], Call] = {}

    def feed(self, line: Line) -> Iterator[Any]:
        """Take in a line, and give what happens in it."""
        self.line = line.number
        message = line.message
        if message is None:
            yield Unreadable(line)
            return
        sender = line.sender or self._sender(message)
        if sender == "client":
            self.connection.has_both_ways = True
        params, method = obj(message.get("params")), text(message.get("method"))
        session = text(params.get("sessionId"))
        yield Heard(line, message, sender, self.connection, session)
        if method == "session/update":
            yield from self._updated(line, params)
        elif method is not None:
            yield from self._called(line, message, method, params, sender)
        elif "id" in message:
            yield from self._answered(line, message, sender)

    def finish(self) -> Iterator[Any]:
        """Give what is over because the recording is."""
        for session in self.sessions.values():
            for call in list(session.calls.values()):
                yield from self._over(call, at_the_end=True)
        yield Over(self.line, self.connection, self.line, self.calls)

    # Who spoke

    def _sender(self, message: Json) -> Way | None:
        method = text(message.get("method"))
        if method is not None:
            return senders.of_method(method)
        return senders.of_answer(message, _key(message.get("id")), self._asked)

    # Requests and notifications

    def _called(
        self, line: Line, message: Json, method: str, params: Json, sender: Way | None
    ) -> Iterator[Any]:
        if "id" in message and sender is not None:
            if len(self._asked) >= KEEP_ASKED:
                del self._asked[next(iter(self._asked))]
            self._asked[sender, _key(message["id"])] = method, params, line.number
        if method == "initialize":
            self.connection.is_whole = True
            self.connection.client = _name(params.get("clientInfo") or params.get("info"))
            offered = params.get("clientCapabilities") or params.get("capabilities")
            self.connection.capabilities = obj(offered)
        elif method in OPENING:
            session = self._session(params.get("sessionId"))
            if session is not None:
                session.asked, session.is_replaying = line.number, True
                session.opened = None
        elif method == "session/prompt":
            self._prompted(line, message, params)
        elif method == "session/cancel":
            session = self._session(params.get("sessionId"))
            if session is not None and session.turn is not None and session.turn.cancelled is None:
                session.turn.cancelled = line.number
        elif method == "session/request_permission":
            yield self._asking(line, message, params)

    def _prompted(self, line: Line, message: Json, params: Json) -> None:
        session = self._session(params.get("sessionId"))
        if session is None:
            return
        if session.opened is None and session.asked is None:
            session.opened = 0  # it was opened before the recording began
        session.turn = turn = Turn(session, line.number, message.get("id"))
        self._turns[_key(message.get("id"))] = turn

    def _asking(self, line: Line, message: Json, params: Json) -> Asked:
        session = self._session(params.get("sessionId"))
        tool_call = obj(params.get("toolCall")) or obj(obj(params.get("subject")).get("toolCall"))
        key = text(tool_call.get("toolCallId"))
        call = session.calls.get(key) if session is not None and key is not None else None
        question = Question(
            line.number,
            session,
            key,
            call,
            params,
            tool_call,
            message.get("id"),
        )
        if call is not None:
            call.questions.append(question)
            call.wire_bytes += line.size
        elif session is not None and key is not None:
            if len(session.asked_for) >= KEEP_ASKED:
                del session.asked_for[next(iter(session.asked_for))]
            session.asked_for[key] = line.number
        self._questions[_key(message.get("id"))] = question
        return Asked(line, self.connection, question)

    # Answers

    def _answered(self, line: Line, message: Json, sender: Way | None) -> Iterator[Any]:
        asker: Way | None = None if sender is None else "client" if sender == "agent" else "agent"
        if asker is None:
            return
        method, params, asked = self._asked.pop((asker, _key(message.get("id"))), ("", {}, 0))
        told = obj(message.get("result"))
        if method == "initialize":
            version = told.get("protocolVersion")
            self.connection.version = version if type(version) is int else None
            self.connection.agent = _name(told.get("agentInfo") or told.get("info"))
        elif method in OPENING and "error" not in message:
            session = self._session(told.get("sessionId") or params.get("sessionId"))
            if session is not None:
                session.asked, session.opened, session.is_replaying = asked, line.number, False
                session.cwd = text(params.get("cwd"))
        elif method == "session/prompt" and self.connection.version != 2:
            reason = told.get("stopReason")
            yield from self._turn_over(line, _key(message.get("id")), reason)
        elif method == "session/request_permission":
            yield from self._decided(line, message)
        elif method == "terminal/create":
            session = self._session(params.get("sessionId"))
            terminal = text(told.get("terminalId"))
            if session is not None and terminal is not None:
                session.terminals[terminal] = line.number
        elif method in ("terminal/wait_for_exit", "terminal/output"):
            key = text(params.get("sessionId")) or "", text(params.get("terminalId")) or ""
            _note_exit(self._owners.get(key), obj(told.get("exitStatus")) or told)

    def _decided(self, line: Line, message: Json) -> Iterator[Any]:
        question = self._questions.pop(_key(message.get("id")), None)
        if question is not None:
            question.answered = line.number
            question.outcome = _outcome(message, question)
            yield Decided(line, self.connection, question)

    def _turn_over(self, line: Line, key: Any, reason: Any) -> Iterator[Any]:
        turn = self._turns.pop(key, None)
        if turn is None:
            return
        turn.ended, turn.stop_reason = line.number, text(reason)
        session = turn.session
        session.last_turn = turn
        if session.turn is turn:
            session.turn = None
        yield TurnOver(line, self.connection, turn)
        for call in turn.calls.values():
            if call.ended is not None:
                yield from self._over(call, at_the_end=False)

    # Updates

    def _updated(self, line: Line, params: Json) -> Iterator[Any]:
        session, told = self._session(params.get("sessionId")), obj(params.get("update"))
        if session is None or not told:
            return
        kind = text(told.get("sessionUpdate")) or ""
        if kind in CALLS:
            yield from self._told(line, session, kind, told)
        elif kind in TERMINALS:
            yield from self._terminal(line, session, told)
        else:
            if kind == "state_update":
                yield from self._state(line, session, told)
            yield Updated(line, self.connection, session, told)

    def _state(self, line: Line, session: Session, update: Json) -> Iterator[Any]:
        if update.get("state") == "idle" and session.turn is not None:
            yield from self._turn_over(line, _key(session.turn.request), update.get("stopReason"))

    def _told(self, line: Line, session: Session, kind: str, update: Json) -> Iterator[Any]:
        key = text(update.get("toolCallId"))
        if key is None:
            return
        call = session.calls.get(key)
        known = call is not None or self._used.has(session.id, key)
        yield Told(line, self.connection, session, key, call, kind, update, known)
        is_first = call is None
        if call is None:
            call = self._begin(line, session, key)
        yield from self._fold(call, kind, update, line)
        for terminal in _terminals_of(update):
            self._owners[session.id, terminal] = call
        yield Folded(line, self.connection, session, call, kind, update, is_first)
        files.note(session, call, line.number)
        yield from self._meta_terminals(line, session, update)

    def _begin(self, line: Line, session: Session, key: str) -> Call:
        call = Call(key, session, line.number, turn=session.turn)
        call.is_replayed = session.is_replaying
        session.calls[key] = call
        self._used.add(session.id, key)
        self.calls += 1
        if session.turn is not None:
            session.turn.calls[key] = call
        return call

    def _fold(self, call: Call, kind: str, update: Json, line: Line) -> Iterator[Any]:
        call.updates += 1
        call.wire_bytes += line.size
        call.last = line.number
        opens = kind == "tool_call" or (kind == "tool_call_update" and self.connection.version == 2)
        if opens and call.announced is None:
            call.announced, call.opening = line.number, update
        if kind == "tool_call_content_chunk":
            call.fields["content"] = [*many(call.fields.get("content")), update.get("content")]
            return
        for name in _FIELDS:
            if name in update:
                self._set(call, name, update[name])
        status = text(update.get("status"))
        if status is not None:
            call.statuses.append((status, line.number))
            call.status = status
            if status in FINAL and call.ended is None:
                call.ended = line.number
                yield from self._remember(call)

    def _set(self, call: Call, name: str, value: Any) -> None:
        old = call.fields.get(name)
        if value is None:
            if self.connection.version == 2:
                call.fields.pop(name, None)
        elif name == "_meta":
            call.fields[name] = {**obj(old), **obj(value)}
        else:
            call.fields[name] = value

    def _remember(self, call: Call) -> Iterator[Any]:
        """Note that a call has ended. Those that ended long ago are over; only their ids stay known."""
        ended = self._ended.setdefault(call.session.id, deque())
        ended.append(call.id)
        if len(ended) > KEEP_ENDED:
            old = call.session.calls.pop(ended.popleft(), None)
            if old is not None:
                if old.turn is not None:
                    old.turn.calls.pop(old.id, None)
                yield from self._over(old, at_the_end=False)

    def _over(self, call: Call, *, at_the_end: bool) -> Iterator[Any]:
        if not call.is_judged:
            call.is_judged = True
            yield CallOver(call.last, self.connection, call, at_the_end)

    # Terminals

    def _terminal(self, line: Line, session: Session, update: Json) -> Iterator[Any]:
        key = text(update.get("terminalId"))
        if key is not None:
            yield self._of_terminal(line, session, key, update)

    def _meta_terminals(self, line: Line, session: Session, update: Json) -> Iterator[Any]:
        meta = obj(update.get("_meta"))
        opened = text(obj(meta.get("terminal_info")).get("terminal_id"))
        if opened is not None:
            session.terminals.setdefault(opened, line.number)
        for name in ("terminal_output", "terminal_exit"):
            told = obj(meta.get(name))
            key = text(told.get("terminal_id"))
            if key is not None:
                yield self._of_terminal(line, session, key, told)

    def _of_terminal(self, line: Line, session: Session, key: str, update: Json) -> TerminalTold:
        known = key in session.terminals
        if update.get("sessionUpdate") == "terminal_update":
            session.terminals.setdefault(key, line.number)
        call = self._owners.get((session.id, key))
        if call is not None:
            if update.get("sessionUpdate") is not None:
                call.wire_bytes += line.size
            call.output_bytes += len(text(update.get("data")) or "")
            _note_exit(call, obj(update.get("exitStatus")) or update)
        return TerminalTold(line, self.connection, session, key, update, known)

    # Sessions

    def _session(self, given: Any) -> Session | None:
        key = text(given)
        if key is None:
            return None
        session = self.sessions.get(key)
        if session is None:
            session = self.sessions[key] = Session(key)
        return session


def _key(value: Any) -> Any:
    """Give an id of JSON-RPC as a key: 1 and "1" are not the same."""
    return value if isinstance(value, (str, int, float)) else None


def _name(info: Any) -> str:
    told = obj(info)
    return " ".join(filter(None, (text(told.get("name")), text(told.get("version")))))


def _outcome(message: Json, question: Question) -> Outcome:
    if "error" in message:
        return "error"
    outcome = obj(obj(message.get("result")).get("outcome"))
    if outcome.get("outcome") != "selected":
        return "cancelled" if outcome else None
    for option in many(question.params.get("options")):
        told = obj(option)
        if told and told.get("optionId") == outcome.get("optionId"):
            return "allowed" if str(told.get("kind")).startswith("allow") else "rejected"
    return None


def _note_exit(call: Call | None, told: Json) -> None:
    code = told.get("exitCode", told.get("exit_code"))
    if call is not None and type(code) is int:
        call.exit_code = code


def _terminals_of(update: Json) -> Iterator[str]:
    """Give the ids of the terminals that an update lets a call show."""
    content = update.get("content")
    for item in many(content) or [content]:
        told = obj(item)
        key = text(told.get("terminalId"))
        if key is not None and told.get("type") == "terminal":
            yield key
