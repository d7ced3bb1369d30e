"""The tap's own reports of one session's calls: opened, changed, ended, and sent to the client.

The ledger validates each status change. A status that can't be reached from the current one is ignored;
a step that the agent skipped is inserted.
"""

from __future__ import annotations

import sys
from typing import Literal, cast

from msgspec import Struct
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
from callsheet.tap.context import Context, Ids, TappedCall, own_notes
from callsheet.tap.hold import ANNOUNCEMENT, ARGUMENTS, Waits
from callsheet.tap.outbox import Outbox
from callsheet.tap.permissions import was_never_allowed
from callsheet.tap.render import Renderer
from callsheet.tap.repair.draft import CallDraft

KEEP = 32
"""Calls that have ended and are still known: nothing of them is sent any more."""

_SENT_FIRST = ("name", "title", "kind", "locations", "raw_input")
_AWAITED = ("name", "kind", "content", "raw_input")
_RUNNING = ToolCallStatus.IN_PROGRESS


class ReportChange(Struct):
    """What changes of a report, by its own names: fields that are safe and bounded, and unknown ones."""

    status: ToolCallStatus | None
    fields: JsonObject
    notes: JsonObject
    extra: JsonObject | None


class Reports:
    """The reports of one session's calls. `calls` are those that are open, by our ids."""

    def __init__(
        self,
        session: ObservedSession,
        peer: Peer,
        tap: Context,
        sanitizer: Sanitizer,
        phrases: LocalPhrases,
        waits: Waits,
    ) -> None:
        self.calls: dict[str, TappedCall] = {}
        self.ids: Ids = tap.ids(session.id)
        self.renderer: Renderer = Renderer(sanitizer, peer.version)
        self.ledger: Ledger = Ledger(session.id, lambda: self.ids.new("call"), keep_reports=KEEP)
        self._session: ObservedSession = session
        self._tap: Context = tap
        self._phrases: LocalPhrases = phrases
        self._titles: Literal["markdown", "plain", "either"] = peer.titles
        frames = UpdateFrames(session.id, budget=sanitizer.frame or sys.maxsize)
        view = view_for(replace(peer, titles="plain"), self.ledger.terminal, phrases)
        self.outbox: Outbox = Outbox(view, frames, self._send, self.shown, waits)

    def _send(self, line: bytes) -> None:
        self._tap.account.sent += len(line)
        self._tap.send(line)

    def become(self, mine: TappedCall, draft: CallDraft, now: float) -> None:
        """Bring a call's report up to date with a draft."""
        fields = self.renderer.fields(mine, draft)
        mine.draft = draft
        self.change(mine, draft, fields, now)

    def change(self, mine: TappedCall, draft: CallDraft, fields: JsonObject, now: float) -> None:
        """Change a call's report: its status, `_meta` and unknown fields by a draft, and these fields."""
        status = _status(draft.status)
        is_final = status is not None and status.is_final
        notes = self._ending(mine, status, draft, now) if is_final else {}
        meta, extra = self.renderer.meta(draft.meta), self.renderer.meta(draft.extra)
        if meta is not None and obj(meta.get("callsheet")):
            # What an agent that uses Callsheet reports itself is better than what a tap can find out.
            notes |= own_notes(meta.pop("callsheet"), self.ids, status, mine.id)
        changes = self.renderer.bounded(mine, fields, notes, is_final=is_final)
        if meta:
            changes["meta"] = meta
        change = ReportChange(status, changes, notes, extra)
        if mine.report is None:
            self._open(mine, change, now)
        else:
            self._update(mine, mine.report, change, now)
        if mine.is_over:
            self._count(mine)

    def _ending(
        self, mine: TappedCall, status: ToolCallStatus | None, draft: CallDraft, now: float
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
        if not self._tap.has_times:
            return notes
        if not was_never_allowed(mine.call):
            began = mine.began if mine.ran is None else mine.ran
            notes["durationMs"] = max(0, round((now - began) * 1000))
        elif mine.report is not None and "startedAt" in mine.report.notes:
            # It has not run, though the agent reported so before it asked.
            notes["startedAt"] = None
        return notes

    def _open(self, mine: TappedCall, change: ReportChange, now: float) -> None:
        if mine.id != mine.call.id:
            change.notes["alias"] = mine.call.id
        status = change.status or ToolCallStatus.PENDING
        self._note_start(mine, status, change.notes, now)
        fields: JsonObject = {"name": "", **change.fields}
        report = self.ledger.open(**fields, status=status, notes=change.notes, tool_call_id=mine.id)
        if change.extra and not report.is_final:
            report = self._with_extra(mine.id, change.extra)
        mine.report = report
        if patience := self._patience(mine, report):
            self.outbox.hold(report, now, patience)
        else:
            self.outbox.open(report, now)
        self._store(mine, report)

    def _note_start(
        self, mine: TappedCall, status: ToolCallStatus, notes: JsonObject, now: float
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

    def _patience(self, mine: TappedCall, report: ToolCallReport) -> float:
        """Return how long an announcement may wait for its input, or the main part of it; 0 if not at all."""
        if report.is_final or mine.call.is_replayed:
            return 0
        if report.raw_input:
            lacks = report.kind is ToolKind.EXECUTE and _lacks_command(report)
        else:
            lacks = report.kind is not ToolKind.THINK
        is_coming = mine.draft.is_streaming or report.status is ToolCallStatus.PENDING
        return 0 if not lacks else ARGUMENTS if is_coming and not report.content else ANNOUNCEMENT

    def _update(
        self, mine: TappedCall, report: ToolCallReport, change: ReportChange, now: float
    ) -> None:
        before, steps = report.status, _steps(report.status, change.status)
        changes, extra = change.fields, change.extra
        if steps:
            self._note_start(mine, steps[-1], change.notes, now)
        if change.notes:
            changes["notes"] = change.notes
        if not (steps or changes or extra):
            return  # nothing is new in it
        _add_decision(mine, changes)
        is_held = self.outbox.held(mine.id)
        if is_held:
            # Some agents report that a call runs as soon as its model writes the first argument.
            shown = {name: changes[name] for name in _AWAITED if name in changes}
            status = steps[-1] if steps else before
            is_held = self._patience(mine, replace(report, status=status, **shown)) == ARGUMENTS
            if not is_held:
                first = {name: changes.pop(name) for name in _SENT_FIRST if name in changes}
                report = self.ledger.update(mine.id, None, **first) if first else report
                self.outbox.announce(report, now)
        for step in steps[:-1]:
            report = self.ledger.update(mine.id, step)
            if not is_held:
                self.outbox.put(report, moved=True, now=now)
        if extra:
            report = self._with_extra(mine.id, extra)
        report = self.ledger.update(mine.id, steps[-1] if steps else None, **changes)
        if not is_held:
            self.outbox.put(report, moved=report.status is not before, now=now)
        mine.report = report
        if is_held:
            self.outbox.hold(report, now, ARGUMENTS)
        elif report.status is not before:
            self._store(mine, report)

    def _with_extra(self, key: str, extra: JsonObject) -> ToolCallReport:
        """Add fields that Callsheet does not know: the client may know them."""
        change = CallChanged(tool_call_id=key, extra=extra)
        return cast("ToolCallReport", self.ledger.apply(change))

    def _count(self, mine: TappedCall) -> None:
        """Count a call that has ended."""
        self.calls.pop(mine.id, None)
        account = self._tap.account
        account.hidden += sum(mine.secrets.values())
        account.repaired.update(mine.repaired)
        if mine.report is not None and is_object(cut := mine.report.notes.get("truncated")):
            account.cut += 1 + len(cut.get("others", ()))

    def _store(self, mine: TappedCall, report: ToolCallReport) -> None:
        """Store a call in the history, if there is one. What a replay shows again is stored already."""
        is_shown_again = mine.is_history or self._session.shows_history
        if self._tap.store is None or (mine.call.is_replayed and is_shown_again):
            return
        size = KEEP_WHOLE if report.is_final else KEEP_LIVE
        states = [self.ledger.terminal(key) for key in terminal_ids(report)]
        records = tuple([TerminalRecord.of(state, size) for state in states if state is not None])
        self._tap.store(self._session.id, self._session.cwd or "", CallRecord(report, records))

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a report as this client is to receive it: a title of the tap's own is escaped."""
        mine = self.calls.get(report.tool_call_id)
        if mine is None or not mine.draft.has_own_title or self._titles == "plain":
            return report
        title = self._phrases.escaped(report.title, report.kind, self._titles)
        return report if title == report.title else replace(report, title=title)


def _lacks_command(report: ToolCallReport) -> bool:
    """Whether the input of a shell lacks the command so far."""
    needs, arguments = needs_of(report.name), obj(report.raw_input)
    return bool(needs) and bool(arguments) and arguments.keys().isdisjoint(needs)


def _add_decision(mine: TappedCall, changes: JsonObject) -> None:
    """Let a change take along how the call was approved."""
    if mine.decision:
        changes["notes"] = {"permission": mine.decision, **changes.get("notes", {})}
        mine.decision = {}


def _status(reported: str | None) -> ToolCallStatus | None:
    """Return a status by its ACP value. An unknown one means that the call is running."""
    if reported is None:
        return None
    try:
        return ToolCallStatus(reported)
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
