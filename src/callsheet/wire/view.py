"""One peer's view of a session: what it has seen, and what it must be sent to see what is true.

A view is told of new states of calls and terminals, and gives the updates that bring its peer up to
date. It has no clock: how often to ask it is for others to say. A v1 view may hold back content
that it would have to send again too often (see `seen`); ask it later, or at the call's end, and it
comes.

Three kinds, by what the peer understands: `V2View`; `V1TerminalView` for v1 clients that show live
terminals out of `_meta` (they say so: `clientCapabilities._meta.terminal_output`); `V1TextView` for
all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from callsheet.report.content import TerminalContent, TextContent, ToolCallContent
from callsheet.report.fields import NOTES
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminals import TerminalState
from callsheet.report.values import JsonObject

from . import terminals, v1, v2
from .messages import Update, with_meta
from .peer import Peer
from .plaintext import TEXT_LIMIT, render_text
from .seen import ENVELOPE, SHARE, SeenCalls, SeenTerminal, SeenTerminals, size_of
from .shown import shown_to
from .toolcall import patch_of
from .words import ENGLISH, Words

TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Gives the state of an agent's terminal. One that it doesn't know is the client's own."""

CHUNK = 32 * 1024
"""Bytes of terminal output in one update at most: some clients die on a line over 64 KB."""

SHORTEST_TEXT = 512
"""Bytes of a terminal's text below which showing it is not worth an update."""


class View(Protocol):
    """What all views have. `left_out` counts the bytes of output that came too fast for the peer."""

    left_out: int

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state, and for the terminals that it shows."""
        ...

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        ...

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call as this peer can see it."""
        ...


def view_for(peer: Peer, terminal_of: TerminalOf, words: Words = ENGLISH) -> View:
    """Give the view of a peer that has seen nothing yet."""
    if peer.version == 2:
        return V2View(peer, terminal_of, words)
    return (V1TerminalView if peer.terminals == "meta" else V1TextView)(peer, terminal_of, words)


class _View:
    def __init__(self, peer: Peer, terminal_of: TerminalOf, words: Words = ENGLISH) -> None:
        self.left_out: int = 0
        self._peer: Peer = peer
        self._as_it_is: bool = not (
            peer.parent_keys or peer.owns_terminals or peer.titles == "markdown"
        )
        self._words: Words = words
        self._terminal_of: TerminalOf = terminal_of
        self._calls: SeenCalls = SeenCalls()
        self._terminals: SeenTerminals = SeenTerminals()

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call as this peer can see it."""
        if report.meta:
            report = shown_to(self._peer, report)
        if self._peer.titles == "markdown":
            title = self._words.escaped(report.title, report.kind)
            report = replace(report, title=title)
        if self._peer.owns_terminals:
            for item in report.content:
                if type(item) is TerminalContent:
                    content = tuple(map(self._as_own, report.content))
                    return replace(report, content=content)
        return report

    def _as_own(self, item: ToolCallContent) -> ToolCallContent:
        """Let a client's own terminal stand for ours, where both show the same."""
        if type(item) is not TerminalContent:
            return item
        state = self._terminal_of(item.terminal_id)
        own = state.shown_as if state else None
        return item if own is None else TerminalContent(own)

    def _terminals_of(self, report: ToolCallReport) -> list[TerminalState]:
        """Give the states of the agent's terminals that a call shows to this peer."""
        found: list[TerminalState] = []
        for item in report.content:
            if type(item) is TerminalContent:
                state = self._terminal_of(item.terminal_id)
                if state and not (state.shown_as and self._peer.owns_terminals):
                    found.append(state)
        return found

    def _data_since(self, state: TerminalState, seen: SeenTerminal) -> bytes:
        """Give the output that the peer has not seen. What is kept no more is said."""
        data, missed = state.since(seen.mark), state.missed(seen.mark)
        if not missed:
            return data
        self.left_out += missed
        return f"\r\n[… {self._words.left_out(missed)} …]\r\n".encode() + data


