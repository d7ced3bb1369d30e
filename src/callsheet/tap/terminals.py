"""Agents' terminals on their way to the client: without secrets, also where one comes in two pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from callsheet.acp import v2
from callsheet.observe.model import Json, obj
from callsheet.redaction.redact import StreamRedactor
from callsheet.report.errors import CallsheetError
from callsheet.report.events import TerminalChanged, TerminalEvent, TerminalOutput
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import TerminalState
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.hold import OUTPUT_PAUSE
from callsheet.tap.outgoing import Post

MOST = 256
"""Terminals whose output is watched at once. The ledger keeps no more, either."""

_ALWAYS = ("sessionUpdate", "terminalId", "data")
_CHECKED = ("size", "capabilities")
_WIDEST = 65_535


class Screens:
    """The terminals of one session."""

    def __init__(self, ledger: Ledger, guard: Sanitizer, post: Post) -> None:
        self._ledger: Ledger = ledger
        self._guard: Sanitizer = guard
        self._post: Post = post
        self._streams: dict[str, StreamRedactor] = {}
        # Terminals that hold something back, and until when.
        self._holding: dict[str, float] = {}

    @property
    def due(self) -> float | None:
        """When something was held back for long enough."""
        return min(self._holding.values(), default=None)

    def take(self, event: TerminalEvent, now: float) -> None:
        """Take in what is told of a terminal."""
        if isinstance(event, TerminalOutput):
            self._written(event.terminal_id, event.data, now)
            return
        key = event.terminal_id
        if event.output is not UNSET:
            self._replace(key, event.output or b"", now)
            event = replace(event, output=UNSET)
        if event.exit_status is not UNSET:
            self._finish(key)
        self._apply(self._clean(event), now)

    def settle(self, keys: Iterable[str]) -> None:
        """Let nothing wait in some terminals: the call that shows them ends."""
        for key in keys:
            if self._holding.pop(key, None) is not None:
                self._note(key, self._streams[key].flush())

    def told(self, update: Json, now: float) -> bool:
        """Take in an update of v2 about a terminal. Gives whether it could be read."""
        event = _read(update)
        if event is not None:
            self.take(event, now)
        return event is not None

    def tick(self, now: float) -> None:
        """Show what was held back for long enough."""
        for key, until in list(self._holding.items()):
            if until <= now:
                del self._holding[key]
                self._write(key, self._streams[key].flush(), now)

    def _clean(self, event: TerminalChanged) -> TerminalChanged:
        changes = {
            name: self._guard.value(value, runs=name == "command")[0]
            for name in ("command", "meta", "extra")
            if (value := getattr(event, name)) is not UNSET and value is not None
        }
        return replace(event, **changes) if changes else event

    def _written(self, key: str, data: bytes, now: float) -> None:
        self._write(key, self._passed(key, data, now), now)

    def _passed(self, key: str, data: bytes, now: float) -> bytes:
        """Return what of a terminal's output surely is no part of a secret."""
        stream = self._streams.get(key)
        if stream is None:
            stream = self._guard.stream()
            if stream is None:
                return data
            if len(self._streams) >= MOST:
                self._finish(next(iter(self._streams)))
            self._streams[key] = stream
        passed = stream.feed(data)
        if stream.held:
            self._holding[key] = now + OUTPUT_PAUSE
        else:
            self._holding.pop(key, None)
        return passed

    def _replace(self, key: str, whole: bytes, now: float) -> None:
        """Let another output take the place of what there was, also of what waits."""
        self._streams.pop(key, None)
        self._holding.pop(key, None)
        self._ledger.apply(TerminalChanged(terminal_id=key, output=b""))
        self._note(key, self._passed(key, whole, now))

    def _finish(self, key: str) -> None:
        stream = self._streams.pop(key, None)
        self._holding.pop(key, None)
        if stream is not None:
            self._note(key, stream.finish())

    def _note(self, key: str, data: bytes) -> None:
        """Take in output that is told with what comes next."""
        if data:
            self._ledger.apply(TerminalOutput(terminal_id=key, data=data))

    def _write(self, key: str, data: bytes, now: float) -> None:
        if data:
            self._apply(TerminalOutput(terminal_id=key, data=data), now)

    def _apply(self, event: TerminalEvent, now: float) -> None:
        state = self._ledger.apply(event)
        if isinstance(state, TerminalState):
            self._post.terminal(state, now)


def _read(update: Json) -> TerminalEvent | None:
    """Read an update about a terminal, without the fields that nobody could read."""
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
