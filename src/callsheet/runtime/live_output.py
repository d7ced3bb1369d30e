"""Live output of one call, stored as a terminal: its beginning, its end, and its total size.

Secrets are redacted before any consumer sees it. So written bytes wait here until there are enough of
them to scan, or a consumer is about to send some; and what may be the beginning of a secret waits for
the rest, until the output pauses.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from callsheet.redaction.redactor import StreamRedactor
from callsheet.report.content import TerminalContent
from callsheet.report.events import ExitStatus
from callsheet.report.json import JsonValue, is_object
from callsheet.report.terminal import TerminalState
from callsheet.runtime.clock import new_call_id

if TYPE_CHECKING:
    from callsheet.runtime.consumer import Consumer
    from callsheet.runtime.session import RuntimeSession

KEEP = 1 << 16
"""Bytes of output that are always stored, for consumers that are slow."""

KEEP_MORE = 1 << 20
"""Bytes that are stored while few calls write, for consumers that are only a little late."""

FEW = 16
MUCH = 1 << 14
"""Bytes of new output that are sent without waiting for the next turn of the pace."""

QUIET = 0.1
"""Seconds without output after which what may be the beginning of a secret is shown."""

LAGGING = 1 << 18
"""Bytes that a thread may write before it lets the event loop have a turn."""


class Output:
    """What a call has written so far. All methods are called under the session's lock."""

    __slots__ = (
        "_fresh", "_last", "_pending", "_session", "_stream", "call_id", "is_alone", "state", "unsent",
    )  # fmt: skip

    def __init__(self, session: RuntimeSession, call_id: str, raw_input: JsonValue) -> None:
        terminal_id = "term_" + new_call_id().removeprefix("call_")
        self.call_id: str = call_id
        self.state: TerminalState = TerminalState(terminal_id, keep=KEEP)
        self.unsent: int = 0
        self.is_alone: bool = False
        self._session: RuntimeSession = session
        self._stream: StreamRedactor | None = session.guard.stream()
        self._pending: bytearray = bytearray()
        self._fresh: int = 0
        self._last: float = 0.0
        # A terminal is known while something refers to it.
        session.terminals[terminal_id] = self.state
        command = raw_input.get("command") if is_object(raw_input) else None
        self.state.cwd = session.cwd
        self.state.command = command if isinstance(command, str) else None

    @property
    def item(self) -> TerminalContent:
        """The item of content that shows it."""
        return TerminalContent(self.state.terminal_id)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written; what is held back, because it may be a secret, was."""
        held = self._stream is not None and self._stream.held
        return not (self.state.total or self._pending or held)

    def write(self, data: bytes) -> bool:
        """Take in more. Return whether there is now enough that is new to be sent at once."""
        if self._stream is None:
            self._keep(data)
        else:
            self._last = self._session.clock.monotonic()
            self._pending += data
            if len(self._pending) >= MUCH:
                self._look_through(self._stream)
        self.unsent += len(data)
        self._fresh += len(data)
        if self._fresh < MUCH:
            return False
        self._fresh = 0
        return True

    def settle(self, now: float) -> bool:
        """Release what was written to the consumers. Return whether something is still held back."""
        self.unsent, self.is_alone = 0, False
        stream = self._stream
        if stream is None:
            return False
        if self._pending:
            self._look_through(stream)
        if stream.held and now - self._last >= QUIET:
            self._keep(stream.flush())
            self._session.notify_output(self, much=False)
        return bool(stream.held)

    def close(self, raw: JsonValue) -> int:
        """Note that the command has ended. Return how many secrets were in its output."""
        stream, found = self._stream, 0
        if stream is not None:
            self._look_through(stream)
            self._keep(stream.finish())
            self._stream, found = None, stream.count
        if self.state.exit_status is None:
            code = raw.get("exit_code") if is_object(raw) else None
            fits = type(code) is int and abs(code) < 2**63
            self.state.exit_status = ExitStatus(exit_code=code if fits else None)
        return found

    def is_just(self, item: object) -> bool:
        """Whether an item of content only repeats what was written."""
        text = item if isinstance(item, str) else getattr(item, "text", None)
        if not isinstance(text, str) or self.state.total > KEEP:
            return False
        return self.state.output.decode(errors="replace").strip() == text.strip()

    def let_the_loop_turn(self, consumers: Iterable[Consumer]) -> None:
        """Yield for some milliseconds, in case only the interpreter's lock keeps the loop from running.

        If that doesn't help, the loop is blocked by something else, and the tool must not wait for it.
        """
        for _ in range(20):
            if self.unsent < LAGGING or not any(one.wants_more for one in consumers):
                return
            time.sleep(0.0005)
        self.is_alone = True

    def _look_through(self, stream: StreamRedactor) -> None:
        data, self._pending = bytes(self._pending), bytearray()
        self._keep(stream.feed(data))

    def _keep(self, data: bytes) -> None:
        self.state.keep = KEEP_MORE if len(self._session.terminals) <= FEW else KEEP
        self.state.write(data)


def to_bytes(data: object) -> bytes:
    """Return what was written as bytes, or raise."""
    if isinstance(data, str):
        return data.encode(errors="replace")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(f"output: expected bytes or text, got {type(data).__name__}")
