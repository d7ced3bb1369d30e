"""A client to test the agent with: real pipes, scripted answers, and a schema check of every message.

    async with play(handler=doing(one_turn), version=1, capabilities={"terminal": True}) as client:
        client.on["session/request_permission"] = choose("allow_once")
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "hello") == "end_turn"

`play` runs the agent in this process, over pipes of the system; `play_process` starts `callsheet agent`.
What the agent sends is kept in `client.received`, what it is sent in `client.sent`, both in order
in `client.traffic`; `client.calls` is what a client knows of each tool call.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from callsheet.agent.agent import Agent, AgentSettings
from callsheet.agent.handler import Command, Prompt, Turn
from callsheet.agent.pipe import Reader, Writer
from tests.support import schemas

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


class Refused(Exception):
    """An error of JSON-RPC: what the agent answers, or what a handler answers the agent."""

    def __init__(self, message: str, code: int = -32603) -> None:
        super().__init__(f"{message} ({code})")
        self.message: str = message
        self.code: int = code


class Client:
    """One client. `on` has a function for each method that the agent may call; it may be async."""

    def __init__(self, reader: asyncio.StreamReader, to_agent: int, version: int) -> None:
        self.version: int = version
        self.on: dict[str, Handler] = {}
        self.traffic: list[tuple[str, Message]] = []
        self.calls: dict[str, Message] = {}
        self.problems: list[BaseException] = []
        self.is_over: asyncio.Event = asyncio.Event()
        self._reader: asyncio.StreamReader = reader
        self._to_agent: int = to_agent
        self._next_id: int = 0
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._changed: asyncio.Condition = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._start(self._listen())

    # What was said

    @property
    def received(self) -> list[Message]:
        """Every message of the agent."""
        return [message for who, message in self.traffic if who == "agent"]

    @property
    def sent(self) -> list[Message]:
        """Every message of this client."""
        return [message for who, message in self.traffic if who == "client"]

    def asked(self, method: str) -> list[Message]:
        """Return the params of each request of the agent by its method."""
        return [m["params"] for m in self.received if m.get("method") == method and "id" in m]

    def updates(self, kind: str | None = None) -> list[Message]:
        """Return the updates that have come, of one kind or of all."""
        told = [m["params"]["update"] for m in self.received if m.get("method") == "session/update"]
        return [update for update in told if kind in (None, update["sessionUpdate"])]

    def call(self, index: int = -1) -> Message:
        """Return what is known of a tool call, by its place."""
        return list(self.calls.values())[index]

    def said(self) -> str:
        """Return the text of the agent's messages."""
        return "".join(u["content"]["text"] for u in self.updates("agent_message_chunk"))

    async def until(self, holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Wait until something holds of what has been received, and give it."""
        async with asyncio.timeout(seconds), self._changed:
            while not (found := holds()) and not self.is_over.is_set():
                await self._changed.wait()
        if not found:
            raise AssertionError("the agent is gone, and it never was so")
        return found

    # Saying something

    def send_bytes(self, data: bytes) -> None:
        """Send anything at all."""
        while data:
            data = data[os.write(self._to_agent, data) :]

    def send(self, message: Message) -> None:
        """Send a message."""
        whole = {"jsonrpc": "2.0", **message}
        self.traffic.append(("client", whole))
        self.send_bytes(json.dumps(whole).encode() + b"\n")

    def notify(self, method: str, params: Message) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def begin(self, method: str, params: Message) -> asyncio.Future[Any]:
        """Send a request, and give the answer that will come."""
        self._next_id += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._next_id] = method, answer
        self.send({"id": self._next_id, "method": method, "params": params})
        return answer

    async def request(self, method: str, params: Message) -> Any:
        """Send a request, and give its answer; an error is raised."""
        return await asyncio.wait_for(self.begin(method, params), PATIENCE)

    async def initialize(self, capabilities: Message | None = None, name: str = "tests") -> Message:
        """Say hello."""
        info = {"name": name, "version": "1"}
        params: Message = {"protocolVersion": self.version}
        if self.version == 1:
            params |= {"clientInfo": info, "clientCapabilities": capabilities or {}}
        else:
            params |= {"info": info, "capabilities": capabilities or {}}
        return await self.request("initialize", params)

    async def new_session(self, cwd: object, **more: Any) -> str:
        """Make a session, and give its id."""
        params = {"cwd": str(cwd), "mcpServers": [], **more}
        return (await self.request("session/new", params))["sessionId"]

    def start_prompt(self, session: str, text: str = "go") -> asyncio.Task[str]:
        """Begin a turn, and give its end that will come: why it stopped."""
        return asyncio.ensure_future(self.prompt(session, text))

    async def prompt(self, session: str, text: str = "go") -> str:
        """Run a turn to its end, and give why it stopped."""
        before = len(self._idle(session))
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        answer = await self.request("session/prompt", params)
        if self.version == 1:
            return answer["stopReason"]
        await self.until(lambda: len(self._idle(session)) > before)
        return self._idle(session)[-1]["stopReason"]

    def cancel(self, session: str) -> None:
        """Cancel the turn."""
        self.notify("session/cancel", {"sessionId": session})

    def _idle(self, session: str) -> list[Message]:
        return [
            m["params"]["update"]
            for m in self.received
            if m.get("method") == "session/update"
            and m["params"]["sessionId"] == session
            and m["params"]["update"].get("state") == "idle"
        ]

    # Listening

    async def _listen(self) -> None:
        while line := await self._reader.readline():
            message = json.loads(line)
            self.traffic.append(("agent", message))
            try:
                self._take(message)
            except BaseException as exc:  # noqa: BLE001 - raised at the end of the test
                self.problems.append(exc)
            async with self._changed:
                self._changed.notify_all()
        self.is_over.set()
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Refused("the agent is gone"))
        async with self._changed:
            self._changed.notify_all()

    def _take(self, message: Message) -> None:
        if "method" not in message:
            self._answered(message)
        elif "id" in message:
            self._start(self._serve(message))
            schemas.check(self.version, ASKED[message["method"]], message["params"])
        elif message["method"] == "session/update":
            schemas.check(self.version, schemas.NOTIFICATION[self.version], message["params"])
            self._fold(message["params"]["update"])

    def _answered(self, message: Message) -> None:
        method, answer = self._waiting.pop(message.get("id"), ("", None))  # pyright: ignore[reportCallIssue, reportArgumentType]
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(Refused(message["error"]["message"], message["error"]["code"]))
            return
        answer.set_result(message["result"])
        if method in RESULTS:
            schemas.check(self.version, RESULTS[method], message["result"])

    async def _serve(self, message: Message) -> None:
        answer: Message = {"id": message["id"]}
        try:
            result = self._handler(message["method"])(message["params"])
            if inspect.isawaitable(result):
                result = await result
            answer["result"] = result
        except Refused as exc:
            answer["error"] = {"code": exc.code, "message": exc.message}
        except Exception as exc:  # noqa: BLE001 - raised at the end of the test
            self.problems.append(exc)
            answer["error"] = {"code": -32603, "message": repr(exc)}
        with suppress(OSError):
            self.send(answer)

    def _handler(self, method: str) -> Handler:
        if method not in self.on:
            raise Refused(f"{method} is not known here", -32601)
        return self.on[method]

    def _fold(self, update: Message) -> None:
        """Keep what is told of a tool call, as clients do: what comes takes the place of what was."""
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            known = self.calls.setdefault(update["toolCallId"], {})
            meta = {**known.get("_meta", {}), **(update.get("_meta") or {})}
            known.update(update)
            known["_meta"] = meta
        elif update["sessionUpdate"] == "tool_call_content_chunk":
            known = self.calls[update["toolCallId"]]
            known["content"] = [*(known.get("content") or []), update["content"]]

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The end

    def hang_up(self) -> None:
        """Close the agent's stdin."""
        if self._to_agent >= 0:
            os.close(self._to_agent)
            self._to_agent = -1

    async def close(self) -> None:
        """Hang up, hear the rest, and raise what was wrong with the agent's messages."""
        self.hang_up()
        async with asyncio.timeout(PATIENCE):
            await self.is_over.wait()
        for task in list(self._tasks):
            task.cancel()
        if self.problems:
            raise self.problems[0]


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


# Minds, and agents


class Doing:
    """A handler that does what a test says."""

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
    **more: Any,
) -> AsyncGenerator[Client]:
    """Run an agent in this process, over pipes, and give a client that has said hello to it."""
    agent_in, to_agent = os.pipe()
    from_agent, agent_out = os.pipe()
    settings = AgentSettings(handler=handler, protocol=2 if version == 2 else 1, **more)
    writer = Writer(agent_out)
    agent = Agent(settings, Reader(agent_in), writer)
    running = asyncio.ensure_future(agent.run())
    running.add_done_callback(lambda _: (writer.close(), os.close(agent_out)))
    client = Client(await _reader(from_agent), to_agent, version)
    try:
        await client.initialize(capabilities)
        yield client
    finally:
        try:
            await client.close()
        finally:
            await asyncio.wait({running}, timeout=PATIENCE)
            os.close(agent_in)
    if not running.cancelled():
        running.result()


@asynccontextmanager
async def play_process(
    *arguments: str, version: int = 1, capabilities: Message | None = None
) -> AsyncGenerator[tuple[Client, asyncio.subprocess.Process]]:
    """Start `callsheet agent`, and give a client that has said hello to it, and the process."""
    agent_in, to_agent = os.pipe()
    flags = ("--protocol", "2") if version == 2 else ()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "callsheet", "agent", *flags, *arguments,
        stdin=agent_in, stdout=asyncio.subprocess.PIPE, limit=1 << 28,
    )  # fmt: skip
    os.close(agent_in)
    assert process.stdout is not None
    client = Client(process.stdout, to_agent, version)
    try:
        await client.initialize(capabilities)
        yield client, process
        await client.close()
    finally:
        client.hang_up()
        with suppress(ProcessLookupError):
            if process.returncode is None and not client.is_over.is_set():
                process.kill()
        await asyncio.wait_for(process.wait(), PATIENCE)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 28)
    file = os.fdopen(descriptor, "rb", 0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader
