"""The base class of views: what one peer has seen, and what to send it next.

Rule 1: a view does no I/O and has no clock. States go in, updates come out; when to ask, and how
often, is up to the caller.

Rule 2: a view does not know how a session works. It knows one peer, and the states that it receives.

Theory of operation
-------------------
A view is not a queue. It remembers the last state of each call and terminal that its peer has seen
(`SeenCall`, `SeenTerminals`), receives a new state, and returns the updates that lead from the one
to the other. A state that the caller skips is never sent, so a slow peer costs no memory: it jumps
to the latest state. What is remembered is bounded as well (`KEEP_ENDED`, `KEEP_TERMINALS`).

Each state takes three steps:

1. *Translate.* `shown` expresses the call in the peer's terms: progress goes into the title or the
   content, the parent under a vendor's key, the title is escaped, and the client's own terminal
   replaces ours. The seen state is stored in these terms, because an update must contain the
   differences that the peer would notice, and no others.
2. *Budget.* A peer that can't append receives its content again whenever it grows. `_affordable`
   limits what that may cost (`resend_budget`): content that is too expensive for now is held back, or
   a long text is shown in part.
3. *Compare.* The subclass for the peer's version of ACP (`v1`, `v2`) encodes the difference between
   the seen state and the new one.

Content that was held back is not lost. `held` and `waits` report it, `insist` returns it after a
pause, and the update that ends the call contains it in any case.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from callsheet.acp.codec import Update
from callsheet.acp.peer import ENGLISH, Peer, Phrases
from callsheet.acp.resend_budget import RATE, UNLIMITED, ResendBudget
from callsheet.report.content import TerminalContent, TextContent, ToolCallContent
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

LONGEST_PROGRESS = 80
"""Most characters of progress that are added to a title or to the content."""


def shown_to(peer: Peer, report: ToolCallReport) -> ToolCallReport:
    """Return a call with its progress and its parent where the peer looks for them."""
    notes = report.notes
    if "progress" in notes and peer.progress != "meta" and not report.status.is_final:
        report = _with_progress(peer, report, notes["progress"])
    if peer.parent_keys and isinstance(notes.get("parentId"), str):
        report = replace(report, meta=_with_parent(peer, report.meta, notes["parentId"]))
    return report


def progress_text(progress: JsonValue) -> str:
    """Return progress as one readable line: `3/12 · tests/test_x.py`."""
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
"""Terminals that are remembered, besides those of live calls. More than a ledger stores."""


class SeenCall(Struct):
    """A call as a peer has seen it.

    `shown` is the state that was sent last, in the peer's terms; None if the call is not announced yet.
    `given` is that state before it was translated. `budget` is what growing content may still cost.
    """

    given: ToolCallReport
    shown: ToolCallReport | None = None
    own_budget: ResendBudget | None = None

    @property
    def budget(self) -> ResendBudget:
        """The budget of the call, made when its content grows for the first time."""
        if self.own_budget is None:
            self.own_budget = ResendBudget()
        return self.own_budget


class SeenTerminal:
    """A terminal as a peer has seen it. At first, it has seen nothing."""

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
        """Store which call shows the terminal. A live call takes it over from any other."""
        if self.holder in (None, report.tool_call_id) or not report.status.is_final:
            self.holder = report.tool_call_id
            self.lives = not report.status.is_final

    def earn(self, state: TerminalState) -> int:
        """Return the tokens that output since the last time earns. Output earns only once."""
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
        """Store that the peer has received everything in `state`."""
        self.mark, self.facts, self.meta = state.mark, facts, state.meta


class SeenTerminals(dict[str, SeenTerminal]):
    """The terminals that a peer has seen: all that live calls show, and the latest of the others."""

    def recall(self, state: TerminalState) -> SeenTerminal:
        """Return what the peer has seen of a terminal. An unknown terminal is added."""
        found = self.get(state.terminal_id)
        if found is None:
            if len(self) >= KEEP_TERMINALS:
                oldest = next((key for key, seen in self.items() if not seen.lives), "")
                self.pop(oldest, None)
            found = self[state.terminal_id] = SeenTerminal(state.epoch)
        return found


TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""A function that returns the state of an agent's terminal, or None for one of the client's own."""

CHUNK = 32 * 1024
"""Most bytes of terminal output in one update: some clients crash on a line over 64 KB."""


