"""A client of any ACP agent: starts it, speaks with it, keeps every line, and shows what it knows."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
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
    error_response,
)
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.report.ledger import Ledger

from .agent_process import AgentGone, AgentProcess, Frame
from .recordings import fold, updates_in
from .traffic import Recording

Decide: TypeAlias = Callable[[JsonObject], "str | Awaitable[str | None] | None"]
"""Takes the params of a permission request. Gives the id or kind of an option, or None: no answer."""

Serve: TypeAlias = Callable[[JsonObject], "JsonValue | Awaitable[JsonValue]"]
"""Serves a method that the agent calls: takes its params, gives its result."""

_CANCELLED: JsonObject = {"outcome": {"outcome": "cancelled"}}


class AgentError(CallsheetError):
    """The agent answered with an error. `error` is what it said."""

    def __init__(self, method: str, error: JsonObject) -> None:
        super().__init__(f"{method}: {error.get('message')} ({error.get('code')})")
        self.error: JsonObject = error


class AgentClient:
    """Plays the client of an agent that it starts, in ACP v1 or v2.

    async with AgentClient(["callsheet", "agent"], on_permission="allow_once") as client:
        session = await client.new_session("/home/me/project")
        assert await client.prompt(session, "/read README.md") == "end_turn"
    assert_every_call_ended(client.lines)

    - `on_permission`: what is answered to every request for permission, or a function that decides.
    - `capabilities`: what the client says that it can do; `serve` holds the methods behind that.
    - `on_line`: is called with each line of the agent, as it comes.
    - `recording`: gets every line, both ways, as it goes.
    - `timeout`: seconds that an answer may take.
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
        self.exit_code: int | None = None
        self._process: AgentProcess = AgentProcess(
            command,
            cwd=cwd,
            env=env,
            hear=self._hear,
            over=self._over,
            keep=None if recording is None else recording.take,
        )
        self._capabilities: JsonObject = capabilities or {}
        self._decide: str | Decide | None = on_permission
        self._serve: Mapping[str, Serve] = serve or {}
        self._on_line: Callable[[bytes], None] | None = on_line
        self._timeout: float = timeout
        self._next_id: int = 0
        self._asked: dict[RequestId, tuple[str, asyncio.Future[JsonValue]]] = {}
        self._turns: dict[str, asyncio.Future[JsonValue]] = {}
        self._serving: dict[RequestId, tuple[str, asyncio.Task[JsonValue]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._lost: Exception | None = None

    async def __aenter__(self) -> Self:
        """Start the agent, and agree on a version."""
        await self._process.start()
        try:
            await self.initialize()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the agent."""
        await self.close()

    # What a client can do

    async def initialize(self) -> JsonObject:
        """Agree on a version."""
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
        """Make a session, and give its id."""
        answer = await self.request("session/new", {"cwd": cwd, "mcpServers": [], **params})
        key = _object(answer).get("sessionId")
        if not isinstance(key, str):
            raise AgentError("session/new", {"message": f"no sessionId in {answer!r}"})
        return key

    async def load_session(self, session: str, cwd: str, **params: JsonValue) -> JsonObject:
        """Go on with a session of before, and be told all that it has said and done. Gives the answer."""
        given: JsonObject = {"sessionId": session, "cwd": cwd, "mcpServers": [], **params}
        if self.version == 1:
            return _object(await self.request("session/load", given))
        return await self.resume_session(session, cwd, replayFrom={"type": "start"}, **params)

    async def resume_session(self, session: str, cwd: str, **params: JsonValue) -> JsonObject:
        """Go on with a session of before. Gives the answer."""
        given: JsonObject = {"sessionId": session, "cwd": cwd, "mcpServers": [], **params}
        return _object(await self.request("session/resume", given))

    async def list_sessions(self, **params: JsonValue) -> list[JsonObject]:
        """Return the sessions that the agent knows, all pages of them."""
        found: list[JsonObject] = []
        while True:
            answer = _object(await self.request("session/list", params))
            sessions = answer.get("sessions")
            found += [_object(one) for one in (sessions if is_list(sessions) else [])]
            if not isinstance(cursor := answer.get("nextCursor"), str):
                return found
            params["cursor"] = cursor

    async def delete_session(self, session: str) -> None:
        """Remove a session, and all that is kept of it."""
        await self.request("session/delete", {"sessionId": session})

    async def prompt(self, session: str, prompt: str | Sequence[JsonObject]) -> str:
        """Say something, wait for the end of the turn, and give why it stopped."""
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
        """Cancel the turn that runs. Requests that wait for the user are answered: cancelled."""
        await self.notify("session/cancel", {"sessionId": session})
        for key, task in list(self._serving.values()):
            if key == session:
                task.cancel()

    async def request(self, method: str, params: JsonObject) -> JsonValue:
        """Ask the agent, and give its answer."""
        if self._lost is not None:
            raise self._lost
        self._next_id += 1
        key = self._next_id
        answer: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._asked[key] = method, answer
        try:
            await self.send(Request(key, method, params))
            return await self._wait(answer, method)
        finally:
            self._asked.pop(key, None)

    async def notify(self, method: str, params: JsonObject) -> None:
        """Tell the agent."""
        await self.send(Notification(method, params))

    async def send(self, message: Message | bytes) -> None:
        """Write a message to the agent; bytes are written as they are."""
        await self._process.send(message)

    async def close(self) -> int:
        """End the agent as editors do, by closing its stdin, and give its exit code."""
        for _, task in list(self._serving.values()):
            task.cancel()
        if self._process.pid is not None:
            self.exit_code = await self._process.stop()
        return -1 if self.exit_code is None else self.exit_code

    # What it knows

    @property
    def traffic(self) -> list[Frame]:
        """Every line, both ways, in order."""
        return self._process.traffic

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
        return self._process.errors

    @property
    def pid(self) -> int | None:
        """The agent's process id."""
        return self._process.pid

    def fold(self, session: str | None = None) -> Ledger:
        """Return the calls of a session as they are now; without one, of all sessions."""
        return fold(self._of(session), version=self.version)

    def said(self, session: str | None = None) -> str:
        """Return all that the agent said in messages."""
        updates = updates_in(self._of(session))
        chunks = [one for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
        return "".join(str(_object(one.get("content")).get("text") or "") for one in chunks)

    def _of(self, session: str | None) -> Iterable[Any]:
        if session is None:
            return self.lines
        notes = [decode_line(line) for line in self.lines]
        told = [note.params for note in notes if isinstance(note, Notification)]
        return [one for one in told if is_object(one) and one.get("sessionId") == session]

    # What the agent says

    def _hear(self, line: bytes) -> None:
        if self._on_line is not None:
            self._on_line(line)
        message = decode_line(line) if line.strip() else None
        if isinstance(message, Response):
            self._answered(message)
        elif isinstance(message, Request):
            self._requested(message)
        elif isinstance(message, Notification):
            self._notified(message.method, _object(message.params))

    def _over(self, exc: Exception) -> None:
        self._lost = exc
        waiting = [answer for _, answer in self._asked.values()]
        for answer in (*waiting, *self._turns.values()):
            if not answer.done():
                answer.set_exception(exc)

    def _answered(self, response: Response) -> None:
        method, answer = self._asked.get(response.id, ("", None))
        if answer is None or answer.done():
            return
        if response.error is None:
            answer.set_result(response.result)
        else:
            answer.set_exception(AgentError(method, response.error))

    def _notified(self, method: str, params: JsonObject) -> None:
        if method == "$/cancel_request":
            _, task = self._serving.get(params.get("requestId"), ("", None))
            if task is not None:
                task.cancel()
        update = _object(params.get("update"))
        if update.get("sessionUpdate") == "state_update" and update.get("state") == "idle":
            turn = self._turns.get(str(params.get("sessionId")))
            if turn is not None and not turn.done():
                turn.set_result(update)

    def _requested(self, request: Request) -> None:
        asks_user = request.method == "session/request_permission"
        # What does not wait for the user goes on after a cancel: a file is written, a terminal made.
        session = str(_object(request.params).get("sessionId")) if asks_user else ""
        work = asyncio.ensure_future(self._result(request))
        self._serving[request.id] = session, work
        # Two tasks: one that is cancelled before it begins could not answer any more.
        task = asyncio.ensure_future(self._answer(request, work))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, request: Request, work: asyncio.Task[JsonValue]) -> None:
        try:
            response = Response(request.id, await work)
        except asyncio.CancelledError:
            response = Response(request.id, _CANCELLED)
            if request.method != "session/request_permission":
                error: JsonObject = {"code": -32800, "message": "Request cancelled"}
                response = Response(request.id, error=error)
        except Exception as exc:  # noqa: BLE001 - a request always gets an answer
            error_ = exc if isinstance(exc, ProtocolError) else ProtocolError(str(exc))
            error_.request_id = request.id
            response = error_response(error_)
        self._serving.pop(request.id, None)
        with suppress(AgentGone):
            await self.send(response)

    async def _result(self, request: Request) -> JsonValue:
        params = _object(request.params)
        if request.method == "session/request_permission":
            return await self._permission(params)
        serve = self._serve.get(request.method)
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
