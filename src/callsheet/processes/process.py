"""Runs a command: started by a keeper, its output passed on as it comes, ended with all it started.

Standard output and standard error are one pipe, so that they stay in order. There is no standard input, and
nothing else that this process has open is open in the command. This works in an event loop of any thread,
needs no child watcher, and leaves the handling of signals alone.

- `Process`, `run_process`: a command under a keeper. This is the way to run one.
- `started`: starts any other child with asyncio, so that a cancel meanwhile leaves nothing of it.
- `end_tree`: ends a process that no keeper watches, with all that came from it, as far as it can be found:
  what is under it, in its session or group, or was started with a marker in its environment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from callsheet.processes.keeper import CHASE, DIRECTORY
from callsheet.processes.table import ask_to_end, family, kill

# Empty stand-ins for `callsheet` and `callsheet.processes`, so that the keeper's few modules are imported
# without the rest of the package, whose import takes much longer (and which `-S` would not find).
_KEEPER = (
    "import sys; new = type(sys); sys.modules['callsheet'] = new('callsheet'); "
    "package = sys.modules['callsheet.processes'] = new('callsheet.processes'); "
    "package.__path__ = sys.argv[1:2]; "
    "from callsheet.processes import keeper; keeper.main()"
)
_HERE = str(Path(__file__).resolve().parent)


class Ended(NamedTuple):
    """How a command ended, and what it used.

    `exit_code` or `signal` is None; both are, if unknown. What it used counts all that it
    waited for and all that it left for the keeper; it is None if the keeper was killed. The peak of
    memory is that of the largest process, and not less than the keeper's own few megabytes. `left`
    names what still ran when the command had ended, and was ended then; `survivors` counts what could
    not be ended; `is_cut` is true if some of the output was not passed on.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool = False
    cpu_ms: int | None = None
    max_rss_kb: int | None = None
    left: tuple[str, ...] = ()
    survivors: int = 0
    is_cut: bool = False


class Started(NamedTuple):
    """A running keeper, our end of the socket to it, and the end of the pipe to read output from."""

    keeper: subprocess.Popen[bytes]
    control: socket.socket
    output: int


def start_keeper(directory: int) -> Started:
    """Start a keeper for a command in an open directory. It waits for a `message`."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    try:
        keeper = subprocess.Popen(
            [python(), "-I", "-S", "-c", _KEEPER, _HERE, str(directory)],
            stdin=theirs.fileno(),
            stdout=write,
            stderr=write,
            cwd="/",
            pass_fds=(directory,),
            start_new_session=True,  # no terminal, so nothing asks there for a password
        )
    except BaseException:
        ours.close()
        os.close(read)
        raise
    finally:
        theirs.close()
        os.close(write)
    ours.setblocking(False)
    os.set_blocking(read, False)
    return Started(keeper, ours, read)


def python() -> str:
    """Return a Python to run the keeper with: this one, unless it is only part of a program."""
    own = None if getattr(sys, "frozen", False) else sys.executable
    found = own or shutil.which("python3")
    if not found:
        raise FileNotFoundError(
            "commands are watched over by a Python, and there is no python3 here"
        )
    return found


def message(argv: Sequence[str], env: Mapping[str, str], marker: str, grace: float) -> bytes:
    """Return the message that makes a keeper run a command. Raises ValueError for what can't be passed on."""
    for key in env:
        if not key or "=" in key:
            raise ValueError(f"{key!r} can't be the name of a variable of the environment")
    pairs = [f"{key}={value}" for key, value in env.items()]
    parts = [str(grace), marker, str(len(argv)), *argv, *pairs, marker]
    if any("\0" in part for part in parts):
        raise ValueError("a NUL character can't be passed on to a command")
    try:
        data = b"\0".join(os.fsencode(part) for part in parts)
    except UnicodeEncodeError as exc:
        bad = exc.object[exc.start]
        raise ValueError(f"the character {bad!r} can't be passed on to a command") from None
    return len(data).to_bytes(8, "big") + data


class KeeperReport:
    """What a keeper has sent so far."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.failure: tuple[int, bool] | None = None
        self.ended: Ended | None = None
        self._left: list[str] = []
        self._rest: bytes = b""

    def take(self, data: bytes) -> None:
        """Read more of what the keeper sends."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, text = line.partition(b" ")
            if word == b"started":
                self.pid = int(text)
            elif word == b"failed":
                number, _, where = text.partition(b" ")
                self.failure = (int(number), where == DIRECTORY)
            elif word == b"left":
                self._left.append(text.decode())
            elif word == b"ended":
                self.ended = _ended(text, self._left)


