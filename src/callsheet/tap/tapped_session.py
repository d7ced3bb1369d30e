"""One session of another agent, whose calls are repaired and then reported as Callsheet's own would be.

`TappedSession` receives the tracker's events about its calls. It decides when a report changes, and ends
calls that the agent does not end. `render` and `repair` decide what the report is, `outbox` when it is
sent. `TappedSessions` holds all sessions of a tap, and knows in which of them something is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import WeakSet

from msgspec.structs import replace

from callsheet.acp.codec import KEYS
from callsheet.acp.peer import Peer
from callsheet.observe.exit_codes import exit_of
from callsheet.observe.model import (
    FINAL,
    ApprovalRequest,
    Json,
    ObservedCall,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
    many,
    obj,
)
from callsheet.report.content import TerminalContent, TextContent
from callsheet.report.events import (
    CallChanged,
    TerminalChanged,
    TerminalOutput,
)
from callsheet.report.json import JsonObject
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import LocalPhrases
from callsheet.tap.calls import Ids, Tapped, own_terminals, with_parent
from callsheet.tap.context import Context
from callsheet.tap.hold import (
    CANCELLED,
    DENIED,
    ENDS,
    RESULT_FIELDS,
    HeldEnds,
    may_show_more,
    was_only_allowed,
    why_denied,
)
from callsheet.tap.outbox import Post
from callsheet.tap.permissions import complete_request, is_blind, shows_the_same
from callsheet.tap.render import Drafts, declare
from callsheet.tap.repair import CallDraft
from callsheet.tap.reports import Reports
from callsheet.tap.terminals import Terminals

_IN_QUESTIONS = ("rawInput", "title", "kind")


class TappedSession:
    """A session of an agent behind the tap.

    `session` is its observed state, and `peer` the client. `before_end` is called with a call before the
    call's end is sent.
    """

    def __init__(
        self,
        session: ObservedSession,
        connection: ObservedConnection,
        peer: Peer,
        tap: Context,
        before_end: Callable[[Tapped, float], None],
    ) -> None:
        self.session: ObservedSession = session
        self._tap: Context = tap
        self._connection: ObservedConnection = connection
        words = LocalPhrases(tap.describer(None))
        sanitizer = self._sanitizer = tap.sanitizer(words, Faults(strict=False))
        self._reports: Reports = Reports(session, peer, tap, sanitizer, words)
        self.post: Post = self._reports.post
        self.terminals: Terminals = Terminals(self._reports.ledger, sanitizer, self.post)
        self._drafts: Drafts = Drafts(session, connection, tap, sanitizer)
        self._open: dict[ObservedCall, Tapped] = {}
        # The same by the agent's ids.
        self._named: dict[str, Tapped] = {}
        # Those that have ended, for as long as the tracker may apply updates to them.
        self._over: WeakSet[ObservedCall] = WeakSet()
        self._deadlines: dict[str, tuple[float, Reason]] = {}
        self._done: HeldEnds = HeldEnds(session)
        self._before_end: Callable[[Tapped, float], None] = before_end

    @property
    def ids(self) -> Ids:
        """The ids of its calls."""
        return self._reports.ids

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
            self._put_right(mine, "repeated")
        if kind == "tool_call_content_chunk":
            self._appended(mine, update, now)
            return
        if mine.report is None and kind != "tool_call" and not self._connection.is_v2:
            self._put_right(mine, "announcement")
        self._sync(mine, update, now)

    def asked(self, question: ApprovalRequest, now: float) -> Tapped | None:
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
        if not self._connection.is_v2:  # where it is an update of the call
            mine.newer = {name: question.tool_call.get(name) for name in _IN_QUESTIONS}
        if mine.report is None:
            self._put_right(mine, "announcement")
        self._done.drop(mine.id)
        if not self._connection.is_v2:
            mine.is_open_again |= self._drafts.of(mine, now).status in FINAL
        self._sync(mine, question.tool_call, now)
        return mine

    def is_blind(self, mine: Tapped, question: ApprovalRequest) -> bool:
        """Whether nothing is known of what the user would approve. In v2, the request itself shows it."""
        return not self._connection.is_v2 and is_blind(mine, question)

    def request(
        self, mine: Tapped, question: ApprovalRequest, message: Json, now: float
    ) -> Json | None:
        """Return a permission request as the client is to receive it; None if it is to pass unchanged."""
        self.release(now, mine.id)
        report = mine.report
        assert report is not None
        also = self._reports.make.items(many(question.tool_call.get("content")))
        content = (*report.content, *[item for item in also if item not in report.content])
        whole_input = report.raw_input if mine.whole_input is None else mine.whole_input
        shown = self._reports.shown(replace(report, content=content, raw_input=whole_input))
        made = complete_request(message, shown, self._clean, is_v2=self._connection.is_v2)
        if made is not None and not shows_the_same(made, question.tool_call):
            self._put_right(mine, "question")
        return made

    def _clean(self, told: Json) -> Json:
        return self._sanitizer.value(told, runs=True)[0]

    def decided(self, question: ApprovalRequest, now: float) -> None:
        """Process the answer to a permission request."""
        mine = self._open.get(question.call) if question.call is not None else None
        if mine is None:
            return
        if mine.call.denied is not None:
            self._deadlines[mine.id] = now + DENIED, why_denied(mine.call)
        else:
            self._spare(mine)
            mine.began = now  # it has not run before, unless the agent reported so (`ran`)
            waited = mine.report is not None and mine.report.status is ToolCallStatus.PENDING
            if question.outcome == "allowed" and waited and not mine.is_open_again:
                self._sync(mine, {}, now, "in_progress")
            if mine.is_open_again and self.session.turn is None:  # no turn will end it
                self._deadlines[mine.id] = now + CANCELLED, Reason.ABANDONED

    def _spare(self, mine: Tapped, reason: Reason = Reason.DENIED) -> None:
        """Remove a call's deadline: it is asked about again, was approved, or was updated."""
        if self._deadlines.get(mine.id, (0, None))[1] is reason:
            del self._deadlines[mine.id]

    def cancelled(self, now: float) -> None:
        """Set deadlines for what runs: the client has cancelled the turn."""
        for key, mine in self._reports.calls.items():
            if mine.call.turn is self.session.turn and not mine.call.is_background:
                self._deadlines.setdefault(key, (now + CANCELLED, Reason.CANCELLED))

    def closed(self, now: float) -> None:
        """Set deadlines for all that is open: the client has closed the session."""
        for key in self._reports.calls:
            self._deadlines.setdefault(key, (now + CANCELLED, Reason.CANCELLED))

    def left_open(self, call: ObservedCall, now: float) -> None:
        """End a call that should have ended: its turn is over, or its replay."""
        mine = self._open.get(call)
        if mine is None:
            return
        if mine.id in self._done:
            self._settle([mine.id], now)
            return
        turn = call.turn
        if call.denied is not None:
            self.end(mine, why_denied(mine.call), now)
        elif call.cancelled is not None or (turn is not None and turn.cancelled is not None):
            self.end(mine, Reason.CANCELLED, now)
        elif mine.is_open_again:
            mine.is_open_again = False
            self._sync(mine, {}, now)
        elif was_only_allowed(call) or exit_of(call) is not None:  # only its end was not reported
            self._put_right(mine, "end")
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
            if call.turn is None and not self._connection.is_v2:
                is_left = not call.is_replayed
            else:
                is_left = mine.is_open_again and call.turn in (turn, None)
            if is_left and (mine.is_open_again or not call.is_background):
                self.left_open(call, now)

    def gone(self, now: float, why: str = "interrupted") -> None:
        """End all that is open. `why` is the phrase that is shown for it."""
        self._settle(self._done.all(), now)
        self.post.release(now)
        for mine in reversed(list(self._reports.calls.values())):
            try:
                self.end(mine, Reason.ABANDONED, now, why)
            except Exception as exc:  # noqa: BLE001 - the others end all the same
                self._tap.failed(exc)

    def end(self, mine: Tapped, reason: Reason, now: float, words: str | None = None) -> None:
        """End a call that its agent does not end."""
        if mine.report is None or mine.is_over:
            return
        self._done.drop(mine.id)
        self._put_right(mine, "end")
        status, phrase = ENDS[reason]
        said = self._drafts.describer.phrase(words or phrase)
        draft = self._drafts.of(mine, now)
        draft.status, draft.reason = status.value, reason.value
        fields = self._reports.make.fields(mine, draft)
        if not any(isinstance(item, TextContent) and item.text == said for item in mine.safe):
            mine.safe = fields["content"] = (*mine.safe, TextContent(said))
        self._become(mine, draft, fields, None, now)

    # Time

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all."""
        calls = self._reports.calls
        times = [until for key, (until, _) in self._deadlines.items() if key in calls]
        waits = (self._done.due, self.post.due, self.terminals.due)
        times += [due for due in waits if due is not None]
        return min(times, default=None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits in it."""
        return not self._done and self.due is None

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._settle(self._done.late(now), now)
        calls = self._reports.calls
        for key, (until, reason) in list(self._deadlines.items()):
            if key not in calls or until <= now:
                del self._deadlines[key]  # whatever becomes of it, it is not due again
            if key in self._done and until <= now:
                self._settle([key], now)
            elif key in calls and until <= now and reason is Reason.ABANDONED:
                self.left_open(calls[key].call, now)
            elif key in calls and until <= now:
                self.end(calls[key], reason, now)
        self.terminals.tick(now)
        self.post.tick(now)

    def release(self, now: float, last: str | None = None) -> None:
        """Send all that waits, because the caller sends something after it (see `Post.release`)."""
        self._settle(self._done.overtaken(), now)
        self.post.release(now, last)

    def _let_others_end(self, call: ObservedCall, now: float) -> None:
        """End calls that are done, because a new one begins. In a replay, all calls may come first."""
        if self._done:
            mine = self._open.get(call)
            own = None if mine is None else mine.id
            self._settle([key for key in self._done.overtaken() if key != own], now)

    def _settle(self, keys: list[str], now: float) -> None:
        """End calls that are done. A failure in one does not affect the others."""
        for key in keys:
            try:
                if (mine := self._reports.calls.get(key)) is not None:
                    self._sync(mine, {}, now)
            except Exception as exc:  # noqa: BLE001
                self._tap.failed(exc)
            finally:
                self._done.drop(key)

    # Changing a call

    def _mine(self, call: ObservedCall, now: float) -> Tapped:
        mine = self._open.get(call)
        if mine is None:
            self._make_room(call.id, now)
            mine = self._open[call] = self._named[call.id] = Tapped(
                self._reports.ids.new(call.id), call, now, now
            )
            self._reports.calls[mine.id] = mine
            self._tap.account.calls += 1
            if mine.id != call.id:
                self._put_right(mine, "id")
        return mine

    def _our_id(self, key: str) -> str:
        """Return the client's id of an open call that the agent knows by `key`."""
        mine = self._named.get(key)
        return key if mine is None else mine.id

    def _make_room(self, key: str, now: float) -> None:
        """End the call that had an id before, if it is open: the id is another call's now."""
        before = self._named.get(key)
        if before is not None and before.id in self._done:
            self._settle([before.id], now)
        elif before is not None:
            self.end(before, Reason.ABANDONED, now)

    def _sync(self, mine: Tapped, update: Json, now: float, status: str | None = None) -> None:
        """Bring our report of a call up to date with what is known of it now."""
        change = self._besides(mine, update, now)
        draft = self._drafts.of(mine, now, status)
        if mine.id in self._done and (not update or not RESULT_FIELDS.isdisjoint(update)):
            self._done.drop(mine.id)
            if (
                draft.status not in FINAL
            ):  # the last status reports it as running, but it was done before that
                draft = self._drafts.of(mine, now, "completed")
        elif mine.id in self._done:
            draft = self._drafts.of(mine, now, "in_progress")  # its result may still be reported
        elif self._may_wait(mine, draft, update):
            self._before_end(mine, now)
            draft = self._drafts.of(mine, now, "in_progress")
            self._done.hold(mine, now)
        fields = self._reports.make.fields(mine, draft)
        if change is not None:
            declare(draft, fields, dict(change.fields))
        mine.diffs = [
            item for item in draft.content if obj(item).get("type") == "diff"
        ] or mine.diffs
        mine.repaired |= draft.repaired
        mine.has_own_title, mine.input = draft.has_own_title, draft.raw_input
        self._become(mine, draft, fields, change, now)

    def _may_wait(self, mine: Tapped, draft: CallDraft, update: Json) -> bool:
        told = self.session.is_replaying
        return self._tap.settings.repair and may_show_more(mine, draft, update, is_history=told)

    def _become(
        self,
        mine: Tapped,
        draft: CallDraft,
        fields: JsonObject,
        change: CallChanged | None,
        now: float,
    ) -> None:
        if draft.status in FINAL:
            self._before_end(mine, now)
            shown = [item for item in mine.safe if isinstance(item, TerminalContent)]
            self.terminals.settle(item.terminal_id for item in shown)
        try:
            self._reports.become(mine, draft, fields, change, now)
        finally:
            if mine.is_over:
                self._open.pop(mine.call, None)
                if self._named.get(mine.call.id) is mine:
                    del self._named[mine.call.id]
                self._over.add(mine.call)

    def _besides(self, mine: Tapped, update: Json, now: float) -> CallChanged | None:
        """Return what an update has besides a call's own fields: `_meta`, and unknown fields."""
        meta = obj(update.get("_meta"))
        extra = {key: value for key, value in update.items() if key not in KEYS}
        if not meta and not extra:
            return None
        change: CallChanged | None = None
        meta = with_parent(meta, self._our_id)
        told = {"toolCallId": mine.id, **extra, "_meta": own_terminals(meta, mine)}
        for event in self._reports.make.events(told):
            if isinstance(event, (TerminalChanged, TerminalOutput)):
                self.terminals.apply(event, now)
            elif isinstance(event, CallChanged):
                change = event
        return change

    def _appended(self, mine: Tapped, update: Json, now: float) -> None:
        if mine.report is None:
            self._sync(mine, {}, now)
            return
        for item in self._reports.make.read([update.get("content")]):
            content = self._reports.make.item(mine, item)
            if mine.is_worth_showing:
                self._reports.become(mine, CallDraft(), {"content": content}, None, now)

    def _put_right(self, mine: Tapped, what: str) -> None:
        if self._tap.settings.repair:
            mine.repaired.add(what)


