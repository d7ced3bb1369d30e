"""The views of peers that speak ACP v1.

v1 has no agents' terminals. They are shown as text (`V1TextView`), which is part of the call's
content and so is sent again, and paid for, whenever it grows; or, if the client declares that it
understands them, as keys in `_meta` (`V1TerminalView`), which append.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import json
from msgspec.structs import replace

from callsheet.acp import terminals, v1
from callsheet.acp.codec import ToolCall, ToolCallUpdate, Update, with_meta
from callsheet.acp.resend_budget import ENVELOPE, LIVE_TEXT, ResendBudget, size_of
from callsheet.acp.terminal_text import TEXT_LIMIT, render_text
from callsheet.acp.views.base import CHUNK, SeenCall, SeenTerminal, View
from callsheet.report.content import TerminalContent, TextContent, ToolCallContent
from callsheet.report.fields import NOTES
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import TerminalState

MOST_TEXT = 24 * 1024
"""Bytes on the wire of a terminal's text, and of what stands beside it."""

SMALL = 1024
SHORTEST_TEXT = 128
"""Bytes of a terminal's text below which showing it is not worth an update."""


class V1TextView(View):
    """The view of a v1 client that knows no live terminals: their output is shown as text."""

    def terminal(self, state: TerminalState) -> list[Update]:
        """Return the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = self._holder(seen) if seen else None
        if holder is None or seen is None or not self._shows(holder, state):
            return []
        return self.call(holder) if seen.is_stale(state) else []

    def least(self, report: ToolCallReport) -> Update:
        """Return the smallest update that reports a call's status."""
        status = v1.STATUS[report.status]
        if report.status is ToolCallStatus.PENDING:
            return ToolCall(report.tool_call_id, "…", "other", status)
        return ToolCallUpdate(report.tool_call_id, status)

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a call with its terminals as text, as far as they were rendered."""
        report = super().shown(report)
        for item in report.content:
            if type(item) is TerminalContent:
                content = [shown for item in report.content if (shown := self._as_text(item))]
                return replace(report, content=tuple(content))
        return report

    def call(self, report: ToolCallReport, *, extra: int = 0) -> list[Update]:
        """Return the updates for a call's new state, with its terminals as text."""
        key, shown, texts = report.tool_call_id, report, 0
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = SeenCall(report)
        before = call.shown
        for item in report.content:
            if type(item) is TerminalContent:
                texts = self._render(report, call.budget, extra)
                shown = self.shown(report)
                break
        else:
            if not self.as_it_is or "progress" in (report.meta.get(NOTES) or EMPTY):
                shown = self.shown(report)
        if report.status.is_final:
            self._end(key)
        elif before is not None and shown.content is not before.content:
            seen = before.content
            shown = self._affordable(call.budget, shown, seen, report, extra, texts)
        call.shown, call.given = shown, report
        change = v1.announce(shown) if before is None else v1.update(shown, before)
        return [] if change is None else [change]

    def _render(self, report: ToolCallReport, budget: ResendBudget, extra: int) -> int:
        """Make new texts of the terminals that have news, as large as can be paid for. Return their size."""
        budget.note(report.content)
        size = 0
        for state in self._terminals_of(report):
            seen = self._terminals.recall(state)
            seen.hold(report)
            if seen.is_live:
                continue
            budget.tokens += seen.earn(state)
            final = report.status.is_final
            limit = TEXT_LIMIT if final else min(LIVE_TEXT, max(state.total, SHORTEST_TEXT))
            if seen.text is None or final or seen.is_stale(state):
                cost = ENVELOPE + budget.size + limit
                if seen.text is None or final or cost <= budget.tokens + extra:
                    room = MOST_TEXT - budget.size if final else LIVE_TEXT
                    seen.text = self._text(state, limit, room)
                    seen.take(state, terminals.encode_facts(state))
                else:
                    self.held[report.tool_call_id] = True
            size += size_of([seen.text])
        return size

    def _text(self, state: TerminalState, limit: int, room: int) -> TextContent:
        """Return the text of a terminal that takes about `room` bytes on the wire at most."""
        limit, room = max(limit, SHORTEST_TEXT), max(room, LIVE_TEXT)
        text = render_text(state, limit, self._words)
        while len(text) * 6 > room and limit > SHORTEST_TEXT:
            size = len(json.encode(text))
            if size <= room:
                break
            limit = max(SHORTEST_TEXT, limit * room // (size + 1) - 64)
            text = render_text(state, limit, self._words)
        return TextContent(text)

    def _as_text(self, item: ToolCallContent) -> ToolCallContent | None:
        """Return an item, a terminal as its text; nothing for one that has put out nothing."""
        if type(item) is not TerminalContent:
            return item
        state, seen = self._terminal_of(item.terminal_id), self._terminals.get(item.terminal_id)
        if state is None or (seen is not None and seen.is_live):
            return item
        if not state.total:
            return None
        return (seen and seen.text) or TextContent(render_text(state, words=self._words))

    def _holder(self, seen: SeenTerminal) -> ToolCallReport | None:
        """Return the live call that shows a terminal, as it is now."""
        call = self._calls.get(seen.holder) if seen.holder is not None else None
        return None if call is None or call.given.status.is_final else call.given

    def _shows(self, report: ToolCallReport, state: TerminalState) -> bool:
        return any(
            type(item) is TerminalContent and item.terminal_id == state.terminal_id
            for item in report.content
        )


class V1TerminalView(V1TextView):
    """The view of a v1 client that shows live terminals out of `_meta`.

    Such clients learn of a terminal from the announcement of the call that shows it, and of its
    output from later updates. So a terminal that comes later, or a second one, is shown as text. A
    terminal that nobody here knows is the client's own, and needs no news.
    """

    def call(self, report: ToolCallReport, *, extra: int = 0) -> list[Update]:
        """Return the updates for a call's new state, with the news of its terminals."""
        if extra:  # content that was held back; the terminals have no news
            return super().call(report, extra=extra)
        states = self._terminals_of(report) if report.content else []
        if states and report.tool_call_id not in self._calls:
            return self._announce(report, states[0])
        ended = report.status.is_final
        news = [
            meta for state in states if ended or self._is_new(state) for meta in self._news(state)
        ]
        updates = super().call(report)
        carriers = [_carrier(report.tool_call_id, meta) for meta in news]
        if ended and updates and carriers and _is_small(news[-1]):
            return [*carriers[:-1], with_meta(updates[0], news[-1])]
        return [*carriers, *updates] if ended else [*updates, *carriers]

    def terminal(self, state: TerminalState) -> list[Update]:
        """Return the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = self._holder(seen) if seen else None
        if holder is None or seen is None:
            return []
        if not seen.is_live:
            return super().terminal(state)
        if state.shown_as and self._peer.owns_terminals:
            return []
        return [_carrier(holder.tool_call_id, meta) for meta in self._news(state)]

    def _announce(self, report: ToolCallReport, state: TerminalState) -> list[Update]:
        """Announce a call with its terminal. What that has put out comes later, and before the call's end."""
        seen = self._terminals.recall(state)
        seen.is_live = True
        info: JsonObject = {"terminal_id": state.terminal_id}
        if state.cwd is not None:
            info["cwd"] = seen.facts["cwd"] = state.cwd
        ended = report.status.is_final
        (announced,) = super().call(_as_running(report) if ended else report)
        updates = [with_meta(announced, {terminals.INFO: info})]
        if ended:
            updates += [_carrier(report.tool_call_id, meta) for meta in self._news(state)]
            updates += super().call(report)
        seen.hold(report)
        return updates

    def _is_new(self, state: TerminalState) -> bool:
        """Whether a terminal has put out something that was not sent; its facts alone can wait."""
        return self._terminals.recall(state).mark != state.mark

    def _news(self, state: TerminalState) -> list[JsonObject]:
        seen = self._terminals.recall(state)
        if not seen.is_live:
            return []
        facts = terminals.encode_v1_facts(state, seen.facts, seen.meta)
        replaced = state.epoch != seen.mark[0]
        if replaced:
            seen.decoder.reset()
            more = facts.get(terminals.MORE, {"terminalId": state.terminal_id})
            facts[terminals.MORE] = {**more, "replaced": True}
        text = seen.decoder.decode(self._data_since(state, seen), state.exit_status is not None)
        seen.take(state, terminals.encode_facts(state))
        if replaced:
            text = terminals.CLEAR_SCREEN + text
        chunks = [text] if replaced else list(_chunks(text))
        outputs = [
            {terminals.OUTPUT: {"terminal_id": state.terminal_id, "data": chunk}}
            for chunk in chunks
        ]
        if not outputs:
            return [facts] if facts else []
        outputs[-1] = {**outputs[-1], **facts}  # it exits after its output
        return outputs


def _chunks(text: str) -> Iterator[str]:
    """Cut text into pieces that are small enough for a line, also when they are escaped."""
    size = CHUNK // 2
    for begin in range(0, len(text), size):
        piece = text[begin : begin + size]
        if (piece.isascii() and piece.isprintable()) or len(json.encode(piece)) <= CHUNK:
            yield piece
        else:
            yield from (piece[i : i + size // 8] for i in range(0, len(piece), size // 8))


def _is_small(meta: JsonObject) -> bool:
    """Whether `meta` is small enough to travel with an update that is large itself."""
    return len(meta.get(terminals.OUTPUT, {}).get("data", "")) <= SMALL


def _as_running(report: ToolCallReport) -> ToolCallReport:
    """Return a call as it must have been before it ended."""
    notes = {key: value for key, value in report.notes.items() if key != "reason"}
    meta = {**report.meta, NOTES: notes}
    return replace(report, status=ToolCallStatus.IN_PROGRESS, meta=meta)


def _carrier(tool_call_id: str, meta: JsonObject) -> JsonObject:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, "_meta": meta}
