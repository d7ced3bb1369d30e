"""What is told of calls and terminals where nothing is repaired: as it came, but for secrets and size.

Output comes in pieces, and a secret may come in two of them: what may be part of one waits for the next, as
in `screens.py`. Of a message that is too long, each field is cut, and the rest is kept in a file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from callsheet.acp import v1, v2
from callsheet.acp.codec import FIELD_OF, UpdateFrames, encode_location
from callsheet.acp.terminals import OUTPUT
from callsheet.observe.model import Json, obj, text
from callsheet.observe.tracker import CALLS, TERMINALS
from callsheet.redaction.redact import Redactor, StreamRedactor
from callsheet.report.fields import NOTES
from callsheet.report.json import JsonObject
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.hold import TEXT_PAUSE
from callsheet.tap.render import Maker

MOST = 256
"""Terminals whose output is watched at once."""

PIECE = 24 * 1024
"""Bytes of output that one message has at most, if it is too long."""

_CHUNK = "tool_call_content_chunk"
_encode = msgspec.json.Encoder().encode


def is_about_calls(message: Json) -> bool:
    """Whether a message is an update of a call or of a terminal, in a session."""
    params = obj(message.get("params"))
    kind = obj(params.get("update")).get("sessionUpdate")
    return kind in (*CALLS, *TERMINALS) and text(params.get("sessionId")) is not None


class _Screen(NamedTuple):
    """A terminal's output: what waits of it until when, and how a piece of it is told."""

    stream: StreamRedactor
    until: float
    session: str
    told: Callable[[bytes], Json]


class Bare:
    """Passes on updates of calls and terminals. `is_v2` tells what the agent speaks."""

    def __init__(self, guard: Sanitizer, is_v2: Callable[[], bool]) -> None:
        self._guard: Sanitizer = guard
        self._redactor: Redactor | None = guard.redactor
        self._is_v2: Callable[[], bool] = is_v2
        self._screens: dict[tuple[str, str], _Screen] = {}
        self.hidden: int = 0
        """How many secrets were taken out."""

    def pass_on(self, line: bytes, message: Json, now: float) -> Iterator[bytes]:
        """Return the lines for an update. `line` is it, as it came."""
        params = obj(message["params"])
        session, update = text(params.get("sessionId")) or "", obj(params["update"])
        made = update
        if self._redactor is not None:
            made, before = self._clean((session, update), now)
            yield from (_line(session, one) for one in before)
        if made is not update:
            line = _encode({**message, "params": {**params, "update": made}}) + b"\n"
        budget = self._guard.frame
        if budget is None or len(line) <= budget:
            yield line
        elif made["sessionUpdate"] in TERMINALS and len(pieces := _pieces(made)) > 1:
            yield from (_line(session, one) for one in pieces)
        elif made["sessionUpdate"] in CALLS and _may_be_cut(made, session, budget):
            frames = UpdateFrames(session, budget=budget)
            yield from (frames.fitting(one)[0] for one in self._cut(made))
        else:
            yield line

    @property
    def due(self) -> float | None:
        """When something has waited for long enough."""
        return min((one.until for one in self._screens.values() if one.stream.held), default=None)

    def tick(self, now: float) -> Iterator[bytes]:
        """Return what has waited for long enough."""
        for screen in list(self._screens.values()):
            if screen.stream.held and screen.until <= now:
                yield from self._told(screen, screen.stream.flush())

    def end(self) -> Iterator[bytes]:
        """Return all that waits."""
        for key in list(self._screens):
            screen = self._screens.pop(key)
            yield from self._told(screen, screen.stream.finish())

    # Secrets

    def _clean(self, told: tuple[str, Json], now: float) -> tuple[Json, list[Json]]:
        """Return an update without secrets, and updates that come before it: output that waited."""
        session, update = told
        assert self._redactor is not None
        before: list[Json] = []
        made, ended = update, _ended(update)
        piece = _piece(update)
        if piece is not None:
            key, data, with_data = piece
            passed = self._passed((session, key), data, with_data, now)
            if ended == key:
                passed += self._rest((session, key))[1]
            made = update if passed == data else with_data(passed)
        elif ended is not None:
            screen, rest = self._rest((session, ended))
            before = [screen.told(rest)] if screen is not None and rest else []
        made = self._without_output(made)
        safe, count = self._redactor.value(made)
        self.hidden += count
        return safe if count else made, before

    def _passed(
        self, key: tuple[str, str], data: bytes, told: Callable[[bytes], Json], now: float
    ) -> bytes:
        screen = self._screens.pop(key, None)
        stream = screen.stream if screen is not None else self._guard.stream()
        assert stream is not None
        passed = stream.feed(data)
        self._count(stream)
        self._screens[key] = _Screen(stream, now + TEXT_PAUSE, key[0], _carrier(told(b"")))
        if len(self._screens) > MOST:
            del self._screens[next(iter(self._screens))]
        return passed

    def _rest(self, key: tuple[str, str]) -> tuple[_Screen | None, bytes]:
        """Return what waits of a terminal that has ended."""
        screen = self._screens.pop(key, None)
        if screen is None:
            return None, b""
        rest = screen.stream.finish()
        self._count(screen.stream)
        return screen, rest

    def _without_output(self, update: Json) -> Json:
        """Return an update of a terminal without secrets in the whole output that it may bring."""
        stream, data = self._guard.stream(), _whole(update)
        if stream is None or data is None:
            return update
        safe = stream.feed(data) + stream.finish()
        self._count(stream)
        return update if safe == data else _with_whole(update, safe)

    def _count(self, stream: StreamRedactor) -> None:
        self.hidden += stream.count
        stream.count = 0

    def _told(self, screen: _Screen, data: bytes) -> Iterator[bytes]:
        self._count(screen.stream)
        if data:
            yield _line(screen.session, screen.told(data))

    # Size

    def _cut(self, update: Json) -> Iterator[Json]:
        """Return an update of a call that is too long as one or several that are not."""
        *first, last = _pieces(update)
        yield from first
        if last["sessionUpdate"] == _CHUNK:
            fields, notes = self._bounded({"content": [last.get("content")]})
            for item in fields.get("content", []):
                yield {**last, "content": item, **_noted(last, notes)}
        else:
            fields, notes = self._bounded(last)
            yield {**last, **fields, **_noted({**last, **fields}, notes)}

    def _bounded(self, update: Json) -> tuple[Json, JsonObject]:
        """Return the fields of an update within their limits, and the notes on what was cut."""
        version = 2 if self._is_v2() else 1
        told = {key: update[key] for key in FIELD_OF if key in update and key != "status"}
        notes: JsonObject = {}
        make = Maker(self._guard, version)
        fields = self._guard.bounded(make.decoded(told), None, notes)
        wire = v2 if version == 2 else v1
        made: Json = {}
        for key, name in FIELD_OF.items():
            if name in fields:
                made[key] = _encoded(name, fields[name], wire.encode_items)
        meta = {**obj(update.get("_meta"))}
        piece = {OUTPUT: meta.pop(OUTPUT)} if OUTPUT in meta else {}
        if meta:
            meta = self._guard.bounded({"meta": meta}, None, {})["meta"]
        if meta or piece:
            made["_meta"] = {**meta, **piece}
        return made, notes


