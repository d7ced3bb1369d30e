"""What all views of a peer share: what it has seen, what it may be sent again, its own terminals.

A view is told of new states of calls and terminals, and gives the updates that bring its peer up to
date. It may hold back content that it would have to send again too often (see `seen`), or show a long
text in part: ask it later, or at the call's end, and it comes. It has no clock: how often to ask it is
for others to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from callsheet.acp.messages import Update
from callsheet.acp.peer import Peer
from callsheet.acp.resend_budget import UNLIMITED
from callsheet.acp.seen import SeenCalls, SeenTerminal, SeenTerminals
from callsheet.acp.shown import shown_to
from callsheet.acp.words import ENGLISH, Words
from callsheet.report.content import TerminalContent, ToolCallContent
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Gives the state of an agent's terminal. One that it doesn't know is the client's own."""

CHUNK = 32 * 1024
"""Bytes of terminal output in one update at most: some clients die on a line over 64 KB."""


class View(ABC):
    """What one peer has seen. `left_out` counts the bytes of output that came too fast for it."""

    def __init__(self, peer: Peer, terminal_of: TerminalOf, words: Words = ENGLISH) -> None:
        self.left_out: int = 0
        self._peer: Peer = peer
        self._as_it_is: bool = not (
            peer.parent_keys or peer.owns_terminals or peer.titles != "plain"
        )
        self._words: Words = words
        self._terminal_of: TerminalOf = terminal_of
        self._calls: SeenCalls = SeenCalls()
        self._terminals: SeenTerminals = SeenTerminals()

    def call(self, report: ToolCallReport, *, output: bool = True) -> list[Update]:
        """Return the updates for a call's new state, and for the terminals that it shows.

        Without `output`, what these have put out waits: the call's later states come first.
        """
        return self._call(report, 0, output=output)

    @abstractmethod
    def _call(self, report: ToolCallReport, extra: int, *, output: bool = True) -> list[Update]:
        """Return these updates. What is sent again may cost so much more than there are tokens for."""

    @abstractmethod
    def terminal(self, state: TerminalState) -> list[Update]:
        """Return the updates for a terminal's new state."""

    @abstractmethod
    def least(self, report: ToolCallReport) -> Update:
        """Return the least that can be told of a call: where it is in its life."""

    @property
    def held(self) -> bool:
        """Whether something was held back, or shown in part, that would have to be sent again too often."""
        return bool(self._calls.held)

    @property
    def waits(self) -> bool:
        """Whether something was held back that `insist` may give."""
        return any(self._calls.held.values())

    def insist(self, *, whatever_it_costs: bool = False) -> list[Update]:
        """Return what was held back, as far as it can be paid for by what is kept for pauses.

        To be asked when nothing new has come for a while, and something is `held`. A text that was shown
        in part comes whole at the call's end, or `whatever_it_costs`.
        """
        held, given = list(self._calls.held), self._calls.given
        self._calls.held.clear()
        updates: list[Update] = []
        for key in held:
            if key in given:
                extra = UNLIMITED if whatever_it_costs else self._calls.budget(key).paused()
                updates += self._call(given[key], extra)
        return updates

    def _affordable(
        self,
        shown: ToolCallReport,
        seen: ToolCallReport,
        given: ToolCallReport,
        extra: int,
        texts: int = 0,
    ) -> ToolCallReport:
        """Return a call with as much of its new content as can be paid for, or with what was seen of it.

        `given` is the call before it was put into this peer's terms, with terminals as texts of
        size `texts`.
        """
        if shown.content == seen.content:
            return shown
        budget = self._calls.budget(shown.tool_call_id)
        content = budget.affordable(shown.content, given.content, texts, extra, self._words)
        if content is shown.content:
            return shown
        is_seen = content is not None or budget.partly == shown.content
        self._calls.held[shown.tool_call_id] = not is_seen
        return replace(shown, content=seen.content if content is None else content)

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a call as this peer can see it."""
        if report.meta:
            report = shown_to(self._peer, report)
        if self._peer.titles != "plain":
            title = self._words.escaped(report.title, report.kind, self._peer.titles)
            if title is not report.title:
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
        """Return the states of the agent's terminals that a call shows to this peer."""
        found: list[TerminalState] = []
        for item in report.content:
            if type(item) is TerminalContent:
                state = self._terminal_of(item.terminal_id)
                if state and not (state.shown_as and self._peer.owns_terminals):
                    found.append(state)
        return found

    def _data_since(self, state: TerminalState, seen: SeenTerminal) -> bytes:
        """Return the output that the peer has not seen. What is kept no more is said."""
        data, missed = state.since(seen.mark), state.missed(seen.mark)
        if not missed:
            return data
        self.left_out += missed
        return f"\r\n[… {self._words.left_out(missed)} …]\r\n".encode() + data
