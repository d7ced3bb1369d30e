"""Redact the output of agents' terminals on its way to the client, across pieces.

Output arrives in pieces, and a secret may be split over two of them. So each terminal has a stream that
passes a piece on only as far as it certainly is no part of a secret. The rest waits for the next piece,
or for a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from callsheet.acp import v2
from callsheet.observe.model import Json, obj
from callsheet.redaction.redactor import StreamRedactor
from callsheet.report.errors import CallsheetError
from callsheet.report.events import TerminalChanged, TerminalEvent, TerminalOutput
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import TerminalState
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.hold import OUTPUT_PAUSE
from callsheet.tap.outbox import Post

MOST = 256
"""Terminals whose output is redacted at once. Of more, the oldest stream is finished first."""

_ALWAYS = ("sessionUpdate", "terminalId", "data")
_CHECKED = ("size", "capabilities")
_WIDEST = 65_535

_Key = TypeVar("_Key", bound=Hashable)


class OutputStreams(Generic[_Key]):
    """The outputs of many terminals, each redacted by a stream of its own.

    What may be the beginning of a secret waits for the next piece, no longer than `pause` seconds.
    """

    def __init__(self, make: Callable[[], StreamRedactor | None], pause: float) -> None:
        self.hidden: int = 0
        """How many secrets were taken out."""
        self._make: Callable[[], StreamRedactor | None] = make
        self._pause: float = pause
        self._streams: dict[_Key, StreamRedactor] = {}
        # Those that hold something back, and until when.
        self._until: dict[_Key, float] = {}

    def oldest_if_full(self, key: _Key) -> _Key | None:
        """Return the terminal to finish before another one, `key`, is watched."""
        is_full = key not in self._streams and len(self._streams) >= MOST
        return next(iter(self._streams)) if is_full else None

    def feed(self, key: _Key, data: bytes, now: float) -> bytes:
        """Take a piece of output, and return what surely is no part of a secret."""
        stream = self._streams.get(key)
        if stream is None:
            stream = self._make()
            if stream is None:  # secrets are shown
                return data
            self._streams[key] = stream
        passed = self._counted(stream, stream.feed(data))
        if stream.held:
            self._until[key] = now + self._pause
        else:
            self._until.pop(key, None)
        return passed

    def clean(self, data: bytes) -> bytes:
        """Return a whole output without secrets."""
        stream = self._make()
        return (
            data if stream is None else self._counted(stream, stream.feed(data) + stream.finish())
        )

    def flush(self, key: _Key) -> bytes:
        """Return what waits of a terminal, which may go on."""
        if self._until.pop(key, None) is None:
            return b""
        return self._counted(self._streams[key], self._streams[key].flush())

    def finish(self, key: _Key) -> bytes:
        """Return what waits of a terminal, and forget the terminal."""
        stream = self._streams.pop(key, None)
        self._until.pop(key, None)
        return b"" if stream is None else self._counted(stream, stream.finish())

    @property
    def due(self) -> float | None:
        """When something has waited long enough."""
        return min(self._until.values(), default=None)

    def late(self, now: float) -> list[tuple[_Key, bytes]]:
        """Return what has waited long enough, by terminal."""
        return [(key, self.flush(key)) for key, until in list(self._until.items()) if until <= now]

    def _counted(self, stream: StreamRedactor, data: bytes) -> bytes:
        self.hidden += stream.count
        stream.count = 0
        return data


class Terminals:
    """The terminals of one session."""

    def __init__(self, ledger: Ledger, sanitizer: Sanitizer, post: Post) -> None:
        self._ledger: Ledger = ledger
        self._sanitizer: Sanitizer = sanitizer
        self._post: Post = post
        self._streams: OutputStreams[str] = OutputStreams(sanitizer.stream, OUTPUT_PAUSE)

    @property
    def due(self) -> float | None:
        """When something was held back for long enough."""
        return self._streams.due

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
            self._send(key, self._feed(key, event.data, now), now)
            return
        if event.output is not UNSET:  # it takes the place of all there was, also of what waits
            self._streams.finish(key)
            self._ledger.apply(TerminalChanged(terminal_id=key, output=b""))
            self._append(key, self._feed(key, event.output or b"", now))
            event = replace(event, output=UNSET)
        if event.exit_status is not UNSET:
            self._append(key, self._streams.finish(key))
        self._apply(self._clean(event), now)

    def settle(self, keys: Iterable[str]) -> None:
        """Apply the output that waits in some terminals, because the call that shows them ends."""
        for key in keys:
            self._append(key, self._streams.flush(key))

    def tick(self, now: float) -> None:
        """Send what was held back for long enough."""
        for key, data in self._streams.late(now):
            self._send(key, data, now)

    def _feed(self, key: str, data: bytes, now: float) -> bytes:
        oldest = self._streams.oldest_if_full(key)
        if oldest is not None:
            self._append(oldest, self._streams.finish(oldest))
        return self._streams.feed(key, data, now)

    def _clean(self, event: TerminalChanged) -> TerminalChanged:
        changes = {
            name: self._sanitizer.value(value, runs=name == "command")[0]
            for name in ("command", "meta", "extra")
            if (value := getattr(event, name)) is not UNSET and value is not None
        }
        return replace(event, **changes) if changes else event

    def _append(self, key: str, data: bytes) -> None:
        """Append output that is sent with what comes next."""
        if data:
            self._ledger.apply(TerminalOutput(terminal_id=key, data=data))

    def _send(self, key: str, data: bytes, now: float) -> None:
        if data:
            self._apply(TerminalOutput(terminal_id=key, data=data), now)

    def _apply(self, event: TerminalEvent, now: float) -> None:
        state = self._ledger.apply(event)
        if isinstance(state, TerminalState):
            self._post.terminal(state, now)


def _read(update: Json) -> TerminalEvent | None:
    """Read an update about a terminal, without the fields that can't be decoded."""
    told = {key: value for key, value in update.items() if key not in _CHECKED or _fits(key, value)}
    event = _decoded(told)
    if event is None:
        least = {key: told.get(key) for key in _ALWAYS if key in told}
        good = {key: value for key, value in told.items() if _decoded({**least, key: value})}
        event = _decoded({**least, **good})
    return event


def _decoded(update: Json) -> TerminalEvent | None:
    try:
        events = v2.decode(update)
    except (CallsheetError, ValueError, TypeError, RecursionError):
        return None
    event = events[0] if events else None
    return event if isinstance(event, (TerminalChanged, TerminalOutput)) else None


def _fits(key: str, value: Any) -> bool:
    told = obj(value)
    if value is None:
        return True
    if key == "size":
        sizes = told.get("cols"), told.get("rows")
        return all(type(size) is int and 1 <= size <= _WIDEST for size in sizes) and _metas(told)
    return value.__class__ is dict and _metas(told) and _metas(obj(told.get("cancel")))


def _metas(told: Json) -> bool:
    return told.get("_meta").__class__ in (dict, type(None))
