"""What one session says and does, on its way into the history.

A log is a sink of the session: it takes records of calls, and the messages that the agent adds. It gives each
its place in the session's timeline; the rest is done by `History`, in a thread of its own.

Calls come from any thread, in the midst of a change: so as little as possible is done here.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from threading import RLock
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from callsheet.acp.peer import Peer
from callsheet.history.codec import Codec
from callsheet.history.rows import BlobRow, CallRow, MessageRow, SessionRow
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.terminal import CallRecord

LONG = 1 << 14
"""Characters of a message from which its next piece begins a new part: what is said is not written again
and again.
"""

TITLE = 80
KNOWN = 1000
"""Messages of which it is known how many parts they have, and calls of which it is known when they began."""

_numbers = count()
"""Tells the logs of one process apart."""


class Waiting(Protocol):
    """Something that is to be written. It is packed in the history's thread."""

    def to_row(self, codec: Codec) -> tuple[CallRow | MessageRow, list[BlobRow]]:
        """Return its row, and the blobs that this refers to. They are still to be pressed."""
        ...


class Taker(Protocol):
    """Whoever writes it all down."""

    lock: RLock
    """Held while something gets its place and is put. Re-entrant: a finaliser may report within a report."""

    run: str
    """Tells this process from all others that write, have written or will write to the same store."""

    def put(self, key: tuple[str, str], item: Waiting, session: SessionRow) -> None:
        """Write an item down soon. A later one under the same key takes its place."""
        ...

    def at_last(self, until: float) -> bool:
        """Wait until everything is written, or until a monotonic time; what is not is set by."""
        ...


class WaitingCall(Struct, frozen=True, gc=False):
    """A call, and its place."""

    session_id: str
    position: int
    at: float
    updated_at: float
    record: CallRecord
    run: str = ""

    def to_row(self, codec: Codec) -> tuple[CallRow, list[BlobRow]]:
        """Return its row, and the blobs that this refers to. They are still to be pressed."""
        report, packed = self.record.report, codec.prepare_call(self.record)
        notes = report.notes
        took = notes.get("durationMs")
        reason = notes.get("reason")
        row = CallRow(
            session_id=self.session_id,
            call_id=report.tool_call_id,
            position=self.position,
            name=_plain(report.name),
            title=_plain(report.title or report.name),
            kind=str(report.kind),
            status=report.status.value,
            reason=reason if isinstance(reason, str) else None,
            at=self.at,
            updated_at=self.updated_at,
            duration_ms=float(took) if isinstance(took, (int, float)) else None,
            is_open=not report.status.is_final,
            size=packed.size,
            payload=packed.payload,
            blobs=tuple([blob.hash for blob in packed.blobs]) if packed.blobs else (),
            key=key_of(self.run, self.position),
        )
        return row, packed.blobs


class WaitingMessage(Struct, frozen=True, gc=False):
    """A part of a message, and its place."""

    session_id: str
    message_id: str
    part: int
    position: int
    kind: str
    at: float
    blocks: tuple[JsonObject, ...]
    run: str = ""

    def to_row(self, codec: Codec) -> tuple[MessageRow, list[BlobRow]]:
        """Return its row, and the blobs that this refers to. They are still to be pressed."""
        packed = codec.prepare({"blocks": self.blocks})
        row = MessageRow(
            session_id=self.session_id,
            message_id=self.message_id,
            part=self.part,
            position=self.position,
            kind=self.kind,
            at=self.at,
            size=packed.size,
            payload=packed.payload,
            blobs=tuple([blob.hash for blob in packed.blobs]),
            key=key_of(self.run, self.position),
        )
        return row, packed.blobs


class _Place(Struct, frozen=True, gc=False):
    """Where a call stands, when it began, and the terminals that it was announced with."""

    position: int
    run: str
    at: float
    terminals: tuple[str, ...]


