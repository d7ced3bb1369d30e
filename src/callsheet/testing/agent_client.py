"""`AgentClient`: starts any ACP agent, plays its client, and records every line of both.

The agent is a child process in its own process session, so that Ctrl-C reaches only us, and we end the agent.
Its lines are read as fast as it writes them, whatever the test does meanwhile. Requests go both ways by
`runtime.rpc`, as in the agent itself.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self, TypeAlias

from callsheet.acp.jsonrpc import (
    InvalidParams,
    Message,
    Notification,
    ProtocolError,
    UnknownMethod,
)
from callsheet.acp.permission import OPTION_KINDS
from callsheet.report.errors import InvalidValue
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.report.ledger import Ledger
from callsheet.runtime.pipes import READ, PipeWriter, Source
from callsheet.runtime.rpc import Answer, Disconnected, RemoteError, RpcPeer
from callsheet.testing.recordings import Recording, fold, updates_in

Decide: TypeAlias = Callable[[JsonObject], "str | Awaitable[str | None] | None"]
"""Takes the params of a permission request. Returns the id or kind of an option, or None: no answer."""

Serve: TypeAlias = Callable[[JsonObject], "JsonValue | Awaitable[JsonValue]"]
"""Serves a method that the agent calls: takes its params, returns its result."""

STDERR_BYTES = 1 << 16
"""Bytes that are stored of what an agent writes to stderr."""

_PERMISSION = "session/request_permission"
_CANCELLED: JsonObject = {"outcome": {"outcome": "cancelled"}}

AgentError = RemoteError
"""The agent answered with an error. `error` is the error of its response."""


class AgentGone(Disconnected):
    """The agent has ended, or can't be started."""


