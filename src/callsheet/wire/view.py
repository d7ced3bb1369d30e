"""One peer's view of a session: what it has seen, and what it must be sent to see what is true.

A view is told of every new state of a call or a terminal, and gives the updates that bring its peer
up to date. It keeps a snapshot of what it gave out for each call that lives, and for a while of
those that ended.

Three kinds, by what the peer understands: `V2View`; `V1TerminalView` for v1 clients that show live
terminals out of `_meta` (they say so: `clientCapabilities._meta.terminal_output`); `V1TextView` for
all others.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable
from operator import attrgetter, is_
from typing import Literal, Protocol

from msgspec.structs import replace

from callsheet.report.content import TerminalContent, TextContent, ToolCallContent
from callsheet.report.fields import NOTES
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminals import TerminalState
from callsheet.report.values import EMPTY, JsonObject

from . import terminals, v1, v2
from .messages import Update, with_meta
from .toolcall import patch_of

KEEP_ENDED = 256
"""Calls that have ended and are still remembered."""

KEEP_TERMINALS = 512
"""Terminals that are remembered: those that had news last. More than a ledger keeps."""


class View(Protocol):
    """What all views have."""

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state."""
        ...

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        ...

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call as this peer can see it."""
        ...


def view_for(ledger: Ledger, version: int, *, terminals: Literal["meta", "text"] = "text") -> View:
    """Give the view of a peer that speaks ACP `version`.

    `terminals` says how a v1 client is shown live terminals: out of `_meta`, or as text.
    """
    if version == 2:
        return V2View()
    return V1TerminalView(ledger) if terminals == "meta" else V1TextView(ledger)


class V2View:
    """The view of a peer that speaks ACP v2."""

    def __init__(self) -> None:
        self._calls: _SeenCalls = _SeenCalls()
        self._terminals: dict[str, _SeenTerminal] = {}

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state."""
        updates = v2.encode(report, self._calls.get(report.tool_call_id))
        self._calls.put(report)
        return updates

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        is_new = state.terminal_id not in self._terminals
        seen = _recall(self._terminals, state)
        facts = terminals.encode_facts(state)
        patch = patch_of(seen.facts, facts)
        if meta := patch_of(seen.meta, state.meta):
            patch["_meta"] = meta
        data = state.since(seen.mark)
        if state.epoch != seen.mark[0]:
            patch["output"] = terminals.encode_output(data)
            data = b""
        chunks: list[Update] = [terminals.encode_chunk(state.terminal_id, data)] if data else []
        seen.take(state, facts)
        if patch or (is_new and not chunks):
            chunks.append(terminals.encode_update(state.terminal_id, patch))
        return chunks

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call as it is: v2 can show it all."""
        return report


class V1TerminalView:
    """The view of a v1 client that shows live terminals out of `_meta`.

    A terminal's news travel with an update of a call that shows it, so they wait until there is
    one. A terminal that the ledger doesn't know is the client's own, and needs no news.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Ledger = ledger
        self._calls: _SeenCalls = _SeenCalls()
        self._terminals: dict[str, _SeenTerminal] = {}

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state, with the news of its terminals."""
        seen = self._calls.get(report.tool_call_id)
        news = self._news_of(report)
        if seen is None and report.is_final and len(news) > 1:
            seen = _as_running(report)  # each update carries one terminal, and none follows the end
            opened: list[Update] = [with_meta(v1.announce(seen), news.pop(0))]
            self._calls.put(seen)
        else:
            opened = []
        updates = self._calls.updates(report)
        carriers = [_carrier(report.tool_call_id, meta) for meta in news]
        if not (updates and carriers):
            return [*opened, *carriers, *updates]
        if seen is None:
            return [with_meta(updates[0], news[0]), *carriers[1:]]
        return [*opened, *carriers[:-1], with_meta(updates[0], news[-1])]

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call as it is: this client shows terminals."""
        return report

    def _news_of(self, report: ToolCallReport) -> list[JsonObject]:
        news: list[JsonObject] = []
        for state in _terminals_of(report, self._ledger):
            meta = self._news(state)
            self._terminals[state.terminal_id].hold(report)
            if meta:
                news.append(meta)
        return news

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = _living(seen.holder if seen else None, self._ledger)
        meta = self._news(state) if holder else EMPTY
        return [_carrier(holder.tool_call_id, meta)] if holder and meta else []

    def _news(self, state: TerminalState) -> JsonObject:
        is_new = state.terminal_id not in self._terminals
        seen = _recall(self._terminals, state)
        meta: JsonObject = {}
        if is_new:
            meta[terminals.INFO] = {"terminal_id": state.terminal_id}
            if state.cwd is not None:
                meta[terminals.INFO]["cwd"] = seen.facts["cwd"] = state.cwd
        meta.update(terminals.encode_v1_facts(state, seen.facts, seen.meta))
        replaced = state.epoch != seen.mark[0]
        if replaced:
            seen.decoder.reset()
            more = meta.get(terminals.MORE, {"terminalId": state.terminal_id})
            meta[terminals.MORE] = {**more, "replaced": True}
        text = seen.decoder.decode(state.since(seen.mark), state.exit_status is not None)
        if text or replaced:
            data = terminals.CLEAR_SCREEN + text if replaced else text
            meta[terminals.OUTPUT] = {"terminal_id": state.terminal_id, "data": data}
        seen.take(state, terminals.encode_facts(state))
        return meta


