"""A model that plays a script, on loopback: what real agents are given instead of a model.

It answers in the dialect that it is asked in (`dialects.py`). It is also the agents' proxy: what they ask
of anybody else is refused at once, and noted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from tests.live.dialects import DIALECTS
from tests.live.dialects.steps import Step, goes_on

MOST_BYTES = 8 << 20
MOST_REQUESTS = 200
PATIENCE = 30.0
OVER = Step(text="That is all.")
ASIDE = Step(text="An errand")


class Model:
    """Plays a script: each request that offers tools gets the next step, and at its end is told so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """The paths that were asked for."""
        self.strayed: list[str] = []
        """What was asked of it that is not a model's to answer: other hosts, unknown paths."""
        self.tools: set[str] = set()
        """The names of the tools that the agent has offered."""
        self._steps: list[Step] = []
        self._lock: Lock = Lock()
        self._server: _Server = _Server(self)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def plays(self, *steps: Step) -> None:
        """Say what comes next, after all that was said before."""
        with self._lock:
            self._steps += steps

    def forget(self) -> None:
        """Leave out what has not been played yet: a turn has ended early."""
        with self._lock:
            self._steps.clear()

    @contextmanager
    def serving(self) -> Iterator[Model]:
        """Answer until the end of the scope."""
        thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def next(self, path: str, tools: Iterable[str], is_due: bool) -> Step:
        """Return the step that answers a request, if one is due: what is asked without tools is an errand."""
        offered = set(tools)
        with self._lock:
            self.asked.append(path)
            if len(self.asked) > MOST_REQUESTS:
                raise RuntimeError(f"more than {MOST_REQUESTS} requests")
            self.tools |= offered
            if not (offered and is_due):
                return ASIDE
            return self._steps.pop(0) if self._steps else OVER

    def stray(self, what: str) -> None:
        """Note that something was asked that is nobody's business here."""
        with self._lock:
            self.strayed = [*self.strayed, what][-MOST_REQUESTS:]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: Model) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model: Model = model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of agents that are gone; what else fails is told to the test."""
        if not isinstance(exc := sys.exception(), OSError):
            self.model.stray(repr(exc))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    disable_nagle_algorithm = True

    @property
    def _model(self) -> Model:
        assert isinstance(self.server, _Server)
        return self.server.model

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        dialect = next((one for end, one in DIALECTS.items() if path.endswith(end)), None)
        if dialect is None or body is None or not path.startswith("/"):
            self._refuse()
            return
        step = self._model.next(path, dialect.tools(body), goes_on(body.get(dialect.talk)))
        self._stream(dialect.answer(step, body))

    def _refuse(self) -> None:
        self._model.stray(f"{self.command} {self.path}")
        self.close_connection = True
        self._say("application/json", b'{"error":{"message":"not here"}}', status=404)

    do_GET = do_PUT = do_CONNECT = do_HEAD = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _body(self) -> dict[str, Any] | None:
        size = self.headers.get("Content-Length")
        if size is None or int(size) > MOST_BYTES:
            return None
        try:
            body = json.loads(self.rfile.read(int(size)))
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def _say(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, parts: Iterable[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for part in parts:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # who asked has gone: a cancel, or a kill
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base's
        """Say nothing."""
