"""Ctrl-C and requests to terminate: the first one cancels the call, the second one ends the process.

The handlers are plain ones, not the event loop's: they work while a tool blocks the loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class StopSignals:
    """Handles signals while a call runs. `number` is the one that came, if any."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.before_exit: Callable[[], None] | None = None
        """What must be done before the process ends without unwinding."""
        self._cancel: Callable[[], None] | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers. Signals that were ignored stay ignored."""
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the handlers that were there before."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def on_first(self, cancel: Callable[[], object]) -> None:
        """Let the first signal call `cancel`, on the loop that runs now; one that came before, at once."""
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(cancel) and None
        if self.number is not None:
            self._cancel()

    @property
    def exit_code(self) -> int:
        """The exit code that names the signal, as shells do it."""
        return 128 + (self.number or signal.SIGINT)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        is_second, self.number = self.number is not None, number
        if is_second:
            if self.before_exit is not None:
                self.before_exit()
            os._exit(self.exit_code)
        if self._cancel is not None:  # else `on_first` does it: an event loop is not half made then
            self._cancel()