class View(ABC):
    """What one peer has seen, and the updates that bring it up to date.

    `left_out` counts the bytes of output that the peer was too slow to receive.

    Args:
        peer: What the client understands.
        terminal_of: Returns the state of an agent's terminal by its id.
        words: The phrases that the view adds, in the user's language.
    """

    def __init__(self, peer: Peer, terminal_of: TerminalOf, words: Phrases = ENGLISH) -> None:
        self.left_out: int = 0
        # The calls with content that was held back. True: none of it was shown; False: a part was.
        self.held: dict[str, bool] = {}
        self._peer: Peer = peer
        # Whether a call without terminals and progress is shown to the peer as it is.
        self.as_it_is: bool = not (
            peer.parent_keys or peer.owns_terminals or peer.titles != "plain"
        )
        self._words: Phrases = words
        self._terminal_of: TerminalOf = terminal_of
        self._calls: dict[str, SeenCall] = {}
        self._ended: deque[str] = deque()
        self._terminals: SeenTerminals = SeenTerminals()

    @abstractmethod
    def call(self, report: ToolCallReport, *, extra: int = 0) -> list[Update]:
        """Return the updates for a call's new state, and for the terminals that it shows.

        Args:
            report: The new state.
            extra: Tokens that resending content may cost beyond the budget, for content that was held
                back and is asked for again (`insist`).
        """

    @abstractmethod
    def terminal(self, state: TerminalState) -> list[Update]:
        """Return the updates for a terminal's new state."""

    @abstractmethod
    def least(self, report: ToolCallReport) -> Update:
        """Return the smallest update that reports a call's status."""

    @property
    def waits(self) -> bool:
        """Whether content was held back that `insist` may return."""
        return any(self.held.values())

    def insist(self, *, whatever_it_costs: bool = False) -> list[Update]:
        """Return the updates for content that was held back, as far as the reserve for pauses pays for it.

        Call this when something is `held` and nothing new has arrived for a while.

        Args:
            whatever_it_costs: Return all of it, and texts that were shown in part as a whole. Otherwise
                these are completed when the call ends.
        """
        held = [self._calls[key] for key in self.held if key in self._calls]
        self.held.clear()
        updates: list[Update] = []
        for call in held:
            extra = UNLIMITED if whatever_it_costs else call.budget.paused()
            updates += self.call(call.given, extra=extra)
        return updates

    def saw(self, report: ToolCallReport) -> None:
        """Note that the peer was sent this state of a call, as it is, unless the view knows the call."""
        self._calls.setdefault(report.tool_call_id, SeenCall(report, report))

    def forget(self, tool_call_id: str, since: ToolCallReport | None) -> None:
        """Assume that the peer has seen no more of a call than `since`; nothing, if that is None."""
        if since is None:
            self._calls.pop(tool_call_id, None)
        else:
            self.saw(since)
            self._calls[tool_call_id].shown = self.shown(since)

    def _end(self, tool_call_id: str) -> None:
        """Note that a call's end is sent now. The oldest ended calls are forgotten."""
        if self.held:
            self.held.pop(tool_call_id, None)
        self._ended.append(tool_call_id)
        if len(self._ended) > KEEP_ENDED:
            self._calls.pop(self._ended.popleft(), None)

    def _affordable(
        self,
        budget: ResendBudget,
        shown: ToolCallReport,
        seen: tuple[ToolCallContent, ...],
        given: ToolCallReport,
        extra: int,
        texts: int = 0,
    ) -> ToolCallReport:
        """Return a call with as much of its new content as the budget pays for, else with what was seen.

        Args:
            budget: The call's budget.
            shown: The call in the peer's terms.
            seen: The content that the peer has seen.
            given: The call before it was translated into the peer's terms.
            extra: Tokens that may be spent beyond the budget.
            texts: The size of the terminals that are shown as text.
        """
        if shown.content == seen:
            return shown
        content = budget.affordable(shown.content, given.content, texts, extra, self._words)
        if content is shown.content:
            return shown
        is_seen = content is not None or budget.partly == shown.content
        self.held[shown.tool_call_id] = not is_seen
        return replace(shown, content=seen if content is None else content)

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a call in this peer's terms."""
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
        """Return the client's own terminal in place of ours, if both show the same output."""
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
        """Return the output that the peer has not seen, after a notice about any that is no longer stored."""
        data, missed = state.since(seen.mark), state.missed(seen.mark)
        if not missed:
            return data
        self.left_out += missed
        return f"\r\n[… {self._words.left_out(missed)} …]\r\n".encode() + data
