"""A server as a child process: its pipes as lines, the last of what it wrote to stderr, and its end.

The child has a session of its own, and nothing of it is left when it is closed, nor when this process is
killed: then a shell that waits for that end (`_watchdog`) kills the group. What it writes to stderr is
stored, not shown; of its stdout, only lines are passed on that may be messages. MCP itself is not spoken
here.

A command of `processes.process` has no stdin, so a server can't be one; but it is ended in the same way.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from callsheet.processes.process import end_tree, started

LONGEST_LINE = 64 * 1024 * 1024
"""Maximum size of one message in bytes."""

TAIL = 4096
"""Bytes that are stored of what a server wrote to stderr."""

GRACE = 1.0
"""Seconds that a server has to exit when its stdin is closed, and again after TERM."""

SETTLE = 0.3
"""Seconds in which a process that ends is expected to have closed its stdout, and the other way."""

_MANY = 256
"""Lines that wait before no more are read."""

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ")


class PipeClosed(Exception):
    """The server no longer accepts input."""


class ServerProcess(asyncio.SubprocessProtocol):
    """A child process and its output. Create one with `start`."""

    def __init__(self) -> None:
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when no more output can arrive; its result is the reason."""
        self._transport: asyncio.SubprocessTransport
        self._pid = 0
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._exited = asyncio.Event()
        self._part = bytearray()
        self._lines: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_paused = False
        self._tail = bytearray()

    @classmethod
    async def start(
        cls, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str
    ) -> ServerProcess:
        """Start a child. Raise `OSError` if that fails."""
        if not Path(cwd).is_dir():
            raise NotADirectoryError(f"its directory {cwd} does not exist")
        return await started(
            cls._spawn(command, *args, env={**_environment(), **env}, cwd=cwd), ServerProcess._drop
        )

    @classmethod
    async def _spawn(cls, *command: str, env: Mapping[str, str], cwd: str) -> ServerProcess:
        loop = asyncio.get_running_loop()
        spawned = await loop.subprocess_exec(
            cls, *command, env=env, cwd=cwd, start_new_session=True
        )
        transport, process = cast("tuple[asyncio.SubprocessTransport, ServerProcess]", spawned)
        process._pid = transport.get_pid()
        process._watchdog = _watchdog(process._pid)
        return process

    # What comes

    async def line(self) -> bytes | None:
        """Return the next line that may be a message; None after the last one."""
        while not self._lines:
            if self.over.done():
                return None
            self._news.clear()
            await self._news.wait()
        await asyncio.sleep(0)  # a server that writes without end must not starve other tasks
        line = self._lines.popleft()
        if self._is_paused and len(self._lines) < _MANY // 2:
            self._pause(False)
        return line

    async def write(self, line: bytes) -> None:
        """Send a line, and wait while the child lags behind. Raise `PipeClosed` if it no longer reads."""
        pipe = self._pipe(0)
        if self.over.done() or pipe is None or pipe.is_closing():
            await asyncio.wait({self.over}, timeout=2 * SETTLE)  # so that it is known why
            raise PipeClosed
        cast("asyncio.WriteTransport", pipe).write(line)
        await self._writable.wait()

    @property
    def has_exited(self) -> bool:
        """Whether the child has exited, also if asyncio has not noticed yet."""
        if self._exited.is_set() or not hasattr(os, "waitid"):
            return self._exited.is_set()
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._pid, options) is not None
        except ChildProcessError:
            return True

    @property
    def tail(self) -> str:
        """The last of what the child wrote to stderr."""
        return self._tail.decode("utf-8", "replace").strip()

    def add_to_tail(self, line: bytes) -> None:
        """Store what is not a message as if it had been written to stderr."""
        self._tail += line + b"\n"
        del self._tail[:-TAIL]

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Split stdout into lines; store the end of stderr."""
        if fd == 2:
            self._tail += data[-TAIL:]
            del self._tail[:-TAIL]
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(bytes(self._part) + line)
            self._part.clear()
        self._part += rest
        if len(self._part) > LONGEST_LINE:
            self._part.clear()
            self._end(f"sent a message of more than {LONGEST_LINE >> 20} MB")
        self._news.set()
        if len(self._lines) > _MANY:
            self._pause(True)

    def _take(self, line: bytes) -> None:
        if line.lstrip()[:1] == b"{":
            self._lines.append(line)
        elif line.strip():
            self.add_to_tail(line[:TAIL])

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """Note that stdout or stdin was closed."""
        if fd == 0:
            self._writable.set()
        if fd in (0, 1):
            self._end_soon(f"closed its {('stdin', 'stdout')[fd]}")

    def process_exited(self) -> None:
        """Note the exit. What it had written before may still be on its way."""
        self._exited.set()
        self._end_soon(self._exit_text())

    def pause_writing(self) -> None:
        """Make writers wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers continue."""
        self._writable.set()

    def _end_soon(self, why: str) -> None:
        stdout = self._pipe(1)
        if self._exited.is_set() and (stdout is None or stdout.is_closing()):
            self._end(self._exit_text())
        else:
            asyncio.get_running_loop().call_later(SETTLE, self._end, why)

    def _end(self, why: str) -> None:
        if not self.over.done():
            self.over.set_result(why)
        self._news.set()
        self._writable.set()

    def _exit_text(self) -> str:
        code = self._transport.get_returncode()
        if code is None or code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return self._transport.get_pipe_transport(fd)

    def _pause(self, wanted: bool) -> None:
        pipe = cast("asyncio.ReadTransport | None", self._pipe(1))
        if pipe is not None and not pipe.is_closing() and wanted != self._is_paused:
            pipe.pause_reading() if wanted else pipe.resume_reading()
            self._is_paused = wanted

    # The end

    async def close(self) -> None:
        """End the child and all its descendants: close stdin, then send TERM, then KILL."""
        grace = 0.0  # if this is cancelled, kill without a grace period
        try:
            pipe = self._pipe(0)
            if pipe is not None:
                pipe.close()
            self._pause(False)
            await self._is_gone()
            grace = GRACE
        finally:
            await self._end_tree(grace)

    async def _drop(self) -> None:
        """End the child immediately, because it has not been used yet."""
        await self._end_tree(0)

    async def _end_tree(self, grace: float) -> None:
        try:
            await end_tree(self._pid, grace=grace)  # if it is cancelled, it kills
        finally:
            if self._watchdog is not None:
                self._watchdog.kill()
                self._watchdog.communicate()
            with suppress(ProcessLookupError, PermissionError):
                self._transport.close()
            self._end("was closed")
        await self._is_gone()

    async def _is_gone(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), GRACE)
        return self._exited.is_set()


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


def _watchdog(group: int) -> subprocess.Popen[bytes] | None:
    """Start a shell that waits until this process has gone, by whatever end, and then kills the group.

    A server that is left alone reads the end of its stdin and exits; not all do.
    """
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", 'read _; sleep 1; kill -9 "-$1"', "sh", str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
