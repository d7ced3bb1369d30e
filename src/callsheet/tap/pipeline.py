"""The tap itself: what either side says goes in, line by line, and what the other is to hear comes out.

There is no clock, no pipe and no thread here: times are passed in, and whoever drives it takes what is for
the agent out of `to_agent`, and what is for the client out of `to_client`. So the same runs in front of an
agent (`live.py`) and over a recording (`offline.py`).

Most lines pass as they came. Those about calls are read by the checker's reader (`Watch`), which knows of
sessions, turns and calls; what it gives is put right and told by `session.py`. Whatever goes wrong here, the
line passes as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from callsheet.acp.peer import Peer, peer_of
from callsheet.observe.events import (
    CallLeftOpen,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    TerminalUpdated,
    TurnEnded,
    UpdateApplied,
    UpdateArrived,
)
from callsheet.observe.lines import RecordedLine, Sender
from callsheet.observe.model import (
    Json,
    ObservedConnection,
    ObservedSession,
    SeenIds,
    obj,
    rpc_id,
    text,
)
from callsheet.observe.tracker import TERMINALS, Tracker
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import LocalPhrases
from callsheet.tap.history_sink import Keeping
from callsheet.tap.hold import is_late
from callsheet.tap.passthrough import Messages, Say, is_invisible, read
from callsheet.tap.permissions import PermissionRequests
from callsheet.tap.session import TappedSessions
from callsheet.tap.stats import Account
from callsheet.tap.unrepaired import UnrepairedUpdates, is_about_calls

from .calls import Tapped
from .context import Context
from .session import TappedSession

_encode = msgspec.json.Encoder().encode

LONGEST_ID = 1024
"""Characters of a session's id. What has a longer one passes as it came: nothing would fit beside it."""

_PERMISSION = "session/request_permission"
_SHOWN = (_PERMISSION, "elicitation/create")
"""Requests that people are shown."""

_UNSEEN = ("fs/", "terminal/")
"""Requests that stand nowhere among the cards: they may overtake one that waits."""


