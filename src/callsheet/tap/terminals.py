"""Redact the output of agents' terminals on its way to the client, across pieces.

Output arrives in pieces, and a secret may be split over two of them. So each terminal has a stream that
passes a piece on only as far as it certainly is no part of a secret. The rest waits for the next piece,
or for a pause.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import UNSET
from msgspec.structs import replace

from callsheet.acp import v2
from callsheet.acp.schemas import is_valid
from callsheet.observe.model import Json
from callsheet.redaction.redactor import StreamRedactor
from callsheet.report.events import TerminalChanged, TerminalEvent, TerminalOutput
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import TerminalState
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.hold import OUTPUT_PAUSE, Waits, Why
from callsheet.tap.outbox import Outbox
from callsheet.tap.render import UNREADABLE

MOST = 256
"""Terminals whose output is redacted at once. Of more, the oldest stream is finished first."""


class Terminals:
    """The terminals of one session."""

    def __init__(self, ledger: Ledger, sanitizer: Sanitizer, outbox: Outbox, waits: Waits) -> None:
        self._ledger: Ledger = ledger
        self._sanitizer: Sanitizer = sanitizer
        self._outbox: Outbox = outbox
        self._waits: Waits = waits
        self._streams: dict[str, StreamRedactor] = {}

    def update(self, update: Json, now: float) -> bool:
        """Apply an update of v2 about a terminal, and return whether it could be read."""
        event = _read(update)
        if event is not None:
            self.apply(event, now)
        return event is not None

    def apply(self, event: TerminalEvent, now: float) -> None:
        """Apply what is reported of a terminal, without secrets, and send its new state."""
        key = event.terminal_id
        if isinstance(event, TerminalOutput):
            self._output(key, self._feed(key, event.data, now), now)
            return
        if event.output is not UNSET:  # it takes the place of all there was, also of what waits
            self._finish(key)
            self._ledger.apply(TerminalChanged(terminal_id=key, output=b""))
            self._output(key, self._feed(key, event.output or b"", now))
            event = replace(event, output=UNSET)
        if event.exit_status is not UNSET:
            self._output(key, self._finish(key))
        self._apply(self._clean(event), now)

    def settle(self, keys: Iterable[str]) -> None:
        """Apply the output that waits in some terminals, because the call that shows them ends."""
        for key in keys:
            self._output(key, self._flush(key))

    def _feed(self, key: str, data: bytes, now: float) -> bytes:
        """Take a piece of output, and return what surely is no part of a secret."""
        stream = self._streams.get(key) or self._sanitizer.stream()
        if stream is None:  # secrets are shown
            return data
        if key not in self._streams:
            if len(self._streams) >= MOST:
                oldest = next(iter(self._streams))
                self._output(oldest, self._finish(oldest))
            self._streams[key] = stream
        passed = stream.feed(data)
        if stream.held:
            self._waits.hold(Why.OUTPUT, key, now + OUTPUT_PAUSE, partial(self._send_held, key))
        else:
            self._waits.drop(Why.OUTPUT, key)
        return passed

    def _send_held(self, key: str, now: float) -> None:
        self._output(key, self._flush(key), now)

    def _flush(self, key: str) -> bytes:
        """Return what waits of a terminal, which may go on."""
        self._waits.drop(Why.OUTPUT, key)
        stream = self._streams.get(key)
        return stream.flush() if stream is not None and stream.held else b""

    def _finish(self, key: str) -> bytes:
        """Return what waits of a terminal, and forget its stream."""
        self._waits.drop(Why.OUTPUT, key)
        stream = self._streams.pop(key, None)
        return b"" if stream is None else stream.finish()

    def _clean(self, event: TerminalChanged) -> TerminalChanged:
        changes = {
            name: self._sanitizer.value(value, runs=name == "command")[0]
            for name in ("command", "meta", "extra")
            if (value := getattr(event, name)) is not UNSET and value is not None
        }
        return replace(event, **changes) if changes else event

    def _output(self, key: str, data: bytes, now: float | None = None) -> None:
        """Append output to a terminal, and send it; without a time, it is sent with what comes next."""
        if data and now is not None:
            self._apply(TerminalOutput(terminal_id=key, data=data), now)
        elif data:
            self._ledger.apply(TerminalOutput(terminal_id=key, data=data))

    def _apply(self, event: TerminalEvent, now: float) -> None:
        state = self._ledger.apply(event)
        if isinstance(state, TerminalState):
            self._outbox.terminal(state, now)


def _read(update: Json) -> TerminalEvent | None:
    """Return what an update reports of a terminal; None if it is not as ACP has it."""
    if not is_valid(2, "SessionUpdate", update):
        return None
    try:
        events = v2.decode(update)
    except UNREADABLE:
        return None
    event = events[0] if events else None
    return event if isinstance(event, (TerminalChanged, TerminalOutput)) else None