def _may_be_cut(update: Json, session: str, budget: int) -> bool:
    """Whether something would be left of a call's update beside the ids."""
    key = text(update.get("toolCallId"))
    return key is not None and len(session + key) < budget // 2


def _line(session: str, update: Json) -> bytes:
    params = {"sessionId": session, "update": update}
    return _encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"


def _pieces(update: Json) -> list[Json]:
    """Return an update that brings much output as several that bring a part of it."""
    piece = _piece(update)
    whole = _whole(update)
    if piece is not None:
        _, data, told = piece
        carried = _carrier(told(b""))
        *first, last = _parts(data)
        return [*map(carried, first), told(last)]
    if whole is not None:
        first, *more = _parts(whole)
        carried = _carrier(
            {"sessionUpdate": "terminal_output_chunk", "terminalId": update["terminalId"]}
        )
        return [_with_whole(update, first), *map(carried, more)]
    return [update]


def _parts(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)] or [b""]


def _whole(update: Json) -> bytes | None:
    """Return the whole output that an update of a terminal brings."""
    if update.get("sessionUpdate") != "terminal_update" or text(update.get("terminalId")) is None:
        return None
    return _bytes(obj(update.get("output")).get("data"))


def _with_whole(update: Json, data: bytes) -> Json:
    return {**update, "output": {**obj(update["output"]), "data": b64encode(data).decode()}}


def _bytes(told: Any) -> bytes | None:
    try:
        return b64decode(told, validate=True) if type(told) is str else None
    except ValueError:
        return None


def _encoded(name: str, value: Any, encode_items: Callable[[Any], list[Json]]) -> Any:
    if name == "content":
        return encode_items(value)
    if name == "locations":
        return [encode_location(place) for place in value]
    return str(value) if name == "kind" else value


def _noted(update: Json, notes: JsonObject) -> Json:
    """Return the `_meta` of an update with more notes in it."""
    if not notes:
        return {}
    meta = obj(update.get("_meta"))
    return {"_meta": {**meta, NOTES: {**obj(meta.get(NOTES)), **notes}}}


def _piece(update: Json) -> tuple[str, bytes, Callable[[bytes], Json]] | None:
    """Return whose output an update brings, the output, and how the update is with another."""
    if update.get("sessionUpdate") == "terminal_output_chunk":
        key, data = text(update.get("terminalId")), _bytes(update.get("data"))
        if key is None or data is None:
            return None
        return key, data, lambda data: {**update, "data": b64encode(data).decode()}
    meta = obj(update.get("_meta"))
    output = obj(meta.get(OUTPUT))
    key, said = text(output.get("terminal_id")), text(output.get("data"))
    if key is None or said is None or text(update.get("toolCallId")) is None:
        return None
    return key, said.encode("utf-8", "surrogatepass"), lambda data: _with_output(update, data)


def _with_output(update: Json, data: bytes) -> Json:
    meta = obj(update["_meta"])
    output = {**obj(meta[OUTPUT]), "data": data.decode("utf-8", "replace")}
    return {**update, "_meta": {**meta, OUTPUT: output}}


def _carrier(update: Json) -> Callable[[bytes], Json]:
    """Return how more output is told that waited: by an update that says nothing else."""
    if update["sessionUpdate"] in TERMINALS:
        return lambda data: {**update, "data": b64encode(data).decode()}
    least = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": update.get("toolCallId"),
        "_meta": {OUTPUT: obj(obj(update["_meta"])[OUTPUT])},
    }
    return lambda data: _with_output(least, data)


def _ended(update: Json) -> str | None:
    """Return the terminal of which an update tells the end, or another output."""
    if update.get("sessionUpdate") == "terminal_update":
        return text(update.get("terminalId"))
    return text(obj(obj(update.get("_meta")).get("terminal_exit")).get("terminal_id"))
