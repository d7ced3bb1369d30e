"""One session of another agent: its calls, put right, and told to the client as our own would be."""

from __future__ import annotations

from typing import Literal
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from callsheet.check.recording.moments import Call, Connection, Json, Question, Session
from callsheet.check.recording.values import many, obj
from callsheet.describe import Describer
from callsheet.report.content import TextContent
from callsheet.report.events import (
    CallChanged,
    TerminalChanged,
    TerminalOutput,
)
from callsheet.report.kinds import ToolKind
from callsheet.report.ledger import Ledger
from callsheet.report.record import (
    KEEP_LIVE,
    KEEP_WHOLE,
    CallRecord,
    TerminalRecord,
    terminal_ids,
)
from callsheet.report.report import ToolCallReport
from callsheet.report.status import MOVES, Reason, ToolCallStatus
from callsheet.report.values import JsonObject
from callsheet.runtime.faults import Faults
from callsheet.runtime.words import Spoken
from callsheet.wire.frames import UpdateFrames
from callsheet.wire.peer import Peer
from callsheet.wire.toolcall import KEYS
from callsheet.wire.view import view_for

from .asking import request_of
from .calls import Ids, Tapped, own_notes
from .context import Context, absolute
from .making import Maker
from .post import Post
from .profiles import profile_of
from .repair import Draft, Known, as_told, repaired
from .screens import Screens

GRACE = 2.0
"""Seconds that an agent has to end a call itself that was denied or cancelled."""

ENDS = {
    Reason.DENIED: (ToolCallStatus.FAILED, "denied"),
    Reason.CANCELLED: (ToolCallStatus.CANCELLED, "cancelled"),
    Reason.ABANDONED: (ToolCallStatus.FAILED, "abandoned"),
}
_SAID_FIRST = ("name", "title", "kind", "locations", "raw_input")
_RUNNING = ToolCallStatus.IN_PROGRESS


