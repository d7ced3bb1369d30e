"""The core of the tap: lines from either side in, lines for the other side out.

There is no clock, no pipe and no thread here: times are passed in, and whoever drives the pipeline
takes the lines for the agent out of `to_agent`, and those for the client out of `to_client`. So the
same code runs in front of an agent (`live.py`) and over a recording (`offline.py`).

The way of a line from the agent, cheapest first:

1. It is like the one before but for a piece of text: it passes without being parsed (`passes`).
2. It can't be about calls or turns (`_may_matter`): it passes, without secrets (`passthrough.py`).
3. `Tracker`, which the checker also reads with, turns it into events about sessions, turns, calls
   and permission requests. The session of the call (`tapped_session.py`) repairs its report and
   sends that instead of the line.

Whatever goes wrong here, the line passes as it came, and is counted: a bug in the tap must never
break a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from callsheet.acp.peer import Peer, peer_of
from callsheet.observe.events import (
    CallLeftOpen,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    TerminalUpdated,
    TurnBegan,
    TurnEnded,
    UpdateApplied,
    UpdateArrived,
    UsageChanged,
)
from callsheet.observe.lines import RecordedLine, Sender
from callsheet.observe.model import (
    ApprovalRequest,
    Json,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
    SeenIds,
    obj,
    text,
)
from callsheet.observe.tracker import CALLS, TERMINALS, Tracker
from callsheet.observe.usage import CARRIERS
from callsheet.report.terminal import CallRecord
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import LocalPhrases
from callsheet.tap.context import Context
from callsheet.tap.history_sink import HistorySink
from callsheet.tap.hold import Waits, is_late
from callsheet.tap.notice import Notice
from callsheet.tap.passthrough import PERMISSION, Messages, StoreText, is_invisible, parse_line
from callsheet.tap.permissions import is_blind
from callsheet.tap.span_sink import SpanSink
from callsheet.tap.stats import Account
from callsheet.tap.tapped_session import TappedSession
from callsheet.tap.turns import Turns
from callsheet.telemetry.budget import CostBudget

_encode = msgspec.json.Encoder().encode

LONGEST_ID = 1024
"""Characters of a session's id. With a longer one, a message passes as it came: nothing else would fit."""

_SHOWN = (PERMISSION, "elicitation/create")
"""Requests that the user is shown."""

_UNSEEN = ("fs/", "terminal/")
"""Requests that are shown nowhere among the cards: they may overtake one that waits."""

FEW = 64
"""Sessions beyond which each new one makes the tap drop those that the tracker has forgotten."""


