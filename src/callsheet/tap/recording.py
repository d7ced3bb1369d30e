"""Writes a recording: bytes of two sides in, lines in a file out. Whoever gives bytes never waits.

What the lines look like is said in `callsheet.check.writing`. As `raw`, they are as they came.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from stat import S_ISREG
from threading import Event, Lock, Thread
from typing import Literal, TypeAlias

from callsheet.observe.lines import Direction, encode_line, encode_loss

from .lines import Line, Lines

Form: TypeAlias = Literal["wrapped", "raw"]

GATHER = 0.1
"""Seconds that pass before something is written, so that it is written together with what follows."""

MUCH = 4 * 1024 * 1024
"""Bytes that are written without waiting for more."""

MOST = 256 * 1024 * 1024
"""Bytes that may wait for the disk. What comes then is not recorded, and that is said."""

BATCH = 1 << 20


class RecordingWriter:
    """Writes to a file. If that can't be done, it says so once, and lets go of all that follows."""

    def __init__(self, path: str, form: Form = "wrapped", *, say: Callable[[str], None]) -> None:
        self._path: str = path
        self._say: Callable[[str], None] = say
        self._text_of: Callable[[float, Direction, Line], Iterable[bytes]] = (
            _wrapped if form == "wrapped" else _bare
        )
        self._is_wrapped: bool = form == "wrapped"
        self._began: float = time.monotonic()
        self._lines: dict[Direction, Lines] = {"client->agent": Lines(), "agent->client": Lines()}
        self._lock: Lock = Lock()
        self._waiting: deque[tuple[float, Direction, bytes | int]] = deque()
        self._size: int = 0
        self._lost: dict[Direction, int] = {}
        self._file: int = -1
        self._whole: int = 0
        self._over: bool = False
        self._closing: bool = False
        self._wake: Event = Event()
        self._hurry: Event = Event()
        self._thread: Thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def keep(self, way: Direction, data: bytes) -> None:
        """Record a piece of what went one way. Comes from any thread, and returns at once."""
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

    def close(self, patience: float = 10.0) -> None:
        """Write what is left, and close the file. A disk that hangs is not waited for longer than this."""
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join(patience)
        if self._thread.is_alive():
            self._say(f"{self._path}: the end is missing, for the disk takes too long")

    # In the thread

    def _run(self) -> None:
        self._safely(self._open)
        while not self._closing:
            self._wake.wait()
            self._hurry.wait(GATHER)
            self._hurry.clear()
            self._wake.clear()
            self._safely(self._write_waiting)
        self._safely(self._write_rest)
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)

    def _open(self) -> None:
        self._file = _create(self._path)

    def _safely(self, work: Callable[[], None]) -> None:
        if self._over:
            return
        try:
            work()
        except (OSError, ValueError, MemoryError) as exc:
            self._give_up(exc)

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        parts: list[bytes] = []
        size = 0
        while waiting:
            when, way, data = waiting.popleft()
            lines = self._told(when, way, data, parts)
            for line in lines:
                parts += self._text_of(when, way, line)
                size += line.size
                if size > BATCH:
                    self._write(parts)
                    size = 0
            if not isinstance(data, int):
                with self._lock:
                    self._size -= len(data)
        self._write(parts)

    def _told(
        self, when: float, way: Direction, data: bytes | int, parts: list[bytes]
    ) -> Iterable[Line]:
        if not isinstance(data, int):
            return self._lines[way].take(data)
        self._lines[way].lose()
        self._say(f"{self._path}: {data:,} bytes {way} are missing, for the disk is too slow")
        if self._is_wrapped:
            parts.append(encode_loss(when, way, data))
        return ()

    def _write_rest(self) -> None:
        """Write what waits, and what no line's end came for."""
        with self._lock:
            now = time.monotonic() - self._began
            self._waiting.extend((now, way, size) for way, size in self._lost.items())
        self._write_waiting()
        parts: list[bytes] = []
        for way, lines in self._lines.items():
            for line in lines.end():
                parts += self._text_of(now, way, line)
        self._write(parts)

    def _write(self, parts: list[bytes]) -> None:
        """Write parts, which end with a line, and forget them."""
        big = any(len(part) > BATCH for part in parts)
        for data in parts if big else (b"".join(parts),):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        self._whole += sum(map(len, parts))
        parts.clear()

    def _give_up(self, exc: BaseException) -> None:
        self._over = True
        with self._lock:
            self._waiting.clear()
        why = exc.strerror if isinstance(exc, OSError) else None
        self._say(f"{self._path}: {why or exc or 'no memory'}; the traffic is not recorded")
        if self._file >= 0:
            with suppress(OSError):  # so that the file ends with a whole line
                os.ftruncate(self._file, self._whole)


def _wrapped(when: float, way: Direction, line: Line) -> Iterable[bytes]:
    return encode_line(when, way, line.data, line.size)


def _bare(when: float, way: Direction, line: Line) -> Iterable[bytes]:  # noqa: ARG001
    return (line.data, b"\n")


def _create(path: str) -> int:
    """Make a file that only its owner can read. One that is there is replaced, not written over.

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