class Pipeline:
    """One tap, between one client and one agent."""

    def __init__(
        self, tap: Context, say: Callable[[str], None], keeping: Keeping | None = None
    ) -> None:
        self.to_agent: list[bytes] = []
        self.to_client: list[bytes] = []
        self.account: Account = tap.account
        self._tap: Context = tap
        tap.send = self.to_client.append
        tap.failed = self._failed
        self._say: Callable[[str], None] = say
        self._watch: Tracker = Tracker()
        self._connection: ObservedConnection = self._watch.connection
        self._sessions: TappedSessions = TappedSessions(self._is_known)
        self._requests: PermissionRequests = PermissionRequests(self._send_request, self._give_up)
        self._client: Peer = Peer()
        self._number: int = 0
        self._line: bytes = b""
        # The method that the message at hand answers.
        self._answers: str | None = None
        self._sanitizer = tap.sanitizer(LocalPhrases(tap.describer(None)), Faults(strict=False))
        self._keeping: Keeping | None = keeping
        keep = None if keeping is None else self._keep
        unrepaired = UnrepairedUpdates(self._sanitizer, tap.account)
        self._messages: Messages = Messages(unrepaired, self._sanitizer.redactor, tap.account, keep)

    # Lines

    def passes(self, lines: bytes) -> bool:
        """Take in whole lines of the agent, if they pass as they came and nothing else comes of them.

        Gives whether it is so. Then they are not in `to_client`; else they are still to be taken in.
        """
        alike = self._messages.alike
        try:
            return alike is not None and alike.passes(lines)
        except Exception as exc:  # noqa: BLE001
            self._failed(exc)
            return False

    def from_client(self, line: bytes, now: float) -> None:
        """Take in a line of the client."""
        self._messages.alike = None
        message = read(line)
        if message is None:
            self.to_agent.append(line)
            return
        self.release_requests(now)
        try:
            self._hear(line, message, "client", now)
            line = self._for_agent(line, message)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the session goes on
            self._failed(exc)
        self.to_agent.append(line)

    def release_requests(self, now: float) -> None:
        """Let no question wait any longer: something comes that must not overtake it."""
        self._requests.release(now)

    def from_agent(self, line: bytes, now: float) -> None:
        """Take in a line of the agent."""
        if self.passes(line):
            self.to_client.append(line)
            return
        self._messages.alike = None
        self._look(line, now, hears=_tells(line))

    def _look(self, line: bytes, now: float, *, hears: bool) -> None:
        """Look into a line of the agent, and hear it out if it may be more than something to show."""
        message = read(line)
        if message is None:
            self.release_requests(now)
            self.to_client.append(line)
            return
        try:
            if not (hears and self._hear(line, message, "agent", now)):
                self._pass_on(line, message, now)
        except Exception as exc:  # noqa: BLE001
            self._failed(exc)
            self.to_client.append(self._cleaned(line, message))

    def _cleaned(self, line: bytes, message: Json) -> bytes:
        """Return a line that the tap failed on: at least without secrets, if even that does not fail."""
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
            self.to_client += self._messages.pass_on(line, message, now)
            return
        if type(method) is str and method.startswith(_UNSEEN):
            self.release_requests(now)
            session = text(obj(message.get("params")).get("sessionId")) or ""
            self.to_client += self._messages.pause(session)
        else:
            self._release(now)
        if method in _SHOWN or (method is None and "error" in message):
            line = self._messages.cleaned(line, message)
        elif method is None and self._answers == "session/list":
            line = self._messages.listed(line, message)
        self.to_client.append(line)

    def _release(self, now: float) -> None:
        """Send all that waits: what comes now must not overtake it."""
        self.release_requests(now)
        self._sessions.release(now)
        self.to_client += self._messages.end_all()

    def _failed(self, exc: Exception) -> None:
        self.account.faults += 1
        if self.account.faults == 1:
            clean = self._sanitizer.clean(f"{type(exc).__name__}: {exc}")
            self.account.first_fault = clean[:200]
            self._say(f"a message could not be looked into and passes as it came ({clean[:200]})")

    # Time, and the end

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all."""
        times = (self._sessions.due, self._messages.due, self._requests.due)
        return min((due for due in times if due is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._messages.alike = None
        ticks = [one.tick for one in self._sessions.busy]
        for tick in (self._tick_messages, self._requests.tick, *ticks):
            try:
                tick(now)
            except Exception as exc:  # noqa: BLE001
                self._failed(exc)

    def _tick_messages(self, now: float) -> None:
        self.to_client += self._messages.tick(now)

    def agent_gone(self, now: float) -> None:
        """Hear that the agent will say nothing more: what is open has ended."""
        self.release_requests(now)
        for session in self._sessions:
            try:
                session.gone(now)
            except Exception as exc:  # noqa: BLE001
                self._failed(exc)
        self.to_client += self._messages.end_all()

    # What is heard

    def _hear(self, line: bytes, message: Json, sender: Sender, now: float) -> bool:
        """Take in a message that may be about calls. Gives whether it was passed on."""
        if len(text(obj(message.get("params")).get("sessionId")) or "") > LONGEST_ID:
            return False
        self._number += 1
        self._line = line
        heard = RecordedLine(self._number, len(line), message, sender, now)
        is_done = False
        for moment in self._watch.feed(heard):
            handle = self._HANDLERS.get(moment.__class__)
            if handle is not None:
                is_done = handle(self, moment, message, now) or is_done
            if is_done and moment.__class__ is UpdateArrived:
                break  # it is late, or was heard out as another session's
        if self._watch.connection is not self._connection:  # the agent was started again
            self._connection = self._watch.connection
            self._sessions.clear(now)
            self._tap.used = SeenIds()
        if sender == "client":
            self._of_client(message, now)
        elif is_done or is_about_calls(message) or message.get("method") == _PERMISSION:
            self.account.told += len(line)
            self.account.sent += 0 if is_done else len(line)
        return is_done

    def _of_client(self, message: Json, now: float) -> None:
        method, params = message.get("method"), obj(message.get("params"))
        key = text(params.get("sessionId"))
        if method == "initialize":
            self._client = peer_of(params)
        elif method in ("session/cancel", "$/cancel_request"):
            for session in self._sessions:
                turn = session.session.turn
                if turn is not None and turn.cancelled == self._number:
                    self._session(session.session, now).cancelled(now)
        elif method in ("session/load", "session/resume") and key is not None:
            if method == "session/load" or params.get("replayFrom"):
                self._sessions.drop(key, now)
                self._tap.told_anew(key)
            if self._keeping is not None:
                self._keeping.reopened(key)
        elif method in ("session/close", "session/delete") and key is not None:
            if (closed := self._sessions.get(key)) is not None:
                closed.closed(now)
        elif method == "session/prompt" and key is not None and self._keeping is not None:
            request = rpc_id(message.get("id"))
            self._keeping.prompt(request, key, self._cwd(key), params, self._sanitizer)

    def _for_agent(self, line: bytes, message: Json) -> bytes:
        """Return a line of the client with the agent's ids of calls, where the client knows others."""
        params = obj(message.get("params"))
        key, session = text(params.get("toolCallId")), text(params.get("sessionId"))
        known = self._sessions.get(session) if key is not None and session is not None else None
        theirs = known.ids.theirs(key) if known is not None and key is not None else key
        if theirs == key:
            return line
        return _encode({**message, "params": {**params, "toolCallId": theirs}}) + b"\n"

    def _keep(self, message: Json) -> Say | None:
        """Keep what the client is shown. What a history tells again is kept already."""
        params = obj(message.get("params"))
        key = text(params.get("sessionId")) or ""
        known = self._watch.sessions.get(key)
        if self._keeping is not None and key and (known is None or not known.is_replaying):
            return self._keeping.update(key, self._cwd(key), obj(params.get("update")))
        return None

    def _cwd(self, session: str) -> str:
        known = self._watch.sessions.get(session)
        return (known.cwd if known is not None else None) or ""

    def for_recording(self, line: bytes) -> bytes:
        """Return a line of either side as it is recorded: without secrets, also where they are needed."""
        message = read(line)
        if message is not None and message.get("method") == "session/update":
            return line
        try:
            return self._messages.recorded(line, message)
        except Exception:  # noqa: BLE001
            return line

    def _session(self, session: ObservedSession, now: float) -> TappedSession:
        found = self._sessions.get(session.id)
        if found is None or found.session is not session:
            found = TappedSession(
                session, self._connection, self._peer(), self._tap, self._before_end
            )
            self._sessions.put(found, now)
        return found

    def _is_known(self, session: ObservedSession) -> bool:
        return self._watch.sessions.get(session.id) is session

    def _peer(self) -> Peer:
        version = 2 if self._connection.is_v2 else 1
        owns = self._client.owns_terminals and version == 1
        return replace(self._client, version=version, owns_terminals=owns)

    # Moments; each gives whether the message is done with

    def _on_heard(self, heard: MessageSeen, message: Json, now: float) -> bool:
        del now
        self._answers = heard.answers
        if heard.answers == "session/prompt" and self._keeping is not None:
            self._keeping.answered(rpc_id(message.get("id")), accepted="result" in message)
        return False

    def _on_told(self, told: UpdateArrived, message: Json, now: float) -> bool:
        if not self._tap.settings.repair:
            return False
        if told.elsewhere is not None:  # it has another session's call: there it belongs
            params = obj(message["params"])
            moved = {**message, "params": {**params, "sessionId": told.elsewhere}}
            self.account.repaired["session"] += 1
            return self._hear(b"", moved, "agent", now)
        if is_late(told):
            self.account.dropped["late"] += 1
            return True
        return False

    def _on_folded(self, folded: UpdateApplied, message: Json, now: float) -> bool:
        del message
        session = self._session(folded.session, now)
        self.to_client += self._messages.end(folded.session.id)
        session.told(folded.call, folded.kind, folded.update, now)
        self._requests.call_updated(now)
        return self._tap.settings.repair

    def _on_terminal(self, told: TerminalUpdated, message: Json, now: float) -> bool:
        update = obj(obj(message.get("params")).get("update"))
        if update.get("sessionUpdate") not in TERMINALS:
            return False  # it stands in a call's `_meta`, and is taken from there
        is_read = self._session(told.session, now).terminals.update(update, now)
        return is_read and self._tap.settings.repair

    def _on_asked(self, asked: PermissionAsked, message: Json, now: float) -> bool:
        question = asked.question
        if question.session is None or question.call is None:
            return False
        self.to_client += self._messages.end(question.session.id)
        session = self._session(question.session, now)
        if self._tap.settings.repair:
            return self._requests.take(session, question, message, self._line, now)
        session.asked(question, now)
        return False

    def _send_request(self, session: str, request: Json) -> None:
        self._sessions.get(session)  # something may be due in it from now on
        self.to_client += self._messages.end(session)
        self.to_client.append(_encode(request) + b"\n")
        self.account.sent += len(self.to_client[-1])

    def _give_up(self, line: bytes, request: Json, exc: Exception | None) -> None:
        """Pass on a request as it came."""
        if exc is not None:
            self._failed(exc)
        self.to_client.append(self._cleaned(line, request))

    def _before_end(self, mine: Tapped, now: float) -> None:
        """Ask what is to be asked about a call before it is told that it has ended."""
        self._requests.release(now, mine)

    def _on_decided(self, decided: PermissionDecided, message: Json, now: float) -> bool:
        del message
        if decided.question.session is not None:
            self._session(decided.question.session, now).decided(decided.question, now)
        return False

    def _on_turn_over(self, over: TurnEnded, message: Json, now: float) -> bool:
        del message
        session = self._sessions.get(over.turn.session.id)
        if session is not None:
            session.turn_over(over.turn, now)
        return False

    def _on_left_open(self, left: CallLeftOpen, message: Json, now: float) -> bool:
        del message
        session = self._sessions.get(left.call.session.id)
        if session is not None:
            session.left_open(left.call, now)
        return False

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any, Json, float], bool]]] = {
        MessageSeen: _on_heard,
        UpdateArrived: _on_told,
        UpdateApplied: _on_folded,
        TerminalUpdated: _on_terminal,
        PermissionAsked: _on_asked,
        PermissionDecided: _on_decided,
        TurnEnded: _on_turn_over,
        CallLeftOpen: _on_left_open,
    }


def _tells(line: bytes) -> bool:
    """Whether a line of the agent may be more than something to show."""
    return (
        b"tool_call" in line
        or b'"id"' in line
        or b"state_update" in line
        or b"terminal_" in line
        or b"cancel_request" in line
        or b"subagent_update" in line
    )
