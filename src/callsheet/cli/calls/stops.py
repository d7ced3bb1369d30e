"""Ctrl-C, and being told to end: the first time the call is cancelled, the second time all is over.

The handlers are plain ones, not the event loop's: they work while a tool keeps the loop from turning.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Stops:
    """Listens to signals while a call runs. `number` is the one that came."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.at_once: Callable[[], None] | None = None
        """What must be done before the process ends without further ado."""
        self._cancel: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Listen. Signals that were ignored stay ignored."""
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def calls(self, cancel: Callable[[], None]) -> None:
        """Let the first signal call something, on the loop that runs now."""
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(cancel) and None

    @property
    def exit_code(self) -> int:
        """The exit code that says which signal it was."""
        return 128 + (self.number or signal.SIGINT)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        again, self.number = self.number is not None, number
        if again:
            if self.at_once is not None:
                self.at_once()
            os._exit(self.exit_code)
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()
