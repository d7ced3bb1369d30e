"""A client to test the agent with, on `AgentClient`: scripted answers, and a schema check of every message.

    async with play(handler=doing(one_turn), version=1, capabilities={"terminal": True}) as client:
        client.on["session/request_permission"] = choose("allow_once")
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "hello") == "end_turn"

`play` runs the agent in this process, over pipes of the system; `play_process` starts `callsheet agent`.
What the agent sends is in `client.received`, what it is sent in `client.sent`, both in order in
`client.messages`; `client.calls` is what a client knows of each tool call.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from callsheet.acp.jsonrpc import Notification, ProtocolError
from callsheet.agent.agent import AgentSettings
from callsheet.agent.handler import Command, Prompt, Turn
from callsheet.runtime.pipes import PipeReader
from callsheet.runtime.rpc import Answer
from callsheet.testing import AgentClient, AgentError
from tests.support import schemas
from tests.support.raw_agent import piped_agent

Message = dict[str, Any]
Handler = Callable[[Message], Any]

PATIENCE = 20.0
"""Seconds after which an answer that does not come is a failure of the test."""

RESULTS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "tool_call/cancel": "CancelToolCallResponse",
}
ASKED = {
    "session/request_permission": "RequestPermissionRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "terminal/create": "CreateTerminalRequest",
    "terminal/output": "TerminalOutputRequest",
    "terminal/wait_for_exit": "WaitForTerminalExitRequest",
    "terminal/kill": "KillTerminalRequest",
    "terminal/release": "ReleaseTerminalRequest",
}


class Refused(ProtocolError):
    """An error of JSON-RPC: what the agent answers, or what a handler answers the agent."""

    def __init__(self, message: str, code: int = -32603) -> None:
        super().__init__(message)
        self.message: str = message
        self.code: int = code

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    def to_error(self) -> Message:
        """Return the `error` object of a response."""
        return {"code": self.code, "message": self.message}


class Client(AgentClient):
    """A client that checks every message. `on` has a function for each method that the agent may call."""

    def __init__(
        self, command: Sequence[str], version: Any = 1, capabilities: Message | None = None
    ) -> None:
        self.on: dict[str, Handler] = {}
        super().__init__(
            command, protocol=version, capabilities=capabilities, serve=self.on, timeout=PATIENCE
        )
        self.messages: list[tuple[str, Message]] = []
        """What both have sent, in order, as (`agent` or `client`, message)."""
        self.calls: dict[str, Message] = {}
        self.problems: list[BaseException] = []
        self.is_over: asyncio.Event = asyncio.Event()
        self._methods_sent: dict[Any, str] = {}
        self._waiting: asyncio.Event = asyncio.Event()

    # What was sent

    @property
    def received(self) -> list[Message]:
        """Every message of the agent."""
        return [message for who, message in self.messages if who == "agent"]

    @property
    def sent(self) -> list[Message]:
        """Every message of this client."""
        return [message for who, message in self.messages if who == "client"]

    def asked(self, method: str) -> list[Message]:
        """Return the params of each request of the agent by its method."""
        return [m["params"] for m in self.received if m.get("method") == method and "id" in m]

    def updates_of(self, kind: str | None = None) -> list[Message]:
        """Return the updates that have come, of one kind or of all."""
        return [update for update in self.updates if kind in (None, update["sessionUpdate"])]

    def call(self, index: int = -1) -> Message:
        """Return what is known of a tool call, by its place."""
        return list(self.calls.values())[index]

    async def until(self, holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Wait until something holds of what has been received, and return it."""
        async with asyncio.timeout(seconds):
            while not (found := holds()) and not self.is_over.is_set():
                await self._waiting.wait()
        if not found:
            raise AssertionError("the agent is gone, and it never was so")
        return found

    # Sending

    async def request(self, method: str, params: Message) -> Any:
        """Send a request, and return its result; an error is raised as `Refused`."""
        try:
            return await super().request(method, params)
        except AgentError as exc:
            raise Refused(str(exc.error["message"]), exc.error["code"]) from None

    def start_prompt(self, session: str, text: str = "go") -> asyncio.Task[str]:
        """Begin a turn, and return its end that will come: why it stopped."""
        return asyncio.ensure_future(self.prompt(session, text))

    async def prompt(self, session: str, prompt: str | Sequence[Message] = "go") -> str:
        """Run a turn to its end, and return why it stopped."""
        return await super().prompt(session, prompt)

    async def new_session(self, cwd: object, **params: Any) -> str:
        """Make a session, and return its id."""
        return await super().new_session(str(cwd), **params)

    def send_cancel(self, session: str) -> None:
        """Cancel the turn, and leave requests for permission unanswered."""
        self.post(Notification("session/cancel", {"sessionId": session}))

    # Checking what goes by

    def _record(self, way: Literal["in", "out"], line: bytes) -> None:
        super()._record(way, line)
        message = json.loads(line)
        self.messages.append(("agent" if way == "in" else "client", message))
        if way == "out" and "method" in message:
            self._methods_sent[message.get("id")] = message["method"]
        if way == "in":
            try:
                self._check(message, self._methods_sent.get(message.get("id"), ""))
            except BaseException as exc:  # noqa: BLE001 - raised at the end of the test
                self.problems.append(exc)
            asyncio.get_running_loop().call_soon(self._changed)

    def _check(self, message: Message, answered: str) -> None:
        if "method" not in message:
            if answered in RESULTS and "result" in message:
                schemas.check(self.version, RESULTS[answered], message["result"])
        elif "id" in message:
            schemas.check(self.version, ASKED[message["method"]], message["params"])
        elif message["method"] == "session/update":
            schemas.check(self.version, schemas.NOTIFICATION[self.version], message["params"])
            self._fold(message["params"]["update"])

    def _fold(self, update: Message) -> None:
        """Note what is known of a tool call, as clients do: what comes takes the place of what was."""
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            known = self.calls.setdefault(update["toolCallId"], {})
            meta = {**known.get("_meta", {}), **(update.get("_meta") or {})}
            known.update(update)
            known["_meta"] = meta
        elif update["sessionUpdate"] == "tool_call_content_chunk":
            known = self.calls[update["toolCallId"]]
            known["content"] = [*(known.get("content") or []), update["content"]]

    async def _serve(self, method: str, params: Message) -> Answer:
        try:
            return await super()._serve(method, params)
        except ProtocolError as exc:
            if exc.__cause__ is not None:
                self.problems.append(exc.__cause__)
            raise

    def _lose(self, exc: Exception) -> None:
        super()._lose(exc)
        self.is_over.set()
        self._changed()

    def _changed(self) -> None:
        """Wake those who wait in `until`."""
        waiting, self._waiting = self._waiting, asyncio.Event()
        waiting.set()

    # The end

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The agent's process."""
        assert self._process is not None
        return self._process

    def hang_up(self) -> None:
        """Close the agent's stdin."""
        self._peer.writer.close()

    async def close(self, patience: float = PATIENCE) -> int:
        """End the agent, receive the rest, and raise what was wrong with its messages."""
        code = await super().close(patience)
        if self.problems:
            raise self.problems[0]
        return code


