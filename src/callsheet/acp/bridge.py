"""The bridge: a session's updates in one version of ACP, turned into the other.

Nothing more than decode → ledger → view, with the state of each session kept between. It translates
what is about tool calls and terminals. Every other update comes back untouched, for whoever
translates those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

from msgspec import UNSET
from msgspec.structs import replace

from callsheet.acp import v1, v2
from callsheet.acp.blocks import as_object
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.messages import Update, as_dict
from callsheet.acp.peer import Peer
from callsheet.acp.permission import PermissionRequest
from callsheet.acp.view import View, view_for
from callsheet.report.content import TerminalContent
from callsheet.report.errors import CallsheetError
from callsheet.report.events import CallChanged, Event, TerminalChanged
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.status import MOVES, ToolCallStatus
from callsheet.report.terminal import TerminalState

_WIRES = {1: v1, 2: v2}


class Untranslatable(CallsheetError):
    """The other version has no way to say this."""


class Bridge:
    """Turns what an agent says in version `source` into version `target`, for any number of sessions.

    `terminals` says how a v1 client is shown live terminals: out of `_meta`, or as text.
    """

    def __init__(
        self,
        source: Literal[1, 2],
        target: Literal[1, 2],
        new_id: Callable[[], str],
        *,
        terminals: Literal["meta", "text"] = "text",
    ) -> None:
        if source not in _WIRES or target not in _WIRES:
            raise Untranslatable(f"from ACP {source!r} to {target!r}: the versions are 1 and 2")
        self._source = _WIRES[source]
        self._target: int = target
        self._peer: Peer = Peer(version=target, terminals=terminals, progress="meta")
        self._new_id: Callable[[], str] = new_id
        self._sessions: dict[str, tuple[Ledger, View]] = {}

    def update(self, params: JsonValue) -> list[JsonObject]:
        """Return the params of the `session/update`s that one from the source becomes: none, one or several."""
        raw, session_id = _read(params)
        events = self._source.decode(raw.get("update"))
        if not events:
            return [raw]
        ledger, view = self._session(session_id)
        updates = [
            update
            for event in events
            for state in self._fold(event, ledger)
            for update in _updates(state, view)
        ]
        return [{**raw, "update": as_dict(update)} for update in updates]

    def permission(self, params: JsonValue) -> tuple[list[JsonObject], JsonObject]:
        """Return what a `session/request_permission` from the source becomes.

        First the params of `session/update`s to send before it, so that the client knows the call;
        then those of the request.
        """
        raw, session_id = _read(params)
        request = self._source.decode_permission(raw)
        ledger, view = self._session(session_id)
        states = [] if request.call is None else self._fold(request.call, ledger)
        report = states[-1] if states else _asked_about(request, ledger)
        # Only what can be asked is shown; until then the view knows nothing of it.
        asked = self._ask(session_id, view.shown(cast("ToolCallReport", report)), request)
        updates = [update for state in states or [report] for update in _updates(state, view)]
        return [{"sessionId": session_id, "update": as_dict(update)} for update in updates], asked

    def close(self, session_id: str) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    def _session(self, session_id: str) -> tuple[Ledger, View]:
        if session_id not in self._sessions:
            ledger = Ledger(session_id, self._new_id)
            view = view_for(self._peer, ledger.terminal)
            self._sessions[session_id] = (ledger, view)
        return self._sessions[session_id]

    def _fold(self, event: Event, ledger: Ledger) -> list[ToolCallReport | TerminalState]:
        """Fold an event, after the steps that its sender left out."""
        states = [ledger.apply(step) for step in _legal_steps(event, ledger)]
        for state in states:
            if self._source is v2 and isinstance(state, ToolCallReport):
                _own_terminals(state, ledger)
        return states

    def _ask(
        self, session_id: str, report: ToolCallReport, request: PermissionRequest
    ) -> JsonObject:
        options, extra = request.options, request.extra
        if self._target == 1:
            return v1.encode_permission(session_id, report, options, extra=extra)
        title, description = request.title, request.description
        return v2.encode_permission(
            session_id, report, options, title=title, description=description, extra=extra
        )


def _read(params: JsonValue) -> tuple[JsonObject, str]:
    raw = as_object(params, "params")
    session_id = raw.get("sessionId")
    if not isinstance(session_id, str):
        raise InvalidParams("sessionId: expected text")
    return raw, session_id


def _updates(state: ToolCallReport | TerminalState, view: View) -> list[Update]:
    return view.call(state) if isinstance(state, ToolCallReport) else view.terminal(state)


def _legal_steps(event: Event, ledger: Ledger) -> list[Event]:
    """Return the event in steps that the transition table allows.

    ACP has no such table, and agents leave out `in_progress`, or say `pending` again while they ask.
    The first is put in, the second left out. A call that has ended stays so.
    """
    if not isinstance(event, CallChanged) or "status" not in event.fields:
        return [event]
    status, call = event.fields["status"], ledger.get(event.tool_call_id)
    if call is None or call.is_final or status is call.status or status in MOVES[call.status]:
        return [event]
    running = ToolCallStatus.IN_PROGRESS
    if running in MOVES[call.status] and status in MOVES[running]:
        start = CallChanged(tool_call_id=event.tool_call_id, fields={"status": running})
        return [start, event]
    rest = {name: value for name, value in event.fields.items() if name != "status"}
    return [replace(event, fields=rest)]


def _own_terminals(report: ToolCallReport, ledger: Ledger) -> None:
    """In v2 every terminal is the agent's. A call may show one before anything else is said of it."""
    for item in report.content:
        if isinstance(item, TerminalContent) and ledger.terminal(item.terminal_id) is None:
            ledger.apply(TerminalChanged(terminal_id=item.terminal_id))


def _asked_about(request: PermissionRequest, ledger: Ledger) -> ToolCallReport:
    """Return the call whose command a request of v2 is about, if the call shows just that command."""
    subject = request.subject or EMPTY
    report = ledger.get(str(subject.get("toolCallId", "-")))
    if (
        isinstance(report, ToolCallReport)
        and is_object(report.raw_input)
        and report.raw_input.get("command") == subject.get("command", UNSET)
    ):
        return report
    raise Untranslatable(
        "the request is not about a tool call that shows what is to be approved, and ACP v1 asks about "
        "nothing else"
    )
