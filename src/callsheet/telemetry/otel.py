"""`OtelSink`: a sink of a session whose calls become spans, and the thread that makes them.

The tool's own path pays for an entry in a queue: a call that has ended is not even looked at there. The
thread sleeps a moment (`LINGER`), so that many entries cost one wake-up, and then makes their spans. What
these wait for, the network, is in threads of OpenTelemetry, whose queue is bounded as well.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport] - too late at the end
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from operator import methodcaller
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from callsheet.acp.peer import Peer
from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord, TerminalState
from callsheet.report.usage import TokenUsage
from callsheet.telemetry import NEEDS, is_installed, say
from callsheet.telemetry.trace_ids import (
    TraceContext,
    call_span_id,
    received,
    trace_id_of,
    turn_span_id,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

    from callsheet.telemetry.spans import SpanMaker

LINGER, MANY = 0.5, 1000
"""Seconds that the thread waits for more entries, unless there are many: who works seldom disturbs less."""

MOST = 8192
"""Entries that wait at once. Of more, calls are dropped, and that is said."""

LAST = 5.0
"""Seconds for what waits, at the end of the process. It ends at once if nothing can be sent anyway."""

OPEN = 1000
"""Calls of a session whose turn is remembered until they end."""

Entry: TypeAlias = "Callable[[SpanMaker], object]"


class TurnScope(Struct, eq=False):
    """A turn, or what a session does outside of any: an agent that is invoked. Times are in nanoseconds."""

    session_id: str
    key: str
    agent: str
    version: str
    parent: TraceContext | None
    began: int
    ended: int = 0
    stop_reason: str | None = None
    usage: TokenUsage | None = None
    span: Any = None
    """The span, once it is made."""

    @property
    def context(self) -> TraceContext:
        """The context of its span."""
        span_id = turn_span_id(self.session_id, self.key)
        if self.parent is None:
            return TraceContext(trace_id_of(self.session_id, self.key), span_id)
        return replace(self.parent, span_id=span_id)


class LiveCall(Protocol):
    """A call of a running session, whose report is made when it is read."""

    is_plain: bool
    """Whether it has no content but its result."""
    session: Any
    """Its session, which has `terminals`."""

    @property
    def report(self) -> ToolCallReport:
        """The current report."""
        ...


class SpanThread:
    """The thread that makes spans for one tracer provider. Without one, there are providers of our own."""

    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        self._given: tuple[Any, Any] = tracer_provider, meter_provider
        self._entries: deque[Entry] = deque()
        # A `SimpleQueue` can be put to by a signal's handler that has interrupted a `put`.
        self._jobs: SimpleQueue[threading.Event | None] = SimpleQueue()
        self._is_awake: bool = False
        self._is_closing: bool = False
        self._dropped: int = 0
        self._thread: threading.Thread | None = None
        self._maker: SpanMaker | None = None
        self._stop: Callable[[float], bool] | None = None

    def put(self, entry: Entry, *, is_call: bool = False) -> None:
        """Queue an entry. This takes about a microsecond, and never waits."""
        waiting = len(self._entries)
        if is_call and waiting >= MOST:
            self._dropped += 1
            return
        self._entries.append(entry)
        if not self._is_awake:
            self._is_awake = True
            self._start()
            self._jobs.put(None)
        elif waiting == MANY:
            self._jobs.put(None)

    def flush(self, timeout: float = LAST) -> bool:
        """Wait until spans are made of all that was put so far. Return whether they are."""
        done = threading.Event()
        self._start()
        self._jobs.put(done)
        return done.wait(timeout)

    def _start(self) -> None:
        with _lock:
            thread = self._thread
            if self._is_closing or (thread is not None and thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._run, name="callsheet-spans", daemon=True)
            # The process waits for this one, and imports still work then, as they don't at exit.
            last = threading.Thread(target=self._close_at_last, name="callsheet-spans-end")
            try:
                self._thread.start()
                last.start()
            except RuntimeError as exc:  # no thread can be started
                say(f"no spans are made: {exc}")

    def _close_at_last(self) -> None:
        threading.main_thread().join()
        until, self._is_closing = time.monotonic() + LAST, True
        is_done = self.flush(LAST)
        if not is_done or (self._stop is not None and not self._stop(until)):
            say("the process ends before all spans are sent")
        if self._dropped:
            say(f"{self._dropped} calls came faster than spans could be made, and have none")

    # The thread

    def _run(self) -> None:
        self._open()
        while True:
            done = self._jobs.get()
            if done is None and not self._is_closing:
                with suppress(Empty):
                    done = self._jobs.get(timeout=LINGER)  # another one hurries
            self._is_awake = False
            while self._entries:
                entry = self._entries.popleft()
                try:
                    if self._maker is not None:
                        entry(self._maker)
                except Exception as exc:  # noqa: BLE001 - others get their spans
                    say(f"a span could not be made ({type(exc).__name__})")
            if done is not None:
                done.set()

    def _open(self) -> None:
        """Import OpenTelemetry, and begin to export."""
        tracer_provider, meter_provider = self._given
        try:
            from callsheet.telemetry.spans import SpanMaker

            if tracer_provider is None:
                from callsheet.telemetry.export import own_providers

                tracer_provider, meter_provider, self._stop = own_providers()
            self._maker = SpanMaker(tracer_provider, meter_provider)
        except Exception as exc:  # noqa: BLE001 - whatever it is, calls go on without spans
            say(f"{exc}. No spans are sent.")


_threads: dict[Any, SpanThread] = {}
_lock = threading.RLock()  # a signal's handler may come upon what it has interrupted


def _thread_for(tracer_provider: Any, meter_provider: Any) -> SpanThread:
    with _lock:
        if tracer_provider not in _threads:
            _threads[tracer_provider] = SpanThread(tracer_provider, meter_provider)
        return _threads[tracer_provider]


class OtelSink:
    """A sink that makes a span of each call of a session: `Session(sinks=[OtelSink(provider)])`.

    Sessions make one themselves where the standard `OTEL_*` variables are set. Calls are spans
    `execute_tool {name}` under `invoke_agent {agent}`, of which there is one for each turn, and one for all
    calls outside of turns.

    Args:
        tracer_provider: An SDK's provider. Default: the process's, if it has set one; else one of our own,
            which exports as the variables say.
        session_id: The session's id. Default: that of the session that it is a sink of.
        agent: The name of the agent that makes the calls.
        version: Its version.
        meter_provider: Where figures go, if `tracer_provider` is given.
        parent: The `traceparent` that the session's own span is a child of. Default: the current span.

    Raises:
        InvalidValue: `tracer_provider` is none of the SDK, or OpenTelemetry is not installed.
    """

    peer: Peer | None = None
    takes_records: bool = True
    takes_ends: bool = True

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        session_id: str = "",
        agent: str = "",
        version: str = "",
        meter_provider: MeterProvider | None = None,
        parent: str | None = None,
    ) -> None:
        if not is_installed():
            raise InvalidValue(NEEDS)
        if tracer_provider is None:
            tracer_provider = _process_provider()
        elif not hasattr(tracer_provider, "id_generator"):
            kind = type(tracer_provider).__name__
            raise InvalidValue(f"tracer_provider: expected the SDK's TracerProvider, got {kind}")
        self.session_id: str = session_id
        self._agent, self._version = agent, version
        self._thread: SpanThread = _thread_for(tracer_provider, meter_provider)
        self._parent: str | None = parent
        self._made: int = time.time_ns()
        self._turn: TurnScope | None = None
        self._own: TurnScope | None = None
        # The turns of calls that have not ended: one may go on in the next turn, and so do its parts.
        self._open: dict[str, TurnScope] = {}

    def opened(self, session_id: str) -> None:
        """Note the id of the session that this is a sink of."""
        self.session_id = self.session_id or session_id

    def describe(self, agent: str, version: str) -> None:
        """Note the agent, once it has said its name."""
        self._agent, self._version = self._agent or agent, self._version or version

    # Turns

    def begin_turn(self, key: str = "", meta: object = None) -> None:
        """Begin a turn.

        Args:
            key: What identifies it in the history. Default: the time.
            meta: The `_meta` of the prompt. The turn is a child of its `traceparent`.
        """
        self.end_turn(None)
        # In whole milliseconds, as calls have it, which don't begin before their turn.
        now = time.time_ns() // 1_000_000 * 1_000_000
        parent = received(meta) or self._surroundings()
        self._turn = self._scope(key or f"{now}", parent, now)

    def set_usage(self, usage: TokenUsage) -> None:
        """Note what the turn has used so far."""
        if self._turn is not None:
            self._turn.usage = usage

    def end_turn(self, stop_reason: str | None, usage: TokenUsage | None = None) -> None:
        """End the turn, if one is open."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.stop_reason, turn.usage = stop_reason, usage or turn.usage
            self._end(turn)

    def _scope(self, key: str, parent: TraceContext | None, now: int) -> TurnScope:
        scope = TurnScope(self.session_id, key, self._agent, self._version, parent, now)
        self._thread.put(lambda maker: maker.begin(scope))
        return scope

    def _end(self, scope: TurnScope) -> None:
        scope.ended = time.time_ns()
        scope.agent, scope.version = scope.agent or self._agent, scope.version or self._version
        self._thread.put(lambda maker: maker.end(scope))

    def _current(self) -> TurnScope:
        """Return the turn that a new call belongs to, or the session's own scope."""
        if self._turn is not None:
            return self._turn
        if self._own is None:
            self._own = self._scope("", self._surroundings(), self._made)
        return self._own

    def _surroundings(self) -> TraceContext | None:
        """Return the span that the session was given, or that is current in the process."""
        if self._parent is not None:
            return received({"traceparent": self._parent})
        api = sys.modules.get("opentelemetry.trace")
        found = api.get_current_span().get_span_context() if api is not None else None
        if found is None or not found.is_valid:
            return None
        state = found.trace_state.to_header()
        return TraceContext(found.trace_id, found.span_id, int(found.trace_flags), state)

    # Calls

    def ended(self, call: LiveCall) -> None:
        """Queue a call that has ended: its report is made later, by our thread."""
        scope, now, record = self._current(), time.time_ns(), None
        if not call.is_plain:  # now, since its terminals go with the call
            terminal_of: Callable[[str], TerminalState | None] = call.session.terminals.get
            record = CallRecord.of(call.report, terminal_of)
        self._thread.put(
            lambda maker: maker.call(record or CallRecord(call.report), scope, now), is_call=True
        )

    def send(self, items: deque[Any]) -> None:
        """Queue records of calls. A span is made of a call's end; its beginning decides on its turn."""
        while items:
            record: CallRecord = items.popleft()
            key, now = record.report.tool_call_id, time.time_ns()
            parent = record.report.parent_id or ""
            scope = self._open.pop(key, None) or self._open.get(parent) or self._current()
            if record.report.is_final:
                self._thread.put(methodcaller("call", record, scope, now), is_call=True)
            elif len(self._open) < OPEN:
                self._open[key] = scope

    def context_of(self, call_id: str) -> JsonObject:
        """Return the fields of a `_meta` with which others become children of a call's span."""
        scope = self._current()
        span_id = call_span_id(self.session_id, scope.key, call_id)
        return replace(scope.context, span_id=span_id).meta()

    def flush(self, timeout: float = LAST) -> bool:
        """Wait until all calls that have ended are spans. Return whether they are."""
        return self._thread.flush(timeout)

    def close(self) -> None:
        """End the turn, and the session's own span. What waits is still sent."""
        self.end_turn(None)
        own, self._own = self._own, None
        if own is not None:
            self._end(own)


def _process_provider() -> Any:
    """Return the provider that the process has set, if it uses OpenTelemetry itself."""
    api = sys.modules.get("opentelemetry.trace")
    found = None if api is None else api.get_tracer_provider()
    return found if hasattr(found, "id_generator") else None