class LocalClient(Client):
    """A client of an agent that runs in this process, over pipes of the system."""

    def __init__(self, settings: AgentSettings, version: int, capabilities: Message | None) -> None:
        super().__init__(["an agent in this process"], version, capabilities)
        self._settings: AgentSettings = settings
        self._running: asyncio.Future[Any] | None = None

    async def _start(self) -> None:
        serving, to_agent, from_agent = piped_agent(self._settings)
        self._running = asyncio.ensure_future(serving)
        source = PipeReader(from_agent)
        source.ended.add_done_callback(lambda _: os.close(from_agent))
        self._connect(source, to_agent)

    async def _end(self, patience: float) -> None:
        assert self._running is not None
        await asyncio.wait({self._running}, timeout=patience)
        if self._running.done() and not self._running.cancelled():
            self._running.result()


# Answers


def choose(*options: str) -> Handler:
    """Answer requests for permission by these options in turn; the last one holds on."""
    left = list(options)

    def answer(params: Message) -> Message:
        option = left.pop(0) if len(left) > 1 else left[0]
        if option == "cancelled":
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": option}}

    return answer


class Buffers:
    """A client's open files: what an editor would answer. Others are read from and written to the disk."""

    def __init__(self, client: Client, **texts: str) -> None:
        self.texts: dict[str, str] = dict(texts)
        client.on["fs/read_text_file"] = self.read
        client.on["fs/write_text_file"] = self.write

    def read(self, params: Message) -> Message:
        path = params["path"]
        if path in self.texts:
            return {"content": self.texts[path]}
        try:
            with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
                return {"content": file.read()}
        except OSError as exc:
            raise Refused(f"{path}: {exc.strerror}", -32002) from exc

    def write(self, params: Message) -> None:
        path = params["path"]
        if path in self.texts:
            self.texts[path] = params["content"]
        with open(path, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
            file.write(params["content"])


# Handlers, and agents


class Doing:
    """A handler that runs a function of the test."""

    def __init__(self, turn: Callable[[Prompt, Turn], Awaitable[Any]]) -> None:
        self._do: Callable[[Prompt, Turn], Awaitable[Any]] = turn

    def commands(self, tools: Sequence[object]) -> Sequence[Command]:
        return ()

    async def turn(self, prompt: Prompt, turn: Turn) -> Any:
        return await self._do(prompt, turn)


def doing(turn: Callable[[Prompt, Turn], Awaitable[Any]]) -> Callable[[], Any]:
    """Return what makes a handler out of one function."""
    return lambda: Doing(turn)


@asynccontextmanager
async def play(
    *,
    handler: Callable[[], Any],
    version: int = 1,
    capabilities: Message | None = None,
    settings: Message | None = None,
    **more: Any,
) -> AsyncGenerator[Client]:
    """Run an agent in this process, and return a client that is connected to it."""
    more |= settings or {}
    its = AgentSettings(handler=handler, protocol=2 if version == 2 else 1, **more)
    async with LocalClient(its, version, capabilities) as client:
        yield client


@asynccontextmanager
async def play_process(
    *arguments: str, version: int = 1, capabilities: Message | None = None
) -> AsyncGenerator[Client]:
    """Start `callsheet agent`, and return a client that is connected to it."""
    flags = ("--protocol", "2") if version == 2 else ()
    command = [sys.executable, "-m", "callsheet", "agent", *flags, *arguments]
    async with Client(command, version, capabilities) as client:
        yield client