class V2View(_View):
    """The view of a peer that speaks ACP v2."""

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state, after those of its terminals."""
        updates: list[Update] = []
        for state in self._terminals_of(report):
            updates += self.terminal(state)
            self._terminals.recall(state).hold(report)
        report = self.shown(report)
        updates += v2.encode(report, self._calls.get(report.tool_call_id))
        self._calls.put(report)
        return updates

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
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


class V1TerminalView(_View):
    """The view of a v1 client that shows live terminals out of `_meta`.

    A terminal's news travel with an update of a call that shows it, so they wait until there is
    one. A terminal that nobody here knows is the client's own, and needs no news.
    """

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state, with the news of its terminals."""
        seen = self._calls.get(report.tool_call_id)
        news = self._news_of(report)
        shown = self.shown(report)
        if seen is None and report.is_final and len(news) > 1:
            seen = _as_running(shown)  # each update carries one terminal, and none follows the end
            opened: list[Update] = [with_meta(v1.announce(seen), news.pop(0))]
            self._calls.put(seen)
        else:
            opened = []
        updates = _changes(shown, report.content, 0, self._calls)
        carriers = [_carrier(report.tool_call_id, meta) for meta in news]
        if not (updates and carriers):
            return [*opened, *carriers, *updates]
        if seen is None:
            return [with_meta(updates[0], news[0]), *carriers[1:]]
        return [*opened, *carriers[:-1], with_meta(updates[0], news[-1])]

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = seen.holder if seen and seen.lives else None
        if holder is None:
            return []
        return [_carrier(holder.tool_call_id, meta) for meta in self._news(state)]

    def _news_of(self, report: ToolCallReport) -> list[JsonObject]:
        news: list[JsonObject] = []
        for state in self._terminals_of(report):
            news += self._news(state)
            self._terminals.recall(state).hold(report)
        return news

    def _news(self, state: TerminalState) -> list[JsonObject]:
        is_new = state.terminal_id not in self._terminals
        seen = self._terminals.recall(state)
        info: JsonObject = {}
        if is_new:
            info = {terminals.INFO: {"terminal_id": state.terminal_id}}
            if state.cwd is not None:
                info[terminals.INFO]["cwd"] = seen.facts["cwd"] = state.cwd
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
            return [{**info, **facts}] if info or facts else []
        outputs[0] = {
            **info,
            **outputs[0],
        }  # the terminal is opened before its output, and exits after
        outputs[-1] = {**outputs[-1], **facts}
        return outputs


class V1TextView(_View):
    """The view of a v1 client that knows no live terminals: their output is shown as text."""

    def call(self, report: ToolCallReport) -> list[Update]:
        """Give the updates for a call's new state, its terminals shown as text."""
        content, size = report.content, 0
        for item in content:
            if type(item) is TerminalContent:
                size = self._render(report)
                break
        if not size and self._as_it_is and "progress" not in report.notes:
            return _changes(report, content, size, self._calls)  # nearly always
        return _changes(self.shown(report), content, size, self._calls)

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a call with its terminals as text, as far as they were rendered."""
        report = super().shown(report)
        for item in report.content:
            if type(item) is TerminalContent:
                return replace(report, content=tuple(map(self._as_text, report.content)))
        return report

    def terminal(self, state: TerminalState) -> list[Update]:
        """Give the updates for a terminal's new state."""
        seen = self._terminals.get(state.terminal_id)
        holder = seen.holder if seen and seen.lives else None
        return self.call(holder) if holder and seen and seen.is_stale(state) else []

    def _render(self, report: ToolCallReport) -> int:
        """Make new texts of the terminals that have news, as large as can be paid for. Gives their size."""
        credit = self._calls.credit(report.tool_call_id)
        credit.earn(report.content)
        size = 0
        for state in self._terminals_of(report):
            seen = self._terminals.recall(state)
            seen.hold(report)
            credit.left += seen.earn(state)
            limit = TEXT_LIMIT
            if seen.text is not None and not report.is_final:
                limit = min(limit, credit.left // SHARE - credit.size - ENVELOPE)
            if seen.text is None or (limit >= SHORTEST_TEXT and seen.is_stale(state)):
                seen.text = TextContent(render_text(state, limit, self._words))
                seen.take(state, terminals.encode_facts(state))
            size += size_of(seen.text)
        return size

    def _as_text(self, item: ToolCallContent) -> ToolCallContent:
        if type(item) is not TerminalContent:
            return item
        state = self._terminal_of(item.terminal_id)
        if state is None:
            return item
        seen = self._terminals.get(item.terminal_id)
        return (seen and seen.text) or TextContent(render_text(state, words=self._words))


def _changes(
    shown: ToolCallReport, content: tuple[ToolCallContent, ...], texts: int, calls: SeenCalls
) -> list[Update]:
    """Give v1's updates for a call's new state; what can't be paid for waits.

    `content` is what the call shows before it was put into this peer's terms: what is new there is
    new, while the texts of terminals, of size `texts`, are mostly the same output again.
    """
    seen = calls.get(shown.tool_call_id)
    if seen is None:
        calls.put(shown)
        return [v1.announce(shown)]
    if shown.content is not seen.content and not shown.status.is_final:
        credit = calls.credit(shown.tool_call_id)
        credit.earn(content)
        if shown.content != seen.content:
            cost = ENVELOPE + credit.size + texts
            if cost > credit.left:
                shown = replace(shown, content=seen.content)
            else:
                credit.left -= cost
    calls.put(shown)
    change = v1.update(shown, seen)
    return [] if change is None else [change]


def _chunks(text: str) -> Iterator[str]:
    """Cut text into pieces that are small enough for a line, also when they are escaped."""
    size = CHUNK // 2
    for begin in range(0, len(text), size):
        yield text[begin : begin + size]


def _as_running(report: ToolCallReport) -> ToolCallReport:
    """Give a call as it must have been before it ended."""
    notes = {key: value for key, value in report.notes.items() if key != "reason"}
    meta = {**report.meta, NOTES: notes}
    return replace(report, status=ToolCallStatus.IN_PROGRESS, meta=meta)


def _carrier(tool_call_id: str, meta: JsonObject) -> JsonObject:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, "_meta": meta}
