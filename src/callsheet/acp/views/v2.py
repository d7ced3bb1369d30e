"""The view of a peer that speaks ACP v2, which can express everything that a report can.

Terminals have updates of their own. A terminal is opened before the call that shows it, its output
follows that call's updates, and its end comes before the call's end.
"""

from __future__ import annotations

from callsheet.acp import terminals, v2
from callsheet.acp.codec import ToolCallUpdate, Update, as_dict, patch_of
from callsheet.acp.views.base import CHUNK, SeenCall, View
from callsheet.report.json import JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState


class V2View(View):
    """The view of a peer that speaks ACP v2."""

    def call(self, report: ToolCallReport, *, extra: int = 0) -> list[Update]:
        """Return the updates for a new state: terminals are opened before it, and end before its end."""
        states = self._terminals_of(report) if report.content else ()
        opened: list[Update] = []
        news: list[Update] = []
        for state in states:
            if state.terminal_id not in self._terminals:
                opened.append(self._open(state))
            news += self.terminal(state)
            self._terminals.recall(state).hold(report)
        updates = self._changes(report, extra)
        if report.status.is_final:
            return [*opened, *news, *updates]
        return [*opened, *updates, *news]

    def _changes(self, report: ToolCallReport, extra: int) -> list[Update]:
        """Return the updates of the call itself; content that would be sent again as a whole may wait."""
        key, shown, final = report.tool_call_id, self.shown(report), report.status.is_final
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = SeenCall(report)
        before = call.shown
        if before is None:
            updates = [v2.announce(shown)]
        else:
            added = v2.grown(before.content, shown.content)
            if not (added or final or shown.content is before.content):
                shown = self._affordable(call.budget, shown, before.content, report, extra)
            updates = v2.changes(shown, before, added)
        if self._peer.cancels and updates:
            updates[-1] = _with_controls(updates[-1], report, is_new=before is None)
        call.shown, call.given = shown, report
        if final:
            self._end(key)
        return updates

    def least(self, report: ToolCallReport) -> Update:
        """Return the smallest update that reports a call's status."""
        return ToolCallUpdate(report.tool_call_id, report.status.value)

    def _open(self, state: TerminalState) -> Update:
        seen = self._terminals.recall(state)
        facts = terminals.encode_facts(state)
        facts.pop("exitStatus", None)
        patch = {**facts, "_meta": state.meta} if state.meta else facts
        seen.facts, seen.meta = facts, state.meta
        return terminals.encode_update(state.terminal_id, patch)

    def terminal(self, state: TerminalState) -> list[Update]:
        """Return the updates for a terminal's new state."""
        is_new = state.terminal_id not in self._terminals
        seen = self._terminals.recall(state)
        facts = terminals.encode_facts(state)
        patch = patch_of(seen.facts, facts)
        if meta := patch_of(seen.meta, state.meta):
            patch["_meta"] = meta
        data = self._data_since(state, seen)
        if state.epoch != seen.mark[0]:
            patch["output"] = terminals.encode_output(data)
            data = b""
        chunks: list[Update] = [
            terminals.encode_chunk(state.terminal_id, data[begin : begin + CHUNK])
            for begin in range(0, len(data), CHUNK)
        ]
        seen.take(state, facts)
        if patch or (is_new and not chunks):
            chunks.append(terminals.encode_update(state.terminal_id, patch))
        return chunks


def _with_controls(update: Update, report: ToolCallReport, *, is_new: bool) -> Update:
    """Add that a call can be cancelled when it is announced, and that it can no more when it has ended."""
    ended = report.status.is_final
    if is_new is ended:
        return update
    controls: JsonObject | None = None if ended else {"cancel": {}}
    if isinstance(update, ToolCallUpdate):
        update.capabilities = controls
        return update
    return {**as_dict(update), "capabilities": controls}