class Pipeline:
    """One tap, between one client and one agent.

    `warn` receives a message about the first failure of the tap's own code. `history`, if there is one,
    stores what the client is shown. `notice` says that the agent is tapped. `budget` is what each session
    may cost. `spans`, if there are any, get calls and turns.
    """

    def __init__(
        self,
        tap: Context,
        warn: Callable[[str], None],
        history: HistorySink | None = None,
        notice: Notice | None = None,
        budget: CostBudget | None = None,
        spans: SpanSink | None = None,
    ) -> None:
        self.to_agent: list[bytes] = []
        self.to_client: list[bytes] = []
        self.account: Account = tap.account
        self._tap: Context = tap
        tap.send = self.to_client.append
        tap.send_request, tap.pass_on, tap.failed = self._send_request, self._give_up, self._failed
        self._warn: Callable[[str], None] = warn
        self._tracker: Tracker = Tracker()
        self._connection: ObservedConnection = self._tracker.connection
        self._sessions: dict[str, TappedSession] = {}
        self._waits: Waits = Waits()
        self._client: Peer = Peer()
        self._number: int = 0
        self._line: bytes = b""
        # The method to which the current message is a response.
        self._answers: str | None = None
        self._sanitizer = tap.sanitizer(LocalPhrases(tap.describer(None)), Faults(strict=False))
        self._notice: Notice | None = notice
        self._history: HistorySink | None = history
        self._spans: SpanSink | None = spans
        self._turns: Turns = Turns(tap, self._waits, warn, self._sanitizer, history, spans, budget)
        tap.store = self._store_call if history is not None or spans is not None else None
        store = None if history is None else self._store_message
        self._messages: Messages = Messages(
            self._sanitizer.redactor, tap.account, tap.send, self._waits, store
        )

    # Lines

    def passes(self, lines: bytes) -> bool:
        """Pass whole lines of the agent, if they are like the one before but for a piece of harmless text.

        Returns:
            Whether they pass as they came. Then they are not in `to_client`; else nothing was done
            with them.
        """
        template = self._messages.template
        try:
            return template is not None and template.passes(lines)
        except Exception as exc:  # noqa: BLE001
            self._failed(exc)
            return False

    def from_client(self, line: bytes, now: float) -> None:
        """Process a line of the client."""
        self._messages.template = None
        message = parse_line(line)
        if message is None:
            self.to_agent.append(line)
            return
        if self._turns.drops(message, "client"):
            return
        self.release_requests(now)
        if refusal := self._turns.refusal(message):
            params = obj(message.get("params"))
            key = text(params.get("sessionId")) or ""
            if self._history is not None:
                self._history.prompt(key, self._cwd(key), params, self._sanitizer)
            self._tell(key, refusal)
            return
        try:
            self._track(line, message, "client", now)
            line = self._for_agent(line, message)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the session goes on
            self._failed(exc)
        self.to_agent.append(line)

    def release_requests(self, now: float) -> None:
        """Send the permission requests that wait: what comes now must not overtake them."""
        for session in self._sessions.values():
            session.release_requests(now)

    def from_agent(self, line: bytes, now: float) -> None:
        """Process a line of the agent."""
        if self.passes(line):
            self.to_client.append(line)
            return
        self._messages.template = None
        message = parse_line(line)
        if message is None:
            self.release_requests(now)
            self.to_client.append(line)
            return
        if self._turns.drops(message, "agent"):
            return
        if refusal := self._turns.refusal(message):
            self.to_agent.append(refusal)
            return
        try:
            if self._notice is not None:
                self._give_notice(self._notice, message)
            if not (_may_matter(line) and self._track(line, message, "agent", now)):
                self._pass_on(line, message, now)
        except Exception as exc:  # noqa: BLE001
            self._failed(exc)
            self.to_client.append(self._cleaned(line, message))

    def _give_notice(self, notice: Notice, message: Json) -> None:
        """Say that the agent is tapped, if that is due before this message."""
        key = text(obj(message.get("params")).get("sessionId")) or ""
        line = notice.before(message, self._tracker.sessions.get(key))
        if notice.is_over:
            self._notice = None
        if line:
            self._messages.end(key)
            self.to_client.append(line)

    def _cleaned(self, line: bytes, message: Json) -> bytes:
        """Return a line that the tap failed on: without secrets, unless that fails, too."""
        try:
            return self._messages.cleaned(line, message)
        except Exception:  # noqa: BLE001
            return line

    def _pass_on(self, line: bytes, message: Json, now: float) -> None:
        """Pass on a line of the agent that is about no call, after all that waits before it."""
        method = message.get("method")
        if method == "session/update":
            session = self._sessions.get(text(obj(message.get("params")).get("sessionId")) or "")
            if session is not None and not is_invisible(message):
                session.release(now)
            self._messages.pass_on(line, message, now)
            return
        if type(method) is str and method.startswith(_UNSEEN):
            self.release_requests(now)
            self._messages.pause(text(obj(message.get("params")).get("sessionId")) or "")
        else:
            self._release(now)
        if method in _SHOWN or (method is None and "error" in message):
            line = self._messages.cleaned(line, message)
        elif method is None and self._answers == "session/list":
            line = self._messages.listed(line, message)
        elif method is None and self._history is not None:
            self._history.answered(obj(message.get("result")))
        self.to_client.append(line)

    def _release(self, now: float) -> None:
        """Send all that waits: what comes now must not overtake it."""
        self.release_requests(now)
        for session in self._sessions.values():
            session.release(now)
        self._messages.end_all()

    def _failed(self, exc: Exception) -> None:
        self.account.faults += 1
        if self.account.faults == 1:
            clean = self._sanitizer.clean(f"{type(exc).__name__}: {exc}")
            self.account.first_fault = clean[:200]
            self._warn(f"a message could not be looked into and passes as it came ({clean[:200]})")

    # Time, and the end

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all."""
        first = self._waits.due
        for session in self._sessions.values():
            due = session.waits.due
            if due is not None and (first is None or due < first):
                first = due
        return first

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._messages.template = None
        for waits in (self._waits, *[session.waits for session in self._sessions.values()]):
            waits.tick(now, self._failed)

    def agent_gone(self, now: float) -> None:
        """End what is open: the agent will send nothing more."""
        self.release_requests(now)
        for session in self._sessions.values():
            try:
                session.gone(now)
            except Exception as exc:  # noqa: BLE001
                self._failed(exc)
        self._turns.end_all()
        self._messages.end_all()

    # What is tracked

    def _track(self, line: bytes, message: Json, sender: Sender, now: float) -> bool:
        """Track a message that may be about calls, and return whether it needs nothing more."""
        if len(text(obj(message.get("params")).get("sessionId")) or "") > LONGEST_ID:
            return False
        self._number += 1
        self._line = line
        is_done = False
        turns: list[ObservedTurn] = []
        for event in self._tracker.feed(
            RecordedLine(self._number, len(line), message, sender, now)
        ):
            is_done = self._on_event(event, message, now) or is_done
            if isinstance(event, (TurnBegan, UsageChanged, TurnEnded)):
                turns.append(event.turn)
                if isinstance(event, TurnBegan):
                    self._turns.begin(event.turn, obj(message.get("params")).get("_meta"))
            if is_done and event.__class__ is UpdateArrived:
                break  # it is late, or belongs to another session
        if self._tracker.connection is not self._connection:  # the agent was started again
            self._connection = self._tracker.connection
            for key in list(self._sessions):
                self._drop(key, now, "interrupted")
            self._turns.end_all()
            self._tap.used = SeenIds()
        self._turns.note_names(self._connection)
        if sender == "client":
            self._of_client(message, now)
        elif is_done or _is_about_calls(message) or message.get("method") == PERMISSION:
            self.account.received += len(line)
            self.account.sent += 0 if is_done else len(line)
        for turn in turns:
            self._turn_changed(turn, now)
        return is_done

    def _of_client(self, message: Json, now: float) -> None:
        method, params = message.get("method"), obj(message.get("params"))
        key = text(params.get("sessionId"))
        if method == "initialize":
            self._client = peer_of(params)
        elif method in ("session/cancel", "$/cancel_request"):
            for session in list(self._sessions.values()):
                turn = session.session.turn
                if turn is not None and turn.cancelled == self._number:
                    self._session(session.session, now).cancelled(now)
        elif method in ("session/load", "session/resume") and key is not None:
            if method == "session/load" or params.get("replayFrom"):
                self._drop(key, now)
                self._tap.replayed(key)
            if self._history is not None:
                self._history.reopened(key)
        elif method in ("session/close", "session/delete") and key is not None:
            if (closed := self._sessions.get(key)) is not None:
                closed.cancelled(now, all_calls=True)
        elif method == "session/prompt" and key is not None and self._history is not None:
            self._history.prompt(key, self._cwd(key), params, self._sanitizer)

    def _for_agent(self, line: bytes, message: Json) -> bytes:
        """Return a line of the client with the agent's ids of calls, where the client knows others."""
        params = obj(message.get("params"))
        key, session = text(params.get("toolCallId")), text(params.get("sessionId"))
        known = self._sessions.get(session) if key is not None and session is not None else None
        theirs = known.theirs(key) if known is not None and key is not None else key
        if theirs == key:
            return line
        return _encode({**message, "params": {**params, "toolCallId": theirs}}) + b"\n"

    def _store_call(self, session: str, cwd: str, record: CallRecord) -> None:
        """Store a call as the client is shown it, and pass it on to who makes spans."""
        if self._history is not None:
            self._history.call(session, cwd, record)
        if self._spans is not None:
            self._spans.call(session, record)

    def _store_message(self, message: Json) -> StoreText | None:
        """Store what the client is shown. What a replay shows again is stored already."""
        params = obj(message.get("params"))
        key = text(params.get("sessionId")) or ""
        known = self._tracker.sessions.get(key)
        if self._history is not None and key and (known is None or not known.is_replaying):
            return self._history.update(key, self._cwd(key), obj(params.get("update")))
        return None

    def _cwd(self, session: str) -> str:
        known = self._tracker.sessions.get(session)
        return (known.cwd if known is not None else None) or ""

    def sender_of(self, message: Json) -> Sender | None:
        """Return who has sent a message of a recording that does not state it, if that is certain."""
        return self._tracker.sender_of(message)

    def for_recording(self, line: bytes) -> bytes:
        """Return a line of either side as it is recorded: without secrets, also where they are needed."""
        message = parse_line(line)
        if message is not None and message.get("method") == "session/update":
            return line
        try:
            return self._messages.recorded(line, message)
        except Exception:  # noqa: BLE001
            return line

    def _session(self, session: ObservedSession, now: float) -> TappedSession:
        found = self._sessions.get(session.id)
        if found is None or found.session is not session:
            self._drop(session.id, now)
            found = self._sessions[session.id] = TappedSession(session, self._peer(), self._tap)
            if len(self._sessions) > FEW:
                for key, other in list(self._sessions.items()):
                    if self._tracker.sessions.get(key) is not other.session:
                        self._drop(key, now)
        return found

    def _drop(self, session: str, now: float, why: str = "abandoned") -> None:
        """Forget a session, and end what is open in it. `why` is the phrase that is shown for that."""
        found = self._sessions.pop(session, None)
        if found is not None:
            found.gone(now, why)

    def _peer(self) -> Peer:
        version = 2 if self._connection.is_v2 else 1
        owns = self._client.owns_terminals and version == 1
        return replace(self._client, version=version, owns_terminals=owns)

    # Events of the tracker

    def _on_event(self, event: Any, message: Json, now: float) -> bool:
        """React to an event of the current message, and return whether the message needs nothing more."""
        match event:
            case MessageSeen():
                self._answers = event.answers
            case UpdateArrived():
                return self._update_arrived(event, message, now)
            case UpdateApplied():
                session = self._session(event.session, now)
                self._messages.end(event.session.id)
                session.updated(event.call, event.kind, event.update, now)
                session.release_requests(now, lambda held: not is_blind(held.mine, held.question))
                return True
            case TerminalUpdated():
                update = obj(obj(message.get("params")).get("update"))
                if update.get("sessionUpdate") in TERMINALS:  # else it is in a call's `_meta`
                    return self._session(event.session, now).terminals.update(update, now)
            case PermissionAsked():
                return self._permission_asked(event.question, message, now)
            case PermissionDecided() if event.question.session is not None:
                self._session(event.question.session, now).decided(event.question, now)
            case TurnEnded():
                if (ended := self._sessions.get(event.turn.session.id)) is not None:
                    ended.turn_over(now)
            case CallLeftOpen():
                if (ended := self._sessions.get(event.call.session.id)) is not None:
                    ended.left_open(event.call, now)
            case _:
                pass
        return False

    def _turn_changed(self, turn: ObservedTurn, now: float) -> None:
        """React to what the last message has shown of a turn, now that its calls are up to date."""
        self._turns.changed(turn)
        session = turn.session
        self._tell(session.id, self._turns.count(turn, now))
        if session.turn is not None and (stopped := self._turns.stop(session.turn)):
            reason, messages = stopped
            self._tell(session.id, reason)
            self._turns.end_soon(session.turn, now, self.from_agent)
            for message in messages:
                self.to_agent.append(_encode(message) + b"\n")
                self._track(self.to_agent[-1], message, "client", now)

    def _tell(self, session: str, line: bytes) -> None:
        """Send the client a message of the tap's own."""
        if line:
            self._messages.end(session)
            self.to_client.append(line)

    def _update_arrived(self, event: UpdateArrived, message: Json, now: float) -> bool:
        if event.elsewhere is not None:  # it is about another session's call, and belongs there
            params = obj(message["params"])
            moved = {**message, "params": {**params, "sessionId": event.elsewhere}}
            self.account.repaired["session"] += 1
            return self._track(b"", moved, "agent", now)
        if is_late(event):
            self.account.dropped["late"] += 1
            return True
        return False

    def _permission_asked(self, question: ApprovalRequest, message: Json, now: float) -> bool:
        if question.session is None or question.call is None:
            return False
        self._messages.end(question.session.id)
        return self._session(question.session, now).ask(question, message, self._line, now)

    def _send_request(self, session: str, request: Json) -> None:
        self._messages.end(session)
        self.to_client.append(_encode(request) + b"\n")
        self.account.sent += len(self.to_client[-1])

    def _give_up(self, line: bytes, request: Json) -> None:
        """Pass on a request as it came."""
        self.to_client.append(self._cleaned(line, request))


def _is_about_calls(message: Json) -> bool:
    """Whether a message is an update of a call or of a terminal, in a session."""
    params = obj(message.get("params"))
    kind = obj(params.get("update")).get("sessionUpdate")
    return kind in (*CALLS, *TERMINALS) and text(params.get("sessionId")) is not None


def _may_matter(line: bytes) -> bool:
    """Whether a line of the agent may be about calls, turns or answers, by a look at its bytes."""
    return (
        b"tool_call" in line
        or b'"id"' in line
        or b"state_update" in line
        or b"terminal_" in line
        or b"cancel_request" in line
        or b"subagent_update" in line
        or any(carrier in line for carrier in CARRIERS)
    )
