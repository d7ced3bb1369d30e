"""One session of another agent, whose calls are repaired and then reported as Callsheet's own would be.

`TappedSession` receives the tracker's events about its calls. It decides when a report changes, and ends
calls that the agent does not end. `repair` decides what the report is, `render` makes it safe, `outbox`
decides when it is sent. `hold.py` has the reasons for which something waits here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from msgspec.structs import replace

from callsheet.acp.codec import KEYS
from callsheet.acp.peer import Peer
from callsheet.describe import Describer
from callsheet.observe.evidence import texts
from callsheet.observe.exit_codes import exit_of
from callsheet.observe.model import (
    ApprovalRequest,
    Json,
    ObservedCall,
    ObservedSession,
    many,
    obj,
)
from callsheet.report.content import TerminalContent
from callsheet.report.events import CallChanged, TerminalChanged, TerminalOutput
from callsheet.report.fields import CustomKind
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import LocalPhrases
from callsheet.tap.context import Context, TappedCall, in_own_terminals, own_terminals
from callsheet.tap.hold import (
    ANNOUNCEMENT,
    CANCELLED,
    DENIED,
    ENDS,
    RESULT_FIELDS,
    Waits,
    Why,
    may_show_more,
)
from callsheet.tap.permissions import (
    HeldRequest,
    complete_request,
    decision_note,
    is_blind,
    shows_the_same,
    was_only_allowed,
    why_denied,
)
from callsheet.tap.repair import as_reported, repaired
from callsheet.tap.repair.card_content import text_item
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.reports import Reports
from callsheet.tap.terminals import Terminals

MOST_REQUESTS = 64
"""Permission requests of a session that wait at once."""


class TappedSession:
    """A session of an agent behind the tap.

    `session` is its observed state, and `peer` the client. `waits` has all that waits in it.
    """

    def __init__(self, session: ObservedSession, peer: Peer, tap: Context) -> None:
        self.session: ObservedSession = session
        self.waits: Waits = Waits()
        self._tap: Context = tap
        phrases = LocalPhrases(tap.describer(None))
        sanitizer = self._sanitizer = tap.sanitizer(phrases, Faults(strict=False))
        self._reports: Reports = Reports(session, peer, tap, sanitizer, phrases, self.waits)
        self.terminals: Terminals = Terminals(
            self._reports.ledger, sanitizer, self._reports.outbox, self.waits
        )
        self._cwd: str | None = None
        self._describer: Describer = tap.describer(None, sanitizer.command)
        self._open: dict[ObservedCall, TappedCall] = {}
        # Those that have ended, for as long as the tracker may apply updates to them.
        self._over: WeakSet[ObservedCall] = WeakSet()
        # Those that are done and have shown no result yet, by our ids. Calls that run in parallel may
        # all be done before the first result is reported, so an update of another call ends no wait.
        self._done: dict[str, TappedCall] = {}
        self._requests: list[HeldRequest] = []

    def theirs(self, key: str) -> str:
        """Return the agent's id of an open call that the client knows by `key`."""
        mine = self._reports.calls.get(key)
        return key if mine is None else mine.call.id

    @property
    def _is_v2(self) -> bool:
        return self.session.connection.is_v2

    # What the agent reports

    def updated(self, call: ObservedCall, kind: str, update: Json, now: float) -> None:
        """Process an update of a call, which is applied to `call` already."""
        if call in self._over:
            self._tap.account.dropped["late"] += 1
            return
        if call not in self._open:
            self._let_others_end(call, now)
        mine = self._mine(call, now)
        if kind == "tool_call" and mine.report is not None:
            mine.repaired.add("repeated")
        if kind == "tool_call_content_chunk":
            self._appended(mine, update, now)
            return
        if mine.report is None and kind != "tool_call" and not self._is_v2:
            mine.repaired.add("announcement")
        self._sync(mine, update, now)

    # Permission requests

    def ask(self, question: ApprovalRequest, message: Json, line: bytes, now: float) -> bool:
        """Pass on a permission request, or hold it. Return False if it is to pass unchanged."""
        call = question.twin or question.call
        if call is None:
            return False
        self.release_requests(now, lambda held: held.mine.call is call)
        # If the tap ended the call and the agent did not, the request is shown on a new card.
        self._over.discard(call)
        self._let_others_end(call, now)
        mine = self._mine(call, now)
        self._spare(mine)
        if mine.report is None:
            mine.repaired.add("announcement")
        self._wait_no_more(mine)
        # In v2, it is an update of the call. In v1, a call that is asked about has not ended.
        is_over = not self._is_v2 and self._draft(mine).has_ended
        self._sync(mine, question.tool_call, now, "pending" if is_over else None)
        held, until = HeldRequest(mine, question, message, line), mine.since + ANNOUNCEMENT
        if now >= until or not is_blind(mine, question):
            return self._send_request(held, now)
        self._requests.append(held)
        self.waits.hold(Why.REQUEST, id(held), until, partial(self._pass_on, held))
        if len(self._requests) > MOST_REQUESTS:
            self._pass_on(self._requests[0], now)
        return True

    def release_requests(
        self, now: float, which: Callable[[HeldRequest], bool] = lambda _: True
    ) -> None:
        """Pass on requests that wait: what comes now must not overtake them, or shows what they lack."""
        for held in list(filter(which, self._requests)):
            if held in self._requests:  # passing on one may pass on others
                self._pass_on(held, now)

    def _pass_on(self, held: HeldRequest, now: float) -> None:
        self._requests.remove(held)
        self.waits.drop(Why.REQUEST, id(held))
        try:
            is_sent = held.question.answered is not None or self._send_request(held, now)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the agent waits for an answer
            self._tap.failed(exc)
            is_sent = False
        if not is_sent:
            self._tap.pass_on(held.line, held.message)

    def _send_request(self, held: HeldRequest, now: float) -> bool:
        """Send a request as the client is to receive it; return False if it is to pass unchanged."""
        mine, question = held.mine, held.question
        self.release(now, mine.id)
        report = mine.report
        assert report is not None
        also = self._reports.renderer.asked_items(many(question.tool_call.get("content")))
        content = (*report.content, *[item for item in also if item not in report.content])
        whole_input = report.raw_input if mine.whole_input is None else mine.whole_input
        shown = self._reports.shown(replace(report, content=content, raw_input=whole_input))
        made = complete_request(held.message, shown, self._clean, is_v2=self._is_v2)
        if made is None:
            return False
        if not shows_the_same(made, question.tool_call):
            mine.repaired.add("question")
        self._tap.send_request(self.session.id, made)
        mine.asked = now
        return True

    def _clean(self, reported: Json) -> Json:
        return self._sanitizer.value(reported, runs=True)[0]

    def decided(self, question: ApprovalRequest, now: float) -> None:
        """Process the answer to a permission request."""
        mine = self._open.get(question.call) if question.call is not None else None
        if mine is None:
            return
        mine.decision = self._clean(decision_note(mine, question, self._tap, now))
        if mine.call.denied is not None:
            self._end_later(mine, now + DENIED, why_denied(mine.call))
            return
        self._spare(mine)
        mine.began = now  # it has not run before, unless the agent reported so (`ran`)
        waited = mine.report is not None and mine.report.status is ToolCallStatus.PENDING
        if question.outcome == "allowed" and waited:
            self._sync(mine, {}, now, "in_progress")

    # Ends that the agent does not report

    def cancelled(self, now: float, *, all_calls: bool = False) -> None:
        """Set deadlines for what runs in the turn that the client has cancelled, or in all of the session."""
        for mine in self._reports.calls.values():
            is_of_turn = mine.call.turn is self.session.turn and not mine.call.is_background
            if (all_calls or is_of_turn) and mine.deadline is None:
                self._end_later(mine, now + CANCELLED, Reason.CANCELLED)

    def _end_later(self, mine: TappedCall, until: float, reason: Reason) -> None:
        """Set a call's deadline, at which the tap ends it."""
        mine.deadline = reason
        self.waits.hold(Why.END, mine.id, until, partial(self._end_overdue, mine))

    def _end_overdue(self, mine: TappedCall, now: float) -> None:
        reason, mine.deadline = mine.deadline, None
        if mine.id in self._done:
            self._settle([mine], now)
        elif reason is not None:
            self.end(mine, reason, now)

    def _spare(self, mine: TappedCall) -> None:
        """Remove the deadline of a call that was denied: it is asked about again, or was approved."""
        if mine.deadline is Reason.DENIED:
            mine.deadline = None
            self.waits.drop(Why.END, mine.id)

    def left_open(self, call: ObservedCall, now: float) -> None:
        """End a call that should have ended: its turn is over, or its replay."""
        mine = self._open.get(call)
        if mine is None:
            return
        turn = call.turn
        if mine.id in self._done:
            self._settle([mine], now)
        elif call.denied is not None:
            self.end(mine, why_denied(call), now)
        elif call.cancelled is not None or (turn is not None and turn.cancelled is not None):
            self.end(mine, Reason.CANCELLED, now)
        elif self._draft(mine).has_ended:  # it was asked about after that
            self._sync(mine, {}, now)
        elif was_only_allowed(call) or exit_of(call) is not None:  # only its end was not reported
            mine.repaired.add("end")
            self._sync(mine, {}, now, "completed")
        else:
            self.end(mine, Reason.ABANDONED, now)

    def turn_over(self, now: float) -> None:
        """End calls outside of any turn, for which the tracker emits no `CallLeftOpen`."""
        self.release(now)
        for call in [mine.call for mine in self._reports.calls.values()]:
            is_outside = call.turn is None and not (self._is_v2 or call.is_replayed)
            if is_outside and not call.is_background:
                self.left_open(call, now)

    def gone(self, now: float, why: str = "interrupted") -> None:
        """End all that is open. `why` is the phrase that is shown for it."""
        self.release_requests(now)
        self._settle(list(self._done.values()), now)
        self._reports.outbox.release(now)
        for mine in reversed(list(self._reports.calls.values())):
            try:
                self.end(mine, Reason.ABANDONED, now, why)
            except Exception as exc:  # noqa: BLE001 - the others end all the same
                self._tap.failed(exc)

    def end(self, mine: TappedCall, reason: Reason, now: float, phrase: str | None = None) -> None:
        """End a call that its agent does not end."""
        if mine.report is None or mine.is_over:
            return
        self._wait_no_more(mine)
        mine.repaired.add("end")
        status, usual = ENDS[reason]
        shown = self._describer.phrase(phrase or usual)
        draft = replace(self._draft(mine), status=status.value, reason=reason.value)
        if shown not in texts(draft.content):
            draft = replace(draft, content=[*draft.content, text_item(shown)])
        self._become(mine, draft, now)

    # Ends that wait for a result

    def _wait_for_result(self, mine: TappedCall, now: float) -> None:
        """Hold the end of a call that is done now. In a replay, it waits until the replay is over."""
        session, turn = self.session, mine.call.turn
        is_of_old = turn is None or turn.begun < (session.asked or 0)
        mine.done, mine.is_history = now, session.is_replaying and is_of_old
        self._done[mine.id] = mine
        if not mine.is_history:
            settle = partial(self._settle, [mine])
            self.waits.hold(Why.RESULT, mine.id, now + ANNOUNCEMENT, settle)

    def _wait_no_more(self, mine: TappedCall) -> None:
        """Note that a call does not wait for a result: it has ended, or goes on."""
        self._done.pop(mine.id, None)
        self.waits.drop(Why.RESULT, mine.id)

    def release(self, now: float, last: str | None = None) -> None:
        """Send all that waits, because the caller sends something after it (see `Outbox.release`)."""
        self._settle(self._overtaken(), now)
        self._reports.outbox.release(now, last)

    def _let_others_end(self, call: ObservedCall, now: float) -> None:
        """End calls that are done, because a new one begins."""
        own = self._open.get(call)
        self._settle([mine for mine in self._overtaken() if mine is not own], now)

    def _overtaken(self) -> list[TappedCall]:
        """Return those that nothing may overtake.

        A replay may report all its calls first and then their results: there, they wait until it is over.
        """
        replays = self.session.is_replaying
        return [mine for mine in self._done.values() if not (replays and mine.is_history)]

    def _settle(self, calls: list[TappedCall], now: float) -> None:
        """End calls that are done. A failure in one does not affect the others."""
        for mine in calls:
            try:
                if mine.id in self._reports.calls:
                    self._sync(mine, {}, now)
            except Exception as exc:  # noqa: BLE001
                self._tap.failed(exc)
            finally:
                self._wait_no_more(mine)

    # Changing a call

    def _mine(self, call: ObservedCall, now: float) -> TappedCall:
        mine = self._open.get(call)
        if mine is None:
            self._make_room(call.id, now)
            mine = self._open[call] = TappedCall(
                id=self._reports.ids.new(call.id),
                draft=CallDraft(call=call, describer=self._describer),
                since=now,
                began=now,
            )
            self._reports.calls[mine.id] = mine
            self._tap.account.calls += 1
            if mine.id != call.id:
                mine.repaired.add("id")
        return mine

    def _make_room(self, key: str, now: float) -> None:
        """End the call that had an id before, if it is open: the id is another call's now."""
        for before in [mine for mine in self._open.values() if mine.call.id == key]:
            if before.id in self._done:
                self._settle([before], now)
            else:
                self.end(before, Reason.ABANDONED, now)

    def _draft(self, mine: TappedCall, status: str | None = None) -> CallDraft:
        """Return the next draft of a call, as if its status were `status`, unless that is None."""
        if self.session.cwd != self._cwd:
            self._cwd = self.session.cwd
            self._describer = self._tap.describer(self._cwd, self._sanitizer.command)
        before = replace(mine.draft, describer=self._describer)
        draft = None
        if self._tap.settings.repair:
            try:
                draft = repaired(before, status)
            except Exception as exc:  # noqa: BLE001 - the call can still be reported unrepaired
                self._tap.failed(exc)
        return in_own_terminals(draft or as_reported(before, status), mine.id)

    def _sync(self, mine: TappedCall, update: Json, now: float, status: str | None = None) -> None:
        """Bring our report of a call up to date with what is known of it now."""
        change = self._besides(mine, update, now)
        draft = self._draft(mine, status)
        if mine.id in self._done and (not update or not RESULT_FIELDS.isdisjoint(update)):
            self._wait_no_more(mine)
            if not draft.has_ended:
                # The last status reports it as running, but it was done before that.
                draft = self._draft(mine, "completed")
        elif mine.id in self._done:
            draft = self._draft(mine, "in_progress")  # its result may still be reported
        elif may_show_more(mine, draft, update, is_history=self.session.is_replaying):
            self.release_requests(now, lambda held: held.mine is mine)
            draft = self._draft(mine, "in_progress")
            self._wait_for_result(mine, now)
        if change is not None:
            draft = _declared(draft, change)
        mine.repaired |= draft.repaired
        self._become(mine, draft, now)

    def _become(self, mine: TappedCall, draft: CallDraft, now: float) -> None:
        if draft.has_ended:
            self.release_requests(now, lambda held: held.mine is mine)
            shown = [item for item in mine.safe if isinstance(item, TerminalContent)]
            self.terminals.settle(item.terminal_id for item in shown)
        try:
            self._reports.become(mine, draft, now)
        finally:
            if mine.is_over:
                self.waits.drop(Why.END, mine.id)
                self._open.pop(mine.call, None)
                self._over.add(mine.call)

    def _besides(self, mine: TappedCall, update: Json, now: float) -> CallChanged | None:
        """Return what an update has besides a call's own fields: `_meta`, and unknown fields."""
        meta = obj(update.get("_meta"))
        extra = {key: value for key, value in update.items() if key not in KEYS}
        if not meta and not extra:
            return None
        change: CallChanged | None = None
        meta = own_terminals(meta, mine)
        for event in self._reports.renderer.events({"toolCallId": mine.id, **extra, "_meta": meta}):
            if isinstance(event, (TerminalChanged, TerminalOutput)):
                self.terminals.apply(event, now)
            elif isinstance(event, CallChanged):
                change = event
        return change

    def _appended(self, mine: TappedCall, update: Json, now: float) -> None:
        if mine.report is None:
            self._sync(mine, {}, now)
            return
        renderer = self._reports.renderer
        for item in renderer.items([update.get("content")]):
            content = renderer.append(mine, item)
            if mine.is_worth_showing:
                unchanged = replace(mine.draft, status=None, meta={}, extra={})
                self._reports.change(mine, unchanged, {"content": content}, now)


def _declared(draft: CallDraft, change: CallChanged) -> CallDraft:
    """Return a draft with `_meta`, unknown fields, and what in v1 only our own agent can report.

    That is paused, cancelled, and kinds of its own.
    """
    status, kind = change.fields.get("status"), change.fields.get("kind")
    is_final, declared = draft.status == "failed", draft.status
    if isinstance(status, ToolCallStatus) and (is_final or declared == "in_progress"):
        declared = status.value if status.is_final == is_final else declared
    return replace(
        draft,
        meta=change.meta or {},
        extra=change.extra or {},
        status=declared,
        custom_kind=kind if isinstance(kind, CustomKind) else None,
    )
