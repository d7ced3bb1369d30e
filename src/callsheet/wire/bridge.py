"""The bridge: a session's updates in one version of ACP, turned into the other.

Nothing more than decode → ledger → view, with the state of each session kept between. It translates
what is about tool calls and terminals. Every other update comes back untouched, for whoever
translates those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from callsheet.report.content import TerminalContent
from callsheet.report.errors import CallsheetError
from callsheet.report.events import CallChanged, ContentAppended, Event, TerminalChanged
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.values import JsonObject, JsonValue

from . import v1, v2
from .blocks import as_object
from .jsonrpc import InvalidParams
from .messages import Update, as_dict
from .permission import PermissionRequest
from .view import View, view_for

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
        self._new_id: Callable[[], str] = new_id
        self._terminals: Literal["meta", "text"] = terminals
        self._sessions: dict[str, tuple[Ledger, View]] = {}

    def update(self, params: JsonValue) -> list[JsonObject]:
        """Give the params of the `session/update`s that one from the source becomes: none, one or several."""
        raw = as_object(params, "params")
        ledger, view = self._session(raw)
        events = self._source.decode(raw.get("update"))
        if not events:
            return [raw]
        updates = [update for event in events for update in self._translate(event, ledger, view)]
        return [{**raw, "update": as_dict(update)} for update in updates]

    def permission(self, params: JsonValue) -> tuple[list[JsonObject], JsonObject]:
        """Give what a `session/request_permission` from the source becomes.

        First the params of `session/update`s to send before it, so that the client knows the call;
        then those of the request.
        """
        raw = as_object(params, "params")
        ledger, view = self._session(raw)
        request = self._source.decode_permission(raw)
        report = _subject(request, ledger)
        session_id: str = raw["sessionId"]
        updates = [{"sessionId": session_id, "update": as_dict(u)} for u in view.call(report)]
        options, extra = request.options, request.extra
        if self._target == 1:
            return updates, v1.encode_permission(session_id, report, options, extra=extra)
        asked = v2.encode_permission(
            session_id,
            report,
            options,
            title=request.title,
            description=request.description,
            extra=extra,
        )
        return updates, asked

    def close(self, session_id: str) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    def _session(self, params: JsonObject) -> tuple[Ledger, View]:
        session_id = params.get("sessionId")
        if not isinstance(session_id, str):
            raise InvalidParams("sessionId: expected text")
        if session_id not in self._sessions:
            ledger = Ledger(session_id, self._new_id)
            view = view_for(ledger, self._target, terminals=self._terminals)
            self._sessions[session_id] = (ledger, view)
        return self._sessions[session_id]

    def _translate(self, event: Event, ledger: Ledger, view: View) -> list[Update]:
        if self._source is v2:
            _own_terminals(event, ledger)
        state = ledger.apply(event)
        return view.call(state) if isinstance(state, ToolCallReport) else view.terminal(state)


def _own_terminals(event: Event, ledger: Ledger) -> None:
    """In v2 every terminal is the agent's. A call may show one before anything else is said of it."""
    if isinstance(event, ContentAppended):
        items = (event.item,)
    else:
        items = event.fields.get("content", ()) if isinstance(event, CallChanged) else ()
    for item in items:
        if isinstance(item, TerminalContent) and ledger.terminal(item.terminal_id) is None:
            ledger.apply(TerminalChanged(terminal_id=item.terminal_id))


def _subject(request: PermissionRequest, ledger: Ledger) -> ToolCallReport:
    """Give the call that a request is about."""
    if request.call is not None:
        report = ledger.apply(request.call)
    else:
        report = ledger.get(str((request.subject or {}).get("toolCallId", "")))
    if not isinstance(report, ToolCallReport):
        raise Untranslatable(
            "the request is not about a tool call of this session, and ACP v1 asks about nothing else"
        )
    return report
