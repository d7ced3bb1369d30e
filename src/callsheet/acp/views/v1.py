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
from callsheet.acp.resend_budget import ENVELOPE, LIVE_TEXT, size_of
from callsheet.acp.terminal_text import TEXT_LIMIT, render_text
from callsheet.acp.views.base import CHUNK, SeenTerminal, View
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

    def call(
        self, report: ToolCallReport, *, output: bool = True, extra: int | None = None
    ) -> list[Update]:
        """Return the updates for a call's new state, with its terminals as text."""
        content, size = report.content, 0
        for item in content:
            if type(item) is TerminalContent:
                if not output:
                    return self._changes(self._without_news(report), report, 0, extra or 0)
                size = self._render(report, extra or 0)
                break
        else:
            if self._as_it_is and "progress" not in (report.meta.get(NOTES) or EMPTY):
                return self._changes(report, report, 0, extra or 0)  # nearly always
        return self._changes(self.shown(report), report, size, extra or 0)

    def _without_news(self, report: ToolCallReport) -> ToolCallReport:
        """Return a call as it is shown while its output waits: with the content that was seen."""
        seen = self._calls.get(report.tool_call_id)
        shown = super().shown(report)
        return replace(shown, content=seen.content if seen else ())

    def _changes(
        self, shown: ToolCallReport, given: ToolCallReport, texts: int, extra: int
    ) -> list[Update]:
        """Return v1's updates for a call's new state; what can't be paid for waits."""
        calls = self._calls
        seen = calls.get(shown.tool_call_id)
        final = shown.status.is_final
        if seen is None:
            if not final:
                calls.given[shown.tool_call_id] = given
            calls.put(shown)
            return [v1.announce(shown)]
        if not final:
            calls.given[shown.tool_call_id] = given
            if shown.content is not seen.content:
                shown = self._affordable(shown, seen, given, extra, texts)
        calls.put(shown)
        change = v1.update(shown, seen)
        return [] if change is None else [change]

    def _render(self, report: ToolCallReport, extra: int) -> int:
        """Make new texts of the terminals that have news, as large as can be paid for. Return their size."""
        budget = self._calls.budget(report.tool_call_id)
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
                    self._calls.held[report.tool_call_id] = True
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
        return self._calls.given.get(seen.holder) if seen.holder is not None else None

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

    def call(
        self, report: ToolCallReport, *, output: bool = True, extra: int | None = None
    ) -> list[Update]:
        """Return the updates for a call's new state, with the news of its terminals."""
        if extra is not None:  # content that was held back; the terminals have no news
            return super().call(report, extra=extra)
        is_new = self._calls.get(report.tool_call_id) is None
        states = self._terminals_of(report) if report.content else []
        if is_new and states:
            return self._announce(report, states[0], output)
        live = any(self._terminals.recall(state).is_live for state in states)
        news = [meta for state in states for meta in self._news(state)] if output else []
        updates = super().call(report, output=output or live)
        carriers = [_carrier(report.tool_call_id, meta) for meta in news]
        if report.status.is_final and updates and carriers and _is_small(news[-1]):
            return [*carriers[:-1], with_meta(updates[0], news[-1])]
        return [*carriers, *updates] if report.status.is_final else [*updates, *carriers]

    def terminal(self, state: TerminalState) -> list[Update]:
        """Return the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = self._holder(seen) if seen else None
        if holder is None or seen is None:
            return []
        if not seen.is_live:
            return super().terminal(state)
        return [_carrier(holder.tool_call_id, meta) for meta in self._news(state)]

    def _announce(self, report: ToolCallReport, state: TerminalState, output: bool) -> list[Update]:
        """Announce a call with its terminal. What that has put out follows, before the call's end."""
        seen = self._terminals.recall(state)
        seen.is_live = True
        info: JsonObject = {"terminal_id": state.terminal_id}
        if state.cwd is not None:
            info["cwd"] = seen.facts["cwd"] = state.cwd
        first = _as_running(report) if report.status.is_final else report
        (announced,) = super().call(first)
        metas = self._news(state) if output else []
        news = [_carrier(report.tool_call_id, meta) for meta in metas]
        end = super().call(report) if first is not report else []
        seen.hold(report)
        return [with_meta(announced, {terminals.INFO: info}), *news, *end]

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
