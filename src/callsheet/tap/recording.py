"""Record an agent's traffic to a file while it is passed on.

`record` is `callsheet record`: it runs an agent, passes every byte on unchanged, and records it.
`callsheet tap --record` uses `RecordingWriter`, too. `write` never blocks: a thread splits the
bytes into lines and writes them. If the disk is too slow, what would not fit in memory is left out,
and the recording states how many bytes are missing. If the disk is full, the session continues
without a recording.

`callsheet.observe.lines` defines what the lines look like. In the form `raw`, they are as they
came.

This module is imported before the agent is started, so it imports nothing that takes long.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from stat import S_ISREG
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Literal, TypeAlias

from callsheet.acp.jsonrpc import LineBuffer, split_lines
from callsheet.processes.child import CannotStart
from callsheet.tap.stdio import Between

if TYPE_CHECKING:
    from callsheet.observe.lines import Direction

Form: TypeAlias = Literal["wrapped", "raw"]

GATHER = 0.1
"""Seconds before something is written, so that it is written together with what follows."""

MUCH = 4 * 1024 * 1024
"""Bytes that are written without waiting for more."""

MOST = 256 * 1024 * 1024
"""Bytes that may wait for the disk. What exceeds them is not recorded, and the loss is noted."""

BATCH = 1 << 20
"""Bytes that are written at once."""


def record(
    command: Sequence[str],
    output: str,
    form: Form = "wrapped",
    *,
    between: Between | None = None,
) -> int:
    """Run an agent, pass on its traffic, and record it.

    Args:
        command: The agent's command line.
        output: A file, or a directory, which then gets a file for each run.
        form: `wrapped` lines have the time and the direction; `raw` lines are as they came.
        between: What started the agent already, if it was started.

    Returns:
        The agent's exit code, or what a shell exits with if it can't be started.
    """
    try:
        if between is None:
            between = Between()
            between.start(command)
    except CannotStart as exc:
        _warn(str(exc))
        return exc.exit_code
    writer = RecordingWriter(path_in(output, command[0]), form, warn=_warn)
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


def _warn(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"callsheet record: {text}\n".encode(errors="replace"))


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


class _Side:
    """The lines of one direction. Of a line that is too long, the beginning is recorded, and its size."""

    def __init__(self) -> None:
        self.lines: LineBuffer = LineBuffer()
        self._long: tuple[bytes, int] | None = None

    def take(self, data: bytes) -> list[tuple[bytes, int]]:
        """Take a piece, and return the lines that end in it, each with its size."""
        ended, lines, part = self.lines.feed(data)
        found: list[tuple[bytes, int]] = []
        if self._long is not None:
            beginning, size = self._long
            self._long = beginning, size + len(ended.rstrip(b"\n"))
            if ended.endswith(b"\n"):
                found.append(self._long)
                self._long = None
        found += [(line[:-1], len(line) - 1) for line in split_lines(lines)]
        if part:
            self._long = part[: self.lines.limit], len(part)
        return found

    def end(self) -> list[tuple[bytes, int]]:
        """Return the line whose end never came."""
        if self._long is not None:
            return [self._long]
        rest = self.lines.end()
        return [(rest, len(rest))] if rest else []

    def skip(self) -> None:
        """Skip the line that is under way: pieces of it are missing."""
        self.lines.skip()
        self._long = None


class RecordingWriter:
    """Writes a recording. If that fails, it warns once, and drops all that follows."""

    def __init__(self, path: str, form: Form = "wrapped", *, warn: Callable[[str], None]) -> None:
        self._path: str = path
        self._warn: Callable[[str], None] = warn
        self._is_wrapped: bool = form == "wrapped"
        self._began: float = time.monotonic()
        self._sides: dict[Direction, _Side] = {"client->agent": _Side(), "agent->client": _Side()}
        self._lock: Lock = Lock()
        # Pieces that wait for the disk, in order; a number stands for as many bytes that are missing.
        self._waiting: deque[tuple[float, Direction, bytes | int]] = deque()
        self._size: int = 0
        self._lost: dict[Direction, int] = {}
        self._file: int = -1
        self._written: int = 0
        self._over: bool = False
        self._closing: bool = False
        self._wake: Event = Event()
        self._hurry: Event = Event()
        self._thread: Thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, way: Direction, data: bytes) -> None:
        """Record a piece of what went one way. Callable from any thread; returns at once."""
        if self._over:
            return
        with self._lock:
            # The order here is the order in the recording, so the time is taken here, too.
            now = time.monotonic() - self._began
            # Once pieces are lost, the next lines would be, too, unless there is some room again.
            if self._size + len(data) > (MOST // 2 if way in self._lost else MOST):
                self._lost[way] = self._lost.get(way, 0) + len(data)
                return
            if missing := self._lost.pop(way, 0):
                self._waiting.append((now, way, missing))
            self._waiting.append((now, way, data))
            self._size += len(data)
        if self._size > MUCH:
            self._hurry.set()
        if not self._wake.is_set():
            self._wake.set()

    def close(self, timeout: float = 10.0) -> None:
        """Write what is left, and close the file. A disk that hangs is not waited for any longer."""
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._warn(f"{self._path}: the end is missing, for the disk takes too long")

    # In the thread

    def _run(self) -> None:
        try:
            self._file = _create(self._path)
            while not self._closing:
                self._wake.wait()
                self._hurry.wait(GATHER)
                self._hurry.clear()
                self._wake.clear()
                self._write_waiting()
            self._write_rest()
        except (OSError, ValueError, MemoryError) as exc:
            self._give_up(exc)
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        parts: list[bytes] = []
        size = 0
        while waiting:
            when, way, data = waiting.popleft()
            if isinstance(data, int):
                self._note_loss(when, way, data, parts)
                continue
            for line, length in self._sides[way].take(data):
                parts += self._line(when, way, line, length)
                size += length
                if size > BATCH:
                    self._write_out(parts)
                    size = 0
            with self._lock:
                self._size -= len(data)
        self._write_out(parts)

    def _line(self, when: float, way: Direction, line: bytes, size: int) -> tuple[bytes, ...]:
        if not self._is_wrapped:
            return line, b"\n"
        from callsheet.observe.lines import encode_line  # imported late, while the agent starts

        return encode_line(when, way, line, size)

    def _note_loss(self, when: float, way: Direction, size: int, parts: list[bytes]) -> None:
        self._sides[way].skip()
        self._warn(f"{self._path}: {size:,} bytes {way} are missing, for the disk is too slow")
        if self._is_wrapped:
            from callsheet.observe.lines import encode_loss

            parts.append(encode_loss(when, way, size))

    def _write_rest(self) -> None:
        """Write what waits, and the lines whose ends never came."""
        with self._lock:
            now = time.monotonic() - self._began
            self._waiting.extend((now, way, size) for way, size in self._lost.items())
        self._write_waiting()
        parts: list[bytes] = []
        for way, side in self._sides.items():
            for line, size in side.end():
                parts += self._line(now, way, line, size)
        self._write_out(parts)

    def _write_out(self, parts: list[bytes]) -> None:
        """Write parts, which end with a line, and forget them."""
        big = any(len(part) > BATCH for part in parts)
        for data in parts if big else (b"".join(parts),):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        self._written += sum(map(len, parts))
        parts.clear()

    def _give_up(self, exc: BaseException) -> None:
        self._over = True
        with self._lock:
            self._waiting.clear()
        why = exc.strerror if isinstance(exc, OSError) else None
        self._warn(f"{self._path}: {why or exc or 'no memory'}; the traffic is not recorded")
        if self._file >= 0:
            with suppress(OSError):  # so that the file ends with a whole line
                os.ftruncate(self._file, self._written)


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
