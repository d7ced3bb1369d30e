"""A bar on the terminal while a large recording is read. It goes to stderr, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO, cast

from callsheet.check.runner import RecordingSource
from callsheet.cli.cards.words import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LARGE = 20_000_000
"""Bytes of a recording from which reading it takes long enough to be waited for."""


class Bar:
    """Shows how far a recording is read."""

    def __init__(self) -> None:
        is_seen = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        self._is_seen: bool = is_seen
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def opened(self, source: RecordingSource, stream: BinaryIO) -> BinaryIO:
        """Begin a bar, if there is much to read, and give a stream that moves it."""
        if not self._is_seen or (source.size < LARGE and source.path != "-"):
            return stream
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        name = visible(source.path)
        short = name if len(name) <= 30 else f"…{name[-29:]}"
        self._task = self._progress.add_task(short, total=source.size or None)
        self._progress.start()
        return cast("BinaryIO", _Counted(stream, self))

    def moved(self, size: int) -> None:
        """Move on."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, size)

    def clear(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class _Counted:
    """A stream that tells how much is read of it."""

    def __init__(self, stream: BinaryIO, bar: Bar) -> None:
        self._stream: BinaryIO = stream
        self._bar: Bar = bar

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._bar.moved(len(data))
        if not data:
            self._bar.clear()
        return data
