"""How one call is shown on stdout: as a card, as ACP's lines, or as its result."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TextIO

from callsheet.acp.peer import Peer
from callsheet.cli.cards.board import Board, board_for
from callsheet.runtime.sinks import PipeSink, Sink
from callsheet.tools.result import ToolResult

from .overheard import Overheard


class Shown:
    """One way to show a call. By itself, it shows nothing."""

    sinks: list[Sink]

    def tick(self) -> None:
        """Show that time goes on."""

    def alone(self) -> AbstractContextManager[object]:
        """Keep others from writing into what is shown."""
        return nullcontext()

    def hidden(self) -> AbstractContextManager[None]:
        """Make room on the terminal."""
        return nullcontext()

    def give_up(self) -> None:
        """Leave the terminal in order: the process ends at once."""

    def end(self, result: ToolResult) -> None:
        """Show the result, if that is not done."""


class AsCard(Shown):
    """A card on a terminal, plain lines into a pipe."""

    def __init__(self, stream: TextIO, cwd: str, lost: Callable[[OSError], None]) -> None:
        self.board: Board = board_for(stream, cwd)
        self.sinks: list[Sink] = [self]
        self.peer: Peer | None = self.board.peer
        self._lost: Callable[[OSError], None] = lost
        self._is_lost: bool = False
        self._others: Overheard | None = None

    def send(self, items: deque[Any]) -> None:
        """Take the lines. A stream that can't be written any more is given up at once."""
        if self._others is not None:
            self._others.tell()
        self._try(lambda: self.board.send(items))
        items.clear()

    def close(self) -> None:
        """Show the last of it."""
        self._try(self.board.close)

    def tick(self) -> None:
        """Turn the spinner."""
        self._try(self.board.tick)

    def alone(self) -> AbstractContextManager[object]:
        """Print what others write to the same terminal above the cards."""
        board = self.board
        if not board.draws or not os.isatty(2):
            return nullcontext()
        self._others = Overheard(lambda text: self._try(lambda: board.say(text)))
        return self._others

    def hidden(self) -> AbstractContextManager[None]:
        """Make room on the terminal."""
        return self.board.hidden()

    def give_up(self) -> None:
        """Let the board do it."""
        self.board.give_up()

    def _try(self, show: Callable[[], object]) -> None:
        if self._is_lost:
            return
        try:
            show()
        except OSError as exc:
            self._is_lost = True
            self._lost(exc)


class AsLines(Shown):
    """ACP's `session/update` lines."""

    def __init__(self, stdout: int, protocol: int) -> None:
        self.sinks: list[Sink] = [PipeSink(stdout, Peer(version=2 if protocol == 2 else 1))]


class AsResult(Shown):
    """The `ToolResult` as JSON: in a line, and on a terminal indented."""

    def __init__(self, stream: TextIO) -> None:
        self.sinks: list[Sink] = []
        self._stream: TextIO = stream

    def end(self, result: ToolResult) -> None:
        """Write the result."""
        indent = 2 if self._stream.isatty() else None
        self._stream.write(json.dumps(result.to_dict(), ensure_ascii=False, indent=indent) + "\n")
        self._stream.flush()
