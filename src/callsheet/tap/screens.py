"""Agents' terminals on their way to the client: without secrets, also where one comes in two pieces."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from callsheet.check.recording.moments import Json
from callsheet.check.recording.values import obj
from callsheet.guard.redact import StreamRedactor
from callsheet.report.errors import CallsheetError
from callsheet.report.events import TerminalChanged, TerminalEvent, TerminalOutput
from callsheet.report.ledger import Ledger
from callsheet.report.terminals import TerminalState
from callsheet.runtime.guard import Guard
from callsheet.wire import v2

from .post import QUIET, Post

_ALWAYS = ("sessionUpdate", "terminalId", "data")
_CHECKED = ("size", "capabilities")
_WIDEST = 65_535


class Screens:
    """The terminals of one session."""

    def __init__(self, ledger: Ledger, guard: Guard, post: Post) -> None:
        self._ledger: Ledger = ledger
        self._guard: Guard = guard
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
        if event.exit_status is not UNSET:
            self._finish(key)
        if event.output is not UNSET and event.output is not None:
            self._finish(key)
            whole = event.output
            event = replace(event, output=b"")
            self._apply(self._clean(event), now)
            self._written(key, whole, now)
        else:
            self._apply(self._clean(event), now)

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
            name: self._guard.value(value)[0]
            for name in ("command", "meta", "extra")
            if (value := getattr(event, name)) is not UNSET and value is not None
        }
        return replace(event, **changes) if changes else event

    def _written(self, key: str, data: bytes, now: float) -> None:
        stream = self._streams.get(key)
        if stream is None:
            made = self._guard.stream()
            if made is None:
                self._write(key, data, now)
                return
            stream = self._streams[key] = made
        self._write(key, stream.feed(data), now)
        if stream.held:
            self._holding[key] = now + QUIET
        else:
            self._holding.pop(key, None)

    def _finish(self, key: str) -> None:
        stream = self._streams.pop(key, None)
        self._holding.pop(key, None)
        if stream is not None and (rest := stream.finish()):
            self._ledger.apply(TerminalOutput(terminal_id=key, data=rest))

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
