"""Runs a program: started by a keeper, its output passed on as it comes, ended with all that it started.

`Process.run` is the way to run a command. What has a life of its own, such as an MCP server, uses `start`,
`over` and `end`, and may bring descriptors for stdin and stdout; otherwise there is no standard input, and
standard output and standard error are one pipe, so that they stay in order. Nothing else that this process
has open is open in the program. This works in an event loop of any thread, needs no child watcher, and
leaves the handling of signals alone. `run_program` is for what ends soon and starts nothing.

The keeper (`keeper.py`) is a process between us and the program, and ends it if we are killed. Should the
keeper itself be killed, what is left is found by a marker in the environment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Thread
from time import monotonic
from typing import BinaryIO, NamedTuple

from callsheet.processes.keeper import CHASE, DIRECTORY
from callsheet.processes.table import GRACE, end_tree

# Empty stand-ins for `callsheet` and `callsheet.processes`, so that the keeper's few modules are imported
# without the rest of the package, whose import takes much longer (and which `-S` would not find).
_KEEPER = (
    "import sys; new = type(sys); sys.modules['callsheet'] = new('callsheet'); "
    "package = sys.modules['callsheet.processes'] = new('callsheet.processes'); "
    "package.__path__ = sys.argv[1:2]; "
    "from callsheet.processes import keeper; keeper.main()"
)
_HERE = str(Path(__file__).resolve().parent)

MARKER = "CALLSHEET_PROCESS"
"""Name of a variable in every program's environment, by which what came from it can be found."""

READ = 1 << 16
"""Bytes that are read in one turn of the event loop."""

MOST_LATE = 1 << 20
"""Bytes that are read at most when the program has ended: as much as its pipe may hold."""

SPARE = 3.0
"""Seconds more than it should need that a keeper gets to end everything, on a busy machine."""


class Ended(NamedTuple):
    """How a program ended, and what it used.

    `exit_code` or `signal` is None; both are, if unknown. What it used counts all that it
    waited for and all that it left for the keeper; it is None if the keeper was killed. The peak of
    memory is that of the largest process, and not less than the keeper's own few megabytes. `left`
    names what still ran when the program had ended, and was ended then; `survivors` counts what could
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


def open_directory(path: Path) -> int:
    """Open a directory to run a program in. A link in the place of its last name is refused."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags)


