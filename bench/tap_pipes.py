"""A proxy between two ends that the bench holds: lines go in at one, and come out at the other.

The agent behind the proxy only hands its pipes over (`tap_agent.py`). CPU time is that of the proxy's process
alone, all threads of it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

_HERE = Path(__file__).parent
TAP = "callsheet tap"
UNGUARDED = "callsheet tap --no-redact"
KEEPING = "callsheet tap, with a history"
PIECES = "bare relay, os.read and os.write"
LINES = "bare relay, line by line"
SDK = "pass-through on the Python SDK"

_CALLSHEET = (sys.executable, "-m", "callsheet", "tap", "--no-notice")
COMMANDS: dict[str, tuple[str, ...]] = {
    TAP: (*_CALLSHEET, "--"),
    UNGUARDED: (*_CALLSHEET, "--no-redact", "--"),
    KEEPING: (*_CALLSHEET, "--"),
    PIECES: (sys.executable, str(_HERE / "bare_relay.py"), "pieces"),
    LINES: (sys.executable, str(_HERE / "bare_relay.py"), "lines"),
    SDK: (sys.executable, str(_HERE / "sdk_proxy.py")),
}
_PATIENCE = 30.0
_PIECE = 1 << 16


class Proxy:
    """A proxy that runs, and both of its ends."""

    def __init__(self, process: subprocess.Popen[bytes], asked: int, told: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process: subprocess.Popen[bytes] = process
        self._asking: int = process.stdin.fileno()
        self._hearing: int = process.stdout.fileno()
        self._asked: int = asked
        self._told: int = told

    def cpu(self) -> float:
        """Return the seconds of CPU time that its process has used."""
        return time.clock_gettime(_cpu_clock(self._process.pid))

    def ask(self, line: bytes) -> bytes:
        """Let the editor say a line, and give what the agent hears of it."""
        os.write(self._asking, line)
        return _line(self._asked)

    def tell(self, line: bytes) -> bytes:
        """Let the agent say a line, and give what the editor hears of it."""
        os.write(self._told, line)
        return _line(self._hearing)

    def heard(self, until: bytes) -> int:
        """Wait until the editor has heard a line with this. Gives how many lines it has heard."""
        count, rest = 0, b""
        while True:
            data = os.read(self._hearing, _PIECE)
            count += data.count(b"\n")
            rest = rest[-len(until) :] + data
            if until in rest and rest.endswith(b"\n"):
                return count
            if not data:
                raise RuntimeError("the proxy has ended")

    def flood(self, pieces: list[bytes], until: bytes) -> int:
        """Let the agent say something as fast as it is taken. Gives how many lines the editor has heard."""
        writer = Thread(target=_write_all, args=(self._told, pieces), daemon=True)
        writer.start()
        found = self.heard(until)
        writer.join()
        return found


@contextmanager
def proxy(name: str, history: str = "off") -> Generator[Proxy]:
    """Start a proxy, and end it."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as folder:
        path = str(Path(folder, "ends"))
        agent = (sys.executable, "-S", str(_HERE / "tap_agent.py"), path)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen(1)
            listening.settimeout(_PATIENCE)
            process = subprocess.Popen(
                [*COMMANDS[name], *agent],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "CALLSHEET_HISTORY": history},
            )
            try:
                line, _ = listening.accept()
                with line:
                    _, ends, _, _ = socket.recv_fds(line, 1, 2)
                    yield Proxy(process, *ends)
                    for end in ends:
                        os.close(end)
            finally:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    try:
        process.wait(_PATIENCE / 6)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_PATIENCE)


@contextmanager
def one_cpu() -> Generator[None]:
    """Keep all that is started here on one CPU, where that can be done.

    Else what waking a process costs depends on where it happens to be, and that changes by the minute.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def present(names: Sequence[str]) -> list[str]:
    """Return those of the proxies that can be run here."""
    return [name for name in names if name != SDK or find_spec("acp")]


def _cpu_clock(pid: int) -> int:
    """Return the clock of another process's CPU time, as `clock_getcpuclockid` does on Linux."""
    return (~pid << 3) | 2


def _line(descriptor: int) -> bytes:
    data = os.read(descriptor, _PIECE)
    while not data.endswith(b"\n"):
        more = os.read(descriptor, _PIECE)
        if not more:
            raise RuntimeError("the proxy has ended")
        data += more
    return data


def _write_all(descriptor: int, pieces: list[bytes]) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(descriptor, rest[:_PIECE]) :]
