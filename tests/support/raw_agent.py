"""A real agent that is sent bytes: whatever a client may send, stop doing, or do wrong.

`raw_agent` starts a process; `local_agent` runs the same agent in a thread of this process, for tests that are
not about the process: it starts twenty times as fast. `TapProcess` is a `callsheet tap` with a test at both of
its ends. What speaks ACP properly, and checks what it receives, is `agent_client.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tests.support.processes import new_token, rss_mb, wait_until_gone

PATIENCE = 30.0
COMMAND = (sys.executable, "-m", "callsheet", "agent")

Message = dict[str, Any]


class RawAgent:
    """The process, its pipes, and every line that it has written."""

    def __init__(self, command: Sequence[str], cwd: Path, *, reading: bool = True) -> None:
        self.token: str = new_token()
        self.cwd: Path = cwd
        self.lines: list[bytes] = []
        self.process: Any = self._start(command)
        self.stderr: bytearray = bytearray()
        self._id: int = 0
        self._seen: threading.Condition = threading.Condition()
        self._answers: dict[Any, list[Message]] = {}
        self._ended: bool = False
        self._threads: list[threading.Thread] = []
        self._begin(self._read_errors)
        if reading:
            self.read()

    def _start(self, command: Sequence[str]) -> Any:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.cwd,
            env={**os.environ, "CALLSHEET_TEST_MARK": self.token},
        )

    # Reading

    def read(self) -> None:
        """Begin to read what it writes."""
        self._begin(self._read_lines)

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        try:
            with suppress(ValueError, OSError):  # the test has closed it
                for line in self.process.stdout:
                    with self._seen:
                        self.receive(line)
                        self._seen.notify_all()
        finally:
            with self._seen:
                self._ended = True
                self._seen.notify_all()

    def receive(self, line: bytes) -> None:
        """Store a message."""
        message = json.loads(line)
        self.lines.append(line)
        if "method" not in message:
            self._answers.setdefault(_key(message["id"]), []).append(message)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with suppress(ValueError, OSError):
            while piece := os.read(self.process.stderr.fileno(), 1 << 16):
                self.stderr += piece

    @property
    def messages(self) -> list[Message]:
        """Everything that it has written."""
        with self._seen:
            return [json.loads(line) for line in self.lines]

    def updates(self, kind: str | None = None) -> list[Message]:
        """Return the updates, of all kinds or of one."""
        found = [
            m["params"]["update"] for m in self.messages if m.get("method") == "session/update"
        ]
        return [update for update in found if kind in (None, update["sessionUpdate"])]

    def until(self, holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Wait until something holds of what it has written, and return it."""
        end = time.monotonic() + seconds
        with self._seen:
            while not (found := holds()):
                left = end - time.monotonic()
                if left <= 0 or self._ended:
                    why = "the agent has ended" if self._ended else "it took too long"
                    errors = self.stderr[-2000:].decode(errors="replace")
                    raise AssertionError(f"{why}; the last lines: {self.lines[-5:]}\n{errors}")
                self._seen.wait(min(left, 0.5))
        return found

    def answers(self, key: Any) -> list[Message]:
        """Return the answers with an id."""
        with self._seen:
            return list(self._answers.get(_key(key), ()))

    # Writing

    def send_bytes(self, data: bytes) -> None:
        """Send anything at all."""
        assert self.process.stdin is not None
        _write(self.process.stdin.fileno(), data)

    def send(self, *messages: Message) -> None:
        """Send messages, in one piece."""
        self.send_bytes(b"".join(line_of(message) for message in messages))

    def request(self, method: str, params: Any = None) -> int:
        """Send a request, and return its id."""
        self._id += 1
        self.send({"id": self._id, "method": method, "params": {} if params is None else params})
        return self._id

    def answer(self, key: Any, seconds: float = PATIENCE) -> Message:
        """Wait for the answer with an id."""
        return self.until(lambda: self._answers.get(_key(key)), seconds)[0]

    def ask(self, method: str, params: Any = None) -> Message:
        """Send a request, and return its answer."""
        return self.answer(self.request(method, params))

    def initialize(self, version: int = 1) -> Message:
        """Send `initialize`."""
        params: Message = {"protocolVersion": version}
        if version == 2:
            params["info"] = {"name": "test", "version": "1"}
        return self.ask("initialize", params)

    def new_session(self) -> str:
        """Make a session, and return its id."""
        answer = self.ask("session/new", {"cwd": str(self.cwd), "mcpServers": []})
        return answer["result"]["sessionId"]

    def prompt(self, session: str, text: str) -> int:
        """Begin a turn, and return the request's id."""
        block = {"type": "text", "text": text}
        return self.request("session/prompt", {"sessionId": session, "prompt": [block]})

    def is_alive(self) -> bool:
        """Whether it still answers."""
        return "result" in self.ask("session/list")

    # Its end

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close_stdout(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()

    def wait(self, seconds: float = 8.0) -> int:
        """Wait for its end, and return the exit code."""
        return self.process.wait(seconds)

    def end(self) -> None:
        """Kill it if it lives, and close its pipes."""
        self.process.kill()
        self.process.wait(10)
        for thread in self._threads:
            thread.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def leaves_nothing(self) -> bool:
        """Whether no process that it has started is left."""
        left = wait_until_gone(self.token)
        assert not left, left
        return True

    def rss_mb(self) -> float:
        """Return how much memory it has now."""
        return rss_mb(self.process.pid)


@contextmanager
def raw_agent(
    cwd: Path, *options: str, command: Sequence[str] = COMMAND, reading: bool = True
) -> Iterator[RawAgent]:
    """Start an agent, and end it in the end."""
    agent = RawAgent([*command, *options], cwd, reading=reading)
    try:
        yield agent
    finally:
        agent.end()


def piped_agent(settings: Any) -> tuple[Coroutine[Any, Any, None], int, int]:
    """Return what runs an agent between two pipes, and the client's ends: the agent's stdin, its stdout."""
    from callsheet.agent.agent import Agent

    agent_in, to_agent = os.pipe()
    from_agent, agent_out = os.pipe()

    async def serve() -> None:
        try:
            await Agent(settings, agent_in, agent_out).run()
        finally:
            os.close(agent_in)
            os.close(agent_out)

    return serve(), to_agent, from_agent


class _Thread:
    """Stands in for a process: an agent that runs in a thread, between two pipes."""

    def __init__(self, settings: Any) -> None:
        serving, to_agent, from_agent = piped_agent(settings)
        self.stdin = os.fdopen(to_agent, "wb", buffering=0)
        self.stdout = os.fdopen(from_agent, "rb")
        self.stderr = None
        self._thread = threading.Thread(target=asyncio.run, args=(serving,))
        self._thread.start()

    def kill(self) -> None:
        self.stdin.close()

    def wait(self, seconds: float) -> int:
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return 0


class _LocalAgent(RawAgent):
    def __init__(self, settings: Any, cwd: Path) -> None:
        self._settings: Any = settings
        super().__init__((), cwd)

    def _start(self, command: Sequence[str]) -> Any:
        return _Thread(self._settings)

    def _read_errors(self) -> None:
        """It writes to this process's stderr."""


@contextmanager
def local_agent(cwd: Path, **settings: Any) -> Iterator[RawAgent]:
    """Run an agent in a thread, with `AgentSettings` that default to the palette, and end it in the end."""
    from callsheet.agent.agent import AgentSettings
    from callsheet.agent.startup import palette

    agent = _LocalAgent(AgentSettings(**{"handler": palette, **settings}), cwd)
    try:
        yield agent
    finally:
        agent.end()


_AGENT = 'exec 3<&0; cat <&3 > "$1" & exec cat "$2"'


class TapProcess(RawAgent):
    """A `callsheet tap` whose agent the test plays as well. What both sides receive is read all the time."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.report: Path = folder / "report.txt"
        received, sent = folder / "received", folder / "sent"
        os.mkfifo(received)
        os.mkfifo(sent)
        agent = ("sh", "-c", _AGENT, "agent", str(received), str(sent))
        tap = (sys.executable, "-m", "callsheet", "tap", "--report", str(self.report))
        super().__init__([*tap, *options, "--", *agent], folder)
        self._to_tap: BinaryIO = sent.open("wb", buffering=0)
        self._from_tap: BinaryIO = received.open("rb")
        self._at_agent: list[bytes] = []
        self._marks: int = 0
        self._begin(self._read_as_agent)

    def receive(self, line: bytes) -> None:
        """Store a line, which may be anything that the agent has sent."""
        self.lines.append(line)

    def _read_as_agent(self) -> None:
        for line in self._from_tap:
            with self._seen:
                self._at_agent.append(line)
                self._seen.notify_all()

    def send_as_agent(self, data: bytes) -> list[bytes]:
        """Send something as the agent, and return all that the client has received by then."""
        self._marks += 1
        mark = line_of({"method": "_mark", "params": self._marks})
        _write(self._to_tap.fileno(), data + mark)
        self.until(lambda: mark in self.lines)
        with self._seen:
            count = self.lines.index(mark)
            received = self.lines[:count]
            del self.lines[: count + 1]
        return received

    def send_as_client(self, line: bytes) -> bytes:
        """Send a line as the client, and return what the agent receives of it."""
        self.send_bytes(line)
        self.until(lambda: self._at_agent)
        return self._at_agent.pop(0)

    def finish(self) -> tuple[int, list[bytes], str]:
        """End the agent. Return the tap's exit code, what the client received last, and the tap's stderr."""
        self._to_tap.close()
        code = self.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        return code, self.lines, self.stderr.decode()

    def end(self) -> None:
        """Kill it if it lives, and close its pipes."""
        self._to_tap.close()
        super().end()
        self._from_tap.close()


def line_of(message: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _key(key: Any) -> str:
    return json.dumps(key)
