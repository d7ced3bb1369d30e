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
    FINAL,
    ApprovalRequest,
    Json,
    ObservedCall,
    ObservedSession,
    ObservedTurn,
    many,
    obj,
)
from callsheet.report.content import TerminalContent
from callsheet.report.events import CallChanged, TerminalChanged, TerminalOutput
from callsheet.report.fields import CustomKind
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import LocalPhrases
from callsheet.tap.calls import Ids, TappedCall, in_own_terminals, own_terminals, with_parent
from callsheet.tap.context import Context, absolute
from callsheet.tap.hold import (
    ANNOUNCEMENT,
    CANCELLED,
    DENIED,
    ENDS,
    RESULT_FIELDS,
    Waits,
    Why,
    may_show_more,
    was_only_allowed,
    why_denied,
)
from callsheet.tap.permissions import complete_request, is_blind, shows_the_same
from callsheet.tap.profiles import profile_of
from callsheet.tap.repair import as_reported, repaired
from callsheet.tap.repair.card_content import is_diff, text_item
from callsheet.tap.repair.context import CallDraft
from callsheet.tap.reports import Reports
from callsheet.tap.terminals import Terminals

_IN_REQUESTS = ("rawInput", "title", "kind")


class TappedSession:
    """A session of an agent behind the tap.

    `session` is its observed state, and `peer` the client. `before_end` is called with a call before the
    call's end is sent. `waits` has all that waits in it.
    """

    def __init__(
        self,
        session: ObservedSession,
        peer: Peer,
        tap: Context,
        before_end: Callable[[TappedCall, float], None],
    ) -> None:
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
        # The same by the agent's ids.
        self._named: dict[str, TappedCall] = {}
        # Those that have ended, for as long as the tracker may apply updates to them.
        self._over: WeakSet[ObservedCall] = WeakSet()
        # Those that are done and have shown no result yet, by our ids. Calls that run in parallel may
        # all be done before the first result is reported, so an update of another call ends no wait.
        self._done: dict[str, TappedCall] = {}
        self._before_end: Callable[[TappedCall, float], None] = before_end

    @property
    def ids(self) -> Ids:
        """The ids of its calls."""
        return self._reports.ids

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
        mine.newer = {name: value for name, value in mine.newer.items() if not update.get(name)}
        if update.get("status"):
            mine.is_open_again = False
            self._spare(mine, Reason.ABANDONED)
        if kind == "tool_call" and mine.report is not None:
            mine.repaired.add("repeated")
        if kind == "tool_call_content_chunk":
            self._appended(mine, update, now)
            return
        if mine.report is None and kind != "tool_call" and not self._is_v2:
            mine.repaired.add("announcement")
        self._sync(mine, update, now)

    def asked(self, question: ApprovalRequest, now: float) -> TappedCall | None:
        """Process what a permission request reports of its call, and return the call."""
        call = question.twin or question.call
        if call is None:
            return None
        # If the tap ended the call and the agent did not, the request is shown on a new card.
        self._over.discard(call)
        self._let_others_end(call, now)
        mine = self._mine(call, now)
        self._spare(mine)
        mine.asked = {**mine.asked, **question.tool_call}
        if mine.report is None:
            mine.repaired.add("announcement")
        self._wait_no_more(mine)
        if not self._is_v2:  # where it is an update of the call
            mine.newer = {name: question.tool_call.get(name) for name in _IN_REQUESTS}
            mine.is_open_again |= self._draft(mine).status in FINAL
        self._sync(mine, question.tool_call, now)
        return mine

    def is_blind(self, mine: TappedCall, question: ApprovalRequest) -> bool:
        """Whether nothing is known of what the user would approve. In v2, the request itself shows it."""
        return not self._is_v2 and is_blind(mine, question)

    def request(
        self, mine: TappedCall, question: ApprovalRequest, message: Json, now: float
    ) -> Json | None:
        """Return a permission request as the client is to receive it; None if it is to pass unchanged."""
        self.release(now, mine.id)
        report = mine.report
        assert report is not None
        also = self._reports.renderer.asked_items(many(question.tool_call.get("content")))
        content = (*report.content, *[item for item in also if item not in report.content])
        whole_input = report.raw_input if mine.whole_input is None else mine.whole_input
        shown = self._reports.shown(replace(report, content=content, raw_input=whole_input))
        made = complete_request(message, shown, self._clean, is_v2=self._is_v2)
        if made is not None and not shows_the_same(made, question.tool_call):
            mine.repaired.add("question")
        return made

    def _clean(self, reported: Json) -> Json:
        return self._sanitizer.value(reported, runs=True)[0]

    def decided(self, question: ApprovalRequest, now: float) -> None:
        """Process the answer to a permission request."""
        mine = self._open.get(question.call) if question.call is not None else None
        if mine is None:
            return
        if mine.call.denied is not None:
            self._end_later(mine, now + DENIED, why_denied(mine.call))
            return
        self._spare(mine)
        mine.began = now  # it has not run before, unless the agent reported so (`ran`)
        waited = mine.report is not None and mine.report.status is ToolCallStatus.PENDING
        if question.outcome == "allowed" and waited and not mine.is_open_again:
            self._sync(mine, {}, now, "in_progress")
        if mine.is_open_again and self.session.turn is None:  # no turn will end it
            self._end_later(mine, now + CANCELLED, Reason.ABANDONED)

    # Ends that the agent does not report

    def cancelled(self, now: float) -> None:
        """Set deadlines for what runs: the client has cancelled the turn."""
        for mine in self._reports.calls.values():
            is_meant = mine.call.turn is self.session.turn and not mine.call.is_background
            if is_meant and mine.deadline is None:
                self._end_later(mine, now + CANCELLED, Reason.CANCELLED)

    def closed(self, now: float) -> None:
        """Set deadlines for all that is open: the client has closed the session."""
        for mine in self._reports.calls.values():
            if mine.deadline is None:
                self._end_later(mine, now + CANCELLED, Reason.CANCELLED)

    def _end_later(self, mine: TappedCall, until: float, reason: Reason) -> None:
        """Set a call's deadline, at which the tap ends it."""
        mine.deadline = reason
        self.waits.hold(Why.END, mine.id, until, partial(self._end_overdue, mine))

    def _end_overdue(self, mine: TappedCall, now: float) -> None:
        reason, mine.deadline = mine.deadline, None
        if mine.id in self._done:
            self._settle([mine], now)
        elif reason is Reason.ABANDONED:
            self.left_open(mine.call, now)
        elif reason is not None:
            self.end(mine, reason, now)

    def _spare(self, mine: TappedCall, reason: Reason = Reason.DENIED) -> None:
        """Remove a call's deadline: it is asked about again, was approved, or was updated."""
        if mine.deadline is reason:
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
        elif mine.is_open_again:
            mine.is_open_again = False
            self._sync(mine, {}, now)
        elif was_only_allowed(call) or exit_of(call) is not None:  # only its end was not reported
            mine.repaired.add("end")
            self._sync(mine, {}, now, "completed")
        else:
            self.end(mine, Reason.ABANDONED, now)

    def turn_over(self, turn: ObservedTurn, now: float) -> None:
        """End calls that are still open after a turn and for which the tracker emits no `CallLeftOpen`.

        These are calls outside of any turn, and calls that a permission request opened again.
        """
        self.release(now)
        for mine in list(self._reports.calls.values()):
            call = mine.call
            if call.turn is None and not self._is_v2:
                is_left = not call.is_replayed
            else:
                is_left = mine.is_open_again and call.turn in (turn, None)
            if is_left and (mine.is_open_again or not call.is_background):
                self.left_open(call, now)

    def gone(self, now: float, why: str = "interrupted") -> None:
        """End all that is open. `why` is the phrase that is shown for it."""
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
        draft = self._draft(mine)
        draft.status, draft.reason = status.value, reason.value
        if shown not in texts(draft.content):
            draft.content = [*draft.content, text_item(shown)]
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
            mine = self._open[call] = self._named[call.id] = TappedCall(
                call=call,
                profile=profile_of(self.session.connection.agent),
                describer=self._describer,
                id=self._reports.ids.new(call.id),
                since=now,
                began=now,
            )
            self._reports.calls[mine.id] = mine
            self._tap.account.calls += 1
            if mine.id != call.id:
                mine.repaired.add("id")
        return mine

    def _our_id(self, key: str) -> str:
        """Return the client's id of an open call that the agent knows by `key`."""
        mine = self._named.get(key)
        return key if mine is None else mine.id

    def _make_room(self, key: str, now: float) -> None:
        """End the call that had an id before, if it is open: the id is another call's now."""
        before = self._named.get(key)
        if before is not None and before.id in self._done:
            self._settle([before], now)
        elif before is not None:
            self.end(before, Reason.ABANDONED, now)

    def _draft(self, mine: TappedCall, status: str | None = None) -> CallDraft:
        """Return a repaired draft of a call, as if its status were `status`, unless that is None."""
        if self.session.cwd != self._cwd:
            self._cwd = self.session.cwd
            self._describer = self._tap.describer(self._cwd, self._sanitizer.command)
        mine.describer, mine.cwd = self._describer, absolute(self._cwd) or ""
        mine.status = status or ("pending" if mine.is_open_again else None)
        draft = None
        if self._tap.settings.repair:
            try:
                draft = repaired(mine)
            except Exception as exc:  # noqa: BLE001 - the call can still be reported unrepaired
                self._tap.failed(exc)
        return in_own_terminals(draft or as_reported(mine), mine)

    def _sync(self, mine: TappedCall, update: Json, now: float, status: str | None = None) -> None:
        """Bring our report of a call up to date with what is known of it now."""
        change = self._besides(mine, update, now)
        draft = self._draft(mine, status)
        if mine.id in self._done and (not update or not RESULT_FIELDS.isdisjoint(update)):
            self._wait_no_more(mine)
            if draft.status not in FINAL:
                # The last status reports it as running, but it was done before that.
                draft = self._draft(mine, "completed")
        elif mine.id in self._done:
            draft = self._draft(mine, "in_progress")  # its result may still be reported
        elif may_show_more(mine, draft, update, is_history=self.session.is_replaying):
            self._before_end(mine, now)
            draft = self._draft(mine, "in_progress")
            self._wait_for_result(mine, now)
        if change is not None:
            _declare(draft, change)
        mine.diffs = list(filter(is_diff, draft.content)) or mine.diffs
        mine.repaired |= draft.repaired
        mine.earlier = draft.raw_input
        self._become(mine, draft, now)

    def _become(self, mine: TappedCall, draft: CallDraft, now: float) -> None:
        if draft.status in FINAL:
            self._before_end(mine, now)
            shown = [item for item in mine.safe if isinstance(item, TerminalContent)]
            self.terminals.settle(item.terminal_id for item in shown)
        try:
            self._reports.become(mine, draft, now)
        finally:
            if mine.is_over:
                self.waits.drop(Why.END, mine.id)
                self._open.pop(mine.call, None)
                if self._named.get(mine.call.id) is mine:
                    del self._named[mine.call.id]
                self._over.add(mine.call)

    def _besides(self, mine: TappedCall, update: Json, now: float) -> CallChanged | None:
        """Return what an update has besides a call's own fields: `_meta`, and unknown fields."""
        meta = obj(update.get("_meta"))
        extra = {key: value for key, value in update.items() if key not in KEYS}
        if not meta and not extra:
            return None
        change: CallChanged | None = None
        meta = own_terminals(with_parent(meta, self._our_id), mine)
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
                self._reports.change(mine, CallDraft(), {"content": content}, now)


def _declare(draft: CallDraft, change: CallChanged) -> None:
    """Add `_meta` and unknown fields to a draft, and what in v1 only our own agent can report.

    That is paused, cancelled, and kinds of its own.
    """
    draft.meta, draft.extra = change.meta or {}, change.extra or {}
    status, kind = change.fields.get("status"), change.fields.get("kind")
    is_final = draft.status == "failed"
    if isinstance(status, ToolCallStatus) and (is_final or draft.status == "in_progress"):
        draft.status = status.value if status.is_final == is_final else draft.status
    if isinstance(kind, CustomKind):
        draft.custom_kind = kind
