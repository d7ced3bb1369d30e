"""What one peer has seen: calls, terminals, and how much it may be sent again (see `resend_budget`)."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable

from callsheet.acp.resend_budget import RATE, ResendBudget
from callsheet.report.content import TextContent
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

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
