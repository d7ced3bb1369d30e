"""The tap's own reports of one session's calls: opened, changed, ended, and sent to the client.

The ledger validates each status change. A status that can't be reached from the current one is ignored;
a step that the agent skipped is inserted.
"""

from __future__ import annotations

import sys
from typing import Literal, cast

from msgspec.structs import replace

from callsheet.acp.codec import UpdateFrames
from callsheet.acp.peer import Peer
from callsheet.acp.views import view_for
from callsheet.observe.model import ObservedSession, obj
from callsheet.observe.tool_identity import needs_of
from callsheet.report.events import CallChanged
from callsheet.report.fields import ToolKind
from callsheet.report.json import JsonObject, is_object
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.status import MOVES, Reason, ToolCallStatus
from callsheet.report.terminal import (
    KEEP_LIVE,
    KEEP_WHOLE,
    CallRecord,
    TerminalRecord,
    terminal_ids,
)
from callsheet.runtime.sanitizer import LocalPhrases, Sanitizer
from callsheet.tap.hold import ANNOUNCEMENT, ARGUMENTS, was_never_allowed
from callsheet.tap.outbox import Post
from callsheet.tap.render import Maker

from .calls import Ids, Tapped, own_notes
from .context import Context
from .repair import CallDraft

KEEP = 32
"""Calls that have ended and are still known: nothing of them is sent any more."""

_SAID_FIRST = ("name", "title", "kind", "locations", "raw_input")
_RUNNING = ToolCallStatus.IN_PROGRESS


