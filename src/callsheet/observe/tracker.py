"""The tracker: lines of ACP traffic go in, events come out. Nothing is judged here.

It combines the other modules: `rpc.py` finds who has sent a message and which request it responds to,
`turns.py` tracks sessions and turns, `calls.py` calls and terminals. It reads no clock and no other input, so
a live connection and its recording produce the same events.

Traffic may begin in the middle, lack one side, or have gaps. Then less is certain, and the connection shows
that (`is_whole`, `has_both_ways`, `has_gaps`): what began before the recording gets the benefit of the doubt.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from callsheet.observe.calls import (
    CallTracker,
    TerminalTracker,
    announces,
    begins_again,
    close_call,
)
from callsheet.observe.events import (
    LARGE,
    CallBegan,
    CallLeftOpen,
    LargeMessage,
    PermissionAsked,
    PermissionDecided,
    SessionUpdated,
    TurnBegan,
    TurnEnded,
    UnopenedSession,
    UnreadableLine,
    UpdateApplied,
    UpdateArrived,
    UsageChanged,
)
from callsheet.observe.evidence import note_files
from callsheet.observe.lines import RecordedLine, Sender, loses_a_message
from callsheet.observe.model import (
    ApprovalRequest,
    Json,
    ObservedCall,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
    SeenIds,
    name_of,
    obj,
    rpc_id,
    text,
)
from callsheet.observe.rpc import (
    OPENING,
    RequestTracker,
    answered_method,
    meant_by,
    outcome_of,
    question_of,
    twin_of,
)
from callsheet.observe.turns import SessionTracker, TurnTracker
from callsheet.observe.usage import Meter, meter_of, model_name

KEEP_ASKED = 4096
"""Approval requests that may wait for a response. Of more, the oldest is forgotten."""

CALLS = ("tool_call", "tool_call_update", "tool_call_content_chunk")
TERMINALS = ("terminal_update", "terminal_output_chunk")
SPEECH = ("agent_message_chunk", "agent_thought_chunk", "agent_message", "agent_thought")
SESSION_STATE = frozenset(
    (
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "config_options_update",
        "session_info_update",
        "usage_update",
    )
)
"""Updates about the state of a session, not about what is done in it. Cards show nothing of them."""

_IN_REQUESTS = ("rawInput", "title", "kind")
REOPENING = ("session/load", "session/resume")
# The version that a kind of update implies, where the agreement on one was not recorded.
_SPOKEN = {"tool_call": 1, "state_update": 2} | dict.fromkeys((*TERMINALS, CALLS[2]), 2)


class Tracker:
    """Tracks one connection, or one recording: `feed` each line in order, then `finish`."""

    def __init__(self) -> None:
        self.connection: ObservedConnection = ObservedConnection()
        self.line: int = 0
        self._requests: RequestTracker = RequestTracker()
        self._questions: dict[Any, ApprovalRequest] = {}
        self._turns: TurnTracker = TurnTracker()
        self._calls: CallTracker = CallTracker()
        self._sessions: SessionTracker = SessionTracker(self._calls)
        self._terminals: TerminalTracker = TerminalTracker()

    @property
    def sessions(self) -> dict[str, ObservedSession]:
        """The known sessions, by their ids."""
        return self._sessions.by_id

    @property
    def messages(self) -> int:
        """How many messages there were."""
        return self._requests.messages

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self._calls.count

    def sender_of(self, message: Json) -> Sender | None:
        """Return who has sent a message, by what was sent before; None if that is uncertain."""
        return self._requests.sender(message, obj(message.get("params")))

    def feed(self, line: RecordedLine) -> Iterator[Any]:
        """Apply a line, and yield its events.

        The state changes while the events are read, so each event must be processed before the next one
        is requested.
        """
        self.line = line.number
        message = line.message
        if line.fault is not None:
            yield UnreadableLine(line)
        if message is None:
            if loses_a_message(line):
                self._message_lost()
            return
        params = obj(message.get("params"))
        sender = line.sender or self.sender_of(message)
        if sender == "client":
            self.connection.has_both_ways = True
        event = self._requests.seen(line, message, sender, self.connection, params)
        yield event
        if line.size > LARGE:
            yield LargeMessage(line, sender, event.session, event.method)
        method = event.method
        if method == "session/update":
            yield from self._update_seen(line, params)
        elif method is not None:
            yield from self._requested(line, message, method, params, sender)
        elif "id" in message:
            yield from self._response_seen(line, message, sender)
        if self._calls.gone:
            yield from self._calls.closed()

    def _message_lost(self) -> None:
        """Note that a message may be lost: what comes now must not be judged as if nothing were missing."""
        self.connection.has_gaps, self.connection.is_whole = True, False
        for session in self.sessions.values():
            session.asked, session.opened = None, 0

    def finish(self) -> Iterator[Any]:
        """Yield the last events: calls that are closed because the recording has ended, and its end."""
        yield from self._end_all()
        turns = [one.turn for one in self._sessions if one.turn is not None]
        yield self._requests.over(self.line, self.connection, self.calls, turns)

    def _end_all(self) -> Iterator[Any]:
        for session in self._sessions:
            for call in list(session.calls.values()):
                yield from close_call(call, at_the_end=True)

    # Requests and notifications

    def _requested(
        self, line: RecordedLine, message: Json, method: str, params: Json, sender: Sender | None
    ) -> Iterator[Any]:
        if "id" in message:
            self._requests.ask(sender, rpc_id(message["id"]), method, params, line.number)
        if method == "initialize":
            yield from self._initialize_requested(params)
        elif method == "$/cancel_request":
            self._request_cancelled(line, rpc_id(params.get("requestId")), sender)
        elif method == "session/request_permission":
            yield from self._permission_requested(line, message, params)
        elif sender == "client":
            yield from self._client_request(line, message, method, params)

    def _initialize_requested(self, params: Json) -> Iterator[Any]:
        # A second `initialize` is that of another process of the agent, in the same file.
        if self.connection.is_whole or self.connection.has_gaps:
            yield from self._restart()
        connection = self.connection
        connection.is_whole = True
        connection.client = name_of(params.get("clientInfo") or params.get("info"))
        offered = params.get("clientCapabilities") or params.get("capabilities")
        connection.capabilities = obj(offered)

    def _restart(self) -> Iterator[Any]:
        """End what another process of the agent began."""
        yield from self._end_all()
        self._sessions.forget()
        self._requests.restart()
        self._questions, self._turns = {}, TurnTracker()
        self.connection = ObservedConnection(has_both_ways=self.connection.has_both_ways)
        if not self.connection.has_both_ways:
            self._calls.used = SeenIds()  # a history may be replayed now, unseen

    def _client_request(
        self, line: RecordedLine, message: Json, method: str, params: Json
    ) -> Iterator[Any]:
        session = self._session(params.get("sessionId"))
        if session is None:
            return
        if method in REOPENING:
            session.asked, session.opened = line.number, None
            session.is_replaying = method == "session/load" or bool(params.get("replayFrom"))
            # Now, not with the response: the history comes before that.
            session.cwd = session.cwd or text(params.get("cwd"))
        elif not session.is_known:
            session.opened = 0  # it was opened before the recording began
        if method == "session/prompt":
            session.is_loaded = False
            if self._turns.prompted(line, rpc_id(message.get("id")), session):
                yield from self._turn_begun(line, session)
        elif method == "session/cancel":
            self._turns.cancelled(line, session)
        elif method == "session/set_model":
            meter = meter_of(session)
            meter.model = model_name(params.get("modelId")) or meter.model

    def _request_cancelled(self, line: RecordedLine, key: Any, sender: Sender | None) -> None:
        question = self._questions.get(key)
        if sender == "client":
            self._turns.cancelled_request(line, key)
        elif sender == "agent" and question is not None:
            question.withdrawn = line.number

    def _permission_requested(
        self, line: RecordedLine, message: Json, params: Json
    ) -> Iterator[Any]:
        session = self._session(params.get("sessionId"))
        question = question_of(line, message.get("id"), params, session)
        key = question.call_id
        if session is not None:
            if not session.updates and not session.is_known:
                yield UnopenedSession(line, session, self._requests.pending_opening())
            if key is not None:
                yield from self._relate_to_call(line, session, key, question)
            if session.turn is not None and len(session.turn.questions) < KEEP_ASKED:
                session.turn.questions.append(question)
        if len(self._questions) >= KEEP_ASKED:
            del self._questions[next(iter(self._questions))]
        self._questions[rpc_id(message.get("id"))] = question
        yield PermissionAsked(line, self.connection, question)

    def _relate_to_call(
        self, line: RecordedLine, session: ObservedSession, key: str, question: ApprovalRequest
    ) -> Iterator[Any]:
        """Find the call that a request is about, by its id or as its twin; else begin one."""
        call = session.calls.get(key)
        question.is_known = call is not None and call.ended is None
        if call is None and not self._calls.used.has(session.id, key):
            call = question.twin = twin_of(question)
        if call is None or call.ended is not None or call.is_left:
            call = yield from self._begin_call(line, session, key)
            call.is_asked_first = True
            question.turn = session.turn
            yield CallBegan(line, session, call)
        question.call = call
        call.questions.append(question)
        self._calls.mentioned(call, line)
        call.asked = {**call.asked, **question.tool_call}
        if not self.connection.is_v2:
            call.asked_since = {name: question.tool_call.get(name) for name in _IN_REQUESTS}
        elif question.tool_call:  # it is an update, and may announce
            self._calls.patch(call, question.tool_call, line)
            if call.announced is None:
                self._calls.announce(call, question.tool_call, line)

    # Responses

    def _response_seen(
        self, line: RecordedLine, message: Json, sender: Sender | None
    ) -> Iterator[Any]:
        if sender is None:
            return
        asker: Sender = "client" if sender == "agent" else "agent"
        key, fields = rpc_id(message.get("id")), obj(message.get("result"))
        method, params, asked = self._requests.asked.pop((asker, key), ("", {}, 0))
        if asker == "client":
            method = method or answered_method(fields)
        if method == "initialize":
            yield from self._initialize_answered(fields)
        elif method == "session/prompt":
            yield from self._prompt_answered(line, key, message)
        elif method == "session/request_permission":
            yield from self._permission_answered(line, message)
        elif asker == "client":
            yield from self._session_answered(line, method, params, message, asked)
        elif method == "terminal/create":
            session = self._session(params.get("sessionId"))
            if session is not None:
                self._terminals.created(session, text(fields.get("terminalId")), line)
        elif method in ("terminal/wait_for_exit", "terminal/output"):
            session = self._session(params.get("sessionId"))
            if session is not None:
                self._terminals.ended(session, text(params.get("terminalId")), fields)

    def _initialize_answered(self, fields: Json) -> Iterator[Any]:
        if self.connection.version is not None:  # the request was not recorded
            yield from self._restart()
        version, connection = fields.get("protocolVersion"), self.connection
        connection.is_whole = not connection.has_gaps
        connection.version = version if type(version) is int else None
        connection.agent = name_of(fields.get("agentInfo") or fields.get("info"))
        connection.agent_capabilities = obj(
            fields.get("agentCapabilities") or fields.get("capabilities")
        )

    def _session_answered(
        self, line: RecordedLine, method: str, params: Json, message: Json, asked: int
    ) -> Iterator[Any]:
        fields, failed = obj(message.get("result")), "error" in message
        opens = method in REOPENING
        session = self._session(params.get("sessionId") if opens else fields.get("sessionId"))
        if session is not None and session.is_known and method not in OPENING:
            return
        if session is not None and not failed:
            session.asked, session.opened = asked or line.number, line.number
            session.cwd = text(params.get("cwd")) or session.cwd
            meter_of(session).opened(fields)
            yield from self._history_replayed(line, session)
        elif session is not None:
            session.opened = 0
            yield from self._history_replayed(line, session)
        owner = None if failed else self.sessions.get(text(params.get("sessionId")) or "")
        if owner is not None and method == "session/set_config_option":
            meter_of(owner).opened(fields)
        elif method == "tool_call/cancel":
            call = owner.calls.get(text(params.get("toolCallId")) or "") if owner else None
            if call is not None:
                call.cancelled = asked

    def _history_replayed(self, line: RecordedLine, session: ObservedSession) -> Iterator[Any]:
        """Yield the calls that a history left open. In v2 they may be running."""
        was, session.is_replaying = session.is_replaying, False
        if was:
            session.is_loaded = session.opened != 0
            self._calls.replayed(session)
        if not was or self.connection.is_v2:
            return
        for call in session.calls.values():
            if call.is_replayed and call.ended is None and not call.is_left:
                call.is_left = True
                yield CallLeftOpen(line.number, call, None)

    def _prompt_answered(self, line: RecordedLine, key: Any, message: Json) -> Iterator[Any]:
        turn = self._turns.answered(key, message)
        reason = obj(message.get("result")).get("stopReason")
        if turn is None and reason is not None:
            # The prompt was not recorded: if just one implied turn is open, the response is its end.
            open_ = [s.turn for s in self._sessions if s.turn and s.turn.is_implied]
            turn = open_[0] if len(open_) == 1 else None
        if turn is not None:
            yield from self._end_turn(line, turn, reason, obj(message.get("result")))

    def _permission_answered(self, line: RecordedLine, message: Json) -> Iterator[Any]:
        question = self._questions.pop(rpc_id(message.get("id")), None)
        if question is not None:
            question.answered = line.number
            question.outcome = outcome_of(message, question)
            if question.turn is not None and question in question.turn.questions:
                question.turn.questions.remove(question)
            yield PermissionDecided(line, self.connection, question)

    def _turn_begun(self, line: RecordedLine, session: ObservedSession) -> Iterator[Any]:
        if session.turn is not None:
            meter_of(session).begin()
            yield TurnBegan(line, session, session.turn)

    def _end_turn(
        self, line: RecordedLine, turn: ObservedTurn, reason: Any, fields: Json
    ) -> Iterator[Any]:
        """End a turn. `fields` reports its end, and may report what it has used."""
        session = turn.session
        is_current = session.turn is turn  # else it waited for another one, and never began
        turn.usage = (meter_of(session) if is_current else Meter()).end(fields)
        self._turns.over(line, turn, reason)
        yield TurnEnded(line, self.connection, turn)
        yield from self._calls.left_open(turn, line.number)
        if is_current:
            yield from self._turn_begun(line, session)

    # Updates

    def _update_seen(self, line: RecordedLine, params: Json) -> Iterator[Any]:
        session = self._session(params.get("sessionId"))
        fields = obj(params.get("update"))
        if session is None or not fields:
            return
        if not session.updates and not session.is_known:
            yield UnopenedSession(line, session, self._requests.pending_opening())
        session.updates += 1
        kind = text(fields.get("sessionUpdate")) or ""
        if self.connection.spoken is None:
            self.connection.spoken = _SPOKEN.get(kind)
        if kind in CALLS:
            yield from self._call_updated(line, session, kind, fields)
        elif kind in TERMINALS:
            terminal = text(fields.get("terminalId"))
            if terminal is not None:
                yield self._terminals.updated(line, session, terminal, fields)
        else:
            self._sessions.note_child(line, session, fields)
            yield SessionUpdated(line, session, fields)
            if kind == "usage_update" or "_meta" in params or "configOptions" in fields:
                yield from self._usage_reported(line, session, params)
            yield from self._turn_activity(line, session, kind, fields)

    def _usage_reported(
        self, line: RecordedLine, session: ObservedSession, params: Json
    ) -> Iterator[Any]:
        """Count what an update says of usage, for the turn that runs or else for the last one."""
        turn = None if session.shows_history else session.turn or session.last_turn
        meter = meter_of(session)
        if meter.updated(params, is_of_turn=turn is not None) and turn is not None:
            turn.usage = meter.usage
            yield UsageChanged(line, session, turn)

    def _turn_activity(
        self, line: RecordedLine, session: ObservedSession, kind: str, update: Json
    ) -> Iterator[Any]:
        if kind == "state_update":
            if "background" in update:
                session.background = self._terminals.background(session, update["background"])
            before = session.turn
            turn = self._turns.state(line, session, update)
            if session.turn is not before:
                yield from self._turn_begun(line, session)
            if turn is not None:
                yield from self._end_turn(line, turn, update.get("stopReason"), update)
        elif kind in SPEECH:
            if session.turn is not None:
                session.turn.is_active = True
            elif session.last_turn is not None:
                session.last_turn.late += 1

    def _call_updated(
        self, line: RecordedLine, session: ObservedSession, kind: str, update: Json
    ) -> Iterator[Any]:
        key = text(update.get("toolCallId"))
        if key is None:
            return
        call = session.calls.get(key)
        known = call is not None or self._calls.used.has(session.id, key)
        may_open = known or announces(kind, update, session)
        elsewhere = None if may_open else self._sessions.elsewhere(session, key)
        yield UpdateArrived(line, session, key, call, kind, update, known, elsewhere)
        if elsewhere is not None:
            return  # the call is another session's
        if call is None and known and kind != "tool_call" and not session.is_replaying:
            return  # the call was forgotten long ago
        if call is None or begins_again(call, kind, update):
            call = yield from self._begin_call(line, session, key)
            yield CallBegan(line, session, call)
        elif call.ended is not None and kind == "tool_call_update":
            call = meant_by(call, update) or call
        is_first = call.updates == 0 and call.announced is None
        self._calls.apply(call, kind, update, line)
        if "content" in update:
            self._terminals.shown(call, update)
        if "_meta" in update:
            self._sessions.note_child(line, session, update)
        yield UpdateApplied(line, session, call, kind, update, is_first)
        note_files(session, call, line.number)
        if "_meta" in update:
            yield from self._terminals.in_meta(line, session, update)

    def _begin_call(
        self, line: RecordedLine, session: ObservedSession, key: str
    ) -> Generator[Any, None, ObservedCall]:
        # Where prompts may be missing from the recording, a call outside of a turn implies one.
        seen = self.connection
        is_recorded = seen.is_whole and seen.has_both_ways
        if session.turn is None and not session.is_replaying and not is_recorded:
            session.turn = ObservedTurn(session, line.number, is_implied=True)
            yield from self._turn_begun(line, session)
        if session.turn is not None:
            session.turn.is_active = True
        return self._calls.begin(line, session, key)

    def _session(self, value: Any) -> ObservedSession | None:
        return self._sessions.of(value, self.connection)
