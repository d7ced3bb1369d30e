"""`AgentClient`: starts any ACP agent, plays its client, and records every line of both.

The agent is a child process in its own process session, so that Ctrl-C reaches only us, and we end the agent.
Its lines are read as fast as it writes them, whatever the test does meanwhile. A request of the agent is
answered by a task, so that several can wait at once; the client's requests wait for the response with their
id.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self, TypeAlias

from callsheet.acp.jsonrpc import (
    InvalidParams,
    Message,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    Response,
    UnknownMethod,
    decode_line,
    encode_line,
    error_response,
)
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.report.ledger import Ledger
from callsheet.testing.recordings import Frame, Recording, fold, updates_in

Decide: TypeAlias = Callable[[JsonObject], "str | Awaitable[str | None] | None"]
"""Takes the params of a permission request. Returns the id or kind of an option, or None: no answer."""

Serve: TypeAlias = Callable[[JsonObject], "JsonValue | Awaitable[JsonValue]"]
"""Serves a method that the agent calls: takes its params, returns its result."""

READ, STDERR_BYTES = 1 << 16, 1 << 16
"""Bytes that are read at once, and that are stored of what an agent writes to stderr."""

_CANCELLED: JsonObject = {"outcome": {"outcome": "cancelled"}}
_PERMISSION = "session/request_permission"


class AgentGone(CallsheetError):
    """The agent has ended, or can't be started."""