class TappedSession:
    """A session. `session` is what is known of it; `peer` is the client."""

    def __init__(self, session: Session, connection: Connection, peer: Peer, tap: Context) -> None:
        self.session: Session = session
        self.calls: dict[str, Tapped] = {}
        """Those that are open, by our ids."""
        self.ids: Ids = Ids()
        self._tap: Context = tap
        self._connection: Connection = connection
        self._cwd: str | None = None
        self._describer: Describer = tap.describer(None)
        self._words: Spoken = Spoken(self._describer)
        self._faults: Faults = Faults(strict=False)
        self._guard = tap.guard(self._words, self._faults)
        self._make: Maker = Maker(self._guard, 2 if connection.is_v2 else 1)
        self._ledger: Ledger = Ledger(session.id, lambda: self.ids.new("call"))
        self._titles: Literal["markdown", "plain", "either"] = peer.titles
        self._peer: Peer = replace(peer, titles="plain")
        budget = self._guard.frame
        frames = UpdateFrames(session.id, **({} if budget is None else {"budget": budget}))
        view = view_for(self._peer, self._ledger.terminal, self._words)
        self.post: Post = Post(view, frames, self._send, self._as_shown)
        self.screens: Screens = Screens(self._ledger, self._guard, self.post)
        self._known: WeakKeyDictionary[Call, Tapped] = WeakKeyDictionary()
        self._deadlines: dict[str, tuple[float, Reason]] = {}

    def _send(self, line: bytes) -> None:
        if not self._tap.settings.repair:
            return  # the agent's own words pass; ours are for the history
        self._tap.account.sent += len(line)
        self._tap.send(line)

    # What the agent tells

    def told(self, call: Call, kind: str, update: Json, now: float) -> None:
        """Take in an update of a call, which is folded into `call` already."""
        mine = self._mine(call, now)
        if mine.is_over:
            self._tap.account.dropped["late"] += 1
            return
        if kind == "tool_call" and mine.report is not None:
            self._put_right(mine, "repeated")
        if kind == "tool_call_content_chunk":
            self._appended(mine, update, now)
            return
        if mine.report is None and kind != "tool_call" and not self._connection.is_v2:
            self._put_right(mine, "announcement")
        self._sync(mine, update, now)

    def asked(self, question: Question, message: Json, now: float) -> Json | None:
        """Give the request for permission as the client is to get it. None if it is to stay as it is."""
        call = question.twin or question.call
        if call is None:
            return None
        mine = self._mine(call, now)
        if mine.is_over:
            return None
        mine.asked = {**mine.asked, **question.tool_call}
        if mine.report is None:
            self._put_right(mine, "announcement")
        self._sync(mine, question.tool_call, now)
        self.post.release(now)
        report = mine.report
        assert report is not None
        also = self._make.items(many(question.tool_call.get("content")))
        content = (*report.content, *[item for item in also if item not in report.content])
        whole_input = report.raw_input if mine.whole_input is None else mine.whole_input
        shown = self._as_shown(replace(report, content=content, raw_input=whole_input))
        clean = self._clean
        made = request_of(message, shown, self._peer.version, self._connection.is_v2, clean)
        if made is not None and made["params"].get("toolCall") != question.tool_call:
            self._put_right(mine, "question")
        return made

    def _clean(self, told: Json) -> Json:
        return self._guard.value(told)[0]

    def decided(self, question: Question, now: float) -> None:
        """Hear what the client has decided."""
        mine = self._known.get(question.call) if question.call is not None else None
        if mine is not None and not mine.is_over and question.outcome in ("rejected", "cancelled"):
            self._deadlines[mine.id] = now + GRACE, self._why_denied(mine)

    def cancelled(self, now: float) -> None:
        """Hear that the client has cancelled what the session does."""
        for key, mine in self.calls.items():
            if mine.call.turn is self.session.turn and not mine.call.is_background:
                self._deadlines.setdefault(key, (now + GRACE, Reason.CANCELLED))

    def left_open(self, call: Call, now: float) -> None:
        """End a call that should have ended: its turn is over, or its history was told."""
        mine = self._known.get(call)
        if mine is None or mine.is_over:
            return
        turn = call.turn
        if call.denied is not None:
            self.end(mine, self._why_denied(mine), now)
        elif call.cancelled is not None or (turn is not None and turn.cancelled is not None):
            self.end(mine, Reason.CANCELLED, now)
        else:
            self.end(mine, Reason.ABANDONED, now)

    def gone(self, now: float) -> None:
        """End all that is open: the agent is gone."""
        self.post.release(now)
        for mine in reversed(list(self.calls.values())):
            self.end(mine, Reason.ABANDONED, now, "interrupted")

    def end(self, mine: Tapped, reason: Reason, now: float, words: str | None = None) -> None:
        """End a call that its agent does not end."""
        if mine.report is None or mine.is_over:
            return
        self._put_right(mine, "end")
        status, phrase = ENDS[reason]
        said = self._describer.phrase(words or phrase)
        draft = self._draft(mine, now)
        draft.status, draft.reason = status.value, reason.value
        fields = self._make.fields(mine, draft)
        if not any(isinstance(item, TextContent) and item.text == said for item in mine.safe):
            mine.safe = fields["content"] = (*mine.safe, TextContent(said))
        self._become(mine, draft, fields, None, now)

    def _why_denied(self, mine: Tapped) -> Reason:
        turn, denied = mine.call.turn, mine.call.denied
        rejected = denied is not None and denied.outcome == "rejected"
        if not rejected and turn is not None and turn.cancelled is not None:
            return Reason.CANCELLED
        return Reason.DENIED

    # Time

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all."""
        times = [until for until, _ in self._deadlines.values()]
        times += [due for due in (self.post.due, self.screens.due) if due is not None]
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for key, (until, reason) in list(self._deadlines.items()):
            if until <= now:
                del self._deadlines[key]  # whatever becomes of it, it is not due again
                if key in self.calls:
                    self.end(self.calls[key], reason, now)
        self.screens.tick(now)
        self.post.tick(now)

    # Changing a call

    def _mine(self, call: Call, now: float) -> Tapped:
        mine = self._known.get(call)
        if mine is None:
            mine = self._known[call] = Tapped(self.ids.new(call.id), call, now)
            self.calls[mine.id] = mine
            self._tap.account.calls += 1
            if mine.id != call.id:
                self._put_right(mine, "id")
        return mine

    def _sync(self, mine: Tapped, update: Json, now: float) -> None:
        """Let our report of a call become what is to be told of it now."""
        change = self._besides(mine, update, now)
        draft = self._draft(mine, now)
        fields = self._make.fields(mine, draft)
        if change is not None:
            declared = dict(change.fields)
            status = declared.pop("status", None)
            if status is not None and (draft.status in ("in_progress", "failed")):
                draft.status = (
                    status.value
                )  # paused, or cancelled, as only our own agent can say in v1
            if "kind" in declared and "kind" in fields:
                fields["kind"] = declared["kind"]
        mine.repaired |= draft.repaired
        mine.has_own_title = draft.has_own_title
        self._become(mine, draft, fields, change, now)

    def _draft(self, mine: Tapped, now: float) -> Draft:
        if self.session.cwd != self._cwd:
            self._cwd = self.session.cwd
            self._describer = self._tap.describer(self._cwd)
        known = Known(
            call=mine.call,
            connection=self._connection,
            profile=profile_of(self._connection.agent),
            describer=self._describer,
            asked=mine.asked,
            cwd=absolute(self._cwd) or "",
            now=now,
            announced=mine.report is not None,
        )
        return repaired(known) if self._tap.settings.repair else as_told(known)

    def _besides(self, mine: Tapped, update: Json, now: float) -> CallChanged | None:
        """Give what an update says besides a call's own fields: in `_meta`, and in fields nobody knows."""
        meta = obj(update.get("_meta"))
        extra = {key: value for key, value in update.items() if key not in KEYS}
        if not meta and not extra:
            return None
        change: CallChanged | None = None
        for event in self._make.events({"toolCallId": mine.id, **extra, "_meta": meta}):
            if isinstance(event, (TerminalChanged, TerminalOutput)):
                self.screens.take(event, now)
            elif isinstance(event, CallChanged):
                change = event
        return change

    def _appended(self, mine: Tapped, update: Json, now: float) -> None:
        if mine.report is None:
            self._sync(mine, {}, now)
            return
        for item in self._make.read([update.get("content")]):
            content = self._make.item(mine, item)
            self._become(mine, Draft(), {"content": content}, None, now)

    def _become(
        self,
        mine: Tapped,
        draft: Draft,
        fields: JsonObject,
        change: CallChanged | None,
        now: float,
    ) -> None:
        status = _status(draft.status)
        notes: JsonObject = {}
        is_final = False
        if status is not None and status.is_final:
            is_final = True
            notes |= self._ending(mine, status, draft, now)
        meta = self._make.meta(change.meta) if change is not None else None
        if meta is not None and obj(meta.get("callsheet")):
            # What the agent says of itself is better.
            notes |= own_notes(meta.pop("callsheet"), self.ids, status)
        fields = self._make.bounded(mine, fields, notes, is_final=is_final)
        if mine.report is None:
            self._open(mine, status or ToolCallStatus.PENDING, fields, meta, notes, now)
        else:
            self._change(mine, status, fields, meta, notes, now)
        self._settle(mine)

    def _ending(self, mine: Tapped, status: ToolCallStatus, draft: Draft, now: float) -> JsonObject:
        """Give the notes on a call's end."""
        notes: JsonObject = {}
        if status is ToolCallStatus.FAILED:
            notes["reason"] = draft.reason or Reason.TOOL_ERROR.value
        if mine.repaired:
            notes["repaired"] = sorted(mine.repaired)
        if not mine.call.is_replayed:
            notes["durationMs"] = max(0, round((now - mine.began) * 1000))
            if (ended := self._tap.time(now)) is not None:
                notes["endedAt"] = ended
        return notes

    def _open(
        self,
        mine: Tapped,
        status: ToolCallStatus,
        fields: JsonObject,
        meta: JsonObject | None,
        notes: JsonObject,
        now: float,
    ) -> None:
        if mine.id != mine.call.id:
            notes["alias"] = mine.call.id
        if not mine.call.is_replayed and (began := self._tap.time(now)) is not None:
            notes["startedAt"] = began
        fields.setdefault("name", "")
        report = self._ledger.open(
            **fields, status=status, meta=meta or {}, notes=notes, tool_call_id=mine.id
        )
        mine.report = report
        if self._may_wait(mine, report):
            self.post.hold(report, now)
        else:
            self.post.put(report, moved=True, now=now)
        self._keep(report)

    def _may_wait(self, mine: Tapped, report: ToolCallReport) -> bool:
        """Whether an announcement may soon be better: its input is not known yet."""
        if not self._tap.settings.repair or report.is_final or mine.call.is_replayed:
            return False
        return not report.raw_input and report.kind is not ToolKind.THINK

    def _change(
        self,
        mine: Tapped,
        status: ToolCallStatus | None,
        fields: JsonObject,
        meta: JsonObject | None,
        notes: JsonObject,
        now: float,
    ) -> None:
        report = mine.report
        assert report is not None
        if self.post.held(mine.id):
            first = {name: fields.pop(name) for name in _SAID_FIRST if name in fields}
            if first:
                report = self._ledger.update(mine.id, None, **first)
            self.post.announce(report, now)
        before = report.status
        steps = _steps(before, status)
        for step in steps[:-1]:
            report = self._ledger.update(mine.id, step)
            self.post.put(report, moved=True, now=now)
        last = steps[-1] if steps else None
        if last is not None or fields or meta or notes:
            report = self._ledger.update(mine.id, last, meta=meta, notes=notes or None, **fields)
            self.post.put(report, moved=report.status is not before, now=now)
        mine.report = report
        if report.status is not before:
            self._keep(report)

    def _settle(self, mine: Tapped) -> None:
        """Let go of a call that has ended."""
        if not mine.is_over:
            return
        self.calls.pop(mine.id, None)
        self._deadlines.pop(mine.id, None)
        account = self._tap.account
        account.hidden += sum(mine.secrets.values())
        account.repaired.update(mine.repaired)
        mine.given, mine.items, mine.safe, mine.asked = {}, (), (), {}
        mine.whole_input = None

    def _keep(self, report: ToolCallReport) -> None:
        keep = self._tap.keep
        if keep is None or self.session.is_replaying:
            return
        size = KEEP_WHOLE if report.is_final else KEEP_LIVE
        states = [self._ledger.terminal(key) for key in terminal_ids(report)]
        records = tuple([TerminalRecord.of(state, size) for state in states if state is not None])
        keep(self.session.id, self.session.cwd or "", CallRecord(report, records))

    def _put_right(self, mine: Tapped, what: str) -> None:
        mine.repaired.add(what)

    def _as_shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a report with a title that the client renders as we mean it, if the title is ours."""
        mine = self.calls.get(report.tool_call_id)
        if mine is None or not mine.has_own_title or self._titles == "plain":
            return report
        title = self._words.escaped(report.title, report.kind, self._titles)
        return report if title == report.title else replace(report, title=title)


def _status(told: str | None) -> ToolCallStatus | None:
    """Give a status of ours. One that nobody knows means that the call goes on."""
    if told is None:
        return None
    try:
        return ToolCallStatus(told)
    except ValueError:
        return _RUNNING


def _steps(before: ToolCallStatus, status: ToolCallStatus | None) -> list[ToolCallStatus]:
    """Give the moves that lead to a status, by the table; none if there is no way."""
    if status is None or status is before:
        return []
    if status in MOVES[before]:
        return [status]
    if _RUNNING in MOVES[before] and status in MOVES[_RUNNING]:
        return [_RUNNING, status]
    return []