class V1TextView:
    """The view of a v1 client that knows no live terminals: their output is shown as text.

    v1 replaces content as a whole. So that N bytes of output don't cost N² on the wire, the text is
    sent again only when there is twice as much as last time, when the terminal exits, and when the
    call ends.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Ledger = ledger
        self._calls: _SeenCalls = _SeenCalls()
        self._terminals: dict[str, _SeenTerminal] = {}

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state, its terminals shown as text."""
        return self._calls.updates(self.shown(report))

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call with its terminals as text."""
        for item in report.content:
            if type(item) is TerminalContent:
                return self._show(report)
        return report

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = _living(seen.holder if seen else None, self._ledger)
        return self.call(holder) if holder and seen and seen.is_stale(state) else []

    def _show(self, report: ToolCallReport) -> ToolCallReport:
        for state in _terminals_of(report, self._ledger):
            is_new = state.terminal_id not in self._terminals
            seen = _recall(self._terminals, state)
            seen.hold(report)
            if is_new or report.is_final or seen.is_stale(state):
                seen.text = TextContent(terminals.render_text(state))
                seen.take(state, terminals.encode_facts(state))
        return replace(report, content=tuple(map(self._as_text, report.content)))

    def _as_text(self, item: ToolCallContent) -> ToolCallContent:
        if isinstance(item, TerminalContent) and item.terminal_id in self._terminals:
            return self._terminals[item.terminal_id].text or item
        return item


class _SeenCalls:
    """The calls that a peer has seen, as it has seen them.

    v1 replaces content as a whole. A long list that only grows is sent again when it has doubled, or
    when anything else changes: so N items cost a constant times N on the wire, and not N².
    """

    LONG = 16

    def __init__(self) -> None:
        self._reports: dict[str, ToolCallReport] = {}
        self._ended: deque[str] = deque()
        self.get: Callable[[str], ToolCallReport | None] = self._reports.get

    def updates(self, report: ToolCallReport) -> list[Update]:
        """Give v1's updates for a call's new state."""
        seen = self._reports.get(report.tool_call_id)
        if seen is not None and len(seen.content) >= self.LONG and self._can_wait(report, seen):
            return []
        self.put(report)
        return v1.encode(report, seen)

    def _can_wait(self, report: ToolCallReport, seen: ToolCallReport) -> bool:
        now, before = report.content, seen.content
        return (
            len(before) <= len(now) < 2 * len(before)
            and all(map(is_, now, before))
            and _BESIDE_CONTENT(report) == _BESIDE_CONTENT(seen)
        )

    def put(self, report: ToolCallReport) -> None:
        self._reports[report.tool_call_id] = report
        if report.status.is_final:
            self._ended.append(report.tool_call_id)
            if len(self._ended) > KEEP_ENDED:
                self._reports.pop(self._ended.popleft(), None)


_BESIDE_CONTENT = attrgetter(*(f for f in ToolCallReport.__struct_fields__ if f != "content"))


class _SeenTerminal:
    """A terminal as a peer has seen it: first, nothing of it."""

    def __init__(self, epoch: int) -> None:
        self.mark: tuple[int, int] = (epoch, 0)
        self.facts: JsonObject = {}
        self.meta: JsonObject = EMPTY
        self.decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.holder: str | None = None
        self.text: TextContent | None = None

    def hold(self, report: ToolCallReport) -> None:
        """Note the call that shows it: the latest that lives."""
        if self.holder is None or not report.is_final:
            self.holder = report.tool_call_id

    def is_stale(self, state: TerminalState) -> bool:
        """Whether there is so much news that a text of it is worth sending again."""
        epoch, total = self.mark
        exited = "exitStatus" in self.facts
        return (
            state.epoch != epoch
            or (state.exit_status is not None) != exited
            or state.total >= 2 * total > 0
            or (total == 0 and state.total > 0)
        )

    def take(self, state: TerminalState, facts: JsonObject) -> None:
        self.mark, self.facts, self.meta = state.mark, facts, state.meta


def _recall(seen: dict[str, _SeenTerminal], state: TerminalState) -> _SeenTerminal:
    """Give what was seen of a terminal, and forget the one that had no news for longest."""
    found = seen.pop(state.terminal_id, None) or _SeenTerminal(state.epoch)
    seen[state.terminal_id] = found
    if len(seen) > KEEP_TERMINALS:
        del seen[next(iter(seen))]
    return found


def _as_running(report: ToolCallReport) -> ToolCallReport:
    """Give a call as it must have been before it ended."""
    notes = {key: value for key, value in report.notes.items() if key != "reason"}
    meta = {**report.meta, NOTES: notes}
    return replace(report, status=ToolCallStatus.IN_PROGRESS, meta=meta)


def _terminals_of(report: ToolCallReport, ledger: Ledger) -> list[TerminalState]:
    ids = [item.terminal_id for item in report.content if type(item) is TerminalContent]
    return [state for terminal_id in ids if (state := ledger.terminal(terminal_id))]


def _living(tool_call_id: str | None, ledger: Ledger) -> ToolCallReport | None:
    found = ledger.get(tool_call_id) if tool_call_id else None
    return found if isinstance(found, ToolCallReport) and not found.is_final else None


def _carrier(tool_call_id: str, meta: JsonObject) -> JsonObject:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, "_meta": meta}
