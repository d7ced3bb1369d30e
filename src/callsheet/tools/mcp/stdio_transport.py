"""A server as a child process, and messages through its stdin and stdout, each on a line.

The child runs under a keeper, like any command (`callsheet.processes`): so nothing of it is left, even if we
are killed, and its exit code and last words on stderr can be reported. Its lines are bounded, and what it
prints beside messages does no harm.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from typing import BinaryIO

from callsheet.acp.jsonrpc import Message
from callsheet.processes.process import Process
from callsheet.tools.mcp.config import McpServer, ServerFault

LONGEST_LINE = 32 << 20
"""Maximum size of one message in bytes."""

TAIL = 4096
"""Bytes that are stored of what a server wrote to stderr."""

GRACE = 1.0
"""Seconds that a server has to exit when its stdin is closed, and again after TERM."""

SETTLE = 0.3
"""Seconds in which a process that ends is expected to have closed its stdout, and the other way."""

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ")


class StdioTransport:
    """A child process, its stdin and stdout, and the last of what it wrote to stderr.

    Args:
        server: How to start it.
        cwd: Where, unless the server says so.
        receive: Called with each line; returns None if that was no message.
        on_end: Called with the reason when no more messages can arrive.
    """

    version: str | None = None

    def __init__(
        self,
        server: McpServer,
        cwd: str,
        receive: Callable[[bytes], Message | None],
        on_end: Callable[[str], None],
    ) -> None:
        self._server: McpServer = server
        self._cwd: str = server.cwd or cwd
        self._receive: Callable[[bytes], Message | None] = receive
        self._on_end: Callable[[str], None] = on_end
        self._tail: bytearray = bytearray()
        self._closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the child has closed a pipe, or sent too much; its result is the reason."""
        self._process: Process | None = None
        self._files: list[BinaryIO] = []
        self._pipe: asyncio.ReadTransport | None = None
        self._stdin: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_over(self) -> bool:
        """Whether the child can't answer any more, also if the event loop has not noticed yet."""
        if self._pipe is None or self._pipe.is_closing():
            return True
        poll = select.poll()
        poll.register(self._pipe.get_extra_info("pipe"), 0)  # the end of a pipe is reported always
        return bool(poll.poll(0))

    @property
    def tail(self) -> str:
        """The last of what the child wrote to stderr, and to stdout beside messages."""
        return self._tail.decode("utf-8", "replace").strip()

    async def start(self) -> None:
        """Start the child. Raise `ServerFault` if that fails; `close` is called in any case."""
        loop = asyncio.get_running_loop()
        self._process = process = self._started()
        stdin, stdout = self._files
        reader = asyncio.StreamReader(LONGEST_LINE)
        reading = asyncio.StreamReaderProtocol(reader)
        self._pipe, _ = await loop.connect_read_pipe(lambda: reading, stdout)
        writing = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        transport, _ = await loop.connect_write_pipe(lambda: writing, stdin)
        self._stdin = asyncio.StreamWriter(transport, writing, None, loop)
        work = self._read(reader), self._watch(process)
        self._tasks = [asyncio.create_task(each) for each in work]

    def _started(self) -> Process:
        server = self._server
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        (stdin, to_child), (from_child, stdout) = os.pipe(), os.pipe()
        self._files = [
            os.fdopen(to_child, "wb", buffering=0),
            os.fdopen(from_child, "rb", buffering=0),
        ]
        try:
            process = Process(
                [server.command or "", *server.args],
                cwd=self._cwd,
                env=env | dict(server.env),
                on_output=self._add_to_tail,
                stdin=stdin,
                stdout=stdout,
                grace=GRACE,
            )
            process.start()
        except (OSError, ValueError) as exc:
            raise ServerFault(f"can't be started: {self._why_not(exc)}") from None
        finally:
            os.close(stdin)
            os.close(stdout)
        return process

    def listen(self) -> None:
        """Do nothing: the server may send messages at any time."""

    async def send(self, message: Message, data: bytes) -> None:
        """Write an encoded message, and wait while the pipe has no room for it."""
        del message
        assert self._stdin is not None
        self._stdin.write(data + b"\n")
        try:
            await self._stdin.drain()
        except ConnectionError:
            self._note_close("closed its stdin")

    async def close(self) -> None:
        """Close the child's stdin, and end it if it does not exit then."""
        process = self._process
        try:
            if process is not None and self._stdin is not None:
                self._stdin.close()
                await asyncio.wait({process.over}, timeout=GRACE)
                if self._stdin.transport.get_write_buffer_size():  # it has read nothing of that
                    self._stdin.transport.abort()
        finally:
            for task in self._tasks:
                task.cancel()
            if process is not None:
                await process.end()
            if self._pipe is not None:
                self._pipe.close()
            for file in self._files:
                file.close()

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        try:
            while line := await stdout.readline():
                if self._receive(line) is None:  # something that it prints beside messages
                    self._add_to_tail(line[:TAIL] if line.strip() else b"")
        except ValueError:
            self._on_end(f"sent a message of more than {LONGEST_LINE >> 20} MB")
        self._note_close("closed its stdout")

    async def _watch(self, process: Process) -> None:
        """Wait for the end of the process or of a pipe, and for a moment also for the other one."""
        ends = {process.over, self._closed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(ends, timeout=SETTLE)
        self._on_end(self._exit_text(process) if process.over.done() else self._closed.result())

    def _exit_text(self, process: Process) -> str:
        if process.failure is not None:
            return f"can't be started: {self._why_not(process.failure)}"
        if process.ended is None:
            return "was killed"
        code, sign = process.ended.exit_code, process.ended.signal
        return f"exited with code {code}" if sign is None else f"was killed by {sign}"

    def _why_not(self, exc: Exception) -> str:
        if not isinstance(exc, OSError):
            return str(exc)
        if exc.filename == self._cwd:
            return f"its directory {self._cwd}: {exc.strerror}"
        if isinstance(exc, FileNotFoundError) and exc.filename == self._server.command:
            return f"there is no program {self._server.command!r}"
        return exc.strerror or str(exc)

    def _add_to_tail(self, data: bytes) -> None:
        self._tail += data
        del self._tail[:-TAIL]

    def _note_close(self, what: str) -> None:
        if not self._closed.done():
            self._closed.set_result(what)
