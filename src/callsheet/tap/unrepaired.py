"""Updates of calls and terminals that are not repaired: they pass as they came, without secrets.

That is all of them with `--no-repair`, and those that no repair could read. Output arrives in
pieces, and a secret may be split over two of them: what may be part of one waits for the next
piece, as in `terminals.py`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from callsheet.acp.terminals import OUTPUT
from callsheet.observe.model import Json, obj, text
from callsheet.observe.tracker import CALLS, TERMINALS
from callsheet.redaction.redactor import Redactor
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.hold import TEXT_PAUSE
from callsheet.tap.stats import Account
from callsheet.tap.terminals import OutputStreams

WithOutput: TypeAlias = Callable[[bytes], Json]
"""Returns an update with other output in it."""

_encode = msgspec.json.Encoder().encode


def is_about_calls(message: Json) -> bool:
    """Whether a message is an update of a call or of a terminal, in a session."""
    params = obj(message.get("params"))
    kind = obj(params.get("update")).get("sessionUpdate")
    return kind in (*CALLS, *TERMINALS) and text(params.get("sessionId")) is not None


class UnrepairedUpdates:
    """Passes on updates of calls and terminals."""

    def __init__(self, sanitizer: Sanitizer, account: Account) -> None:
        self._redactor: Redactor | None = sanitizer.redactor
        self._account: Account = account
        self._streams: OutputStreams[tuple[str, str]] = OutputStreams(sanitizer.stream, TEXT_PAUSE)
        # By session and terminal, how output that waited is sent: by an update with nothing else.
        self._carriers: dict[tuple[str, str], WithOutput] = {}

    def pass_on(self, line: bytes, message: Json, now: float) -> list[bytes]:
        """Return the lines for an update. `line` is it, as it came."""
        if self._redactor is None:
            return [line]
        params = obj(message["params"])
        session, update = text(params.get("sessionId")) or "", obj(params["update"])
        lines, made = self._clean_output(session, update, now)
        clean, count = self._redactor.value(made)
        self._count(count)
        made = clean if count else made
        if made is update:
            return [*lines, line]
        return [*lines, _encode({**message, "params": {**params, "update": made}}) + b"\n"]

    @property
    def due(self) -> float | None:
        """When something has waited long enough."""
        return self._streams.due

    def tick(self, now: float) -> list[bytes]:
        """Return what has waited long enough."""
        return [line for key, data in self._streams.late(now) for line in self._line(key, data)]

    def end(self) -> list[bytes]:
        """Return all that waits."""
        return [line for key in list(self._carriers) for line in self._finish(key)]

    def _clean_output(self, session: str, update: Json, now: float) -> tuple[list[bytes], Json]:
        """Return lines with output that waited, and the update without secrets in its output."""
        ended, piece = _ended(update), _piece(update)
        if piece is None:
            before = [] if ended is None else self._finish((session, ended))
            return before, self._clean_whole_output(update)
        terminal, data, with_output = piece
        key = session, terminal
        oldest = self._streams.oldest_if_full(key)
        before = [] if oldest is None else self._finish(oldest)
        passed = self._streams.feed(key, data, now)
        self._carriers[key] = _carrier(with_output(b""))
        if ended == terminal:
            passed += self._streams.finish(key)
            del self._carriers[key]
        self._count()
        return before, update if passed == data else with_output(passed)

    def _clean_whole_output(self, update: Json) -> Json:
        """Return an update of a terminal without secrets in the whole output that it may bring."""
        output = obj(update.get("output"))
        is_terminal = update.get("sessionUpdate") == "terminal_update"
        data = _decoded(output.get("data")) if is_terminal else None
        if data is None or text(update.get("terminalId")) is None:
            return update
        whole = self._streams.clean(data)
        self._count()
        if whole == data:
            return update
        return {**update, "output": {**output, "data": b64encode(whole).decode()}}

    def _finish(self, key: tuple[str, str]) -> list[bytes]:
        """Return what waits of a terminal, and forget the terminal."""
        lines = self._line(key, self._streams.finish(key))
        self._carriers.pop(key, None)
        return lines

    def _line(self, key: tuple[str, str], data: bytes) -> list[bytes]:
        self._count()
        if not data:
            return []
        params = {"sessionId": key[0], "update": self._carriers[key](data)}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        return [_encode(message) + b"\n"]

    def _count(self, found: int = 0) -> None:
        self._account.hidden += found + self._streams.hidden
        self._streams.hidden = 0


def _decoded(data: Any) -> bytes | None:
    try:
        return b64decode(data, validate=True) if type(data) is str else None
    except ValueError:
        return None


def _piece(update: Json) -> tuple[str, bytes, WithOutput] | None:
    """Return whose output an update brings, the output, and how the update is with another."""
    if update.get("sessionUpdate") == "terminal_output_chunk":
        key, data = text(update.get("terminalId")), _decoded(update.get("data"))
        if key is None or data is None:
            return None
        return key, data, lambda data: {**update, "data": b64encode(data).decode()}
    meta = obj(update.get("_meta"))
    output = obj(meta.get(OUTPUT))
    key, printed = text(output.get("terminal_id")), text(output.get("data"))
    if key is None or printed is None or text(update.get("toolCallId")) is None:
        return None
    return key, printed.encode("utf-8", "surrogatepass"), lambda data: _with_output(update, data)


def _with_output(update: Json, data: bytes) -> Json:
    meta = obj(update["_meta"])
    output = {**obj(meta[OUTPUT]), "data": data.decode("utf-8", "replace")}
    return {**update, "_meta": {**meta, OUTPUT: output}}


def _carrier(update: Json) -> WithOutput:
    """Return how output that waited is sent: by an update with nothing else in it."""
    if update["sessionUpdate"] in TERMINALS:
        return lambda data: {**update, "data": b64encode(data).decode()}
    least = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": update.get("toolCallId"),
        "_meta": {OUTPUT: obj(obj(update["_meta"])[OUTPUT])},
    }
    return lambda data: _with_output(least, data)


def _ended(update: Json) -> str | None:
    """Return the terminal whose end, or whose whole output, an update reports."""
    if update.get("sessionUpdate") == "terminal_update":
        return text(update.get("terminalId"))
    return text(obj(obj(update.get("_meta")).get("terminal_exit")).get("terminal_id"))
