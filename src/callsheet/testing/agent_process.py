"""An agent as a child process: its lines in and out, kept in order, and its end."""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from callsheet.acp.jsonrpc import Message, encode_line
from callsheet.report.errors import CallsheetError

READ = 1 << 16
KEPT_ERRORS = 64 * 1024
"""Bytes that are kept of what an agent writes to stderr."""


class AgentGone(CallsheetError):
    """The agent has ended, or can't be started."""


class Frame(NamedTuple):
    """One line of the traffic. `in` is what the agent wrote; `at` is in seconds since its start."""

    way: Literal["in", "out"]
    line: bytes
    at: float


class AgentProcess:
    """Starts an agent, and speaks with it line by line."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str] | None,
        hear: Callable[[bytes], None],
        over: Callable[[Exception], None],
        keep: Callable[[Frame], None] | None = None,
    ) -> None:
        self.traffic: list[Frame] = []
        self._record: Callable[[Frame], None] | None = keep
        self._command: Sequence[str] = command
        self._cwd: str | None = cwd
        self._env: Mapping[str, str] | None = env
        self._hear: Callable[[bytes], None] = hear
        self._over: Callable[[Exception], None] = over
        self._process: Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._errors: bytearray = bytearray()
        self._began: float = time.monotonic()

    async def start(self) -> None:
        """Start it, in a session of its own: a Ctrl-C is for us, and the agent is ended by us."""
        self._began = time.monotonic()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        except OSError as exc:
            raise AgentGone(f"{self._command[0]}: {exc.strerror}") from exc
        self._tasks = [
            asyncio.ensure_future(self._read(self._process)),
            asyncio.ensure_future(self._read_errors(self._process)),
        ]

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return None if self._process is None else self._process.pid

    @property
    def errors(self) -> str:
        """The last of what it wrote to stderr."""
        return self._errors.decode(errors="replace")

    async def send(self, message: Message | bytes) -> None:
        """Write a message, or a line as it is."""
        line = message if isinstance(message, bytes) else encode_line(message)
        stdin = None if self._process is None else self._process.stdin
        if stdin is None or stdin.is_closing():
            raise AgentGone("the agent does not run")
        self._keep("out", line)
        try:
            stdin.write(line)
            await stdin.drain()
        except (BrokenPipeError, ConnectionError) as exc:
            raise self._gone() from exc

    async def stop(self, patience: float = 10.0) -> int:
        """Close its stdin, and wait. One that stays is terminated, then killed. Gives its exit code."""
        process = self._process
        if process is None:
            raise AgentGone("the agent was not started")
        if process.stdin is not None:
            process.stdin.close()
        for end in (None, process.terminate, process.kill):
            if end is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    end()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
                break
        # What it left behind may hold its pipes open.
        await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()
        return -1 if process.returncode is None else process.returncode

    async def _read(self, process: Process) -> None:
        try:
            await self._read_lines(process.stdout)
        except Exception as exc:  # noqa: BLE001 - whoever waits for an answer is told
            self._over(exc)
            while process.stdout is not None and await process.stdout.read(READ):
                pass  # an agent that can't write could not end
            return
        with suppress(TimeoutError):  # so that its exit code can be told
            await asyncio.wait_for(process.wait(), 1.0)
        self._over(self._gone())

    async def _read_lines(self, stdout: asyncio.StreamReader | None) -> None:
        rest: list[bytes] = []
        while stdout is not None and (data := await stdout.read(READ)):
            *whole, last = data.split(b"\n")
            for part in whole:
                line = b"".join((*rest, part, b"\n"))
                rest.clear()
                self._keep("in", line)
                self._hear(line)
            if last:
                rest.append(last)
        if rest:
            self._keep("in", b"".join(rest))

    async def _read_errors(self, process: Process) -> None:
        while process.stderr is not None and (data := await process.stderr.read(READ)):
            self._errors += data
            del self._errors[:-KEPT_ERRORS]

    def _keep(self, way: Literal["in", "out"], line: bytes) -> None:
        frame = Frame(way, line, time.monotonic() - self._began)
        self.traffic.append(frame)
        if self._record is not None:
            self._record(frame)

    def _gone(self) -> AgentGone:
        code = None if self._process is None else self._process.returncode
        told = "the agent has ended" if code is None else f"the agent has ended with {code}"
        said = self.errors.strip()
        return AgentGone(f"{told}; it said: {said}" if said else told)
