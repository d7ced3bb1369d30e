"""A board shows the calls of a session as their client sees them.

It folds the `session/update` lines that it is sent into a ledger, as any client would. There are two kinds:
`TerminalBoard` (in `card`) draws cards, `PlainBoard` writes plain lines into a pipe. A board has neither
a clock nor a thread: `drawing` calls `tick` now and then, which is when spinners turn.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

from callsheet.acp import v1, v2
from callsheet.acp.jsonrpc import Notification, decode_line
from callsheet.acp.peer import Peer
from callsheet.acp.terminal_text import to_plain
from callsheet.cli.cards.body import body_of, footer_of
from callsheet.cli.output import is_terminal, visible
from callsheet.report.content import TerminalContent
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import bytes_text
from callsheet.report.ledger import Ledger
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import TerminalState
from callsheet.runtime.clock import new_call_id

TICK = 0.1
"""Seconds after which `tick` is to be called again."""

LONGEST_WAIT = 64 * 1024
"""Bytes of an unfinished line that a pipe waits for."""


class Board(ABC):
    """Shows calls. A `Sink` of a session; or feed it an agent's lines with `take`."""

    draws: bool = False
    """Whether it draws in place, for somebody who watches."""

    is_paused: bool = False
    """Whether it does not draw now, because somebody types."""

    clock: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the time in seconds."""

    def __init__(self, version: int = 2) -> None:
        self.peer: Peer | None = Peer(version=2 if version == 2 else 1, progress="meta")
        self.ledger: Ledger = Ledger("board", new_call_id)
        self.open: dict[str, float] = {}
        """The calls that go on, in the order of their announcement, and since when they run or wait."""
        self._statuses: dict[str, ToolCallStatus] = {}
        self._decode: Callable[[Any], Any] = v2.decode if version == 2 else v1.decode

    # As a sink

    def send(self, items: deque[Any]) -> None:
        """Take the lines, and show what is new."""
        while items:
            self.take(items[0])
            items.popleft()
        self.refresh()

    def close(self) -> None:
        """Show that nothing more comes."""
        self.refresh()

    # Folding

    def take(self, line: bytes) -> None:
        """Take in what an agent wrote. What is not about tool calls is passed over."""
        message = decode_line(line)
        if not isinstance(message, Notification) or message.method != "session/update":
            return
        # What fails is another agent's mistake; what it sent before stands.
        with suppress(CallsheetError, KeyError, TypeError):
            for event in self._decode(message.params["update"]):
                changed = self.ledger.apply(event)
                if isinstance(changed, ToolCallReport):
                    self._changed(changed)

    def _changed(self, report: ToolCallReport) -> None:
        key, status = report.tool_call_id, report.status
        if status.is_final:
            self.ended(report)
            self.open.pop(key, None)
        elif key not in self.open or self._statuses.get(key) != status:
            self.open[key] = self.clock()
        self._statuses[key] = status

    def report(self, key: str) -> ToolCallReport | None:
        """Return what is known of a call."""
        found = self.ledger.get(key)
        return found if isinstance(found, ToolCallReport) else None

    # Showing

    @abstractmethod
    def ended(self, report: ToolCallReport) -> None:
        """Show a call that has ended. It is still among the open ones."""

    @abstractmethod
    def refresh(self) -> None:
        """Show what is new, at once."""

    def tick(self) -> None:
        """Show that time goes on. Nothing moves in a pipe, but it may turn out that nobody reads it."""
        self.refresh()

    @abstractmethod
    def note(self, text: str, style: str = "") -> None:
        """Show a text beside the calls, in one of rich's styles where there are any."""

    def give_up(self) -> None:  # noqa: B027 - a pipe is always in order
        """Leave the terminal in order, without a word: the process ends at once."""


class PlainBoard(Board):
    """Writes calls as plain lines into a pipe, as they come.

    Each line stands below the title of its call, which is written anew where another call was written last.
    """

    def __init__(self, stream: TextIO, cwd: str, version: int = 2) -> None:
        super().__init__(version)
        self._stream: TextIO = stream
        self._cwd: str = cwd
        self._titled: str | None = None
        """The call that was written last, if it goes on."""
        self._in_line: bool = False
        self._marks: dict[str, tuple[int, int]] = {}

    def ended(self, report: ToolCallReport) -> None:
        """Write the rest of the call's output, and how it ended."""
        self._write_output(report)
        self._write_title(report)
        self._write_end(report)
        self._titled = None

    def refresh(self) -> None:
        """Write what the open calls have put out since."""
        for report in filter(None, map(self.report, self.open)):
            self._write_output(report)
        self._stream.flush()

    def note(self, text: str, style: str = "") -> None:
        """Write it beside the calls."""
        del style
        self._put(text)

    def _write_title(self, report: ToolCallReport) -> None:
        if self._titled != report.tool_call_id:
            self._titled = report.tool_call_id
            self._put(visible(report.title or report.name or report.tool_call_id))

    def _write_output(self, report: ToolCallReport) -> None:
        """Write what the call's terminals have put out since: whole lines, unless it has ended."""
        for item in report.content:
            if isinstance(item, TerminalContent):
                state = self.ledger.terminal(item.terminal_id)
                if state is not None:
                    self._write_news(report, state)

    def _write_news(self, report: ToolCallReport, state: TerminalState) -> None:
        mark, final = self._marks.get(state.terminal_id, (state.epoch, 0)), report.status.is_final
        data, missed = state.since(mark), state.missed(mark)
        whole = data.rfind(b"\n") + 1
        if not final and (whole or len(data) < LONGEST_WAIT):
            data = data[:whole]
        if data or missed:
            self._write_title(report)
        if missed:
            self._put(f"… {bytes_text(missed)} left out …")
        self._stream.write(text := to_plain(data, final=final))
        self._in_line = not text.endswith("\n") if text else self._in_line
        position = mark[1] if mark[0] == state.epoch else 0
        self._marks[state.terminal_id] = (state.epoch, position + missed + len(data))

    def _write_end(self, report: ToolCallReport) -> None:
        for line in body_of(report, lambda _: None, self._cwd):
            self._put(line.text.rstrip())
        self._put(" · ".join(footer_of(report, self._cwd)))

    def _put(self, text: str) -> None:
        self._stream.write(f"\n{text}\n" if self._in_line else f"{text}\n")
        self._in_line = False


@asynccontextmanager
async def drawing(board: Board | None) -> AsyncGenerator[None]:
    """Show that time goes on meanwhile. Raise `OSError` once the board can't be written any more."""
    task, lost = asyncio.current_task(), list[OSError]()

    async def draw() -> None:
        try:
            while board is not None:
                await asyncio.sleep(TICK)
                board.tick()
        except OSError as exc:
            lost.append(exc)
            assert task is not None
            task.cancel()

    drawer = asyncio.ensure_future(draw())
    try:
        yield
    except asyncio.CancelledError:
        if lost:
            raise lost[0] from None
        raise
    finally:
        drawer.cancel()


def board_for(stream: TextIO, cwd: str, *, version: int = 2) -> Board:
    """Return the board for a stream: cards on a terminal, else plain lines."""
    if is_terminal(stream):
        from callsheet.cli.cards.card import TerminalBoard

        return TerminalBoard(stream, cwd, version)
    return PlainBoard(stream, cwd, version)