@dataclass(eq=False)
class AgentClient:
    """Start an agent, and play its client, in ACP v1 or v2.

    async with AgentClient(["callsheet", "agent"], on_permission="allow_once") as client:
        session = await client.new_session("/home/me/project")
        assert await client.prompt(session, "/read README.md") == "end_turn"
    assert_every_call_ended(client.lines)

    Args:
        command: The command that starts the agent.
        protocol: The version of ACP to request.
        cwd: The agent's directory.
        env: The agent's environment.
        capabilities: The client's capabilities, as sent in `initialize`; `serve` implements them.
        on_permission: The kind of the answer to every request for permission (`allow_once`, `allow_always`,
            `reject_once`, `reject_always`), None for no answer, or a function that decides.
        serve: Methods that the agent may call.
        on_line: Called with each line of the agent, as it arrives.
        recording: Receives every line, both ways.
        timeout: Seconds that a response may take.
    """

    command: Sequence[str]
    _: KW_ONLY
    protocol: Literal[1, 2] = 1
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    capabilities: JsonObject | None = None
    on_permission: str | Decide | None = "allow_once"
    serve: Mapping[str, Serve] | None = None
    on_line: Callable[[bytes], None] | None = None
    recording: Recording = field(default_factory=Recording)
    timeout: float = 60.0

    agent: JsonObject = field(init=False, default_factory=dict[str, Any])
    """What the agent answered to `initialize`."""
    exit_code: int | None = field(init=False, default=None)
    _process: Process | None = field(init=False, default=None)
    _rpc: RpcPeer | None = field(init=False, default=None)
    _readers: list[asyncio.Task[None]] = field(init=False, default_factory=list[Any])
    _stderr: bytearray = field(init=False, default_factory=bytearray)
    _turns: dict[str, asyncio.Future[JsonObject]] = field(
        init=False, default_factory=dict[str, Any]
    )
    """The turns of v2, by their sessions: a state of the session ends them."""

    def __post_init__(self) -> None:
        answer = self.on_permission
        if isinstance(answer, str) and answer not in OPTION_KINDS:
            raise InvalidValue(
                f"on_permission: {answer!r}: expected one of {', '.join(OPTION_KINDS)}, None or a function"
            )

    async def __aenter__(self) -> Self:
        """Start the agent, and agree on a version."""
        await self._start()
        try:
            await self.initialize()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the agent."""
        await self.close()

    # What a client can do

    async def initialize(self) -> JsonObject:
        """Send `initialize`, and return the response."""
        info: JsonObject = {"name": "callsheet-client", "version": "1"}
        params: JsonObject = {"protocolVersion": self.protocol}
        if self.protocol == 1:
            params |= {"clientInfo": info, "clientCapabilities": self.capabilities or {}}
        else:
            params |= {"info": info, "capabilities": self.capabilities or {}}
        self.agent = _object(await self.request("initialize", params))
        return self.agent

    async def new_session(self, cwd: str, **params: JsonValue) -> str:
        """Create a session, and return its id. Further params are sent as they are."""
        answer = await self.request("session/new", {"cwd": cwd, "mcpServers": [], **params})
        key = _object(answer).get("sessionId")
        if not isinstance(key, str):
            raise AgentError("session/new", {"message": f"no sessionId in {answer!r}"})
        return key

    async def load_session(self, session: str, cwd: str, **params: JsonValue) -> JsonObject:
        """Continue an earlier session, and have it replayed. Return the response."""
        options: JsonObject = {"sessionId": session, "cwd": cwd, "mcpServers": [], **params}
        method = "session/load"
        if self.version == 2:
            method, options["replayFrom"] = "session/resume", {"type": "start"}
        return _object(await self.request(method, options))

    async def prompt(self, session: str, prompt: str | Sequence[JsonObject]) -> str:
        """Send a prompt, wait for the end of the turn, and return its stop reason."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
        params: JsonObject = {"sessionId": session, "prompt": blocks}
        if self.version == 1:
            answer = _object(await self.request("session/prompt", params))
        else:
            turn = self._turns[session] = asyncio.get_running_loop().create_future()
            await self.request("session/prompt", params)
            answer = await self._wait(turn, "the end of the turn")
        return str(answer.get("stopReason"))

    async def cancel(self, session: str) -> None:
        """Cancel the running turn. Permission requests that wait for the user are answered `cancelled`."""
        await self.notify("session/cancel", {"sessionId": session})
        # What does not wait for the user goes on: a file is written, a terminal made.
        for request, task in list(self._peer.serving.values()):
            if request.method == _PERMISSION and request.params.get("sessionId") == session:
                task.cancel()

    async def request(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request, and return its result.

        Raises:
            AgentError: The agent answered with an error.
            AgentGone: The agent has ended.
            TimeoutError: There was no answer in time.
        """
        return await self._wait(self.begin(method, params), method)

    def begin(self, method: str, params: JsonObject) -> asyncio.Future[JsonValue]:
        """Send a request, and return a future of its result."""
        try:
            return self._peer.begin(method, params)[1]
        except OSError as exc:
            raise self._gone() from exc

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        rest = self.post(Notification(method, params))
        if rest is not None:
            await asyncio.wait({rest})

    def post(self, message: Message | bytes) -> asyncio.Future[None] | None:
        """Write a message, or bytes as they are, without waiting for room in the pipe.

        Raises:
            AgentGone: No agent runs.
        """
        try:
            return self._peer.post(message)
        except OSError as exc:
            raise self._gone() from exc

    async def _wait(self, answer: asyncio.Future[Any], what: str) -> Any:
        try:
            async with asyncio.timeout(self.timeout):
                return await answer
        except TimeoutError:
            raise TimeoutError(f"{what}: nothing for {self.timeout:g} s") from None

    # What it knows

    @property
    def version(self) -> Literal[1, 2]:
        """The version that was agreed on; before that, the one that is requested."""
        agreed = self.agent.get("protocolVersion", self.protocol)
        return 2 if agreed == 2 else 1

    @property
    def lines(self) -> list[bytes]:
        """The lines that the agent wrote."""
        return [frame.line for frame in self.recording.frames if frame.way == "in"]

    @property
    def updates(self) -> list[JsonObject]:
        """The updates that came, of all sessions."""
        return list(updates_in(self.lines))

    @property
    def errors(self) -> str:
        """The last of what the agent wrote to stderr."""
        return self._stderr.decode(errors="replace")

    @property
    def pid(self) -> int | None:
        """The agent's process id."""
        return None if self._process is None else self._process.pid

    def fold(self, session: str | None = None) -> Ledger:
        """Return the calls of a session as they are now; without one, of all sessions."""
        return fold(self.lines, version=self.version, session=session)

    def text(self, session: str | None = None) -> str:
        """Return the text of all agent messages, of one session or of all."""
        updates = updates_in(self.lines, session)
        chunks = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
        return "".join(str(_object(one.get("content")).get("text") or "") for one in chunks)

    # The process

    @property
    def _peer(self) -> RpcPeer:
        if self._rpc is None:
            raise AgentGone("the agent does not run")
        return self._rpc

    async def _start(self) -> None:
        agent_stdin, stdin = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=agent_stdin,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self.cwd,
                env=self.env,
                start_new_session=True,
            )
        except OSError as exc:
            os.close(stdin)
            raise AgentGone(f"{self.command[0]}: {exc.strerror}") from exc
        finally:
            os.close(agent_stdin)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._connect(_Stream(self._process.stdout), stdin)
        self._readers.append(asyncio.ensure_future(self._read_stderr(self._process.stderr)))

    def _connect(self, stdout: Source, stdin: int) -> None:
        """Speak with an agent by its pipes. The descriptor of its stdin is closed here."""
        writer = PipeWriter(stdin)  # has a descriptor of its own
        os.close(stdin)
        self._rpc = RpcPeer(
            stdout,
            writer,
            self._serve,
            self._receive_notification,
            on_line=self._record,
            when_cancelled={_PERMISSION: _CANCELLED},
            is_lenient=True,
        )
        self._readers.append(asyncio.ensure_future(self._run(self._rpc, stdout)))

    async def close(self, patience: float = 10.0) -> int:
        """End the agent as editors do, by closing its stdin, and return its exit code.

        One that stays for `patience` seconds is terminated, then killed.
        """
        if self._rpc is None:
            return -1
        await self._rpc.stop()
        with suppress(OSError, TimeoutError):  # what was sent before is written
            await asyncio.wait_for(self._rpc.writer.post(b""), patience)
        self._rpc.writer.close()
        await self._end(patience)
        # What it left behind may hold its pipes open.
        await asyncio.wait(self._readers, timeout=1.0)
        for task in self._readers:
            task.cancel()
        code = None if self._process is None else self._process.returncode
        self.exit_code = -1 if code is None else code
        return self.exit_code

    async def _end(self, patience: float) -> None:
        """Wait for the end of the agent, and see to it."""
        process = self._process
        assert process is not None
        for end in (None, process.terminate, process.kill):
            if end is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    end()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
                break

    async def _run(self, peer: RpcPeer, stdout: Source) -> None:
        try:
            await peer.run()
        except Exception as exc:  # noqa: BLE001 - it is raised in those who wait for a response
            self._lose(exc)
            while await stdout.piece():
                pass  # an agent that can't write could not end
            return
        if self._process is not None:
            with suppress(TimeoutError):  # so that its exit code is known
                await asyncio.wait_for(self._process.wait(), 1.0)
        self._lose(self._gone())

    def _lose(self, exc: Exception) -> None:
        """Let all who wait fail: the agent is gone, or can't be understood."""
        self._peer.lose(exc)
        for turn in self._turns.values():
            if not turn.done():
                turn.set_exception(exc)

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(READ):
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]

    def _gone(self) -> AgentGone:
        code = None if self._process is None else self._process.returncode
        text = "the agent has ended" if code is None else f"the agent has ended with {code}"
        errors = self.errors.strip()
        return AgentGone(f"{text}; its stderr: {errors}" if errors else text)

    # What goes by

    def _record(self, way: Literal["in", "out"], line: bytes) -> None:
        self.recording.add(way, line)
        if way == "in" and self.on_line is not None:
            self.on_line(line)

    def _receive_notification(self, method: str, params: JsonObject) -> None:
        update = _object(params.get("update"))
        if method == "session/update" and update.get("state") == "idle":
            turn = self._turns.get(str(params.get("sessionId")))
            if turn is not None and not turn.done():
                turn.set_result(update)

    async def _serve(self, method: str, params: JsonObject) -> Answer:
        serve = (self.serve or {}).get(method)
        if serve is None and method != _PERMISSION:
            raise UnknownMethod(method)
        try:
            result: Any = self._permission(params) if serve is None else serve(params)
            return Answer(await result if inspect.isawaitable(result) else result)
        except ProtocolError:
            raise
        except Exception as exc:
            raise ProtocolError(str(exc)) from exc

    async def _permission(self, params: JsonObject) -> JsonValue:
        choice: Any = (
            self.on_permission(params) if callable(self.on_permission) else self.on_permission
        )
        if inspect.isawaitable(choice):
            choice = await choice
        if choice is None:
            return _CANCELLED
        options = params.get("options")
        for option in options if is_list(options) else []:
            if is_object(option) and choice in (option.get("optionId"), option.get("kind")):
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        raise InvalidParams(f"options: none is {choice!r}")


class _Stream:
    """The agent's stdout. Its end is noticed when it is read, which is at once."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream: asyncio.StreamReader = stream

    async def piece(self) -> bytes:
        return await self._stream.read(READ)


def _object(value: JsonValue) -> JsonObject:
    return value if is_object(value) else {}
