"""A history that is published to a fleet's servers, for a collector to write into a store.

It takes the place of a `Store` for whoever writes: `History`, its thread, its batches and its spool are as
ever. What is published is durable when the servers have acknowledged it. Nothing can be read from here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from msgspec.structs import replace

from callsheet.history import fleet
from callsheet.history.call_records import unreadable
from callsheet.history.codec import Codec, as_json_bytes, blocks_as_json
from callsheet.history.database import Database
from callsheet.history.loop_thread import LoopThread
from callsheet.history.origin import here
from callsheet.history.rows import UNKNOWN, CallRow, Pruned, TurnRow, WaitingRow
from callsheet.history.store import Store, Writers
from callsheet.history.store_errors import HistoryError, StoreUnavailable
from callsheet.history.url import without_password

TOGETHER = 1 << 16
"""Bytes of payloads that go into one message, more or less."""


class FleetStore(Store):
    """A store that can only be written to. See `Store`."""

    def __init__(self, url: str) -> None:
        nothing = SimpleNamespace(  # what stands where a store has its database
            url=without_password(url),
            codec=Codec(),
            is_open=False,
            error=lambda exc: exc,  # pyright: ignore[reportUnknownLambdaType]
            release_lock=lambda: None,
        )
        super().__init__(cast("Database", nothing))
        self._connection: fleet.Connection | None = None
        self._url: str = url
        self._loop: LoopThread = LoopThread()
        # The keys of calls that are open, and when the servers were told that their writer is there.
        self._open: set[str] = set()
        self._beat_at: float | None = None
        self._beating: Any = None

    def open(self, *, write: bool = True) -> list[str]:
        """Connect. Return nothing, since nothing is repaired here."""
        if not write:
            self.ensure_connected()
        self._writer = self._writer or token_hex(8)  # whose open calls are in the servers already
        self._loop.submit(self._make_connection()).result()
        self.is_open = True
        return []

    async def _make_connection(self) -> None:
        if self._connection is None:
            self._connection = fleet.Connection(self._url)
        await self._connection.open()
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())

    def close(self) -> None:
        """Close the connection. Calls that are open are closed by a collector, some minutes later."""
        self.is_open = False
        with suppress(Exception):
            self._loop.submit(self._disconnect()).result(fleet.CONNECT)
        self._loop.close(fleet.CONNECT)

    async def _disconnect(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def ensure_connected(self) -> NoReturn:
        """Raise what is wrong: whatever is read begins with this."""
        raise HistoryError(
            f"{self.url} can't be read: calls only pass through it. Name the database that "
            "`callsheet collect --to` writes, or watch them live: callsheet ui --history nats://…"
        )

    # Writing

    def write(self, rows: Sequence[WaitingRow], writer: str | Writers | None = None) -> None:
        """Publish rows. When this returns, the servers have stored all of them."""
        connection = self._connection
        if connection is None or not connection.is_open:
            self.is_open = False
            raise StoreUnavailable(f"{self.url} is away.")
        name = writer if isinstance(writer, str) else self._writer
        cut = None
        try:
            messages = list(self._messages(rows, name))
        except HistoryError as exc:
            if len(rows) > 1:  # whoever writes finds the row, and writes the others
                raise
            cut, rows = exc, [self._without_payload(rows[0])]
            messages = list(self._messages(rows, name))
        calls = [row for _, row in rows if isinstance(row, CallRow) and name == self._writer]
        is_late = self._beat_at is None or time.monotonic() > self._beat_at + fleet.BEAT
        if is_late and any(row.is_open for row in calls):
            messages.insert(0, self._alive())
        self._loop.submit(connection.publish(messages)).result()
        for row in calls:
            (self._open.add if row.is_open else self._open.discard)(row.key)
        if cut is not None:
            raise HistoryError(f"{cut}; only its head is stored")

    def _messages(self, rows: Sequence[WaitingRow], writer: str) -> Iterator[fleet.Message]:
        """Yield the messages for some rows: each has rows of one session, in their order."""
        sessions: dict[str, list[WaitingRow]] = {}
        for row in rows:
            sessions.setdefault(row[0].session_id, []).append(row)
        for session_id, some in sessions.items():
            host = here(some[0][0].origin).host
            subject = ".".join(map(fleet.token, (self._team, host, session_id)))
            begin = size = 0
            for end, row in enumerate(some, 1):
                size += row[1].room
                if size >= TOGETHER or end == len(some):
                    for body in self._bodies(some[begin:end], writer):
                        yield fleet.Message(fleet.ROWS, subject, body)
                    begin, size = end, 0

    def _bodies(self, rows: Sequence[WaitingRow], writer: str) -> Iterator[bytes]:
        """Yield the bodies of messages for some rows of a session: one, if that is not too large."""
        assert self._connection is not None
        most, part = self._connection.most, [row for _, row in rows]
        body = fleet.encode(fleet.Envelope(fleet.VERSION, writer, rows[-1][0], part))
        if len(body) <= most:
            yield body
        elif half := len(rows) // 2:
            yield from self._bodies(rows[:half], writer)
            yield from self._bodies(rows[half:], writer)
        else:
            much = f"{len(body):,} bytes, and the server takes {most:,} (max_payload)"
            raise HistoryError(f"it is too large for {self.url}: {much}")

    @property
    def _team(self) -> str:
        assert self._connection is not None
        return self._connection.address.team

    def _without_payload(self, row: WaitingRow) -> WaitingRow:
        """Return a row with a note in the place of what it had."""
        session, one = row
        if isinstance(one, TurnRow):
            return row
        why = f"it took {one.room:,} bytes, more than a fleet's servers take"
        if isinstance(one, CallRow):
            note = as_json_bytes(unreadable(one, why))
            one = replace(one, input=None, output=None)
        else:
            note = blocks_as_json(
                [{"type": "text", "text": f"(The history has lost this: {why}.)"}]
            )
        (payload,) = self.codec.compress([note])
        return session, replace(one, payload=payload, size=len(note))

    # Whether it is there

    def _alive(self) -> fleet.Message:
        self._beat_at = time.monotonic()
        # Twice the same would be taken for the same message.
        body = f"{here(UNKNOWN).host} {self._beat_at}".encode()
        return fleet.Message(fleet.ALIVE, f"{fleet.token(self._team)}.{self._writer}", body)

    async def _beat(self) -> None:
        """Say that we are there, while calls are open."""
        while True:
            await asyncio.sleep(fleet.BEAT)
            connection = self._connection
            if self._open and connection is not None and connection.is_open:
                with suppress(Exception):
                    alive = self._alive()
                    await connection.nc.publish(f"{alive.stream.lower()}.{alive.rest}", alive.body)

    # What others do with a store

    def recover(self, publishers: Collection[str] | None = None) -> int:  # noqa: ARG002
        """Close nothing: that is a collector's work."""
        return 0

    def index(self, limit: int = 200) -> int:  # noqa: ARG002
        """Index nothing."""
        return 0

    def prune(self, *_: Any, **__: Any) -> Iterator[Pruned]:
        """Remove nothing: the streams and the collectors' store have limits of their own."""
        return iter(())
