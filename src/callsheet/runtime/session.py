"""A session: the scope of ids, order and memory. It knows calls, not tools.

`SessionOptions` and `CallOptions` are the keyword arguments of a session and of its calls, for code
that passes them on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypedDict

from callsheet.acp.peer import Peer
from callsheet.describe import Describer, pick_locale
from callsheet.describe.classify import Annotations
from callsheet.report.errors import InvalidValue
from callsheet.report.fields import Kind, ToolCallLocation
from callsheet.report.json import EMPTY, JsonObject, JsonValue, check_text
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason
from callsheet.runtime import shutdown
from callsheet.runtime.batch import Batch
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.clock import Clock, SystemClock, new_call_id
from callsheet.runtime.consumer import Consumer
from callsheet.runtime.desk import Desk, Opening
from callsheet.runtime.health import ConsumerLost, Faults, Health, SessionClosed
from callsheet.runtime.permission import OnPermission
from callsheet.runtime.record_consumer import RecordConsumer
from callsheet.runtime.sanitizer import GuardSettings, LocalPhrases, Sanitizer
from callsheet.runtime.sinks import CallbackSink, OnUpdate, Sink


class SessionOptions(TypedDict, total=False):
    """Options of `Session`, but for its id and directories."""

    cwd: str | os.PathLike[str]
    locale: str | None
    on_update: OnUpdate | None
    sinks: Iterable[Sink | OnUpdate]
    peer: Peer | None
    on_permission: OnPermission | None
    on_lost: Callable[[Sink, str], None] | None
    guard: GuardSettings | None
    strict: bool
    dead_after: float
    clock: Clock | None


class Links(TypedDict, total=False):
    """How a call relates to others, and its additional metadata."""

    alias: str | None
    parent: RuntimeCall | str | None
    depends_on: Sequence[RuntimeCall | str]
    batch: Batch | str | None
    meta: JsonObject
    custom: JsonObject | None


class CallOptions(Links, total=False):
    """Options of `Session.call`."""

    title: str | None
    kind: Kind | str | None
    locations: Sequence[ToolCallLocation | str] | None
    timeout: float | None
    annotations: Annotations | None


DEAD_AFTER = 30.0
"""Seconds after which a consumer that takes nothing is abandoned."""

CLOSING = 1.0
"""Seconds that consumers get for the last updates where nothing can wait longer."""


class RuntimeSession:
    """The calls of one conversation, and the consumers that receive them.

    Args:
        session_id: The id that updates carry. Without one, a new id is made.
        cwd: The working directory. Relative paths are resolved against it, and shown relative to it.
        additional_directories: Further directories of the workspace.
        locale: The language of titles. Defaults to that of the environment.
        on_update: Receives each ACP `session/update` as bytes, one JSON-RPC line; may be async.
        sinks: More consumers: functions like `on_update`, or `Sink`s for other peers, pipes or reports.
        peer: What the client behind the functions understands.
        on_permission: Asks the client for approval. Without it, nothing is approved.
        on_lost: Called with the sink and the cause when a consumer is abandoned.
        guard: How secrets are redacted, what the size limits are, and where the rest is stored.
        strict: Whether faults of reporting raise instead of being counted; for tests.
        dead_after: Seconds after which a consumer that takes nothing is abandoned.
        clock: The source of time; for tests.

    Raises:
        InvalidValue: `guard` is not a `GuardSettings`.
    """

    call_type: type[RuntimeCall] = RuntimeCall

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
        guard: GuardSettings | None = None,
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
            redact=lambda text: self.desk.guard.command(text),  # noqa: PLW0108 - it comes later
        )
        words = LocalPhrases(describer)
        self.desk: Desk = Desk(
            self.session_id,
            self.cwd,
            describer,
            words,
            Sanitizer(_checked(guard), words, self.faults),
            clock or SystemClock(),
            self.faults,
        )
        self.faults.clean = self.desk.guard.clean
        self.loop: asyncio.AbstractEventLoop | None = None
        self._peer: Peer = peer or Peer()
        given = [*([on_update] if on_update else []), *sinks]
        self._given: list[Sink] = [self._sink(sink) for sink in given]
        self._on_lost: Callable[[Sink, str], None] | None = on_lost
        self._batches: dict[str, Batch] = {}

    # Opening and closing

    def open(self) -> Self:
        """Open the session on the running event loop. `async with` does this.

        Raises:
            SessionClosed: The session was closed, or no event loop is running.
        """
        if self.desk.is_closed:
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
            shutdown.remember(self)
            for sink in self._given:
                self._attach(sink)
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
        """End every call that is still open, send everything, and close the consumers.

        This waits at most `dead_after` seconds for slow consumers.

        Raises:
            ConsumerLost: A consumer was abandoned or failed; in strict mode only.
        """
        with self.desk.lock:
            if self.desk.is_closed:
                return
            self.desk.is_closed = True
        self._end_calls("closed")
        problem = await self._last_flush()
        shutdown.forget(self)
        consumers, self.desk.consumers = self.desk.consumers, ()
        for consumer in consumers:
            consumer.close()
        lost = self.faults.of_consumers
        if problem is None and self.faults.strict and lost is not None:
            problem = ConsumerLost(lost)
        if problem is not None:
            raise problem

    async def _last_flush(self) -> BaseException | None:
        """Send everything, and return what went wrong.

        If the first attempt is cancelled, a second, shorter one follows, so that the calls' ends are sent.
        """
        problem: BaseException | None = None
        for patience in (self.dead_after, CLOSING):
            try:
                async with asyncio.timeout(patience):
                    await self.flush()
                break
            except TimeoutError:
                self.faults.count("a consumer was too slow for the end of the session", late=1)
                break
            except BaseException as exc:  # noqa: BLE001 - raised when the session is closed
                problem = problem or exc
        return problem

    def attach(self, sink: Sink | OnUpdate) -> Sink:
        """Add a consumer. It receives the live calls, and everything that follows.

        Args:
            sink: A sink, or a function like `on_update`.

        Returns:
            The sink; a function is wrapped in one.

        Raises:
            SessionClosed: The session was closed, or it is not open and no event loop is running.
        """
        made = self._sink(sink)
        self.open()
        self._attach(made)
        return made

    def _sink(self, sink: Sink | OnUpdate) -> Sink:
        return sink if isinstance(sink, Sink) else CallbackSink(sink, self._peer)

    def _attach(self, sink: Sink) -> None:
        assert self.loop is not None
        keeps = sink.peer is None and getattr(sink, "takes_records", False)
        consumer = (RecordConsumer if keeps else Consumer)(self, sink, self.loop)
        with self.desk.lock:
            self.desk.consumers = (*self.desk.consumers, consumer)
            for call in self.desk.calls.values():
                call.introduce_to(consumer)

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
        parent: RuntimeCall | str | None = None,
        depends_on: Sequence[RuntimeCall | str] = (),
        batch: Batch | str | None = None,
        timeout: float | None = None,
        annotations: Annotations | None = None,
        meta: JsonObject = EMPTY,
        custom: JsonObject | None = None,
    ) -> RuntimeCall:
        """Make a call: `async with session.call("bash", {"command": "ls"}) as call:`.

        The call is announced when it is entered, not when it is made.

        Args:
            name: The tool's name.
            input: The tool's arguments.
            title: The title, or a template for it: "Reading {path}". Found by `describe` if omitted.
            kind: The kind of tool. Found by `describe` if omitted.
            locations: The files that the call works on. Found by `describe` if omitted.
            alias: The id that a model uses for the call.
            parent: The call that this one is part of, or its id or alias.
            depends_on: Calls of this session, or their ids or aliases, that this one depends on.
            batch: The batch that the call belongs to.
            timeout: Seconds after which the call's scope is cancelled; needs `async with`.
            annotations: The annotations that an MCP server declares for the tool.
            meta: Fields for ACP's `_meta`.
            custom: Fields for `_meta.callsheet.custom`.

        Returns:
            The call, to be entered once.
        """
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
            given = timeout if isinstance(timeout, (int, float)) else type(timeout).__name__
            self.faults.degraded(InvalidValue(f"timeout: expected seconds above 0, got {given}"))
            timeout = None
        links: dict[str, Any] = {}
        if alias is not None:
            links["alias"] = alias
        if parent is not None:
            links["parent"] = parent.id if isinstance(parent, RuntimeCall) else parent
        if depends_on != ():
            known = depends_on if isinstance(depends_on, (list, tuple)) else [depends_on]
            links["depends_on"] = [c.id if isinstance(c, RuntimeCall) else c for c in known]
        if batch is not None:
            links["batch"] = batch
        if annotations:
            links["annotations"] = annotations
        if meta is not EMPTY:
            links["meta"] = meta
        if custom is not None:
            links["notes"] = {"custom": custom}
        return self.call_type(self, (name, input, title, kind, locations, links), timeout)

    def batch(self, title: str = "", *, total: int | None = None, summary: bool = False) -> Batch:
        """Group calls: `async with session.batch("Reading 12 files", total=12) as batch:`.

        Args:
            title: What the batch does.
            total: How many calls are expected, if known.
            summary: Whether an additional call represents the batch and reports its progress.
        """
        return Batch(self, title, total, summary)

    @property
    def reports(self) -> tuple[ToolCallReport, ...]:
        """The current reports of the live calls, and of those that ended last."""
        with self.desk.lock:
            return tuple(self.desk.ledger)

    @property
    def health(self) -> Health:
        """How well reporting works: counts of what was dropped, degraded, cut, redacted, late."""
        return self.faults.health

    def get(self, key: str) -> ToolCallReport | None:
        """Return the report of a call by its id or alias, or None if it is unknown or no longer stored."""
        with self.desk.lock:
            found = self.desk.ledger.get(key)
        return found if isinstance(found, ToolCallReport) else None

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a report as the first client sees it."""
        client = self._client()
        with self.desk.lock:
            return report if client is None else client.queue.view.shown(report)

    def _client(self) -> Consumer | None:
        return next(
            (box for box in self.desk.consumers if isinstance(box, Consumer) and box.sink.peer),
            None,
        )

    # Barriers

    async def flush(self) -> None:
        """Wait until everything reported so far was delivered to every live consumer.

        Raises:
            ConsumerLost: A consumer was abandoned or failed; in strict mode only.
        """
        await self._flush(self.desk.consumers)
        faults = self.faults
        if faults.strict and faults.of_consumers is not None:
            fault, faults.of_consumers = faults.of_consumers, None
            raise ConsumerLost(fault)

    async def flush_client(self) -> None:
        """Wait until everything reported so far was delivered to the client: the first that takes lines."""
        client = self._client()
        if client is not None:
            await self._flush((client,))

    async def _flush(self, consumers: Sequence[Consumer | RecordConsumer]) -> None:
        loop = self.loop
        if loop is None:
            return
        if not loop.is_running():  # awaiting would never end
            self._send_now(monotonic() + CLOSING)
        elif asyncio.get_running_loop() is not loop:
            there = asyncio.run_coroutine_threadsafe(self._flush(consumers), loop)
            await asyncio.wrap_future(there)
        else:
            for waiting in [consumer.flush() for consumer in consumers]:
                if waiting is not None:
                    await waiting

    # What calls, consumers and the end of the process use

    def announce(self, call: RuntimeCall, opening: Opening) -> None:
        """Announce a call."""
        if self.loop is None or (self.desk.is_closed and self.faults.strict):
            self.open()
        links = opening[-1]
        batch = links.get("batch") if links else None
        if not isinstance(batch, Batch):
            self.desk.open(call, opening)
            return
        batch.join(links)
        self.desk.open(call, opening)
        self._batches[call.id] = batch
        batch.opened()

    def ended(self, call: RuntimeCall) -> None:
        """Handle the end of a call."""
        self.desk.calls.pop(call.id, None)
        if self.desk.is_behind:
            self.desk.keep_up()
        batch = self._batches.pop(call.id, None) if self._batches else None
        if batch is not None:
            batch.ended(call)

    def lost(self, consumer: Consumer | RecordConsumer, why: str) -> None:
        """Remove a consumer that was abandoned, and report it to `on_lost`."""
        self.faults.count(f"a consumer was given up: {why}", dead=1)
        with self.desk.lock:
            left = [other for other in self.desk.consumers if other is not consumer]
            self.desk.consumers = tuple(left)
        consumer.close()
        if self._on_lost is not None:
            with suppress(Exception):
                self._on_lost(consumer.sink, why)

    def _end_calls(self, why: str) -> None:
        """End every call that is open: the latest first, so that children end before parents."""
        for call in reversed(list(self.desk.calls.values())):
            if not call.has_ended:
                call.fail(self.desk.phrase(why), reason=Reason.ABANDONED)

    def end_now(self, until: float) -> None:
        """End every call and send everything at the end of the process, until a monotonic time."""
        loop = self.loop
        if loop is not None and loop.is_running() and get_ident() != self.desk.thread:
            closing = asyncio.run_coroutine_threadsafe(self.close(), loop)
            with suppress(TimeoutError, CancelledError):
                closing.result(max(0.0, until - monotonic()))
            return
        self.desk.is_closed = True
        self._end_calls("interrupted")
        self._send_now(until)

    def _send_now(self, until: float) -> None:
        for consumer in self.desk.consumers:
            consumer.send_now(until)

    def mute(self) -> None:
        """Send nothing more: this is a forked child, and the pipes belong to its parent."""
        self.desk.after_fork()


def _checked(guard: object) -> GuardSettings:
    if guard is None:
        return GuardSettings()
    if not isinstance(guard, GuardSettings):
        raise InvalidValue(f"guard: expected GuardSettings, got {type(guard).__name__}")
    return guard
