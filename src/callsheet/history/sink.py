"""What one session reports, on its way into the history.

A `SessionLog` is a sink of a session: it receives records of calls, and the messages that the agent adds, and
assigns each its position in the session's timeline. `History` does the rest in its own thread, where an entry
becomes a row (`WaitingCall.to_row`). Records arrive from any thread, in the middle of a change, so this
module does as little as possible.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, Protocol

from msgspec.structs import replace

from callsheet.acp.peer import Peer
from callsheet.history.call_records import (
    Waiting,
    WaitingCall,
    WaitingMessage,
    WaitingTurn,
    column_text,
)
from callsheet.history.origin import hidden
from callsheet.history.rows import Origin, SessionRow
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage

LONG = 1 << 14
"""Characters of a message from which its next piece begins a new part: what came is not written again and
again.
"""

TICK = 1e-6
"""Seconds that tell two states apart."""

TITLE = 80
REMEMBERED = 1000
"""Calls that have ended whose start is remembered."""

_numbers = count()
"""Numbers the logs of one process."""


class Entries(Protocol):
    """Where a log puts its entries: a `History`, or what an import writes at once."""

    @property
    def run(self) -> str:
        """What the keys of rows begin with."""
        ...

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that is held while an entry is put."""
        ...

    def put(self, entry: Waiting) -> None:
        """Take an entry. A later one with its key replaces it."""
        ...

    def at_last(self, until: float) -> bool:
        """Wait until everything is durable, when the process exits."""
        ...


class SessionLog:
    """A sink that stores the calls and messages of a session. Create it with `History.session`.

    It redacts nothing: what it receives must have passed the session's guard. `clock` is when things happen;
    `number` is that of the log among all of its run.
    """

    peer: Peer | None = None
    takes_records: bool = True

    def __init__(
        self,
        history: Entries,
        row: SessionRow,
        position: int,
        *,
        clock: Callable[[], float] = time.time,
        number: int | None = None,
    ) -> None:
        self._history: Entries = history
        self._row: SessionRow = row
        self._clock: Callable[[], float] = clock
        self._number: int = next(_numbers) if number is None else number
        self._next: int = position
        # The first state of each open call: all of them have its position, time and key.
        self._open: dict[str, WaitingCall] = {}
        # When calls began that have ended: a later one may have the same id.
        self._ended: dict[str, object] = {}
        self._plan: WaitingMessage | None = None
        self._message: WaitingMessage | None = None
        # The turn that is open, the last one that has ended, and how many there were.
        self._turn: WaitingTurn | None = None
        self._last: WaitingTurn | None = None
        self._turns: int = 0

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._row.session_id

    @property
    def position(self) -> int:
        """The position that the next entry gets in the session's timeline."""
        return self._next

    @property
    def is_described(self) -> bool:
        """Whether the session's directory and its agent's name are known."""
        return bool(self._row.cwd and self._row.origin.agent)

    def describe(self, cwd: str, info: JsonObject, origin: Origin) -> None:
        """Note what was not known when the session began. What is known stays."""
        row = self._row
        row.cwd = row.cwd or column_text(hidden(cwd))
        row.info = {**info, **row.info}
        if not row.origin.agent:
            user, host = row.origin.user, row.origin.host
            row.origin = replace(origin, user=user, host=host)

    # Calls

    def send(self, items: deque[Any]) -> None:
        """Queue records of calls to be stored."""
        now = self._clock()
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
            turn = self._turn
            entry = WaitingCall(
                row, position, now, now, record, key, None if turn is None else turn.key
            )
            if not is_final:
                self._open[call_id] = entry
        else:
            if record.terminals:
                record = _with_late(record, first.record)
            entry = WaitingCall(row, first.position, first.at, now, record, first.key, first.turn)
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

    # Turns

    def begin_turn(self, trace: str | None = None) -> str:
        """Begin a turn: the calls that begin from now on belong to it. It ends the one before.

        Args:
            trace: The `traceparent` that the client has sent, if it has.

        Returns:
            The turn's key.
        """
        self.end_turn(None)
        with self._history.lock:
            now = self._clock()
            self._turns += 1
            key = f"{self._history.run}-{self._number} turn {self._turns}"
            self._put_turn(WaitingTurn(self._row, self._next, now, key, trace=trace), now)
            return key

    def end_turn(self, stop_reason: str | None, usage: TokenUsage | None = None) -> None:
        """End the turn that is open, if there is one.

        Args:
            stop_reason: Why it has ended, as the agent says; None if it does not.
            usage: What it has used. Default: what `set_usage` was called with.
        """
        with self._history.lock:
            turn, now = self._turn, self._clock()
            if turn is not None:
                usage = turn.usage if usage is None else usage
                self._turn = None
                ended = replace(turn, ended_at=now, stop_reason=stop_reason, usage=usage)
                self._put_turn(ended, now)

    def set_usage(self, usage: TokenUsage) -> None:
        """Note what the open turn has used so far, or the last one, if none is open."""
        with self._history.lock:
            turn = self._turn or self._last
            if turn is not None and turn.usage != usage:
                # A store knows by its end that this is the later state.
                ended = None if turn.ended_at is None else turn.ended_at + TICK
                self._put_turn(replace(turn, usage=usage, ended_at=ended), self._clock())

    def _put_turn(self, turn: WaitingTurn, now: float) -> None:
        if turn.ended_at is None:
            self._turn = turn
        else:
            self._last = turn
        self._put(turn, now)

    # Messages

    def say(self, kind: str, message_id: str, blocks: Sequence[JsonObject]) -> None:
        """Store a message, or another chunk of it.

        Args:
            kind: `user`, `agent` or `thought`.
            message_id: The message's id. A chunk with the id of the last message is appended to it.
            blocks: Content blocks of ACP.
        """
        with self._history.lock:
            last, now = self._message, self._clock()
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
        now = self._clock()
        with self._history.lock:
            if self._plan is None or self._plan.message_id != message_id:
                position, key = self._next_place()
                self._plan = WaitingMessage(
                    self._row, message_id, 0, position, "plan", now, (), key
                )
            # Of two states of a message, a store knows the later one by its time, or else by its size: other
            # messages only grow.
            at = max(now, self._plan.at + TICK)  # the clock may have been set back
            self._plan = replace(self._plan, blocks=tuple(entries), at=at)
            self._put(self._plan, now)

    def name(self, title: str) -> None:
        """Set the session's title, if it has none yet."""
        if not self._row.title:
            self._row.title = column_text(hidden(" ".join(title.split())))[:TITLE]

    def _put(self, entry: WaitingMessage | WaitingTurn, now: float) -> None:
        self._row.updated_at = now
        self._history.put(entry)


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
