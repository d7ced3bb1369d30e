"""Live output of one call, kept as a terminal: its beginning, its end, and a count of it all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.report.content import TerminalContent
from callsheet.report.events import ExitStatus
from callsheet.report.report import ToolCallReport
from callsheet.report.terminals import TerminalState
from callsheet.report.values import JsonValue, is_object

if TYPE_CHECKING:
    from .desk import Desk

KEEP = 1 << 16
"""Bytes of output that are kept at least, for consumers that are slow."""

MUCH = 1 << 14
"""Bytes of new output that are sent without waiting for the next turn of the pace."""


class Output:
    """What a call has written so far. All methods are called under the desk's lock."""

    __slots__ = ("_fresh", "state")

    def __init__(self, desk: Desk, report: ToolCallReport) -> None:
        self.state: TerminalState = desk.new_terminal(KEEP)
        self._fresh: int = 0
        command = report.raw_input.get("command") if is_object(report.raw_input) else None
        self.state.command = command if isinstance(command, str) else None
        self.state.cwd = desk.cwd

    @property
    def item(self) -> TerminalContent:
        """The item of content that shows it."""
        return TerminalContent(self.state.terminal_id)

    def write(self, data: bytes) -> bool:
        """Take in more. Gives whether there is now enough that is new to be sent at once."""
        if len(data) <= KEEP:
            self.state.write(data)
        else:
            for begin in range(0, len(data), KEEP):
                self.state.write(data[begin : begin + KEEP])
        self._fresh += len(data)
        if self._fresh < MUCH:
            return False
        self._fresh = 0
        return True

    def close(self, raw: JsonValue) -> None:
        """Note that the command has ended, with the exit code that the result tells."""
        if self.state.exit_status is None:
            code = raw.get("exit_code") if is_object(raw) else None
            fits = type(code) is int and abs(code) < 2**63
            self.state.exit_status = ExitStatus(exit_code=code if fits else None)

    def is_just(self, item: object) -> bool:
        """Whether an item of content says just what was written, and nothing more."""
        text = item if isinstance(item, str) else getattr(item, "text", None)
        if not isinstance(text, str) or self.state.total > KEEP:
            return False
        return self.state.output.decode(errors="replace").strip() == text.strip()