class AgentError(CallsheetError):
    """The agent answered with an error. `error` is the error of its response."""

    def __init__(self, method: str, error: JsonObject) -> None:
        super().__init__(f"{method}: {error.get('message')} ({error.get('code')})")
        self.error: JsonObject = error


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
        on_permission: The answer to every request for permission, or a function that decides.
        serve: Methods that the agent may call.
        on_line: Called with each line of the agent, as it arrives.
        recording: Receives every line, both ways.
        timeout: Seconds that a response may take.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        protocol: Literal[1, 2] = 1,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        capabilities: JsonObject | None = None,
        on_permission: str | Decide | None = "allow_once",
        serve: Mapping[str, Serve] | None = None,
        on_line: Callable[[bytes], None] | None = None,
        recording: Recording | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.protocol: Literal[1, 2] = protocol
        self.version: Literal[1, 2] = protocol
        """The version that was agreed on."""
        self.agent: JsonObject = {}
        """What the agent answered to `initialize`."""
        self.traffic: list[Frame] = []
        """Every line, both ways, in order."""
        self.exit_code: int | None = None
        self._command: Sequence[str] = command
        self._cwd: str | None = cwd
        self._env: Mapping[str, str] | None = env
        self._capabilities: JsonObject = capabilities or {}
        self._decide: str | Decide | None = on_permission
        self._serve: Mapping[str, Serve] = {} if serve is None else serve
        self._on_line: Callable[[bytes], None] | None = on_line
        self._recording: Recording | None = recording
        self._timeout: float = timeout
        # The process, and what is written to it
        self._process: Process | None = None
        self._stdin: asyncio.StreamWriter | None = None
        self._began: float = 0.0
        self._readers: list[asyncio.Task[None]] = []
        self._stderr: bytearray = bytearray()
        self._lost: Exception | None = None
        # Requests of ours and of the agent, by their ids, and turns of v2 by their sessions
        self._next_id: int = 0
        self._waiting: dict[RequestId, tuple[str, asyncio.Future[JsonValue]]] = {}
        self._turns: dict[str, asyncio.Future[JsonValue]] = {}
        self._serving: dict[RequestId, tuple[str, asyncio.Task[JsonValue]]] = {}
        self._answers: set[asyncio.Task[None]] = set()

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
            params |= {"clientInfo": info, "clientCapabilities": self._capabilities}
        else:
            params |= {"info": info, "capabilities": self._capabilities}
        self.agent = _object(await self.request("initialize", params))
        self.version = 2 if self.agent.get("protocolVersion") == 2 else 1
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
        if self.version == 2:
            return await self.resume_session(session, cwd, replayFrom={"type": "start"}, **params)
        return await self._go_on("session/load", session, cwd, params)

    async def resume_session(self, session: str, cwd: str, **params: JsonValue) -> JsonObject:
        """Continue an earlier session, by default without a replay. Return the response."""
        return await self._go_on("session/resume", session, cwd, params)

    async def _go_on(self, method: str, session: str, cwd: str, params: JsonObject) -> JsonObject:
        given: JsonObject = {"sessionId": session, "cwd": cwd, "mcpServers": [], **params}
        return _object(await self.request(method, given))

    async def list_sessions(self, **params: JsonValue) -> list[JsonObject]:
        """Return all sessions that the agent lists, from all pages."""
        found: list[JsonObject] = []
        while True:
            answer = _object(await self.request("session/list", params))
            sessions = answer.get("sessions")
            found += [_object(one) for one in (sessions if is_list(sessions) else [])]
            if not isinstance(cursor := answer.get("nextCursor"), str):
                return found
            params["cursor"] = cursor

    async def delete_session(self, session: str) -> None:
        """Remove a session, and all that is stored of it."""
        await self.request("session/delete", {"sessionId": session})

    async def prompt(self, session: str, prompt: str | Sequence[JsonObject]) -> str:
        """Send a prompt, wait for the end of the turn, and return its stop reason."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
        params: JsonObject = {"sessionId": session, "prompt": blocks}
        if self.version == 1:
            answer = _object(await self.request("session/prompt", params))
        else:
            turn = self._turns[session] = asyncio.get_running_loop().create_future()
            await self.request("session/prompt", params)
            answer = _object(await self._wait(turn, "the end of the turn"))
        return str(answer.get("stopReason"))

    async def cancel(self, session: str) -> None:
        """Cancel the running turn. Permission requests that wait for the user are answered `cancelled`."""
        await self.notify("session/cancel", {"sessionId": session})
        for key, task in list(self._serving.values()):
            if key == session:
                task.cancel()

    async def request(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request, and return its result.

        Raises:
            AgentError: The agent answered with an error.
            AgentGone: The agent has ended.
            TimeoutError: There was no answer in time.
        """
        answer = self.begin(method, params)
        await self._drain()
        return await self._wait(answer, method)

    def begin(self, method: str, params: JsonObject) -> asyncio.Future[JsonValue]:
        """Send a request, and return a future of its result."""
        if self._lost is not None:
            raise self._lost
        self._next_id += 1
        key = self._next_id
        answer: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._waiting[key] = method, answer
        answer.add_done_callback(lambda _: self._waiting.pop(key, None))
        self.post(Request(key, method, params))
        return answer

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        await self.send(Notification(method, params))

    async def send(self, message: Message | bytes) -> None:
        """Write a message to the agent; bytes are written as they are."""
        self.post(message)
        await self._drain()

    def post(self, message: Message | bytes) -> None:
        """Write a message without waiting for room in the pipe. Raise `AgentGone` if no agent runs."""
        line = message if isinstance(message, bytes) else encode_line(message)
        if self._stdin is None or self._stdin.is_closing():
            raise AgentGone("the agent does not run")
        self._record("out", line)
        self._stdin.write(line)

    async def _drain(self) -> None:
        try:
            if self._stdin is not None:
                await self._stdin.drain()
        except (BrokenPipeError, ConnectionError) as exc:
            raise self._gone() from exc

    # What it knows

    @property
    def lines(self) -> list[bytes]:
        """The lines that the agent wrote."""
        return [frame.line for frame in self.traffic if frame.way == "in"]

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
        return fold(self._of(session), version=self.version)

    def said(self, session: str | None = None) -> str:
        """Return the text of all agent messages, of one session or of all."""
        updates = updates_in(self._of(session))
        chunks = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
        return "".join(str(_object(one.get("content")).get("text") or "") for one in chunks)

    def _of(self, session: str | None) -> Iterable[Any]:
        if session is None:
            return self.lines
        messages = [decode_line(line) for line in self.lines]
        params = [one.params for one in messages if isinstance(one, Notification)]
        return [one for one in params if is_object(one) and one.get("sessionId") == session]

    # The process

    async def _start(self) -> None:
        self._began = time.monotonic()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        except OSError as exc:
            raise AgentGone(f"{self._command[0]}: {exc.strerror}") from exc
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._connect(self._process.stdin, self._process.stdout)
        self._readers.append(asyncio.ensure_future(self._read_stderr(self._process)))

    def _connect(self, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        """Speak with an agent by its pipes."""
        self._stdin = stdin
        self._readers.append(asyncio.ensure_future(self._read(stdout)))

    async def close(self, patience: float = 10.0) -> int:
        """End the agent as editors do, by closing its stdin, and return its exit code.

        One that stays for `patience` seconds is terminated, then killed.
        """
        for _, task in list(self._serving.values()):
            task.cancel()
        if self._stdin is None:
            return -1
        self._stdin.close()
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

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        try:
            await self._read_lines(stdout)
        except Exception as exc:  # noqa: BLE001 - it is raised in those who wait for a response
            self._lose(exc)
            while await stdout.read(READ):
                pass  # an agent that can't write could not end
            return
        if self._process is not None:
            with suppress(TimeoutError):  # so that its exit code is known
                await asyncio.wait_for(self._process.wait(), 1.0)
        self._lose(self._gone())

    async def _read_lines(self, stdout: asyncio.StreamReader) -> None:
        rest: list[bytes] = []
        while data := await stdout.read(READ):
            *whole, last = data.split(b"\n")
            for part in whole:
                line = b"".join((*rest, part, b"\n"))
                rest.clear()
                self._record("in", line)
                self._receive(line)
            if last:
                rest.append(last)
        if rest:
            self._record("in", b"".join(rest))

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(READ):
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]

    def _record(self, way: Literal["in", "out"], line: bytes) -> None:
        frame = Frame(way, line, time.monotonic() - self._began)
        self.traffic.append(frame)
        if self._recording is not None:
            self._recording.take(frame)

    def _gone(self) -> AgentGone:
        code = None if self._process is None else self._process.returncode
        text = "the agent has ended" if code is None else f"the agent has ended with {code}"
        errors = self.errors.strip()
        return AgentGone(f"{text}; it said: {errors}" if errors else text)

    def _lose(self, exc: Exception) -> None:
        """Let all who wait fail: the agent is gone, or can't be understood."""
        self._lost = exc
        waiting = [answer for _, answer in self._waiting.values()]
        for answer in (*waiting, *self._turns.values()):
            if not answer.done():
                answer.set_exception(exc)

    # What the agent sends

    def _receive(self, line: bytes) -> None:
        if self._on_line is not None:
            self._on_line(line)
        message = decode_line(line) if line.strip() else None
        if isinstance(message, Response):
            self._receive_response(message)
        elif isinstance(message, Request):
            self._receive_request(message)
        elif isinstance(message, Notification):
            self._receive_notification(message.method, _object(message.params))

    def _receive_response(self, response: Response) -> None:
        method, answer = self._waiting.get(response.id, ("", None))
        if answer is None or answer.done():
            return
        if response.error is None:
            answer.set_result(response.result)
        else:
            answer.set_exception(AgentError(method, response.error))

    def _receive_notification(self, method: str, params: JsonObject) -> None:
        if method == "$/cancel_request":
            _, task = self._serving.get(params.get("requestId"), ("", None))
            if task is not None:
                task.cancel()
        update = _object(params.get("update"))
        if update.get("sessionUpdate") == "state_update" and update.get("state") == "idle":
            turn = self._turns.get(str(params.get("sessionId")))
            if turn is not None and not turn.done():
                turn.set_result(update)

    def _receive_request(self, request: Request) -> None:
        # What does not wait for the user goes on after a cancel: a file is written, a terminal made.
        asks_user = request.method == _PERMISSION
        session = str(_object(request.params).get("sessionId")) if asks_user else ""
        work = asyncio.ensure_future(self._result(request))
        self._serving[request.id] = session, work
        # Two tasks: one that is cancelled before it begins could not answer any more.
        task = asyncio.ensure_future(self._answer(request, work))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, request: Request, work: asyncio.Task[JsonValue]) -> None:
        try:
            response = Response(request.id, await work)
        except asyncio.CancelledError:
            response = Response(request.id, _CANCELLED)
            if request.method != _PERMISSION:
                error: JsonObject = {"code": -32800, "message": "Request cancelled"}
                response = Response(request.id, error=error)
        except Exception as exc:  # noqa: BLE001 - a request always gets an answer
            problem = exc if isinstance(exc, ProtocolError) else ProtocolError(str(exc))
            problem.request_id = request.id
            response = error_response(problem)
        self._serving.pop(request.id, None)
        with suppress(AgentGone):
            await self.send(response)

    async def _result(self, request: Request) -> JsonValue:
        params = _object(request.params)
        serve = self._serve.get(request.method)
        if serve is None and request.method == _PERMISSION:
            return await self._permission(params)
        if serve is None:
            raise UnknownMethod(request.method)
        result: Any = serve(params)
        return await result if inspect.isawaitable(result) else result

    async def _permission(self, params: JsonObject) -> JsonValue:
        choice: Any = self._decide(params) if callable(self._decide) else self._decide
        if inspect.isawaitable(choice):
            choice = await choice
        if choice is None:
            return _CANCELLED
        options = params.get("options")
        for option in options if is_list(options) else []:
            if is_object(option) and choice in (option.get("optionId"), option.get("kind")):
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        raise InvalidParams(f"options: none is {choice!r}")

    async def _wait(self, answer: asyncio.Future[JsonValue], what: str) -> JsonValue:
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError:
            raise TimeoutError(f"{what}: nothing for {self._timeout:g} s") from None


def _object(value: JsonValue) -> JsonObject:
    return value if is_object(value) else {}
