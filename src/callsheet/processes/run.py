"""Running a command: started by a keeper, its output handed on as it comes, ended with all it started.

Standard output and standard error are one pipe, so that they stay in order. There is no standard
input, and nothing else that this process has open is open in the command. This works in an event
loop of any thread, needs no child watcher, and leaves the handling of signals alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Thread
from time import monotonic

from callsheet.processes.keeper import CHASE
from callsheet.processes.start import Ended, Started, Told, message, signal_name, start_keeper
from callsheet.processes.tree import GRACE, end_tree

MARKER = "CALLSHEET_PROCESS"
"""Name of a variable in every command's environment, by which what came from it can be found."""

READ = 1 << 16
"""Bytes that are read in one turn of the event loop."""

MOST_LATE = 1 << 20
"""Bytes that are read at most when the command has ended: as much as its pipe may hold."""

SPARE = 3.0
"""Seconds more than it should need that a keeper gets to end everything, on a busy machine."""


def open_directory(path: Path) -> int:
    """Open a directory to run a command in. A link in the place of its last name is refused."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags)


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    on_output: Callable[[bytes], object],
    timeout: float | None = None,
    grace: float = GRACE,
) -> Ended:
    """Run a program until it has ended, and everything that it started as well.

    After `timeout` seconds, or if this is cancelled, all of it gets SIGTERM, and SIGKILL after the
    grace. What still runs a moment after the program ended by itself is ended in the same way.
    Raises OSError with the directory's or the program's name if it can't be started, and ValueError
    if a text can't be passed on.
    """
    return await Process(argv, cwd=cwd, env=env, on_output=on_output, grace=grace).run(timeout)


class Process:
    """One run of a program. `ended` is known also if the run was cancelled.

    `open_cwd` opens the directory to run in, for a caller that must not follow links on the way there.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str],
        on_output: Callable[[bytes], object],
        grace: float = GRACE,
        open_cwd: Callable[[Path], int] = open_directory,
    ) -> None:
        self.ended: Ended | None = None
        self._names: tuple[str, str] = (argv[0], str(cwd))
        self._grace: float = grace
        self._open_cwd: Callable[[Path], int] = open_cwd
        self._marker: str = f"{MARKER}={token_hex(8)}"
        self._cwd: Path = Path(os.path.abspath(cwd))  # noqa: PTH100 - links are not resolved here
        self._message: bytes = message(argv, env, self._marker, grace)
        self._on_output: Callable[[bytes], object] = on_output

    async def run(self, timeout: float | None = None) -> Ended:
        """Run it. See `run_process`."""
        try:
            directory = self._open_cwd(self._cwd)
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, self._names[True]) from None
        try:
            link = _Link(start_keeper(directory), self._on_output)
        finally:
            os.close(directory)
        try:
            link.send(self._message)
            timed_out = False
            try:
                timed_out = not await link.wait(timeout)
            except asyncio.CancelledError:
                await self._end(link, timed_out=False)
                raise
            await self._end(link, timed_out)
        finally:
            link.close()
        if link.failure is not None:
            raise link.failure
        if self.ended is None:
            raise self._not_started(link)
        return self.ended

    async def _end(self, link: _Link, timed_out: bool) -> None:
        """End whatever is left, and note how it ended."""
        try:
            await link.end(self._grace + CHASE + SPARE)
        finally:
            told = link.told
            if told.ended is not None:
                self.ended = told.ended._replace(timed_out=timed_out)
            elif told.pid is not None:
                self.ended = Ended(None, "SIGKILL", timed_out)
        if told.ended is None and told.failure is None:
            # Somebody has killed the keeper: maybe the command itself.
            pids = () if told.pid is None else (told.pid,)
            survivors = await end_tree(*pids, marker=self._marker, grace=self._grace)
            if self.ended is not None:
                self.ended = self.ended._replace(survivors=survivors)

    def _not_started(self, link: _Link) -> OSError:
        if link.told.failure is None:
            how = link.how_it_ended()
            return ChildProcessError(f"the process that watches over the command ended: {how}")
        number, is_directory = link.told.failure
        return OSError(number, os.strerror(number), self._names[is_directory])


class _Link:
    """Both ways to a keeper, and the way of the output, in an event loop."""

    def __init__(self, started: Started, on_output: Callable[[bytes], object]) -> None:
        self.told: Told = Told()
        self.failure: Exception | None = None
        self._keeper: subprocess.Popen[bytes] = started.keeper
        self._control: socket.socket = started.control
        self._pipe: int = started.output
        self._on_output: Callable[[bytes], object] = on_output
        self._unsent: bytearray = bytearray()
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._control, self._hear)
        self._loop.add_reader(self._pipe, self._read, READ)

    # Waiting

    async def wait(self, seconds: float | None) -> bool:
        """Wait until the keeper has ended. Gives whether it has."""
        await asyncio.wait((self._over,), timeout=seconds)
        return self._over.done()

    async def end(self, seconds: float) -> None:
        """Have the keeper end everything, at once if this is cancelled. Then read what is left to read.

        A keeper that takes longer is killed.
        """
        cancelled, until = None, monotonic() + seconds
        if not self._over.done():
            self._order(b"T")
        while not self._over.done() and (rest := until - monotonic()) > 0:
            try:
                await self.wait(rest)
            except asyncio.CancelledError as exc:
                cancelled = exc
                self._order(b"K")
        if not self._over.done():
            self._keeper.kill()
        self._drain()
        if cancelled is not None:
            raise cancelled

    def _order(self, order: bytes) -> None:
        self._keeper.send_signal(signal.SIGCONT)  # should the command have stopped it
        self.send(order)

    # Talking

    def send(self, data: bytes) -> None:
        """Tell the keeper something, after what was not sent so far."""
        self._unsent += data
        self._loop.add_writer(self._control, self._write)

    def _write(self) -> None:
        try:
            del self._unsent[: self._control.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # it is gone, and `_hear` will know
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._control)

    def _hear(self) -> None:
        try:
            data = self._control.recv(READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.told.take(data)
        if not data:
            self._loop.remove_reader(self._control)
            if not self._over.done():
                self._over.set_result(None)

    # Output

    def _read(self, size: int) -> int:
        """Hand on what is there. Gives how much that was."""
        try:
            data = os.read(self._pipe, size)
        except BlockingIOError:
            return 0
        if not data:  # all who could write have ended, or closed it
            self._loop.remove_reader(self._pipe)
        elif self.failure is None:
            try:
                self._on_output(data)
            except Exception as exc:  # noqa: BLE001 - it is raised by `run`, when all has ended
                self.failure = exc
                self._order(b"T")
        return len(data)

    def _drain(self) -> None:
        """Read what the command wrote last. Others may hold the pipe open, so its end isn't waited for."""
        rest = MOST_LATE
        while rest > 0 and (count := self._read(READ)):
            rest -= count

    # The end

    def close(self) -> None:
        """Let go of everything. A keeper that still runs takes this for an order to end."""
        with suppress(RuntimeError):  # a loop that was closed has let go already
            self._loop.remove_reader(self._control)
            self._loop.remove_writer(self._control)
            self._loop.remove_reader(self._pipe)
        self._control.close()
        os.close(self._pipe)
        if self._over.done():
            self._keeper.wait()
        else:
            with suppress(RuntimeError):  # the interpreter ends, and the system will wait for it
                Thread(target=self._keeper.wait, daemon=True).start()

    def how_it_ended(self) -> str:
        """Say how the keeper ended, for a message."""
        code = self._keeper.returncode
        return f"exit code {code}" if code >= 0 else signal_name(-code)