FEW = 64
"""Sessions beyond which each new one makes the tap drop those that the tracker has forgotten."""


class TappedSessions:
    """The sessions of one tap. `is_known` returns whether a session is still the one of its id."""

    def __init__(self, is_known: Callable[[ObservedSession], bool]) -> None:
        self._is_known: Callable[[ObservedSession], bool] = is_known
        self._by_id: dict[str, TappedSession] = {}
        # Those in which something may be due: few of them, however many there are.
        self._busy: dict[str, TappedSession] = {}

    def __iter__(self) -> Iterator[TappedSession]:
        return iter(list(self._by_id.values()))

    def get(self, key: str) -> TappedSession | None:
        """Return the session of an id, to do something with it."""
        found = self._by_id.get(key)
        if found is not None:
            self._busy[key] = found
        return found

    def put(self, session: TappedSession, now: float) -> None:
        """Add a session, and end what is open in an earlier one of the same id."""
        key = session.session.id
        self.drop(key, now)
        self._by_id[key] = self._busy[key] = session
        if len(self._by_id) > FEW:
            for other in self:
                if not self._is_known(other.session):
                    self.drop(other.session.id, now)

    def drop(self, key: str, now: float, why: str = "abandoned") -> None:
        """Forget a session, and end what is open in it."""
        self._busy.pop(key, None)
        found = self._by_id.pop(key, None)
        if found is not None:
            found.gone(now, why)

    def clear(self, now: float) -> None:
        """Forget all sessions, because the agent was started again."""
        for key in list(self._by_id):
            self.drop(key, now, "interrupted")

    @property
    def busy(self) -> list[TappedSession]:
        """Those in which something may wait."""
        return list(self._busy.values())

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all. Sessions that became idle are no longer busy."""
        for key, session in list(self._busy.items()):
            if session.is_idle:
                del self._busy[key]
        times = [due for session in self.busy if (due := session.due) is not None]
        return min(times, default=None)

    def release(self, now: float) -> None:
        """Send all that waits."""
        for session in self.busy:
            session.release(now)
