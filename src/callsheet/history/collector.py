"""A collector: it reads what a fleet's histories publish, and writes it into one store.

Several collectors of one store share a consumer of the stream, and so the work. A message is acknowledged
when its rows are committed, so each comes at least once; a row has a key, so it is in the table once. What
can't be read or stored is put aside, in a stream of its own, and does not hold up the others; a later
collector, perhaps of another version, tries it again. While the servers or the store are away, a collector
waits for them, and holds no more than a batch.

A publisher that died has left its calls open. They are closed when the stream of those who live has forgotten
it, provided that this collector is up to date, and has seen long enough that others could tell.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from callsheet.history import fleet
from callsheet.history.retention import Pruning
from callsheet.history.rows import KEEP, Retention, WaitingRow
from callsheet.history.store import REMOTE, Store
from callsheet.history.store_errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreTooNew,
    sentence,
)
from callsheet.report.humanize import plural

_T = TypeVar("_T")

MESSAGES, BYTES = 500, 8 << 20
"""What is asked for at once."""

UNACKNOWLEDGED = 5000
"""Messages that all collectors together may have in hand."""

ACKNOWLEDGED_IN = 10.0
"""Seconds after which a message is given to another collector, if the one that has it is not heard of."""

LINGER, IDLE, EXPIRES = 0.02, 1.0, 5.0
RETRY, RETRY_MOST = 0.5, 5.0
UPKEEP, REPORT = 3600.0, 60.0

REASONS = 100
"""Reasons for putting something aside that users are told of."""

SETTLED = 2 * fleet.BEAT
"""Seconds that a connection has lasted, in which all that live have said so."""


class CollectorHealth(Struct):
    """What a collector has done. `waiting` is what the stream had more, when it was last asked."""

    rows: int = 0
    messages: int = 0
    aside: int = 0
    closed: int = 0
    waiting: int = 0


class _Taken(NamedTuple):
    """A row, the writer of its call, and the message that it came in."""

    row: WaitingRow
    writer: str
    message: Any


class Collector:
    """Collects what is published into a store. `run` does it.

    Args:
        source: The URL of the fleet's servers; without a team, of all teams.
        store: The store, not opened yet.
        name: What collectors that share the work have in common. Default: the store.
        keep: The limits of what is stored.
        last: Collect only what was published in so many last seconds, and share it with nobody.
        upkeep: Seconds after which what exceeds the limits is removed.
        notify: Called with each message for users.
        report: Called every minute with what was done.
        settled: Seconds of a connection before calls are closed whose publishers are gone.
    """

    def __init__(
        self,
        source: str,
        store: Store,
        *,
        name: str = "",
        keep: Retention = KEEP,
        last: float | None = None,
        upkeep: float = UPKEEP,
        notify: Callable[[str], None],
        report: Callable[[CollectorHealth], None] = lambda _: None,
        settled: float = SETTLED,
    ) -> None:
        self.done: CollectorHealth = CollectorHealth()
        self._connection: fleet.Connection = fleet.Connection(source, self._connected)
        self._store: Store = store
        team = self._connection.address.team
        self._subject: str = f"callsheet.{fleet.token(team)}.>" if team else "callsheet.>"
        own = token_hex(8) if last is not None else fleet.shared_name(store.url, team)
        self._name: str = f"collect-{fleet.token(name or own)}"
        self._last: float | None = last
        self._notify_users: Callable[[str], None] = notify
        self._report: Callable[[CollectorHealth], None] = report
        self._settled: float = settled
        self._is_stopped: bool = False
        # What is to be put aside: a message, what of it can't be stored, and why.
        self._refused: list[tuple[Any, bytes, str]] = []
        # The end of the stream at the last look.
        self._mark: int = 1 << 62
        self._woken: asyncio.Event = asyncio.Event()
        self._thread: ThreadPoolExecutor = ThreadPoolExecutor(1, "callsheet-collector")
        # What was delivered, and how much of what was asked for may still come.
        self._inbox: str = ""
        self._delivered: deque[Any] = deque()
        self._in_hand: Sequence[Any] = ()
        self._left: int = 0
        self._asked_at: float = 0.0
        self._bytes: int | None = BYTES
        self._is_ready: bool = False
        self._troubles: set[str] = set()
        self._notified: set[str] = set()
        self._pruning: Pruning = Pruning(store, keep, upkeep)
        self._looked_at: float = 0.0
        self._tried: int = 0

    def stop(self) -> None:
        """End `run`, when what is in hand is committed and acknowledged. Call it on the event loop."""
        self._is_stopped = True
        self._woken.set()

    async def run(self) -> CollectorHealth:
        """Collect until `stop`. Return what was done.

        Raises:
            BadUrl: The servers or the store can't be what was meant.
            StoreTooNew: The store is of a later version.
        """
        others = [
            asyncio.create_task(self._report_often()),
            asyncio.create_task(self._hold()),
        ]
        pause = RETRY
        try:
            while not self._is_stopped:
                try:
                    await self._prepare()
                    messages = await self._fetch()
                    if messages:
                        await self._take(messages)
                    if len(messages) < MESSAGES and not self._is_stopped:  # else there is more
                        await self._request()  # what comes ends the indexing
                        await self._tidy()
                except fleet.ServersUnavailable as exc:
                    self._trouble("servers", str(exc))
                    self._is_ready = False
                    await self._sleep(pause)
                    pause = min(2 * pause, RETRY_MOST)
                else:
                    pause = RETRY
        finally:
            for task in others:
                task.cancel()
            with suppress(Exception):
                for message in self._delivered:
                    if message.data:
                        await message.nak()
                await self._count()
            await self._connection.close()
            await self._in_thread(self._store.close)
            self._thread.shutdown()
        return self.done

    # The servers

    async def _prepare(self) -> None:
        """Connect, and make what is missing."""
        if self._is_ready and self._connection.is_open:
            return
        if not self._connection.is_open:
            self._inbox = ""
            await self._connection.open()
        else:
            await self._connection.ensure_streams()
        api = import_module("nats.js.api")
        config: dict[str, Any] = {
            "ack_policy": api.AckPolicy.EXPLICIT,
            "ack_wait": ACKNOWLEDGED_IN,
            "max_ack_pending": UNACKNOWLEDGED,
            "filter_subject": self._subject,
        }
        if self._last is None:
            config |= {"durable_name": self._name, "deliver_policy": api.DeliverPolicy.ALL}
        else:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - self._last))
            config |= {"name": self._name, "inactive_threshold": 10 * EXPIRES}
            config |= {"deliver_policy": api.DeliverPolicy.BY_START_TIME, "opt_start_time": since}
        adding = self._connection.js.add_consumer(fleet.ROWS, api.ConsumerConfig(**config))
        await self._connection.ask(adding)
        if not self._inbox:
            self._inbox = self._connection.nc.new_inbox()
            await self._connection.nc.subscribe(self._inbox, cb=self._deliver)
        self._left = 0
        self._is_ready = True
        self._over("servers")

    def _connected(self, problem: str | None) -> None:
        self._is_ready = False
        if problem is not None:
            self._trouble("servers", problem)
        self._woken.set()

    async def _deliver(self, message: Any) -> None:
        self._delivered.append(message)
        self._woken.set()

    async def _fetch(self) -> list[Any]:
        """Return the messages that have come; wait a little if there are none."""
        await self._request()
        if not self._delivered:
            await self._sleep(IDLE)
        if len(self._delivered) < MESSAGES:
            await asyncio.sleep(LINGER)  # there may be more
        found = list[Any]()
        while self._delivered and len(found) < MESSAGES:
            message = self._delivered.popleft()
            headers: dict[str, str] = message.headers or {}
            if message.data or "Status" not in headers:
                found.append(message)
                self._left -= 1
                self._bytes = BYTES
            else:
                self._status(headers["Status"], headers.get("Description", ""))
        return found

    async def _request(self) -> None:
        """Ask for more, if few are left of what was asked for."""
        is_late = time.monotonic() > self._asked_at + EXPIRES + IDLE
        if self._left > len(self._delivered) and not is_late:
            return
        limits = {"batch": MESSAGES, "max_bytes": self._bytes} if self._bytes else {"batch": 1}
        body = msgspec.json.encode({**limits, "expires": int(EXPIRES * 1e9)})
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{fleet.ROWS}.{self._name}"
        with suppress(Exception):  # it is asked for again
            await self._connection.nc.publish(subject, body, reply=self._inbox)
        self._left = (0 if is_late else self._left) + (MESSAGES if self._bytes else 1)
        self._asked_at = time.monotonic()

    def _status(self, status: str, text: str) -> None:
        """Note why nothing more comes of what was asked for."""
        self._left = 0
        if "MaxBytes" in text:  # the next message alone is larger
            self._bytes = None
        elif status not in ("404", "408"):
            self._is_ready = False  # the consumer was removed, or its leader is gone

    # Writing

    async def _take(self, messages: Sequence[Any]) -> None:
        """Write messages into the store, and acknowledge them."""
        self._in_hand = messages
        taken: list[_Taken] = []
        for message in sorted(messages, key=lambda one: one.metadata.sequence.stream):
            try:
                taken += _rows_of(message)
            except (ValueError, msgspec.MsgspecError) as exc:
                self._refused.append((message, message.data, str(exc)))
        is_written = not taken or await self._write(taken)
        left = await self._put_aside()
        stored = [message for message in messages if message.reply not in left]
        self._in_hand = ()
        with suppress(Exception):  # what is not acknowledged comes again, and changes nothing
            for message in stored[:-1]:
                await (message.ack() if is_written else message.nak())
            for message in stored[-1:]:  # when the servers know of it, they know of the others
                await (message.ack_sync() if is_written else message.nak())
        self.done.messages += len(stored) if is_written else 0

    async def _hold(self) -> None:
        """Say that what is in hand is worked on, so that no other collector gets it meanwhile."""
        while True:
            await asyncio.sleep(ACKNOWLEDGED_IN / 3)
            with suppress(Exception):
                for message in (*self._in_hand, *self._delivered):
                    if message.data:
                        await message.in_progress()

    async def _write(self, taken: list[_Taken]) -> bool:
        """Write rows, as soon as the store takes them. Return whether it has."""
        pause = RETRY
        while True:
            try:
                await self._in_thread(lambda: self._write_now(taken))
            except HistoryError as exc:
                if isinstance(exc, (BadUrl, NotKept, StoreTooNew)):
                    raise
                if type(exc) is HistoryError:
                    return await self._write_parts(taken, exc)
                await self._in_thread(self._store.close)
                self._trouble("store", str(exc))
                if self._is_stopped:
                    return False
                await self._sleep(pause)
                pause = min(2 * pause, RETRY_MOST)
            else:
                self._over("store")
                self.done.rows += len(taken)
                return True

    async def _write_parts(self, taken: list[_Taken], exc: HistoryError) -> bool:
        """Write rows of which one can't be stored: that one is put aside."""
        half = len(taken) // 2
        if half:
            return await self._write(taken[:half]) and await self._write(taken[half:])
        ((session, row), writer, message) = taken[0]
        body = fleet.encode(fleet.Envelope(fleet.VERSION, writer, session, [row]))
        self._refused.append((message, body, str(exc)))
        return True

    def _open_store(self) -> None:
        if not self._store.is_open:
            for news in self._store.open():
                self._notify(news)

    def _write_now(self, taken: Sequence[_Taken]) -> None:
        self._open_store()
        # Whatever a publisher calls itself: no process of this machine is meant.
        writers = {(one.row[1].session_id, one.row[1].key): REMOTE + one.writer for one in taken}
        self._store.write([one.row for one in taken], writers)
        with suppress(HistoryError):  # who is always busy must also remove
            self._pruning.step()

    async def _put_aside(self) -> set[str]:
        """Put aside what was refused. Return what names those messages that stay where they are for now.

        Who only looks leaves that to others.
        """
        refused, self._refused = self._refused, []
        if not refused:
            return set()
        messages: list[fleet.Message] = []
        for message, body, why in refused:
            reason = " ".join(why.split())[:500].encode("ascii", "replace").decode()
            rest, some = message.subject.partition(".")[2], body[: self._connection.most]
            messages.append(fleet.Message(fleet.ASIDE, rest, some, {"Callsheet-Reason": reason}))
        try:
            if self._last is None:
                await self._connection.publish(messages)
        except fleet.ServersUnavailable as exc:
            self._trouble("aside", f"What can't be stored can't be put aside: {exc}")
            return {message.reply for message, _, _ in refused}
        self._over("aside")
        self.done.aside += len(refused)
        for message, _, why in refused:
            where = f"is put aside in {fleet.ASIDE}" if self._last is None else "is left out"
            text = f"What came on {message.subject} can't be stored, and {where}: {why}"
            self._notify(sentence(text), once=f"aside {why[:60]}")
        return set()

    # When nothing comes

    async def _tidy(self) -> None:
        """Do a little of what can wait: try what was put aside, close calls, index, remove."""
        try:
            await self._in_thread(self._open_store)
            now = time.monotonic()
            if now >= self._looked_at + min(REPORT, self._settled):
                self._looked_at = now
                if self._last is None:
                    await self._try_aside()
                await self._close_abandoned()
            while await self._in_thread(lambda: self._store.index() or self._pruning.step()):
                if self._delivered:
                    break
        except (BadUrl, NotKept, StoreTooNew, fleet.ServersUnavailable):
            raise
        except HistoryError as exc:
            self._looked_at = 0.0
            await self._in_thread(self._store.close)
            self._trouble("store", str(exc))
            await self._sleep(RETRY)
        else:
            self._over("store")

    async def _close_abandoned(self) -> None:
        """Close the calls of publishers that are gone.

        Nothing of such a publisher may wait, and it has published nothing since the last look.
        """
        since, mark = self._connection.since, self._mark
        asking = self._connection.js.stream_info(fleet.ROWS)
        self._mark = (await self._connection.ask(asking)).state.last_seq
        stored = await self._count()
        is_settled = since and time.monotonic() > since + self._settled
        if not is_settled or (self.done.waiting and stored < mark):
            return
        asking = self._connection.js.stream_info(fleet.ALIVE, subjects_filter="callsheet_alive.>")
        found = await self._connection.ask(asking)
        alive = {REMOTE + name.rpartition(".")[2] for name in found.state.subjects or ()}
        closed = await self._in_thread(lambda: self._store.recover(alive))
        self.done.closed += closed
        if closed:
            self._notify(
                f"{plural(closed, 'call')} of publishers that are gone closed as abandoned."
            )

    async def _try_aside(self) -> None:
        """Write what was put aside by others, or before, and can be written by now."""
        connection, js, stored = self._connection, self._connection.js, 0
        end = (await connection.ask(js.stream_info(fleet.ASIDE))).state.last_seq
        subject = self._subject.replace("callsheet.", "callsheet_aside.", 1)
        while self._tried < end and not self._is_stopped:
            asking = js.get_msg(fleet.ASIDE, self._tried + 1, next=True, subject=subject)
            if not (message := await connection.request(asking)):
                self._tried = end
                break
            self._tried = message.seq
            try:
                rows = _rows_of(message)
                await self._in_thread(lambda rows=rows: self._write_now(rows))
            except (ValueError, msgspec.MsgspecError):
                continue
            except HistoryError as exc:
                if type(exc) is not HistoryError:
                    raise
            else:
                with suppress(fleet.ServersUnavailable):  # or another collector was quicker
                    await connection.request(js.delete_msg(fleet.ASIDE, self._tried))
                stored += len(rows)
        self.done.rows += stored
        if stored:
            self._notify(f"Stored {plural(stored, 'entry', 'entries')} that had been put aside.")

    # How it goes

    async def _count(self) -> int:
        """Count the messages that wait, or are in hand. Return up to which place all are stored."""
        asking = self._connection.js.consumer_info(fleet.ROWS, self._name)
        found = await self._connection.ask(asking)
        self.done.waiting = (found.num_pending or 0) + (found.num_ack_pending or 0)
        return found.ack_floor.stream_seq if found.ack_floor else 0

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(REPORT)
            with suppress(Exception):  # the servers may be away
                await self._count()
            self._report(self.done)

    def _trouble(self, what: str, why: str) -> None:
        """Notify once of what is wrong."""
        if what not in self._troubles:
            self._troubles.add(what)
            self._notify(f"{sentence(why)} Waiting for it.")

    def _over(self, what: str) -> None:
        if what in self._troubles:
            self._troubles.remove(what)
            url = self._store.url if what == "store" else self._connection.url
            self._notify(f"{url} is there again.")

    def _notify(self, text: str, once: str | None = None) -> None:
        if once is not None:
            if once in self._notified or len(self._notified) >= REASONS:
                return
            self._notified.add(once)
        with suppress(Exception):
            self._notify_users(text)

    async def _sleep(self, seconds: float) -> None:
        """Wait so many seconds, or until something comes, the servers are back, or it is stopped."""
        self._woken.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), 0 if self._is_stopped else seconds)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _rows_of(message: Any) -> list[_Taken]:
    batch = fleet.decode(message.data or b"")
    return [_Taken((batch.session, row), batch.writer, message) for row in batch.rows]
