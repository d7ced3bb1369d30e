"""What all views share: what the peer has seen, what it may be sent again, its own terminals.

Theory of operation
-------------------
A view is no queue. It remembers the last state of each call and terminal that its peer has seen
(`SeenCalls`, `SeenTerminals`), receives new states, and returns the updates that lead from the one
to the other. States that nobody asked about in between are never sent, so a slow peer costs no
memory: it skips to the latest.

`shown` puts a call into the peer's terms first: progress into the title, the parent under a
vendor's key, the title escaped, the client's own terminal in place of ours. What was seen is
remembered in these terms, because differences must be those that the peer would notice.

A view may hold back content that it would have to send again too often (`resend_budget`), or show a
long text in part: ask it later (`insist`), or at the call's end, and it comes. It has no clock; how
often to ask it is up to the caller.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from callsheet.acp.codec import Update
from callsheet.acp.peer import ENGLISH, Peer, Phrases
from callsheet.acp.resend_budget import RATE, UNLIMITED, ResendBudget
from callsheet.report.content import TerminalContent, TextContent, ToolCallContent
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

LONGEST_PROGRESS = 80
"""Characters of progress that are added to a title at most."""


def shown_to(peer: Peer, report: ToolCallReport) -> ToolCallReport:
    """Return a call as a peer can see it."""
    notes = report.notes
    if "progress" in notes and peer.progress != "meta" and not report.status.is_final:
        report = _with_progress(peer, report, notes["progress"])
    if peer.parent_keys and isinstance(notes.get("parentId"), str):
        report = replace(report, meta=_with_parent(peer, report.meta, notes["parentId"]))
    return report


def progress_text(progress: JsonValue) -> str:
    """Return progress as people read it, in a line: `3/12 · tests/test_x.py`."""
    if not is_object(progress):
        return ""
    done, total, message = (progress.get(key) for key in ("done", "total", "message"))
    parts: list[str] = []
    if done is not None:
        parts.append(f"{_number(done)}/{_number(total)}" if total is not None else _number(done))
    if isinstance(message, str) and message:
        parts.append(" ".join(message.split()))
    text = " · ".join(parts)
    return text if len(text) <= LONGEST_PROGRESS else text[: LONGEST_PROGRESS - 1] + "…"


def _with_progress(peer: Peer, report: ToolCallReport, progress: JsonValue) -> ToolCallReport:
    text = progress_text(progress)
    if not text:
        return report
    if peer.progress == "title":
        return replace(report, title=f"{report.title or report.name} · {text}")
    return replace(report, content=(*report.content, TextContent(text)))


def _with_parent(peer: Peer, meta: JsonObject, parent: str) -> JsonObject:
    meta = dict(meta)
    if "parentToolCallId" in peer.parent_keys:
        meta.setdefault("parentToolCallId", parent)
    if "claudeCode" in peer.parent_keys:
        theirs = meta.get("claudeCode")
        meta["claudeCode"] = {"parentToolUseId": parent, **(theirs if is_object(theirs) else {})}
    return meta


def _number(value: JsonValue) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


KEEP_ENDED = 256
"""Calls that have ended and are still remembered."""

KEEP_TERMINALS = 512
"""Terminals that are remembered, besides those of calls that live. More than a ledger keeps."""


class SeenCalls:
    """The calls that a peer has seen, as it has seen them."""

    def __init__(self) -> None:
        self._reports: dict[str, ToolCallReport] = {}
        self._ended: deque[str] = deque()
        self._budgets: dict[str, ResendBudget] = {}
        # What was given of the calls that live, before it was put into the peer's terms.
        self.given: dict[str, ToolCallReport] = {}
        # The calls of which something was held back; whether all of it was, not just a part.
        self.held: dict[str, bool] = {}
        self.get: Callable[[str], ToolCallReport | None] = self._reports.get

    def budget(self, tool_call_id: str) -> ResendBudget:
        """Return the budget of a call that lives."""
        found = self._budgets.get(tool_call_id)
        if found is None:
            found = self._budgets[tool_call_id] = ResendBudget()
        return found

    def put(self, report: ToolCallReport) -> None:
        """Note that this is what the peer sees now."""
        self._reports[report.tool_call_id] = report
        if report.status.is_final:
            self._budgets.pop(report.tool_call_id, None)
            self.given.pop(report.tool_call_id, None)
            self.held.pop(report.tool_call_id, None)
            self._ended.append(report.tool_call_id)
            if len(self._ended) > KEEP_ENDED:
                self._reports.pop(self._ended.popleft(), None)


class SeenTerminal:
    """A terminal as a peer has seen it: first, nothing of it."""

    def __init__(self, epoch: int) -> None:
        self.mark: tuple[int, int] = (epoch, 0)
        self.facts: JsonObject = {}
        self.meta: JsonObject = EMPTY
        self.decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.holder: str | None = None
        self.lives: bool = False
        self.is_live: bool = False
        self.text: TextContent | None = None
        self.earned: tuple[int, int] = (epoch, 0)

    def hold(self, report: ToolCallReport) -> None:
        """Note the call that shows it: the latest that lives."""
        if self.holder in (None, report.tool_call_id) or not report.status.is_final:
            self.holder = report.tool_call_id
            self.lives = not report.status.is_final

    def earn(self, state: TerminalState) -> int:
        """Return the tokens that new output brings, once."""
        epoch, total = self.earned
        new = state.total - total if epoch == state.epoch else state.total
        self.earned = state.mark
        return RATE * new

    def is_stale(self, state: TerminalState) -> bool:
        """Whether there is anything new to show as text."""
        return self.mark != state.mark or (state.exit_status is None) == (
            "exitStatus" in self.facts
        )

    def take(self, state: TerminalState, facts: JsonObject) -> None:
        """Note that the peer has been told all of this."""
        self.mark, self.facts, self.meta = state.mark, facts, state.meta


class SeenTerminals:
    """The terminals that a peer has seen. Those of calls that live stay; of the others, the latest."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenTerminal] = {}
        self.get: Callable[[str], SeenTerminal | None] = self._seen.get

    def __contains__(self, terminal_id: str) -> bool:
        return terminal_id in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def recall(self, state: TerminalState) -> SeenTerminal:
        """Return what was seen of a terminal."""
        found = self._seen.get(state.terminal_id)
        if found is None:
            found = self._seen[state.terminal_id] = SeenTerminal(state.epoch)
            if len(self._seen) > KEEP_TERMINALS:
                self._forget_one()
        return found

    def _forget_one(self) -> None:
        """Forget the oldest that no living call shows, looking at a few: living ones go to the back."""
        for _ in range(8):
            oldest = next(iter(self._seen))
            seen = self._seen.pop(oldest)
            if not seen.lives:
                return
            self._seen[oldest] = seen


TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Returns the state of an agent's terminal. One that it doesn't know is the client's own."""

CHUNK = 32 * 1024
"""Bytes of terminal output in one update at most: some clients die on a line over 64 KB."""


class View(ABC):
    """What one peer has seen. `left_out` counts the bytes of output that came too fast for it."""

    def __init__(self, peer: Peer, terminal_of: TerminalOf, words: Phrases = ENGLISH) -> None:
        self.left_out: int = 0
        self._peer: Peer = peer
        self._as_it_is: bool = not (
            peer.parent_keys or peer.owns_terminals or peer.titles != "plain"
        )
        self._words: Phrases = words
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
