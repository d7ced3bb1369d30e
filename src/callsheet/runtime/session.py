"""A session: the scope of ids, order and memory. It knows calls, not tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import Any, Self

from callsheet.describe import Describer, pick_locale
from callsheet.report.kinds import Kind
from callsheet.report.locations import ToolCallLocation
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason
from callsheet.report.values import EMPTY, JsonObject, JsonValue, check_text
from callsheet.wire.peer import Peer

from . import lastly
from .batch import Batch
from .call import Call
from .clock import Clock, SystemClock
from .desk import Desk, Opening
from .errors import ConsumerLost, SessionClosed
from .faults import Faults
from .health import Health
from .ids import new_call_id
from .outbox import Outbox
from .permission import OnPermission
from .sinks import CallbackSink, OnUpdate, Sink

DEAD_AFTER = 30.0
"""Seconds after which a consumer that takes nothing is given up."""


class Session:
    """The calls of one conversation, and who is told of them.

    - `on_update` gets each ACP `session/update` as bytes, one JSON-RPC line; it may be async.
    - `sinks` are more consumers: functions like it, or `Sink`s for other peers, pipes or reports.
    - `peer` says what the client behind the functions understands.
    - `cwd` and `additional_directories` are the workspace: paths are meant from there and shown so.
    - `locale` is the language of titles; else it is that of the environment.
    - `on_permission` asks the client; without it, nothing is permitted.
    - `on_lost` hears of a consumer that is given up, after `dead_after` seconds without a sign.
    - `strict` lets faults of reporting raise, for tests.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        cwd: str | os.PathLike[str] = ".",
        additional_directories: Sequence[str] = (),
        locale: str | None = None,
        on_update: OnUpdate | None = None,
        sinks: Iterable[Sink | OnUpdate] = (),
        peer: Peer | None = None,
        on_permission: OnPermission | None = None,
        on_lost: Callable[[Sink, str], None] | None = None,
        strict: bool = False,
        dead_after: float = DEAD_AFTER,
        clock: Clock | None = None,
    ) -> None:
        if session_id is None:
            session_id = "sess_" + new_call_id().removeprefix("call_")
        self.session_id: str = check_text(session_id, "session id")
        self.cwd: str = os.path.abspath(os.fspath(cwd))  # noqa: PTH100 - as text, with its links
        self.on_permission: OnPermission | None = on_permission
        self.dead_after: float = dead_after
        self.faults: Faults = Faults(strict=strict)
        describer = Describer(
            self.cwd,
            locale=pick_locale(locale, os.environ),
            roots=additional_directories,
            home=os.path.expanduser("~"),  # noqa: PTH111 - as text
        )
        self.desk: Desk = Desk(
            self.session_id, self.cwd, describer, clock or SystemClock(), self.faults
        )
        self.loop: asyncio.AbstractEventLoop | None = None
        self._peer: Peer = peer or Peer()
        self._given: list[Sink | OnUpdate] = [*([on_update] if on_update else []), *sinks]
        self._on_lost: Callable[[Sink, str], None] | None = on_lost
        self._batches: dict[str, Batch] = {}
        self._is_closed: bool = False

    # Opening and closing

    def open(self) -> Self:
        """Open the session on the running event loop. `async with` does this."""
        if self._is_closed:
            raise SessionClosed(f"session {self.session_id} is closed; make a new one")
        if self.loop is None:
            try:
                self.loop = asyncio.get_running_loop()
            except RuntimeError:
                raise SessionClosed(
                    f"session {self.session_id} is not open; open it on an event loop first: "
                    "async with Session(…) as session"
                ) from None
            self.desk.thread = get_ident()
            lastly.remember(self)
            for sink in self._given:
                self.attach(sink)
        return self

    async def __aenter__(self) -> Self:
        """Open the session."""
        return self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the session."""
        await self.close()

    async def close(self) -> None:
        """End every call that is still open, send everything, and let the consumers go."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end_calls("closed")
        try:
            await self.flush()
        finally:
            lastly.forget(self)
            for outbox in self.desk.outboxes:
                outbox.close()

    def attach(self, sink: Sink | OnUpdate) -> Sink:
        """Add a consumer. It is told of the calls that live now, and of all that comes."""
        made: Sink = sink if isinstance(sink, Sink) else CallbackSink(sink, self._peer)
        self.open()
        outbox = Outbox(self, made)
        with self.desk.lock:
            self.desk.outboxes = (*self.desk.outboxes, outbox)
            for report in self.desk.ledger.live():
                outbox.put(report, True)
        return made

    # Calls

    def call(
        self,
        name: str,
        input: JsonValue = None,  # noqa: A002 - the contract's name
        *,
        title: str | None = None,
        kind: Kind | str | None = None,
        locations: Sequence[ToolCallLocation | str] | None = None,
        alias: str | None = None,
        parent: Call | str | None = None,
        depends_on: Sequence[Call | str] = (),
        batch: Batch | str | None = None,
        timeout: float | None = None,
        meta: JsonObject = EMPTY,
        custom: JsonObject | None = None,
    ) -> Call:
        """Make a call: `async with session.call("bash", {"command": "ls"}) as call:`.

        It is announced when it is entered. Title, kind and locations that you don't give are found
        by `describe`; a title may be a template: "Reading {path}". `alias` is the id that a model
        uses for it; `parent` and `depends_on` are other calls of this session, or their ids or
        aliases.
        """
        links: dict[str, Any] = {}
        if alias is not None:
            links["alias"] = alias
        if parent is not None:
            links["parent"] = parent.id if isinstance(parent, Call) else parent
        if depends_on:
            links["depends_on"] = [c.id if isinstance(c, Call) else c for c in depends_on]
        if batch is not None:
            links["batch"] = batch
        if meta:
            links["meta"] = meta
        if custom:
            links["notes"] = {"custom": custom}
        return Call(self, (name, input, title, kind, locations, links), timeout)

    def batch(self, title: str = "", *, total: int | None = None, summary: bool = False) -> Batch:
        """Group calls: `async with session.batch("Reading 12 files", total=12) as batch:`.

        With `summary`, a call of its own stands for the batch and says how far it is.
        """
        return Batch(self, title, total, summary)

    @property
    def reports(self) -> tuple[ToolCallReport, ...]:
        """The reports of the calls that live, and of those that ended last, as they are now."""
        with self.desk.lock:
            return tuple(self.desk.ledger)

    @property
    def health(self) -> Health:
        """How well reporting goes: counts of what was dropped, degraded, cut, redacted, late."""
        return self.faults.health

    def get(self, key: str) -> ToolCallReport | None:
        """Give the report of a call by its id or alias, while it is kept."""
        with self.desk.lock:
            found = self.desk.ledger.get(key)
        return found if isinstance(found, ToolCallReport) else None

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Give a report as the first client is shown it."""
        for outbox in self.desk.outboxes:
            if outbox.sink.peer is not None:
                return outbox.backlog.view.shown(report)
        return report

    # Barriers

    async def flush(self) -> None:
        """Return when everything said so far was handed to every consumer that lives."""
        loop = self.loop
        if loop is None:
            return
        if asyncio.get_running_loop() is not loop:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.flush(), loop))
            return
        for outbox in self.desk.outboxes:
            waiting = outbox.flush()
            if waiting is not None:
                await waiting
        faults = self.faults
        if faults.strict and faults.of_consumers is not None:
            fault, faults.of_consumers = faults.of_consumers, None
            raise ConsumerLost(fault)

    # What calls, outboxes and the end of the process use

    def announce(self, call: Call, opening: Opening) -> ToolCallReport:
        """Announce a call."""
        if self.loop is None or self._is_closed:
            self._announce_late(opening[0])
        links = opening[-1]
        batch = links.get("batch") if links else None
        if not isinstance(batch, Batch):
            return self.desk.open(call, opening)
        batch.join(links)
        report = self.desk.open(call, opening)
        self._batches[report.tool_call_id] = batch
        batch.opened()
        return report

    def _announce_late(self, name: str) -> None:
        if self._is_closed and not self.faults.strict:
            self.faults.count(f"call {name!r}: the session is closed", dropped=1)
        else:
            self.open()

    def ended(self, call: Call) -> None:
        """Hear that a call has ended."""
        self.desk.calls.pop(call.id, None)
        if self.desk.is_behind:
            self.desk.keep_up()
        batch = self._batches.pop(call.id, None) if self._batches else None
        if batch is not None:
            batch.ended(call)

    def lost(self, outbox: Outbox, why: str) -> None:
        """Hear that a consumer was given up."""
        self.faults.count(f"a consumer was given up: {why}", dead=1)
        with self.desk.lock:
            left = [other for other in self.desk.outboxes if other is not outbox]
            self.desk.outboxes = tuple(left)
        outbox.close()
        if self._on_lost is not None:
            with suppress(Exception):
                self._on_lost(outbox.sink, why)

    def _end_calls(self, why: str) -> None:
        """End every call that is open: the latest first, so that children end before parents."""
        for call in reversed(list(self.desk.calls.values())):
            if not call.has_ended:
                call.fail(self.desk.phrase(why), reason=Reason.ABANDONED)

    def end_now(self, until: float) -> None:
        """End every call and send everything without an event loop, until a monotonic time."""
        self._is_closed = True
        self._end_calls("interrupted")
        for outbox in self.desk.outboxes:
            outbox.send_now(until)

    def mute(self) -> None:
        """Say nothing more: this is a forked child, and the pipes belong to its parent."""
        self._is_closed = True
        self.desk.after_fork()
