"""A call as it is kept: its report, and the terminals that it shows.

A report names terminals by their ids. Whoever keeps a call after its session has ended needs what stood
in them, too.
"""

from __future__ import annotations

from msgspec import Struct

from .content import TerminalContent
from .events import ExitStatus
from .report import ToolCallReport
from .terminals import TerminalState
from .values import EMPTY, JsonObject

KEEP_WHOLE = 1 << 20
"""Bytes of a terminal's output that are kept of a call that has ended, besides its beginning."""

KEEP_LIVE = 1 << 12
"""Bytes of it that are kept while the call runs, so that a crash does not take all of it."""


class TerminalRecord(Struct, frozen=True, gc=False):
    """A terminal as it was: its facts, and the beginning and the end of its output."""

    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    exit_status: ExitStatus | None = None
    total: int = 0
    newlines: int = 0
    head: bytes = b""
    tail: bytes = b""
    meta: JsonObject = EMPTY
    extra: JsonObject = EMPTY
    late: bool = False
    """Whether the call was announced without it: some clients were shown it as text then."""

    @classmethod
    def of(cls, state: TerminalState, keep: int = KEEP_WHOLE) -> TerminalRecord:
        """Note a terminal as it is now."""
        return cls(
            state.terminal_id,
            state.command,
            state.cwd,
            state.exit_status,
            state.total,
            state.newlines,
            state.head,
            state.tail(keep),
            state.meta,
            state.extra,
        )

    def state(self) -> TerminalState:
        """Return a terminal that is in the state that was noted."""
        return TerminalState.restored(self)


class CallRecord(Struct, frozen=True, gc=False):
    """A call, and the terminals of the agent that it shows."""

    report: ToolCallReport
    terminals: tuple[TerminalRecord, ...] = ()


def terminal_ids(report: ToolCallReport) -> list[str]:
    """Return the ids of the terminals that a call shows."""
    return [item.terminal_id for item in report.content if type(item) is TerminalContent]
