"""An agent's terminal: its live state, folded from events, and the record that is stored of it.

Output may be gigabytes. Only its beginning and the latest of it stay in memory, and appending costs
the same however much came before.

A report names terminals by their ids only. Whoever stores a call beyond the end of its session
needs their output, too: that is a `CallRecord`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, Struct

from callsheet.report.content import TerminalContent
from callsheet.report.events import ExitStatus, TerminalChanged, TerminalOutput
from callsheet.report.json import EMPTY, JsonObject, patched
from callsheet.report.report import ToolCallReport

KEEP_OUTPUT = 1 << 18
"""Bytes of output that a terminal keeps at least, if it had as many."""

KEEP_HEAD = 1 << 12
"""Bytes of its beginning that a terminal keeps besides."""


class TerminalState:
    """What is known of one terminal.

    `total` counts all bytes of output since it began or was last replaced; `epoch` counts how often
    it was replaced. Together they are a mark: `since(mark)` returns what came after it, and
    `missed(mark)` how much of that is no longer stored. `shown_as` is the id of a client's own
    terminal that shows the same output.
    """

    __slots__ = (
        "__weakref__", "_kept", "command", "cwd", "epoch", "exit_status", "extra", "head", "keep",
        "meta", "newlines", "shown_as", "terminal_id", "total",
    )  # fmt: skip

    def __init__(self, terminal_id: str, epoch: int = 0, *, keep: int = KEEP_OUTPUT) -> None:
        self.terminal_id: str = terminal_id
        self.shown_as: str | None = None
        self.command: str | None = None
        self.cwd: str | None = None
        self.exit_status: ExitStatus | None = None
        self.meta: JsonObject = EMPTY
        self.extra: JsonObject = EMPTY
        self.total: int = 0
        self.newlines: int = 0
        self.epoch: int = epoch
        self.head: bytes = b""
        self.keep: int = keep
        self._kept: bytearray = bytearray()

    @property
    def output(self) -> bytes:
        """The output, or as much of its end as is certain to be stored."""
        return self.tail(self.keep)

    def tail(self, size: int) -> bytes:
        """Return the last bytes of the output, as far as they are stored."""
        return bytes(self._kept[-size:]) if size > 0 else b""

    @property
    def mark(self) -> tuple[int, int]:
        """Where the output is now."""
        return self.epoch, self.total

    def since(self, mark: tuple[int, int]) -> bytes:
        """Return the output that came after `mark`, as far as it is stored."""
        return bytes(self._kept[max(0, len(self._kept) - self._news(mark)) :])

    def missed(self, mark: tuple[int, int]) -> int:
        """Return how many bytes came after `mark` and are no longer stored."""
        return max(0, self._news(mark) - len(self._kept))

    def _news(self, mark: tuple[int, int]) -> int:
        epoch, position = mark
        return self.total - position if epoch == self.epoch else self.total

    def apply(self, change: TerminalChanged) -> None:
        """Take in a change of some fields."""
        if change.command is not UNSET:
            self.command = change.command
        if change.cwd is not UNSET:
            self.cwd = change.cwd
        if change.exit_status is not UNSET:
            self.exit_status = change.exit_status
        if change.clear_meta:
            self.meta = EMPTY
        if change.meta is not UNSET:
            self.meta = patched(self.meta, change.meta)
        if change.extra is not UNSET:
            self.extra = patched(self.extra, change.extra)
        if change.output is not UNSET:
            self.epoch += 1
            self.total = self.newlines = 0
            self.head = b""
            self._kept.clear()
            self.write(change.output or b"")

    def append(self, event: TerminalOutput) -> None:
        """Take in more output."""
        self.write(event.data)

    def write(self, data: bytes) -> None:
        """Take in more output, as bytes."""
        # Cut first, then append: what came last can be had whole, however large it is.
        kept = self._kept
        if len(kept) > 2 * self.keep:
            del kept[: -self.keep]
        if self.total < KEEP_HEAD:
            self.head += data[: KEEP_HEAD - self.total]
        self.total += len(data)
        self.newlines += data.count(b"\n")
        kept += data


KEEP_WHOLE = 1 << 20
"""Bytes of a terminal's output that are stored for a call that has ended, besides its beginning."""

KEEP_LIVE = 1 << 12
"""Bytes of it that are stored while the call runs, so that a crash does not lose all of it."""


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
        state = TerminalState(self.terminal_id, keep=max(KEEP_OUTPUT, len(self.tail)))
        state.command, state.cwd, state.exit_status = self.command, self.cwd, self.exit_status
        state.meta, state.extra = self.meta, self.extra
        state.write(self.tail)
        state.total, state.newlines, state.head = self.total, self.newlines, self.head
        return state


class CallRecord(Struct, frozen=True, gc=False):
    """A call, and the terminals of the agent that it shows."""

    report: ToolCallReport
    terminals: tuple[TerminalRecord, ...] = ()

    @classmethod
    def of(
        cls, report: ToolCallReport, terminal_of: Callable[[str], TerminalState | None]
    ) -> CallRecord:
        """Note a call as it is now. Of the output of live calls, only so much that a crash loses little."""
        if not report.content:
            return cls(report)
        keep = KEEP_WHOLE if report.is_final else KEEP_LIVE
        found = [terminal_of(key) for key in terminal_ids(report)]
        return cls(report, tuple([TerminalRecord.of(one, keep) for one in found if one]))


def terminal_ids(report: ToolCallReport) -> list[str]:
    """Return the ids of the terminals that a call shows."""
    return [item.terminal_id for item in report.content if type(item) is TerminalContent]
