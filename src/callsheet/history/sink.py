"""What one session reports, on its way into the history.

A `SessionLog` is a sink of a session: it receives records of calls, and the messages that the agent adds, and
assigns each its position in the session's timeline. `History` does the rest in its own thread, where an entry
becomes a row (`WaitingCall.to_row`). Records arrive from any thread, in the middle of a change, so this
module does as little as possible.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from callsheet.acp.peer import Peer
from callsheet.history.call_records import WaitingCall, WaitingMessage, column_text
from callsheet.history.rows import SessionRow
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.terminal import CallRecord

if TYPE_CHECKING:
    from callsheet.history.history import History

LONG = 1 << 14
"""Characters of a message from which its next piece begins a new part: what came is not written again and
again.
"""

TITLE = 80
REMEMBERED = 1000
"""Calls that have ended whose start is remembered."""

_numbers = count()
"""Numbers the logs of one process."""


class SessionLog:
    """A sink that stores the calls and messages of a session. Create it with `History.session`.

    It redacts nothing: what it receives must have passed the session's guard.
    """

    peer: Peer | None = None
    takes_records: bool = True

    def __init__(self, history: History, row: SessionRow, position: int) -> None:
        self._history: History = history
        self._row: SessionRow = row
        self._number: int = next(_numbers)
        self._next: int = position
        # The first state of each open call: all of them have its position, time and key.
        self._open: dict[str, WaitingCall] = {}
        # When calls began that have ended: a later one may have the same id.
        self._ended: dict[str, object] = {}
        self._plan: WaitingMessage | None = None
        self._message: WaitingMessage | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._row.session_id

    @property
    def position(self) -> int:
        """The position that the next entry gets in the session's timeline."""
        return self._next

    # Calls

    def send(self, items: deque[Any]) -> None:
        """Queue records of calls to be stored."""
        now = time.time()
        with self._history.lock:
            while items:
                self._take(items.popleft(), now)

    def send_now(self, items: deque[Any], until: float) -> None:
        """Queue records of calls, and wait until they are durable; for the exit of a process."""
        self.send(items)
        self._history.at_last(until)

    def close(self) -> None:
        """Do nothing: the history stays open for other sessions."""

    def _take(self, record: CallRecord, now: float) -> None:
        row, report = self._row, record.report
        call_id, is_final = report.tool_call_id, report.status.is_final
        first = self._open.get(call_id)
        if first is None:
            began = self._ended.get(call_id)
            if is_final and began is not None and began == _began(record):
                return  # it has ended, and is reported again
            position, key = self._next_place()
            entry = WaitingCall(row, position, now, now, record, key)
            if not is_final:
                self._open[call_id] = entry
        else:
            if record.terminals:
                record = _with_late(record, first.record)
            entry = WaitingCall(row, first.position, first.at, now, record, first.key)
        if is_final:
            self._open.pop(call_id, None)
            self._ended.pop(call_id, None)
            self._ended[call_id] = _began(record)
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
        elif call_id not in self._open:  # a signal's handler has ended it just now, within this
            return
        row.updated_at = now
        self._history.put(entry)

    def _next_place(self) -> tuple[int, str]:
        """Return the next position, and the key of its row, which no other run of a log has."""
        self._message = None  # a message that goes on after a call is shown after it
        position = self._next
        self._next += 1
        return position, f"{self._history.run}-{self._number} {position}"

    # Messages

    def say(self, kind: str, message_id: str, blocks: Sequence[JsonObject]) -> None:
        """Store a message, or another chunk of it.

        Args:
            kind: `user`, `agent` or `thought`.
            message_id: The message's id. A chunk with the id of the last message is appended to it.
            blocks: Content blocks of ACP.
        """
        with self._history.lock:
            last, now = self._message, time.time()
            if (
                last is not None
                and (last.kind, last.message_id) == (kind, message_id)
                and _length(last.blocks) < LONG
            ):
                message = replace(last, blocks=_joined(last.blocks, blocks))
            else:
                position, key = self._next_place()
                message = WaitingMessage(
                    self._row, message_id, 0, position, kind, now, tuple(blocks), key
                )
            self._message = message
            self._put(message, now)

    def plan(self, message_id: str, entries: Sequence[JsonObject]) -> None:
        """Store a plan. A later one with the same id replaces it."""
        now = time.time()
        with self._history.lock:
            if self._plan is None or self._plan.message_id != message_id:
                position, key = self._next_place()
                self._plan = WaitingMessage(
                    self._row, message_id, 0, position, "plan", now, (), key
                )
            self._plan = replace(self._plan, blocks=tuple(entries))
            self._put(self._plan, now)

    def name(self, title: str) -> None:
        """Set the session's title, if it has none yet."""
        if not self._row.title:
            self._row.title = column_text(" ".join(title.split()))[:TITLE]

    def _put(self, message: WaitingMessage, now: float) -> None:
        self._row.updated_at = now
        self._history.put(message)


def _began(record: CallRecord) -> object:
    return record.report.notes.get("startedAt")


def _with_late(record: CallRecord, first: CallRecord) -> CallRecord:
    """Return a record that knows which of its terminals it had from the beginning."""
    known = {one.terminal_id for one in first.terminals}
    if all(one.terminal_id in known for one in record.terminals):
        return record
    terminals = [replace(one, late=one.terminal_id not in known) for one in record.terminals]
    return CallRecord(record.report, tuple(terminals))


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
