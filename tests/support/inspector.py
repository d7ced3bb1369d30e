"""A real `callsheet ui` in a process of its own, and a client that sends it whatever a test wants."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

PATIENCE = 30.0
Reply = tuple[int, dict[str, str], bytes]


class InspectorProcess:
    """The process, its address and token, and requests to it."""

    def __init__(self, history: str, *options: str, **env: str) -> None:
        command = [sys.executable, "-m", "callsheet", "ui", "--no-open", "--history", history]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        assert self.process.stdout is not None
        self.url: str = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(self.process.communicate()[1])
        parts = urlsplit(self.url)
        self.host: str = parts.hostname or ""
        self.port: int = parts.port or 0
        self.token: str = unquote(parts.fragment.removeprefix("token="))

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str | None
    ) -> Reply:
        """Send a request, with our token and the right `Host`, unless others are given; None for none."""
        with self._asked(path, method, body, headers) as reply:
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()

    def get(self, path: str, **params: Any) -> Any:
        """Return what a request of the page is answered."""
        status, _, body = self.ask(f"/api/{path}?{urlencode(params)}")
        assert status == 200, body
        return json.loads(body)

    @contextmanager
    def _asked(
        self, path: str, method: str, body: bytes | None, headers: dict[str, str | None]
    ) -> Iterator[HTTPResponse]:
        sent = {"Host": f"{self.host}:{self.port}", "Authorization": f"Bearer {self.token}"}
        sent |= {name.title(): value for name, value in headers.items()}
        connection = HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            yield connection.getresponse()
        finally:
            connection.close()

    @contextmanager
    def events(self) -> Iterator[Callable[[Callable[[Any], bool]], Any]]:
        """Listen. Yield what waits for a state that a test waits for, and returns it."""
        with self._asked("/api/events", "GET", None, {}) as reply:
            assert reply.status == 200

            def wait_for(is_it: Callable[[Any], bool]) -> Any:
                for line in reply:
                    if line.startswith(b"data: ") and is_it(state := json.loads(line[6:])):
                        return state
                raise AssertionError("the events have ended")

            yield wait_for

    def end(self) -> tuple[int, str]:
        """Interrupt it as Ctrl-C does, and return its exit code and what it has written to stderr."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


@contextmanager
def inspector(history: str | Path, *options: str, **env: str) -> Iterator[InspectorProcess]:
    """Run an inspector, which must end quietly."""
    started = InspectorProcess(str(history), *options, **env)
    try:
        yield started
        code, said = started.end()
        hints = ("Ctrl-C ends it\n", "does not exist yet: waiting for it\n")
        assert code == 0
        assert [line for line in said.splitlines(keepends=True) if not line.endswith(hints)] == []
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()
