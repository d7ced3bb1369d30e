"""The turns behind a tap: store what each has used, and stop the one that spends its session's budget.

When a turn is stopped, the agent is asked to cancel it, as if the client had done so, and the client is told
why. The agent's requests for permission are answered with `cancelled`, as the protocol wants of who cancels.
If the agent has not ended the turn `CANCELLED` seconds later, the tap ends it for the client. What either
side answers after the tap is dropped. Further prompts of the session are refused. What an agent does that
ignores all this can't be stopped here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from callsheet.observe.lines import Sender
from callsheet.observe.model import Json, ObservedConnection, ObservedTurn, obj, rpc_id, text
from callsheet.report.usage import TokenUsage
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.context import Context
from callsheet.tap.history_sink import HistorySink
from callsheet.tap.hold import CANCELLED, Waits, Why
from callsheet.tap.notice import own_message
from callsheet.tap.passthrough import PERMISSION
from callsheet.tap.span_sink import SpanSink
from callsheet.telemetry.budget import CostBudget
from callsheet.telemetry.trace_ids import received

_encode = msgspec.json.Encoder().encode

AFTER = 0.1
"""Seconds after the end of its calls at which a turn is ended that its agent does not end."""

MOST_DROPPED = 1024
"""Responses that are still to be dropped. Of more, the oldest passes when it comes."""


class Turns:
    """The turns that run behind a tap.

    Args:
        tap: What the sessions share.
        waits: Where the time runs that an agent has to end a turn.
        warn: Receives a message for the user, beside what the client is told.
        sanitizer: Removes secrets.
        history: Stores the turns.
        spans: Makes spans of them.
        budget: What each session may cost.
    """

    def __init__(
        self,
        tap: Context,
        waits: Waits,
        warn: Callable[[str], None],
        sanitizer: Sanitizer,
        history: HistorySink | None = None,
        spans: SpanSink | None = None,
        budget: CostBudget | None = None,
    ) -> None:
        self._tap: Context = tap
        self._waits: Waits = waits
        self._warn: Callable[[str], None] | None = warn
        self._sanitizer: Sanitizer = sanitizer
        self._history: HistorySink | None = history
        self._spans: SpanSink | None = spans
        self._budget: CostBudget | None = budget
        self._phrase: Callable[..., str] = tap.describer(None).phrase
        # Those that have begun and not ended, by their sessions, and the last ones that were stopped.
        self._open: dict[str, ObservedTurn] = {}
        self._stopped: dict[str, ObservedTurn] = {}
        # The requests that the tap has answered itself: who will answer them, too, and their ids.
        self._answered: dict[tuple[Sender, Any], None] = {}

    # The history, and spans

    def note_names(self, connection: ObservedConnection) -> None:
        """Note the names of both sides, as far as they have said them."""
        if self._history is not None:
            self._history.agent, self._history.client = connection.agent, connection.client
        if self._spans is not None:
            self._spans.agent = connection.agent

    def begin(self, turn: ObservedTurn, meta: object = None) -> None:
        """Note that a turn begins, with the `_meta` of its prompt. It ends the one before."""
        session = turn.session
        if session.is_replaying:
            return
        self._close(self._open.get(session.id))
        self._open[session.id] = turn
        key, given = "", received(meta)
        if self._history is not None:
            trace = None if given is None else given.traceparent
            key = self._history.begin_turn(session.id, session.cwd or "", trace)
        if self._spans is not None:
            self._spans.begin_turn(session.id, key, meta)

    def changed(self, turn: ObservedTurn) -> None:
        """Store what is known of a turn now. It may have ended."""
        session = turn.session
        if turn.ended is not None and self._open.get(session.id) is turn:
            self._close(turn)
        elif turn.usage != TokenUsage():
            if self._history is not None:
                self._history.set_usage(session.id, session.cwd or "", self._usage(turn))
            if self._spans is not None:
                self._spans.set_usage(session.id, self._usage(turn))

    def end_all(self) -> None:
        """End what is open: the agent is gone."""
        for turn in list(self._open.values()):
            self._close(turn)

    def _close(self, turn: ObservedTurn | None) -> None:
        if turn is None:
            return
        session = turn.session
        del self._open[session.id]
        self._waits.drop(Why.BUDGET, session.id)
        reason = "error" if turn.is_failed else turn.stop_reason
        if self._history is not None:
            self._history.end_turn(session.id, session.cwd or "", reason, self._usage(turn))
        if self._spans is not None:
            self._spans.end_turn(session.id, reason, self._usage(turn))

    def _usage(self, turn: ObservedTurn) -> TokenUsage:
        """Return what a turn has used, without secrets in the names, which the agent has chosen."""
        usage, clean = turn.usage, self._sanitizer.clean
        model, currency = usage.model, usage.currency
        return replace(usage, model=model and clean(model), currency=currency and clean(currency))

    # The budget

    def refusal(self, message: Json) -> bytes:
        """Return the response to a request for which no money is left; empty if the message is none.

        It is a prompt of the client, or the agent's request for permission.
        """
        method = message.get("method")
        if self._budget is None or method not in ("session/prompt", PERMISSION):
            return b""
        session = text(obj(message.get("params")).get("sessionId")) or ""
        error = self._budget.refuse(session, self._phrase)
        if error is None or "id" not in message:
            return b""
        if method == PERMISSION:
            return _encode(_cancelled(message["id"])) + b"\n"
        response = {"jsonrpc": "2.0", "id": message["id"], "error": error.to_error()}
        return _encode(response) + b"\n"

    def count(self, turn: ObservedTurn, now: float) -> bytes:
        """Count what a turn has used so far. Return what the client is to be told of that, if anything."""
        if self._budget is None:
            return b""
        session = turn.session.id
        at = (self._tap.epoch or 0.0) + now
        is_known = self._budget.count(session, turn.begun, turn.usage, at)
        is_over = turn.ended is not None and turn.cancelled is None  # some report nothing of others
        if is_known or not is_over or self._warn is None:
            return b""
        return self._told(turn, "budget_unknown")

    def stop(self, turn: ObservedTurn) -> tuple[bytes, list[Json]] | None:
        """Return what to tell the client and the agent if the turn that runs is to be stopped now."""
        if self._budget is None or turn.ended is not None:
            return None
        session = turn.session.id
        if self._stopped.get(session) is turn or not self._budget.is_spent(session):
            return None
        self._stopped[session] = turn
        params = {"sessionId": session}
        messages: list[Json] = [{"jsonrpc": "2.0", "method": "session/cancel", "params": params}]
        for question in turn.questions:
            if question.answered is None:
                messages.append(_cancelled(question.request))
                self._note_answer("client", question.request)
        return self._told(turn, "budget_stopped"), messages

    def end_soon(
        self, turn: ObservedTurn, now: float, take: Callable[[bytes, float], None]
    ) -> None:
        """End a turn soon, unless the agent does. `take` gets the line that ends it."""

        def end(now: float) -> None:
            take(_encode(_end_of(turn)) + b"\n", now)
            if not turn.session.connection.is_v2:
                self._note_answer("agent", turn.request)

        self._waits.hold(Why.BUDGET, turn.session.id, now + CANCELLED + AFTER, end)

    def _note_answer(self, other: Sender, request: Any) -> None:
        """Note that the tap has answered a request, so that the response of the other side is dropped."""
        self._answered[other, rpc_id(request)] = None
        if len(self._answered) > MOST_DROPPED:
            del self._answered[next(iter(self._answered))]

    def drops(self, message: Json, sender: Sender) -> bool:
        """Whether a message responds to a request that the tap has answered itself."""
        if not self._answered or "method" in message:
            return False
        key = sender, rpc_id(message.get("id"))
        return self._answered.pop(key, message) is None

    def _told(self, turn: ObservedTurn, phrase: str) -> bytes:
        """Return a message to the client. The user is warned of the first one also elsewhere."""
        assert self._budget is not None
        said = self._phrase(phrase, **self._budget.texts(turn.session.id))
        if self._warn is not None:
            self._warn(said)
        if phrase == "budget_unknown":
            self._warn = None  # once is enough
        return _encode(own_message(turn.session.id, f"budget-{turn.begun}", said)) + b"\n"


def _cancelled(request: Any) -> Json:
    """Return the response to a request for permission that is cancelled."""
    return {"jsonrpc": "2.0", "id": request, "result": {"outcome": {"outcome": "cancelled"}}}


def _end_of(turn: ObservedTurn) -> Json:
    """Return what ends a turn for the client."""
    if turn.session.connection.is_v2:
        state = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
        params = {"sessionId": turn.session.id, "update": state}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return {"jsonrpc": "2.0", "id": turn.request, "result": {"stopReason": "cancelled"}}
