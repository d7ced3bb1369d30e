"""The state of an agent's terminal, folded from its events.

Output may be gigabytes. Only the latest of it is kept, and appending costs the same however much
came before.
"""

from __future__ import annotations

from msgspec import UNSET

from .events import ExitStatus, TerminalChanged, TerminalOutput
from .values import EMPTY, JsonObject, patched

KEEP_OUTPUT = 1 << 18
"""Bytes of output that a terminal keeps at least, if it had as many."""


class TerminalState:
    """What is known of one terminal.

    `total` counts all bytes of output since it began or was last replaced; `epoch` counts how often
    it was replaced. Together they are a mark: `since(mark)` gives what came after it.
    """

    __slots__ = (
        "_kept", "command", "cwd", "epoch", "exit_status", "extra", "meta", "terminal_id", "total",
    )  # fmt: skip

    def __init__(self, terminal_id: str, epoch: int = 0) -> None:
        self.terminal_id: str = terminal_id
        self.command: str | None = None
        self.cwd: str | None = None
        self.exit_status: ExitStatus | None = None
        self.meta: JsonObject = EMPTY
        self.extra: JsonObject = EMPTY
        self.total: int = 0
        self.epoch: int = epoch
        self._kept: bytearray = bytearray()

    @property
    def output(self) -> bytes:
        """The output, or the last `KEEP_OUTPUT` bytes of it."""
        return bytes(self._kept[-KEEP_OUTPUT:])

    @property
    def mark(self) -> tuple[int, int]:
        """Where the output is now."""
        return self.epoch, self.total

    def since(self, mark: tuple[int, int]) -> bytes:
        """Give the output that came after `mark`, as far as it is kept."""
        epoch, position = mark
        begin = position if epoch == self.epoch else 0
        return bytes(self._kept[max(0, len(self._kept) - (self.total - begin)) :])

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
            self.total = 0
            self._kept.clear()
            self._append(change.output or b"")

    def append(self, event: TerminalOutput) -> None:
        """Take in more output."""
        self._append(event.data)

    def _append(self, data: bytes) -> None:
        # Cut first, then append: what came last can be had whole, however large it is.
        if len(self._kept) > 2 * KEEP_OUTPUT:
            del self._kept[:-KEEP_OUTPUT]
        self.total += len(data)
        self._kept += data

    def facts(self) -> dict[str, object]:
        """Everything but the output's history: what two terminals must share to be the same."""
        return {
            "terminal_id": self.terminal_id,
            "command": self.command,
            "cwd": self.cwd,
            "exit_status": self.exit_status,
            "meta": self.meta,
            "extra": self.extra,
            "output": self.output,
        }