def _ended(text: bytes, left: Sequence[str]) -> Ended:
    status, cpu_ms, peak, survivors = map(int, text.split())
    code, sign = None, None
    if status < 0:  # the keeper gave it up, alive
        sign = "SIGKILL"
    elif os.WIFSIGNALED(status):
        sign = signal_name(os.WTERMSIG(status))
    else:
        code = os.WEXITSTATUS(status)
    return Ended(code, sign, cpu_ms=cpu_ms, max_rss_kb=peak, left=tuple(left), survivors=survivors)


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


Child = TypeVar("Child")


async def started(
    starting: Coroutine[Any, Any, Child], end: Callable[[Child], Awaitable[object]]
) -> Child:
    """Wait until a child has started. If this is cancelled, wait all the same, and end the child.

    Asyncio itself kills a child whose start is cancelled, but not what that has started meanwhile.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            await end(await task)
        raise


GRACE = 0.4
"""Seconds from SIGTERM to SIGKILL."""

PATIENCE = 1.0
"""Seconds until a process that was killed is taken for one that can't be ended."""

_PACE = 0.01


async def end_tree(*roots: int, marker: str | None = None, grace: float = GRACE) -> int:
    """End processes and all that came from them: SIGTERM, and SIGKILL after a grace.

    If this is cancelled, what is still there is killed at once.

    Args:
        roots: The processes.
        marker: `NAME=value`, as it stands in the environment of what belongs to them.
        grace: Seconds from SIGTERM to SIGKILL.

    Returns:
        How many could not be ended.
    """
    mark = (marker or "").encode()
    try:
        ask_to_end(family(roots, mark))
        until = monotonic() + grace
        while family(roots, mark) and monotonic() < until:
            await asyncio.sleep(_PACE)
    finally:
        left = _kill_once(roots, mark)
    until = monotonic() + PATIENCE
    while left and monotonic() < until:
        await asyncio.sleep(_PACE)
        left = _kill_once(roots, mark)
    return left


def _kill_once(roots: Iterable[int], mark: bytes) -> int:
    members = family(roots, mark)
    kill(members)
    return len(members)


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
    grace. What still runs a moment after the program exited is ended in the same way.

    Raises:
        OSError: The program can't be started. Names the directory or the program.
        ValueError: A text can't be passed on.
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
        """End whatever is left, and record how it ended."""
        try:
            await link.end(self._grace + CHASE + SPARE)
        finally:
            report = link.report
            if report.ended is not None:
                self.ended = report.ended._replace(timed_out=timed_out)
            elif report.pid is not None:
                self.ended = Ended(None, "SIGKILL", timed_out)
        if report.ended is None and report.failure is None:
            # The keeper was killed, possibly by the command itself.
            pids = () if report.pid is None else (report.pid,)
            survivors = await end_tree(*pids, marker=self._marker, grace=self._grace)
            if self.ended is not None:
                self.ended = self.ended._replace(survivors=survivors)

    def _not_started(self, link: _Link) -> OSError:
        if link.report.failure is None:
            how = link.how_it_ended()
            return ChildProcessError(f"the process that watches over the command ended: {how}")
        number, is_directory = link.report.failure
        return OSError(number, os.strerror(number), self._names[is_directory])


class _Link:
    """The socket to a keeper and the pipe of the output, in an event loop."""

    def __init__(self, started: Started, on_output: Callable[[bytes], object]) -> None:
        self.report: KeeperReport = KeeperReport()
        self.failure: Exception | None = None
        self._keeper: subprocess.Popen[bytes] = started.keeper
        self._control: socket.socket = started.control
        self._pipe: int = started.output
        self._on_output: Callable[[bytes], object] = on_output
        self._unsent: bytearray = bytearray()
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._control, self._receive)
        self._loop.add_reader(self._pipe, self._read, READ)

    # Waiting

    async def wait(self, seconds: float | None) -> bool:
        """Wait until the keeper has ended. Return whether it has."""
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

    # The socket

    def send(self, data: bytes) -> None:
        """Send the keeper something, after what was not sent so far."""
        self._unsent += data
        self._loop.add_writer(self._control, self._write)

    def _write(self) -> None:
        try:
            del self._unsent[: self._control.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # it is gone, and `_receive` will notice
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._control)

    def _receive(self) -> None:
        try:
            data = self._control.recv(READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.report.take(data)
        if not data:
            self._loop.remove_reader(self._control)
            if not self._over.done():
                self._over.set_result(None)

    # Output

    def _read(self, size: int) -> int:
        """Pass on what is there. Return how much that was."""
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
        """Close everything. A keeper that still runs takes this for an order to end."""
        with suppress(RuntimeError):  # a loop that was closed has no readers any more
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
        """Return how the keeper ended, for a message."""
        code = self._keeper.returncode
        return f"exit code {code}" if code >= 0 else signal_name(-code)
