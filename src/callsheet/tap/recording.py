"""Record an agent's traffic to a file while it is passed on.

`record` is `callsheet record`: it runs an agent, passes every byte on unchanged, and records it.
`callsheet tap --record` uses `RecordingWriter`, too. `write` never blocks: a thread splits the
bytes into lines and writes them. If the disk is full, or too slow, the session continues without a
recording. `callsheet.observe.lines` defines what the lines look like.

This module is imported before the agent is started, so it imports nothing that takes long.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from stat import S_ISREG
from threading import Event, Thread
from typing import TYPE_CHECKING

from callsheet.acp.jsonrpc import LineBuffer, split_lines
from callsheet.processes.child import CannotStart
from callsheet.tap.stdio import Between, warn_user

if TYPE_CHECKING:
    from callsheet.observe.lines import Direction

GATHER = 0.1
"""Seconds between two writes, so that something is written together with what follows."""

MOST = 256 * 1024 * 1024
"""Bytes that may wait for the disk. If it is slower than that, the recording ends."""

BATCH = 1 << 20
"""Bytes that are written at once."""


def record(command: Sequence[str], output: str, *, between: Between | None = None) -> int:
    """Run an agent, pass on its traffic, and record it.

    Args:
        command: The agent's command line.
        output: A file, or a directory, which then gets a file for each run.
        between: What started the agent already, if it was started.

    Returns:
        The agent's exit code, or what a shell exits with if it can't be started.
    """
    try:
        between = between or Between(command)
    except CannotStart as exc:
        warn_user("record", str(exc))
        return exc.exit_code
    writer = RecordingWriter(path_in(output, command[0]), warn=partial(warn_user, "record"))
    try:
        return between.serve(_Recorded(writer))
    finally:
        writer.close()


def path_in(output: str, program: str) -> str:
    """Return where to record to: in a directory, a new file with the agent's name and the time."""
    if not (output.endswith(os.sep) or os.path.isdir(output)):  # noqa: PTH112
        return output
    with suppress(OSError):  # opening the file will fail, and that is reported
        os.makedirs(output, exist_ok=True)  # noqa: PTH103
    name = os.path.basename(program) or "agent"  # noqa: PTH119
    when = time.strftime("%Y%m%d-%H%M%S")
    return os.path.join(output, f"{name}-{when}-{os.getpid()}.jsonl")  # noqa: PTH118


class _Recorded:
    """Traffic that is passed on as it is, and recorded before that: the response must come later."""

    wait: float | None = None

    def __init__(self, writer: RecordingWriter) -> None:
        self.to_client: list[bytes] = []
        self.to_agent: list[bytes] = []
        self._write: Callable[[Direction, bytes], None] = writer.write

    def from_client(self, data: bytes) -> None:
        """Record what the client sends, and send it on."""
        self._write("client->agent", data)
        self.to_agent.append(data)

    def from_agent(self, data: bytes) -> None:
        """Record what the agent sends, and send it on."""
        self._write("agent->client", data)
        self.to_client.append(data)

    def tick(self) -> None:
        """Do nothing: nothing is ever due."""


class RecordingWriter:
    """Writes a recording. If that fails, it warns once, and drops all that follows.

    `write` and `close` are for one thread. Another one writes to the disk, so that neither waits for it.
    """

    def __init__(self, path: str, *, warn: Callable[[str], None]) -> None:
        self._path: str = path
        self._warn: Callable[[str], None] = warn
        self._began: float = time.monotonic()
        # Pieces that wait for the disk, in order. Each count has one writer, so there is no lock.
        self._waiting: deque[tuple[float, Direction, bytes]] = deque()
        self._received: int = 0
        self._taken: int = 0
        self._lines: dict[Direction, LineBuffer] = {}
        self._file: int = -1
        self._written: int = 0
        self._is_over: bool = False
        self._closing: Event = Event()
        self._thread: Thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, way: Direction, data: bytes) -> None:
        """Record a piece of what went one way. Returns at once."""
        if self._is_over:
            return
        if self._received - self._taken > MOST:
            self._is_over = True
            self._warn(f"{self._path}: the disk is too slow; what follows is not recorded")
            return
        self._received += len(data)
        self._waiting.append((time.monotonic() - self._began, way, data))

    def close(self, timeout: float = 10.0) -> None:
        """Write what is left, and close the file. A disk that hangs is not waited for any longer."""
        self._closing.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._warn(f"{self._path}: the end is missing, for the disk takes too long")

    # In the thread

    def _run(self) -> None:
        try:
            if not _is_filled(self._path):  # else it stays as it is until there is a message
                self._file = _create(self._path)
            while not self._closing.wait(GATHER):
                self._write_waiting()
            self._write_waiting()
            now = time.monotonic() - self._began
            for way, lines in self._lines.items():  # the lines whose ends never came
                self._write_out([*self._line(now, way, lines.end())])
        except (OSError, ValueError, MemoryError) as exc:
            self._give_up(exc)
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)

    def _write_waiting(self) -> None:
        parts: list[bytes] = []
        size = 0
        while self._waiting:
            when, way, data = self._waiting.popleft()
            buffer = self._lines.get(way)
            if buffer is None:
                buffer = self._lines[way] = LineBuffer(drops_long=True)
            _, lines, begun = buffer.feed(data)
            for line in split_lines(lines):
                parts += self._line(when, way, line[:-1])
            if begun:  # of a line that is too long, only the beginning is recorded
                parts += self._line(when, way, begun, buffer.limit + 1)
            size += len(data)
            if size > BATCH or not self._waiting:
                self._write_out(parts)
                parts, size = [], 0
            self._taken += len(data)

    def _line(
        self, when: float, way: Direction, line: bytes, size: int | None = None
    ) -> tuple[bytes, ...]:
        from callsheet.observe.lines import encode_line  # imported late, while the agent starts

        return encode_line(when, way, line, size)

    def _write_out(self, parts: list[bytes]) -> None:
        """Write parts, which end with a line."""
        if self._file < 0 and parts:
            self._warn(f"{self._path}: the recording that was there is replaced")
            self._file = _create(self._path)
        big = any(len(part) > BATCH for part in parts)
        for data in parts if big else (b"".join(parts),):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        self._written += sum(map(len, parts))

    def _give_up(self, exc: BaseException) -> None:
        self._is_over = True
        self._waiting.clear()
        why = exc.strerror if isinstance(exc, OSError) else None
        self._warn(f"{self._path}: {why or exc or 'no memory'}; the traffic is not recorded")
        if self._file >= 0:
            with suppress(OSError):  # so that the file ends with a whole line
                os.ftruncate(self._file, self._written)


def _is_filled(path: str) -> bool:
    """Return whether there is a file with something in it."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib takes long to import
    except OSError:
        return False
    return S_ISREG(found.st_mode) and found.st_size > 0


def _create(path: str) -> int:
    """Create a file that only its owner can read. An existing one is replaced, not overwritten.

    So one that another process still writes to stays whole for as long as that runs.
    """
    flags = os.O_WRONLY | os.O_CREAT
    with suppress(OSError):
        if S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108 - pathlib takes long to import
    try:
        return os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:  # a device, a pipe, a link, or in a directory where nothing may change
        file = os.open(path, flags | os.O_TRUNC, 0o600)
        with suppress(OSError):
            if S_ISREG(os.fstat(file).st_mode):
                os.fchmod(file, 0o600)
        return file
