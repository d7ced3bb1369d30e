"""JSON-RPC both ways on one pipe: requests that come in are served, ours are answered by the client.

A request is served in a task of its own, so that waiting for one never holds up another, and `$/cancel_request`
can end it. Nothing that a client sends ends the loop: it gets an error, or is counted and left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from callsheet.report.errors import CallsheetError
from callsheet.report.values import JsonObject, JsonValue, is_object
from callsheet.wire.jsonrpc import (
    FrameTooLarge,
    InvalidParams,
    LineReader,
    Message,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    Response,
    encode_line,
    error_response,
)

from .pipe import Reader, Writer

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line that is taken in. Longer ones are refused, and skipped without being kept."""


class Answer(NamedTuple):
    """A result, and what is to be done when the client has been sent it."""

    result: JsonValue
    then: Callable[[], None] | None = None


Serve: TypeAlias = Callable[[str, JsonObject], Awaitable[Answer]]
Hear: TypeAlias = Callable[[str, JsonObject], None]


class RequestCancelled(ProtocolError):
    """The client took its request back."""

    code = -32800
    label = "Request cancelled"


class ClientError(CallsheetError):
    """The client answered a request with an error."""

    def __init__(self, method: str, error: JsonObject) -> None:
        super().__init__(f"{method}: {error.get('message')} ({error.get('code')})")
        self.error: JsonObject = error


class Disconnected(CallsheetError):
    """The client is gone."""


class Connection:
    """One client, from the first byte to the last."""

    def __init__(self, reader: Reader, writer: Writer, serve: Serve, hear: Hear) -> None:
        self.writer: Writer = writer
        self._reader: Reader = reader
        self._serve: Serve = serve
        self._hear: Hear = hear
        self._serving: dict[RequestId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[RequestId, tuple[str, asyncio.Future[JsonValue]]] = {}
        self._next_id: int = 0
        self.is_over: bool = False

    async def run(self) -> None:
        """Serve until the client closes its end."""
        lines = LineReader(max_line=LONGEST_LINE)
        try:
            while data := await self._reader.piece():
                for message in lines.feed(data):
                    self._take(message)
            for message in lines.end():
                self._take(message)
        finally:
            self.is_over = True
            for _, answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(Disconnected("the client is gone"))

    async def stop(self) -> None:
        """End what is still being served."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    # Asking the client

    async def ask(self, method: str, params: JsonObject) -> JsonValue:
        """Ask the client, and give its answer."""
        if self.is_over:
            raise Disconnected("the client is gone")
        self._next_id += 1
        key = self._next_id
        answer: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._asked[key] = method, answer
        try:
            await self.writer.post(encode_line(Request(key, method, params)))
            return await answer
        except asyncio.CancelledError:
            with suppress(OSError, FrameTooLarge):
                await self.notify("$/cancel_request", {"requestId": key})
            raise
        finally:
            self._asked.pop(key, None)

    async def notify(self, method: str, params: JsonObject) -> None:
        """Tell the client."""
        await self.writer.post(encode_line(Notification(method, params)))

    # Serving it

    def _take(self, message: Message | ProtocolError) -> None:
        if isinstance(message, Response):
            self._answered(message)
        elif isinstance(message, ProtocolError):
            self._start(self._send(error_response(message)))
        elif isinstance(message, Notification):
            self._notified(message)
        else:
            self._requested(message)

    def _requested(self, request: Request) -> None:
        if request.id in self._serving:
            error = ProtocolError(f"the id {request.id!r} is in use", request_id=request.id)
            error.code = -32600
            self._start(self._send(error_response(error)))
            return
        self._serving[request.id] = self._start(self._serve_one(request))

    def _notified(self, note: Notification) -> None:
        params = note.params if is_object(note.params) else {}
        if note.method == "$/cancel_request":
            task = self._serving.get(params.get("requestId"))
            if task is not None:
                task.cancel()
            return
        with suppress(Exception):  # a notification has no answer; what is wrong with it is dropped
            self._hear(note.method, params)

    def _answered(self, response: Response) -> None:
        method, answer = self._asked.get(response.id, ("", None))
        if answer is None or answer.done():
            return
        if response.error is None:
            answer.set_result(response.result)
        else:
            answer.set_exception(ClientError(method, response.error))

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve_one(self, request: Request) -> None:
        then = None
        try:
            response, then = await self._response(request)
        finally:
            self._serving.pop(request.id, None)
        await self._send(response)
        if then is not None:
            then()

    async def _response(self, request: Request) -> tuple[Response, Callable[[], None] | None]:
        try:
            if request.params is not None and not is_object(request.params):
                raise InvalidParams("expected an object")
            answer = await self._serve(request.method, request.params or {})
        except asyncio.CancelledError:
            error: ProtocolError = RequestCancelled(request.method)
        except ProtocolError as exc:
            error = exc
        except CallsheetError as exc:
            error = InvalidParams(str(exc))
        except Exception as exc:  # noqa: BLE001 - a request always gets an answer
            error = ProtocolError(f"{request.method}: {type(exc).__name__}")
        else:
            return Response(request.id, answer.result), answer.then
        error.request_id = request.id
        return error_response(error), None

    async def _send(self, response: Response) -> None:
        try:
            line = encode_line(response)
        except FrameTooLarge as exc:
            line = encode_line(error_response(ProtocolError(str(exc), request_id=response.id)))
        with suppress(OSError):  # a client that is gone gets no answer
            await self.writer.post(line)
