"""A session: the scope of ids, order and memory. It knows calls, not tools.

The session owns the ledger, the lock and the consumers. A change of a call is prepared without the lock
(sanitized, described, cut to its limits) and then committed under it: the ledger judges it, and every
consumer is notified. So all consumers receive all changes in the same order, calls may be changed from
any thread, and nothing slow happens under the lock.

Reporting never breaks a tool: a value that can't be reported as it is gets left out, and counted.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from threading import RLock, get_ident
from time import monotonic
from types import TracebackType
from typing import Any, Self, Unpack, cast
from weakref import WeakValueDictionary

from callsheet.acp.codec import UpdateFrames
from callsheet.acp.peer import Peer
from callsheet.describe import Describer, pick_locale
from callsheet.report.errors import CorrelationError, InvalidValue
from callsheet.report.fields import ToolKind
from callsheet.report.ids import CallIndex, check_id
from callsheet.report.json import JsonValue, check_text
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason
from callsheet.report.terminal import TerminalState
from callsheet.runtime import shutdown
from callsheet.runtime.batch import Batch
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.call_state import CallState
from callsheet.runtime.clock import Clock, new_call_id
from callsheet.runtime.consumer import Consumer
from callsheet.runtime.delivery import Delivery
from callsheet.runtime.health import ConsumerLost, Faults, Health, Misuse, SessionClosed
from callsheet.runtime.live_output import Output
from callsheet.runtime.options import CallOptions, CallSpec, checked_timeout, described, new_report
from callsheet.runtime.permission import OnPermission
from callsheet.runtime.sanitizer import GuardSettings, LocalPhrases, Sanitizer
from callsheet.runtime.sinks import CallbackSink, OnParams, OnUpdate, Sink, params_of

DEAD_AFTER = 30.0
"""Seconds after which a consumer that takes nothing is abandoned."""

KEEP_ENDED = 256
"""Calls that have ended and are still stored."""

_FORGET_AT_ONCE = 32
"""Forgetting is done for so many calls at once, which is cheaper than one by one."""

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
        on_params: Receives the `params` of each `session/update` as a dict; may be async.
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
        on_params: OnParams | None = None,
        sinks: Iterable[Sink | OnUpdate] = (),
        peer: Peer | None = None,
        on_permission: OnPermission | None = None,
        on_lost: Callable[[Sink, str], None] | None = None,
        guard: GuardSettings | None = None,
        strict: bool = False,
        dead_after: float = DEAD_AFTER,
        clock: Clock | None = None,
    ) -> None:
        if guard is not None and not isinstance(guard, GuardSettings):
            raise InvalidValue(f"guard: expected GuardSettings, got {type(guard).__name__}")
        if session_id is None:
            session_id = "sess_" + new_call_id().removeprefix("call_")
        self.session_id: str = check_text(session_id, "session id")
        self.cwd: str = os.path.abspath(os.fspath(cwd))  # noqa: PTH100 - as text, with its links
        self.on_permission: OnPermission | None = on_permission
        self.dead_after: float = dead_after
        self.faults: Faults = Faults(strict=strict)
        self.clock: Clock = clock or Clock()
        self.describer: Describer = Describer(
            self.cwd,
            locale=pick_locale(locale, os.environ),
            roots=additional_directories,
            home=os.path.expanduser("~"),  # noqa: PTH111 - as text
            redact=lambda text: self.guard.command(text),  # noqa: PLW0108 - it comes later
        )
        self.phrase: Callable[..., str] = self.describer.phrase
        self.words: LocalPhrases = LocalPhrases(self.describer)
        self.guard: Sanitizer = Sanitizer(guard or GuardSettings(), self.words, self.faults)
        self.faults.clean = self.guard.clean
        # Bytes of a name and an input that surely have room in a report, with all that is derived from them.
        self.small_input: int = self.guard.small - len(self.cwd)
        # Re-entrant, because a signal's handler or a finaliser may report in the midst of a report.
        self.lock: RLock = RLock()
        self.is_closed: bool = False
        self.is_behind: bool = False
        self.consumers: tuple[Consumer, ...] = ()
        self.frames: UpdateFrames = UpdateFrames(self.session_id, budget=self.guard.frame)
        self.delivery: Delivery = Delivery(self)
        self.terminals: WeakValueDictionary[str, TerminalState] = WeakValueDictionary()
        self.thread: int = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._peer: Peer = peer or Peer()
        given = [*([on_update] if on_update else []), *sinks]
        self.sinks: list[Sink] = [self._sink(sink) for sink in given]
        if on_params is not None:
            self.sinks.append(CallbackSink(on_params, self._peer, params_of))
        self._on_lost: Callable[[Sink, str], None] | None = on_lost
        # All calls that are live, and those that ended last.
        self.calls: dict[str, CallState] = {}
        self.index: CallIndex = CallIndex(self.calls)
        self._ended: deque[str] = deque()
        self._batches: dict[str, Batch] = {}

    # Opening and closing

    def open(self) -> Self:
        """Open the session on the running event loop. `async with` does this.

        Raises:
            SessionClosed: The session was closed, or no event loop is running.
        """
        if self.is_closed:
            raise SessionClosed(f"session {self.session_id} is closed; make a new one")
        if self.loop is None:
            try:
                self.loop = asyncio.get_running_loop()
            except RuntimeError:
                raise SessionClosed(
                    f"session {self.session_id} is not open; open it on an event loop first: "
                    "async with Session(…) as session"
                ) from None
            self.thread = get_ident()
            shutdown.remember(self)
            for sink in self.sinks:
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
        """End every open call, send everything within `dead_after` seconds, and close the consumers.

        Raises:
            ConsumerLost: A consumer was abandoned or failed; in strict mode only.
        """
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
        self.end_calls("closed")
        problem = await self._last_flush()
        shutdown.forget(self)
        for consumer in self.consumers:
            self.without(consumer)
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
        consumer = Consumer(self, sink, self.loop)
        with self.lock:
            live = [call for call in self.calls.values() if not call.has_ended]
            for call in live:
                if call.is_plain:
                    self.delivery.pass_to_views(call)
            self.consumers = (*self.consumers, consumer)
            self.delivery.add(consumer)
            for call in live:
                if call.output is not None:
                    consumer.output(call.output, False)
                consumer.put(call.report, True)

    def without(self, consumer: Consumer) -> None:
        """Notify a consumer no longer."""
        with self.lock:
            self.consumers = tuple([other for other in self.consumers if other is not consumer])
            self.delivery.remove(consumer)

    # Calls

    def call(
        self,
        name: str,
        input: JsonValue = None,  # noqa: A002 - the contract's name
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> RuntimeCall:
        """Make a call: `async with session.call("bash", {"command": "ls"}) as call:`.

        The call is announced when it is entered, not when it is made.

        Args:
            name: The tool's name.
            input: The tool's arguments.
            timeout: Seconds after which the call's scope is cancelled; needs `async with`.
            options: See `CallOptions`.

        Returns:
            The call, to be entered once.
        """
        spec = CallSpec(name, input, **options) if options else CallSpec(name, input, is_bare=True)
        if timeout is not None:
            timeout = checked_timeout(timeout, self)
        return self.call_type(self, spec, timeout)

    def open_call(
        self,
        name: str,
        input: JsonValue = None,  # noqa: A002 - the contract's name
        **options: Unpack[CallOptions],
    ) -> RuntimeCall:
        """Announce a call that is no scope, for frameworks that call back at a tool's start and end.

        `succeed`, `fail` and `cancel` end it, and `call.close(exc)` does as leaving a scope with an exception
        would. A call that is left open is ended with the session.

        Args:
            name: The tool's name.
            input: The tool's arguments.
            options: See `CallOptions`.
        """
        return self.call(name, input, **options).__enter__()

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
        with self.lock:
            return tuple([call.report for call in list(self.calls.values())])

    @property
    def health(self) -> Health:
        """How well reporting works: counts of what was dropped, degraded, cut, redacted, late."""
        return self.faults.health

    def get(self, key: str) -> ToolCallReport | None:
        """Return the report of a call by its id or alias, or None if it is unknown or no longer stored."""
        with self.lock:
            call = self.calls.get(self.index.aliases.get(key, key))
            return None if call is None else call.report

    def id_of(self, key: object) -> str:
        """Return the id of a call by its id or alias.

        Raises:
            CorrelationError: There is no such call.
        """
        checked = check_id(key)
        found = self.index.aliases.get(checked, checked)
        if found not in self.calls:
            raise CorrelationError(checked, self.session_id)
        return found

    def shown(self, report: ToolCallReport) -> ToolCallReport:
        """Return a report as the first client sees it."""
        client = self._client()
        with self.lock:
            return report if client is None else client.view.shown(report)

    def _client(self) -> Consumer | None:
        return next((consumer for consumer in self.consumers if consumer.sink.peer), None)

    # Barriers

    async def flush(self) -> None:
        """Wait until everything reported so far was delivered to every live consumer.

        Raises:
            ConsumerLost: A consumer was abandoned or failed; in strict mode only.
        """
        if (waiting := self._flush(self.consumers)) is not None:
            await waiting
        faults = self.faults
        if faults.strict and faults.of_consumers is not None:
            fault, faults.of_consumers = faults.of_consumers, None
            raise ConsumerLost(fault)

    async def flush_client(self) -> None:
        """Wait until everything reported so far was delivered to the client: the first that takes lines."""
        client = self._client()
        if client is not None and (waiting := self._flush((client,))) is not None:
            await waiting

    def _flush(self, consumers: Sequence[Consumer]) -> Awaitable[Any] | None:
        """Send everything to some consumers, and return what has to be waited for, if anything has."""
        loop, waits = self.loop, None
        if loop is not None and asyncio.get_running_loop() is not loop:
            if loop.is_running():
                there = asyncio.run_coroutine_threadsafe(self._flushed(consumers), loop)
                return asyncio.wrap_future(there)
            for consumer in self.consumers:  # awaiting would never end
                consumer.send_now(monotonic() + CLOSING)
            return None
        for consumer in consumers:
            if (waiting := consumer.flush()) is not None:
                waits = [*(waits or ()), waiting]
        return asyncio.gather(*waits) if waits else None

    async def _flushed(self, consumers: Sequence[Consumer]) -> None:
        if (waiting := self._flush(consumers)) is not None:
            await waiting

    # Changes of calls

    def announce(self, call: RuntimeCall) -> None:
        """Announce a call. Whatever is wrong with it, it is announced.

        Raises:
            Misuse: It was announced before.
        """
        spec, call.spec = call.spec, None
        if spec is None:
            raise Misuse(f"{call!r} was entered before; a call is announced once")
        if self.loop is None or (self.is_closed and self.faults.strict):
            self.open()  # raises, if there is no loop, or in strict mode
        batch = spec.batch
        if batch is not None:
            batch = batch.join(spec) if isinstance(batch, Batch) else None
        try:
            report, call.whole_input = described(spec, self)
        except Exception as exc:  # noqa: BLE001
            self.faults.degraded(exc)
            name = self.guard.name(spec.name) if isinstance(spec.name, str) else ""
            report = new_report(name, self.phrase("unknown_tool"))
        output = None
        if report.kind is ToolKind.EXECUTE and self._needs_terminals():
            output = Output(self, "", report.raw_input)
            report = report.changed({"content": (output.item,)})
        with self.lock:
            if self.is_closed:
                call.id, call.folded, call.current = report.tool_call_id, report, report.status
                self.faults.count(f"call {report.name!r}: the session is closed", dropped=1)
                return
            call.output = output
            self.delivery.announce(call, report)
        if batch is not None:
            self._batches[call.id] = batch
            batch.opened()

    def notify_output(self, output: Output, *, much: bool) -> None:
        """Notify all consumers that a call has new output. The caller holds the lock."""
        for consumer in self.consumers:
            consumer.output(output, much)

    def _needs_terminals(self) -> bool:
        """Whether a client needs to know a command's terminal when its call is announced."""
        peers = [consumer.sink.peer for consumer in self.consumers]
        return any(peer and peer.version == 1 and peer.terminals == "meta" for peer in peers)

    def keep_up(self, output: Output | None = None) -> None:
        """Send everything that waits, if a tool that reports so much is blocking the event loop."""
        if get_ident() == self.thread:
            everything, self.is_behind = self.is_behind, False
            for consumer in self.consumers:
                consumer.drain_hard(everything=everything)
        elif output is not None and not output.is_alone:
            output.let_the_loop_turn(self.consumers)

    # What calls, consumers and the end of the process use

    def ended(self, call: CallState) -> None:
        """Handle the end of a call."""
        call.whole_input = None
        self._ended.append(call.id)
        if len(self._ended) >= KEEP_ENDED + _FORGET_AT_ONCE:
            with self.lock:
                self._forget()
        if self.is_behind:
            self.keep_up()
        if self._batches and (batch := self._batches.pop(call.id, None)) is not None:
            batch.ended(call)

    def _forget(self) -> None:
        """Forget the calls that ended first."""
        while len(self._ended) > KEEP_ENDED:
            call = self.calls.pop(self._ended.popleft(), None)
            if call is not None and self.index.aliases:
                self.index.forget([call.report])

    def lost(self, consumer: Consumer, why: str) -> None:
        """Remove a consumer that was abandoned, and report it to `on_lost`."""
        self.faults.count(f"a consumer was given up: {why}", dead=1)
        self.without(consumer)
        consumer.close()
        if self._on_lost is not None:
            with suppress(Exception):
                self._on_lost(consumer.sink, why)

    def end_calls(self, why: str) -> None:
        """End every call that is open: the latest first, so that children end before parents."""
        for call in reversed(list(self.calls.values())):
            if not call.has_ended:
                cast("RuntimeCall", call).fail(self.phrase(why), reason=Reason.ABANDONED)

    def mute(self) -> None:
        """Send nothing more: this is a forked child, and the pipes belong to its parent."""
        self.lock = RLock()  # another thread may have held the old one, and does not exist here
        self.is_closed = True
        self.faults.after_fork()
        for consumer in self.consumers:
            consumer.forget()
            self.without(consumer)