class Process:
    """One run of a program. `ended` is known also if the run was cancelled.

    Args:
        argv: The program and its arguments.
        cwd: The directory to run in.
        env: Its whole environment.
        on_output: Receives what it writes to stderr and, without a `stdout`, to stdout.
        stdin: A descriptor that the program reads from. The caller closes it after `start`.
        stdout: A descriptor that the program writes to, likewise.
        grace: Seconds from SIGTERM to SIGKILL.
        open_cwd: Opens the directory, for a caller that must not follow links on the way there.

    Raises:
        ValueError: A text can't be passed on to a program.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str],
        on_output: Callable[[bytes], object],
        stdin: int | None = None,
        stdout: int | None = None,
        grace: float = GRACE,
        open_cwd: Callable[[Path], int] = open_directory,
    ) -> None:
        self.ended: Ended | None = None
        self.failure: Exception | None = None
        """Why the program could not be started, or what `on_output` raised."""
        self.over: asyncio.Future[None]
        """Done when the keeper has ended, and so everything that the program started."""
        self._names: tuple[str, str] = (argv[0], str(cwd))
        self._cwd: Path = Path(os.path.abspath(cwd))  # noqa: PTH100 - links are not resolved here
        self._marker: str = f"{MARKER}={token_hex(8)}"
        self._unsent: bytearray = bytearray(_message(argv, env, self._marker, grace))
        self._on_output: Callable[[bytes], object] = on_output
        self._standard: tuple[int | None, int | None] = (stdin, stdout)
        self._grace: float = grace
        self._open_cwd: Callable[[Path], int] = open_cwd
        self._pid: int | None = None
        self._left: list[str] = []
        self._rest: bytes = b""
        self._loop: asyncio.AbstractEventLoop
        self._keeper: subprocess.Popen[bytes]
        self._control: socket.socket
        self._pipe: int

    async def run(self, timeout: float | None = None) -> Ended:
        """Run the program until it has ended, and everything that it started as well.

        After `timeout` seconds, or if this is cancelled, all of it gets SIGTERM, and SIGKILL after the
        grace. What still runs a moment after the program exited is ended in the same way.

        Raises:
            OSError: The program can't be started. Names the directory or the program.
        """
        self.start()
        try:
            await asyncio.wait((self.over,), timeout=timeout)
            timed_out = not self.over.done()
            await self._end()
        except asyncio.CancelledError:
            await self._end()
            raise
        finally:  # also if this coroutine is dropped, which can't await any more
            self._close()
        if self.failure is not None:
            raise self.failure
        assert self.ended is not None
        self.ended = self.ended._replace(timed_out=timed_out)
        return self.ended

    def start(self) -> None:
        """Start the program, for a caller that then waits for `over`, and calls `end` in any case.

        Raises:
            OSError: The directory can't be opened, or there is no keeper. That there is no such program
                is known only when the process is `over`.
        """
        try:
            directory = self._open_cwd(self._cwd)
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, self._names[True]) from None
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        stdin, stdout = self._standard
        numbers = (str(directory), "" if stdin is None else str(stdin))
        try:
            self._keeper = subprocess.Popen(
                [python(), "-I", "-S", "-c", _KEEPER, _HERE, *numbers],
                stdin=theirs.fileno(),
                stdout=write if stdout is None else stdout,
                stderr=write,
                cwd="/",
                pass_fds=(directory,) if stdin is None else (directory, stdin),
                start_new_session=True,  # no terminal, so nothing asks there for a password
            )
        except BaseException:
            ours.close()
            os.close(read)
            raise
        finally:
            theirs.close()
            os.close(write)
            os.close(directory)
        ours.setblocking(False)
        os.set_blocking(read, False)
        self._control, self._pipe = ours, read
        self._loop = asyncio.get_running_loop()
        self.over = self._loop.create_future()
        self._loop.add_reader(ours, self._receive)
        self._loop.add_writer(ours, self._send)
        self._loop.add_reader(read, self._read)

    async def end(self) -> None:
        """End whatever is left of it, at once if this is cancelled, and record how it ended."""
        try:
            await self._end()
        finally:
            self._close()

    async def _end(self) -> None:
        cancelled, until = None, monotonic() + self._grace + CHASE + SPARE
        if not self.over.done():
            self._order(b"T")
        while not self.over.done() and (rest := until - monotonic()) > 0:
            try:
                await asyncio.wait((self.over,), timeout=rest)
            except asyncio.CancelledError as exc:
                cancelled = exc
                self._order(b"K")
        if not self.over.done():
            self._keeper.kill()
        left = MOST_LATE  # others may hold the pipe open, so its end isn't waited for
        while left > 0 and (count := self._read()):
            left -= count
        if self.ended is None and not isinstance(self.failure, OSError):
            await self._end_without_keeper()
        if cancelled is not None:
            raise cancelled

    async def _end_without_keeper(self) -> None:
        """End what can be found: the keeper was killed, possibly by the program itself."""
        pids = () if self._pid is None else (self._pid,)
        ending = asyncio.to_thread(end_tree, *pids, marker=self._marker, grace=self._grace)
        survivors = await asyncio.shield(ending)
        if self._pid is not None:
            self.ended = Ended(None, "SIGKILL", survivors=survivors)
        elif self.failure is None:
            code = self._keeper.wait()
            how = f"exit code {code}" if code >= 0 else signal_name(-code)
            self.failure = ChildProcessError(f"the process that watches over it ended: {how}")

    # The keeper's socket

    def _order(self, order: bytes) -> None:
        self._keeper.send_signal(signal.SIGCONT)  # should the program have stopped it
        self._unsent += order
        self._loop.add_writer(self._control, self._send)

    def _send(self) -> None:
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
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(*line.split(b" ", 1))
        if not data:
            self._loop.remove_reader(self._control)
            if not self.over.done():
                self.over.set_result(None)

    def _take(self, word: bytes, text: bytes) -> None:
        """Read one line of the keeper's report."""
        if word == b"started":
            self._pid = int(text)
        elif word == b"failed":
            number, _, where = text.partition(b" ")
            name = self._names[where == DIRECTORY]
            self.failure = OSError(int(number), os.strerror(int(number)), name)
        elif word == b"left":
            self._left.append(text.decode())
        elif word == b"ended":
            status, cpu_ms, peak, survivors = map(int, text.split())
            code, sign = None, None
            if status < 0:  # the keeper gave it up, alive
                sign = "SIGKILL"
            elif os.WIFSIGNALED(status):
                sign = signal_name(os.WTERMSIG(status))
            else:
                code = os.WEXITSTATUS(status)
            self.ended = Ended(code, sign, False, cpu_ms, peak, tuple(self._left), survivors)

    # Output

    def _read(self) -> int:
        """Pass on what is there. Return how much that was."""
        try:
            data = os.read(self._pipe, READ)
        except BlockingIOError:
            return 0
        if not data:  # all who could write have ended, or closed it
            self._loop.remove_reader(self._pipe)
        elif self.failure is None:
            try:
                self._on_output(data)
            except Exception as exc:  # noqa: BLE001 - `run` raises it, when all has ended
                self.failure = exc
                self._order(b"T")
        return len(data)

    def _close(self) -> None:
        """Close everything. A keeper that still runs takes this for an order to end."""
        with suppress(RuntimeError):  # a loop that was closed has no readers any more
            self._loop.remove_reader(self._control)
            self._loop.remove_writer(self._control)
            self._loop.remove_reader(self._pipe)
        self._control.close()
        os.close(self._pipe)
        if self.over.done():
            self._keeper.wait()
        else:
            with suppress(RuntimeError):  # the interpreter ends, and the system will wait for it
                Thread(target=self._keeper.wait, daemon=True).start()


async def run_program(
    argv: Sequence[str],
    *,
    cwd: str,
    stdout: BinaryIO,
    stderr: BinaryIO,
    pass_fds: Sequence[int] = (),
) -> int:
    """Run a program of ours that ends soon and starts nothing, and return its exit code.

    It has no keeper, whose start would take longer than such a program, and no standard input. Its output
    goes to files. If this is cancelled, its process group is killed.

    Raises:
        OSError: The program can't be started.
    """
    # Started in one step, so that no cancellation comes before there is something to kill.
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    try:
        return await asyncio.to_thread(process.wait)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def python() -> str:
    """Return a Python to run the keeper with: this one, unless it is only part of a program."""
    own = None if getattr(sys, "frozen", False) else sys.executable
    found = own or shutil.which("python3")
    if not found:
        raise FileNotFoundError(
            "commands are watched over by a Python, and there is no python3 here"
        )
    return found


def _message(argv: Sequence[str], env: Mapping[str, str], marker: str, grace: float) -> bytes:
    """Return the message that makes a keeper run a program."""
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


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