class SessionLog:
    """A sink that keeps what a session says and does.

    What it is given must have passed the session's guard: it is kept as it is.
    """

    peer: Peer | None = None
    takes_records: bool = True

    def __init__(
        self,
        history: Taker,
        session_id: str,
        *,
        cwd: str = "",
        title: str = "",
        info: JsonObject = EMPTY,
        position: int = 0,
    ) -> None:
        now = time.time()
        self._history: Taker = history
        self._row: SessionRow = SessionRow(
            session_id=session_id,
            cwd=_plain(cwd),
            title=_plain(title),
            info=json.dumps(info),
            created_at=now,
            updated_at=now,
        )
        self._number: int = next(_numbers)
        self._next: int = position
        self._open: dict[str, _Place] = {}
        # When calls began that have ended: a later one may have the same id.
        self._ended: dict[str, object] = {}
        self._plan: WaitingMessage | None = None
        self._saying: WaitingMessage | None = None
        self._parts: dict[str, int] = {}

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._row.session_id

    @property
    def position(self) -> int:
        """Where the next thing stands in the session's timeline."""
        return self._next

    # Calls

    def send(self, items: deque[Any]) -> None:
        """Take records of calls."""
        with self._history.lock:
            while items:
                self._take(items.popleft(), time.time())

    def send_now(self, items: deque[Any], until: float) -> None:
        """Take records of calls, and see to it that they are kept; for the end of a process."""
        self.send(items)
        self._history.at_last(until)

    def close(self) -> None:
        """Nothing was opened: the history goes on without this session."""

    def _take(self, record: CallRecord, now: float) -> None:
        report, row = record.report, self._row
        key, session_id = report.tool_call_id, row.session_id
        place = self._open.get(key)
        if place is None:
            began = self._ended.get(key)
            if report.status.is_final and began is not None and began == _began(record):
                return  # it is told again, and has ended
            first = tuple([one.terminal_id for one in record.terminals]) if record.terminals else ()
            place = _Place(self._place(), self._run, now, first)
            self._open[key] = place
        elif record.terminals:
            record = _with_late(record, place.terminals)
        if report.status.is_final:
            self._open.pop(key, None)
            self._ended.pop(key, None)
            self._ended[key] = _began(record)
            if len(self._ended) > KNOWN:
                del self._ended[next(iter(self._ended))]
        elif key not in self._open:  # a signal's handler has ended it just now, within this
            return
        row.updated_at = now
        item = WaitingCall(session_id, place.position, place.at, now, record, place.run)
        self._history.put((session_id, key_of(place.run, place.position)), item, row)

    @property
    def _run(self) -> str:
        return f"{self._history.run}-{self._number}"

    def _place(self) -> int:
        self._saying = None  # what is said after a call is shown after it
        place = self._next
        self._next += 1
        return place

    # Messages

    def say(self, kind: str, message_id: str, blocks: Sequence[JsonObject]) -> None:
        """Keep a message, or a further piece of it. `kind` is `user`, `agent` or `thought`."""
        with self._history.lock:
            self._say(kind, message_id, blocks)

    def _say(self, kind: str, message_id: str, blocks: Sequence[JsonObject]) -> None:
        last, now = self._saying, time.time()
        if (
            last is not None
            and (last.kind, last.message_id) == (kind, message_id)
            and _length(last.blocks) < LONG
        ):
            message = WaitingMessage(
                last.session_id,
                message_id,
                last.part,
                last.position,
                kind,
                last.at,
                _joined(last.blocks, blocks),
                last.run,
            )
        else:
            part = self._parts.pop(message_id, 0)
            self._parts[message_id] = part + 1
            if len(self._parts) > KNOWN:  # nobody goes on with what was said so long ago
                del self._parts[next(iter(self._parts))]
            message = WaitingMessage(
                self.session_id,
                message_id,
                part,
                self._place(),
                kind,
                now,
                tuple(blocks),
                self._run,
            )
        self._saying = message
        self._keep(message, now)

    def plan(self, message_id: str, entries: Sequence[JsonObject]) -> None:
        """Keep a plan. A later one under the same id takes its place."""
        now = time.time()
        with self._history.lock:
            if self._plan is None or self._plan.message_id != message_id:
                self._plan = WaitingMessage(
                    self.session_id, message_id, 0, self._place(), "plan", now, (), self._run
                )
            self._plan = replace(self._plan, blocks=tuple(entries))
            self._keep(self._plan, now)

    def name(self, title: str) -> None:
        """Name the session, if it has no name yet."""
        if not self._row.title:
            self._row.title = _plain(" ".join(title.split()))[:TITLE]

    def _keep(self, message: WaitingMessage, now: float) -> None:
        self._row.updated_at = now
        key = (self.session_id, key_of(message.run, message.position))
        self._history.put(key, message, self._row)


def key_of(run: str, position: int) -> str:
    """Return the key of what has a position in a run of a log. What has no run is known by its id."""
    return f"{run} {position}" if run else ""


def _began(record: CallRecord) -> object:
    return record.report.notes.get("startedAt")


def _with_late(record: CallRecord, first: tuple[str, ...]) -> CallRecord:
    """Return a record that knows which of its terminals were there from the beginning."""
    if all(one.terminal_id in first for one in record.terminals):
        return record
    terminals = [replace(one, late=one.terminal_id not in first) for one in record.terminals]
    return CallRecord(record.report, tuple(terminals))


def _plain(text: str) -> str:
    """Return a text for a column. PostgreSQL has no place for NUL, and a directory may be no text at all."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _length(blocks: Sequence[JsonObject]) -> int:
    return sum(len(block.get("text") or "") for block in blocks)


def _joined(blocks: tuple[JsonObject, ...], more: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Return blocks with more of them; a piece of text goes on where the last has ended."""
    result = list(blocks)
    for block in more:
        last = result[-1] if result else EMPTY
        if _is_text(last) and _is_text(block):
            result[-1] = {"type": "text", "text": last["text"] + block["text"]}
        else:
            result.append(block)
    return tuple(result)


def _is_text(block: JsonObject) -> bool:
    return block.keys() == {"type", "text"} and block["type"] == "text"
