"""The official Python SDK's side of one call's life, made of its own public pieces.

Both ways use the SDK's helpers to build the updates, as its examples do. The helpers take neither
`name` nor `_meta`, so the SDK writes a little less than the others.

- *Encoding only* is what `AgentSideConnection.session_update` does up to the bytes, without a
  connection: it builds a `SessionNotification` (which validates), dumps it with
  `acp.utils.serialize_params`, wraps it as `Connection.send_notification` does, and writes it as
  `acp.task.MessageSender.send` does (`json.dumps`, newline, UTF-8).
- *Connection* is the real `AgentSideConnection.session_update` (the class that `acp.run_agent`
  makes), awaited three times, on an asyncio stream that drops its bytes. It adds the SDK's queue,
  its sender task and the event loop, and no system calls.
- *Tracker and connection* is the SDK doing the same as callsheet: `ToolCallTracker` makes the id,
  keeps the call's state and gives the updates, and the connection writes them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from time import perf_counter, process_time
from typing import Any, TypeAlias

import acp
from acp.contrib.tool_calls import ToolCallTracker
from acp.core import AgentSideConnection
from acp.meta import CLIENT_METHODS
from acp.schema import ToolCallLocation, ToolCallProgress, ToolCallStart
from acp.utils import serialize_params

from .timing import Batch
from .work import KIND, LIMIT, LINE, PATH, SESSION, TEXT, TITLE

_METHOD = CLIENT_METHODS["session_update"]
_number = count()
_tracker = ToolCallTracker()
_pipes: dict[int, tuple[asyncio.WriteTransport, _Pipe]] = {}

_Updates: TypeAlias = Callable[[], Iterator[ToolCallStart | ToolCallProgress]]


def make_life() -> Callable[[], list[bytes]]:
    """Return the life of a call, encoding only."""

    def life() -> list[bytes]:
        key = _new_id()
        return [_line(_opened(key)), _line(_running(key)), _line(_done(key))]

    return life


@contextmanager
def connection(
    keep: list[bytes] | None = None, *, tracked: bool = False
) -> Generator[Batch, None, None]:
    """Return batches of lives that go through a real connection. What it writes may be kept."""
    updates = _tracked if tracked else _helped
    with asyncio.Runner() as runner:
        nowhere = _Nowhere() if keep is None else _Kept(keep)
        agent = runner.run(_connect(nowhere))
        try:
            yield lambda times: runner.run(_live(agent, updates, times))
        finally:
            runner.run(agent.close())
            nowhere.close()


@contextmanager
def pipe_connection(fd: int) -> Generator[Batch, None, None]:
    """Return batches of lives that go through a real connection to a pipe. They tell CPU seconds."""
    with asyncio.Runner() as runner:
        agent = runner.run(connect_pipe(os.dup(fd)))
        try:
            yield lambda times: runner.run(_live(agent, _helped, times, process_time))
        finally:
            runner.run(disconnect(agent))


def stream(texts: Iterable[str]) -> Iterator[ToolCallStart | ToolCallProgress]:
    """Return the updates of a call whose live output the SDK's tracker gathers."""
    key = "toolu_01"
    yield _tracker.start(key, title="make test", kind="execute", raw_input={"command": "make test"})
    for text in texts:
        yield _tracker.append_stream_text(key, text)
    yield _tracker.progress(key, status="completed", raw_output={"exit_code": 0})
    _tracker.forget(key)


class _Pipe(asyncio.streams.FlowControlMixin):
    """The writing end of a pipe, as the SDK's `stdio_streams` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that it is closed."""
        super().connection_lost(exc)
        self.closed.set()


async def connect_pipe(fd: int) -> AgentSideConnection:
    """Connect to a pipe. Nothing ever comes from the client."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    transport, pipe = await loop.connect_write_pipe(_Pipe, os.fdopen(fd, "wb", 0))
    writer = asyncio.StreamWriter(transport, pipe, None, loop)
    agent = AgentSideConnection(_Nobody(), writer, reader)  # pyright: ignore[reportArgumentType]
    _pipes[id(agent)] = (transport, pipe)
    return agent


async def disconnect(agent: AgentSideConnection) -> None:
    """Close a connection to a pipe when all is written. The SDK's own closing may wait for ever."""
    transport, pipe = _pipes.pop(id(agent))
    with suppress(TimeoutError):
        await asyncio.wait_for(agent.close(), 2)
    transport.close()
    try:
        await asyncio.wait_for(pipe.closed.wait(), 2)
    except TimeoutError:
        transport.abort()


async def _live(
    agent: AgentSideConnection,
    updates: _Updates,
    times: int,
    clock: Callable[[], float] = perf_counter,
) -> float:
    start = clock()
    for _ in range(times):
        for update in updates():
            await agent.session_update(SESSION, update)
    return clock() - start


def _helped() -> Iterator[ToolCallStart | ToolCallProgress]:
    """Return the three updates as the SDK's helpers make them."""
    key = _new_id()
    yield _opened(key)
    yield _running(key)
    yield _done(key)


def _tracked() -> Iterator[ToolCallStart | ToolCallProgress]:
    """Return the three updates as the SDK's tracker makes them."""
    key = "toolu_01"
    yield _tracker.start(
        key,
        title=TITLE,
        kind=KIND,
        status="pending",
        locations=[ToolCallLocation(path=PATH, line=LINE)],
        raw_input={"path": PATH, "limit": LIMIT},
    )
    yield _tracker.progress(key, status="in_progress")
    content = [acp.tool_content(acp.text_block(TEXT))]
    yield _tracker.progress(key, status="completed", content=content, raw_output={"content": TEXT})
    _tracker.forget(key)


def _new_id() -> str:
    return f"call_{next(_number):026d}"


def _opened(key: str) -> ToolCallStart:
    return acp.start_tool_call(
        key,
        TITLE,
        kind=KIND,
        status="pending",
        locations=[ToolCallLocation(path=PATH, line=LINE)],
        raw_input={"path": PATH, "limit": LIMIT},
    )


def _running(key: str) -> ToolCallProgress:
    return acp.update_tool_call(key, status="in_progress")


def _done(key: str) -> ToolCallProgress:
    return acp.update_tool_call(
        key,
        status="completed",
        content=[acp.tool_content(acp.text_block(TEXT))],
        raw_output={"content": TEXT},
    )


def _line(update: ToolCallStart | ToolCallProgress) -> bytes:
    params = serialize_params(acp.session_notification(SESSION, update))
    payload = {"jsonrpc": "2.0", "method": _METHOD, "params": params}
    return (json.dumps(payload, separators=(",", ":")) + "\n").encode("utf-8")


class _Nobody:
    """An agent that serves no requests."""


class _Nowhere(asyncio.WriteTransport):
    """A transport that drops what it is given."""

    _closed = False

    def write(self, data: Any) -> None:
        """Drop it."""

    def is_closing(self) -> bool:
        """Asked by asyncio before each write."""
        return self._closed

    def close(self) -> None:
        """Let asyncio see that nothing is left open."""
        self._closed = True


class _Kept(_Nowhere):
    """A transport that keeps what it is given."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__()
        self._lines = lines

    def write(self, data: Any) -> None:
        """Keep it."""
        self._lines.append(bytes(data))


async def _connect(transport: asyncio.WriteTransport) -> AgentSideConnection:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    return AgentSideConnection(_Nobody(), writer, reader)  # pyright: ignore[reportArgumentType]