class Reports:
    """The reports of one session's calls. `calls` are those that are open, by our ids."""

    def __init__(
        self,
        session: ObservedSession,
        peer: Peer,
        tap: Context,
        sanitizer: Sanitizer,
        words: LocalPhrases,
    ) -> None:
        self.calls: dict[str, Tapped] = {}
        self.ids: Ids = tap.ids(session.id)
        self.make: Maker = Maker(sanitizer, peer.version)
        self.ledger: Ledger = Ledger(
            session.id, lambda: self.ids.new("call"), keep_reports=KEEP, keep_summaries=KEEP
        )
        self._session: ObservedSession = session
        self._tap: Context = tap
        self._words: LocalPhrases = words
        self._titles: Literal["markdown", "plain", "either"] = peer.titles
        frames = UpdateFrames(session.id, budget=sanitizer.frame or sys.maxsize)
        view = view_for(replace(peer, titles="plain"), self.ledger.terminal, words)
        self.post: Post = Post(view, frames, self._send, self.shown)

    def _send(self, line: bytes) -> None:
        if not self._tap.settings.repair:
            return  # the agent's own lines pass unrepaired; these reports are only for the history
        self._tap.account.sent += len(line)
        self._tap.send(line)

    def become(
        self,
        mine: Tapped,
        draft: CallDraft,
        fields: JsonObject,
        change: CallChanged | None,
        now: float,
    ) -> None:
        """Bring a call's report up to date with a draft: its status, and these fields."""
        status = _status(draft.status)
        notes: JsonObject = {}
        is_final = False
        if status is not None and status.is_final:
            is_final = True
            notes |= self._ending(mine, status, draft, now)
        meta = self.make.meta(change.meta) if change is not None else None
        if meta is not None and obj(meta.get("callsheet")):
            # What an agent that uses Callsheet reports itself is better than what a tap can find out.
            notes |= own_notes(meta.pop("callsheet"), self.ids, status, mine.id)
        fields = self.make.bounded(mine, fields, notes, is_final=is_final)
        extra = self.make.meta(change.extra) if change is not None else None
        mine.is_streaming = draft.is_streaming
        if mine.report is None:
            self._open(mine, status or ToolCallStatus.PENDING, fields, meta, notes, extra, now)
        else:
            self._change(mine, status, fields, meta, notes, extra, now)
        self._settle(mine)

    def _ending(
        self, mine: Tapped, status: ToolCallStatus, draft: CallDraft, now: float
    ) -> JsonObject:
        """Return the notes on a call's end."""
        notes: JsonObject = {}
        now = now if mine.done is None else mine.done
        if status is ToolCallStatus.FAILED:
            notes["reason"] = draft.reason or Reason.TOOL_ERROR.value
        if mine.repaired:
            notes["repaired"] = sorted(mine.repaired)
        if mine.call.is_replayed:
            return notes
        if (ended := self._tap.time(now)) is not None:
            notes["endedAt"] = ended
        if not was_never_allowed(mine.call):
            began = mine.began if mine.ran is None else mine.ran
            notes["durationMs"] = max(0, round((now - began) * 1000))
        elif mine.report is not None and "startedAt" in mine.report.notes:
            notes["startedAt"] = (
                None  # it has not run, though the agent reported so before it asked
            )
        return notes

    def _open(
        self,
        mine: Tapped,
        status: ToolCallStatus,
        fields: JsonObject,
        meta: JsonObject | None,
        notes: JsonObject,
        extra: JsonObject | None,
        now: float,
    ) -> None:
        if mine.id != mine.call.id:
            notes["alias"] = mine.call.id
        self._note_start(mine, status, notes, now)
        fields.setdefault("name", "")
        report = self.ledger.open(
            **fields, status=status, meta=meta or {}, notes=notes, tool_call_id=mine.id
        )
        if extra and not report.is_final:
            report = self._with_extra(mine.id, extra)
        mine.report = report
        if patience := self._patience(mine, report):
            self.post.hold(report, now, patience)
        else:
            self.post.open(report, now)
        self._keep(mine, report)

    def _note_start(
        self, mine: Tapped, status: ToolCallStatus, notes: JsonObject, now: float
    ) -> None:
        """Note when a call begins to run, if it does now. A call that waits for approval does not run."""
        if mine.ran is not None or status is ToolCallStatus.PENDING:
            return
        if status.is_final and was_never_allowed(mine.call):
            return
        mine.ran = mine.began if status.is_final else now
        began = None if mine.call.is_replayed else self._tap.time(mine.ran)
        if began is not None:
            notes.setdefault("startedAt", began)

    def _patience(self, mine: Tapped, report: ToolCallReport) -> float:
        """Return how long an announcement may wait for its input, or the main part of it; 0 if not at all."""
        if not self._tap.settings.repair or report.is_final or mine.call.is_replayed:
            return 0
        if report.raw_input:
            lacks = report.kind is ToolKind.EXECUTE and _lacks_command(report)
        else:
            lacks = report.kind is not ToolKind.THINK
        is_coming = mine.is_streaming or report.status is ToolCallStatus.PENDING
        return 0 if not lacks else ARGUMENTS if is_coming and not report.content else ANNOUNCEMENT

    def _change(
        self,
        mine: Tapped,
        status: ToolCallStatus | None,
        fields: JsonObject,
        meta: JsonObject | None,
        notes: JsonObject,
        extra: JsonObject | None,
        now: float,
    ) -> None:
        report = mine.report
        assert report is not None
        steps = _steps(report.status, status)
        if steps:
            self._note_start(mine, steps[-1], notes, now)
        if not (steps or fields or meta or notes or extra):
            return  # nothing is new in it
        if self.post.held(mine.id):
            if self._goes_on_waiting(mine, steps, fields):
                for step in steps:
                    self.ledger.update(mine.id, step)
                if extra:
                    self._with_extra(mine.id, extra)
                mine.report = self.ledger.update(
                    mine.id, None, meta=meta, notes=notes or None, **fields
                )
                self.post.hold(mine.report, now, ARGUMENTS)
                return
            first = {name: fields.pop(name) for name in _SAID_FIRST if name in fields}
            if first:
                report = self.ledger.update(mine.id, None, **first)
            self.post.announce(report, now)
        before = report.status
        for step in steps[:-1]:
            report = self.ledger.update(mine.id, step)
            self.post.put(report, moved=True, now=now)
        if extra:
            report = self._with_extra(mine.id, extra)
        last = steps[-1] if steps else None
        if last is not None or fields or meta or notes or extra:
            report = self.ledger.update(mine.id, last, meta=meta, notes=notes or None, **fields)
            self.post.put(report, moved=report.status is not before, now=now)
        mine.report = report
        if report.status is not before:
            self._keep(mine, report)

    def _goes_on_waiting(
        self, mine: Tapped, steps: list[ToolCallStatus], fields: JsonObject
    ) -> bool:
        """Whether a change leaves a held announcement incomplete while arguments are on their way.

        Some agents report that a call runs as soon as its model writes the first argument.
        """
        report = mine.report
        assert report is not None
        status = steps[-1] if steps else report.status
        names = ("name", "kind", "content", "raw_input")
        changed = {name: fields[name] for name in names if name in fields}
        report = replace(report, status=status, **changed)
        return self._patience(mine, report) == ARGUMENTS

    def _with_extra(self, key: str, extra: JsonObject) -> ToolCallReport:
        """Add fields that Callsheet does not know: the client may know them."""
        change = CallChanged(tool_call_id=key, extra=extra)
        return cast("ToolCallReport", self.ledger.apply(change))

    def _settle(self, mine: Tapped) -> None:
        """Count a call that has ended, and release its memory."""
        if not mine.is_over:
            return
        self.calls.pop(mine.id, None)
        account = self._tap.account
        account.hidden += sum(mine.secrets.values())
        account.repaired.update(mine.repaired)
        if mine.report is not None and is_object(cut := mine.report.notes.get("truncated")):
            account.cut += 1 + len(cut.get("others", ()))
        if mine.report is not None:  # only its status is used from now on
            mine.report = replace(mine.report, content=(), raw_input=None, raw_output=None)
        mine.given, mine.items, mine.safe, mine.asked = {}, (), (), {}
        mine.whole_input, mine.diffs = None, []

    def _keep(self, mine: Tapped, report: ToolCallReport) -> None:
        keep = self._tap.keep
        is_told_again = mine.is_history or self._session.tells_history
        if keep is None or (mine.call.is_replayed and is_told_again):
            return
        size = KEEP_WHOLE if report.is_final else KEEP_LIVE
        states = [self.ledger.terminal(key) for key in terminal_ids(report)]
        records = tuple([TerminalRecord.of(state, size) for state in states if state is not None])
        keep(self._session.id, self._session.cwd or "", CallRecord(report, records))

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a report as this client is to receive it: a title of the tap's own is escaped."""
        mine = self.calls.get(report.tool_call_id)
        if mine is None or not mine.has_own_title or self._titles == "plain":
            return report
        title = self._words.escaped(report.title, report.kind, self._titles)
        return report if title == report.title else replace(report, title=title)


def _lacks_command(report: ToolCallReport) -> bool:
    """Whether the input of a shell lacks the command so far."""
    needs, given = needs_of(report.name), obj(report.raw_input)
    return bool(needs) and bool(given) and given.keys().isdisjoint(needs)


def _status(told: str | None) -> ToolCallStatus | None:
    """Return a status by its ACP value. An unknown one means that the call is running."""
    if told is None:
        return None
    try:
        return ToolCallStatus(told)
    except ValueError:
        return _RUNNING


def _steps(before: ToolCallStatus, status: ToolCallStatus | None) -> list[ToolCallStatus]:
    """Return the status changes that lead to a status, by `MOVES`; none if it can't be reached."""
    if status is None or status is before:
        return []
    if status in MOVES[before]:
        return [status]
    if _RUNNING in MOVES[before] and status in MOVES[_RUNNING]:
        return [_RUNNING, status]
    return []
