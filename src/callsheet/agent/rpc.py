"""JSON-RPC in both directions on one pipe: serve the client's requests, and send requests to the client.

Each request is served in its own task, so that one never blocks another, and `$/cancel_request` can end it.
Nothing that a client sends ends the loop: it is answered with an error, or ignored. What waits is bounded: at
most `AT_ONCE` requests are served at once, and while `UNREAD` responses are unread, nothing more is read from
the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from callsheet.acp.jsonrpc import (
    UNENCODABLE,
    FrameTooLarge,
    InvalidAnswer,
    InvalidParams,
    InvalidRequest,
    LineBuffer,
    Message,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    Response,
    decode_line,
    encode_line,
    error_response,
    split_lines,
)
from callsheet.agent.pipe import Reader, Writer
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object

LONGEST_ID = 1024
"""Characters of a request's id."""

LONGEST_ERROR = 2000
"""Characters of an error's message: it may quote what was wrong."""

AT_ONCE = 1024
"""Requests that are served at once. More are refused."""

UNREAD = 256
"""Answers that wait for the client to read them. With more, nothing more is read from it."""

PATIENCE = 2.0
"""Seconds to wait for a client that has closed its end, and for tasks that were cancelled."""


class Answer(NamedTuple):
    """A result, and what to call when it was sent."""

    result: JsonValue
    then: Callable[[], None] | None = None


Serve: TypeAlias = Callable[[str, JsonObject], Awaitable[Answer]]
OnNotification: TypeAlias = Callable[[str, JsonObject], None]


class TooBusy(ProtocolError):
    """Too much is asked at once."""

    code = -32000
    label = "Too busy"


class RequestCancelled(ProtocolError):
    """The client has cancelled its request."""

    code = -32800
    label = "Request cancelled"


class ClientError(CallsheetError):
    """The client answered a request with an error."""

    def __init__(self, method: str, error: JsonObject) -> None:
        super().__init__(f"{method}: {error.get('message')} ({error.get('code')})")
        self.error: JsonObject = error


class Disconnected(CallsheetError):
    """The client is gone."""


class _Served:
    """A request that is being served."""

    __slots__ = ("begun", "is_cancelled", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.begun: bool = False
        self.is_cancelled: bool = False

    def cancel(self) -> None:
        """Stop serving it. It is answered all the same."""
        if not self.is_cancelled:
            self.is_cancelled = True
            # A task that is cancelled before its first step never runs, so it would never answer. That
            # one is only marked, and sees the mark when it begins.
            if self.begun and self.task is not None:
                self.task.cancel()


class ClientConnection:
    """One client, from the first byte to the last.

    `serve` answers a request, in a task of its own; `on_notification` is called at once.
    """

    def __init__(
        self, reader: Reader, writer: Writer, serve: Serve, on_notification: OnNotification
    ) -> None:
        self.writer: Writer = writer
        self._reader: Reader = reader
        self._serve: Serve = serve
        self._on_notification: OnNotification = on_notification
        self._serving: dict[RequestId, _Served] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[RequestId, tuple[str, asyncio.Future[JsonValue]]] = {}
        self._next_id: int = 0
        self._unread: int = 0
        self._room: asyncio.Future[None] | None = None
        self.is_over: bool = False

    async def run(self) -> None:
        """Serve until the client closes its end."""
        lines = LineBuffer()
        try:
            while data := await self._reader.piece():
                _, whole, begun = lines.feed(data)
                if not await self._take_all(map(decode_line, split_lines(whole))):
                    return
                if begun:
                    why = f"a line has over {lines.limit} bytes, which is the limit"
                    self._reply(error_response(InvalidRequest(why)))
            await self._take_all([decode_line(lines.end())])
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
            await asyncio.wait(tasks, timeout=PATIENCE)

    # Requests to the client

    async def ask(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request to the client, and return its result.

        If this task is cancelled, the client is sent `$/cancel_request`.

        Raises:
            ClientError: The client has answered with an error.
            Disconnected: The client is gone.
        """
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
        """Send a notification to the client."""
        await self.writer.post(encode_line(Notification(method, params)))

    # Requests from the client

    async def _take_all(self, messages: Iterable[Message | ProtocolError | None]) -> bool:
        """Handle messages. Return False when the client has gone without reading its answers."""
        for message in messages:
            if isinstance(message, Request):
                self._requested(message)
                await asyncio.sleep(0)  # it begins before the next message is handled
            elif isinstance(message, Notification):
                self._notified(message)
            elif isinstance(message, Response):
                self._answered(message)
            elif isinstance(message, InvalidAnswer) and message.request_id in self._asked:
                self._answered(Response(message.request_id, error=message.to_error()))
            elif message is not None:
                self._reply(error_response(message))
            if self._unread >= UNREAD and not await self._is_read():
                return False
        return True

    async def _is_read(self) -> bool:
        """Wait until the client has read its answers. Return False if it has gone without that."""
        while self._unread >= UNREAD:
            self._room = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._room, self._reader.ended}, return_when="FIRST_COMPLETED")
            if not self._room.done():
                await asyncio.wait({self._room}, timeout=PATIENCE)
                if not self._room.done():
                    return False
        return True

    def _requested(self, request: Request) -> None:
        problem = None
        if not _is_fit(request.id):
            problem = InvalidRequest(
                f"id: expected at most {LONGEST_ID} characters, or a number of 64 bits"
            )
        elif request.id in self._serving:
            problem = InvalidRequest(f"the id {request.id!r} is in use", request_id=request.id)
        elif len(self._serving) >= AT_ONCE:
            problem = TooBusy(f"{AT_ONCE} requests are being served; wait", request_id=request.id)
        if problem is not None:
            self._reply(error_response(problem))
            return
        served = self._serving[request.id] = _Served()
        served.task = asyncio.get_running_loop().create_task(self._serve_one(request, served))
        self._tasks.add(served.task)
        served.task.add_done_callback(self._tasks.discard)

    def _notified(self, note: Notification) -> None:
        params = note.params if is_object(note.params) else {}
        if note.method == "$/cancel_request":
            key = params.get("requestId")
            if isinstance(key, (str, int)) and not isinstance(key, bool) and key in self._serving:
                self._serving[key].cancel()
            return
        with suppress(Exception):  # a notification has no answer, so its errors are dropped
            self._on_notification(note.method, params)

    def _answered(self, response: Response) -> None:
        method, answer = self._asked.get(response.id, ("", None))
        if answer is None or answer.done():
            return
        if response.error is None:
            answer.set_result(response.result)
        else:
            answer.set_exception(ClientError(method, response.error))

    async def _serve_one(self, request: Request, served: _Served) -> None:
        served.begun = True
        try:
            response, then = await self._response(request, served)
        finally:
            self._serving.pop(request.id, None)
        rest = self._reply(response)
        if rest is not None:
            await asyncio.wait({rest})
        if then is not None:
            then()

    async def _response(
        self, request: Request, served: _Served
    ) -> tuple[Response, Callable[[], None] | None]:
        try:
            answer = await self._serve(request.method, _params(request, served))
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

    def _reply(self, response: Response) -> asyncio.Future[None] | None:
        """Send an answer. Return a future where the client has yet to read it."""
        try:
            rest = self.writer.send(deque((_line(response),)))
        except OSError:  # a client that is gone gets no answer
            return None
        if rest is not None:
            self._unread += 1
            rest.add_done_callback(self._was_read)
        return rest

    def _was_read(self, rest: asyncio.Future[None]) -> None:
        self._unread -= 1
        if not rest.cancelled():
            rest.exception()  # a client that is gone is handled elsewhere
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


def _params(request: Request, served: _Served) -> JsonObject:
    if served.is_cancelled:
        raise RequestCancelled(request.method)
    if request.params is None:
        return {}
    if not is_object(request.params):
        raise InvalidParams("expected an object")
    return request.params


def _is_fit(key: RequestId) -> bool:
    """Return whether an id can be sent back."""
    if isinstance(key, str):
        return len(key) <= LONGEST_ID
    return key is None or -(1 << 63) <= key < 1 << 63


def _line(response: Response) -> bytes:
    """Return the line of an answer; of one that is too long or can't be encoded, that of an error."""
    if response.error is not None and len(str(response.error.get("message"))) > LONGEST_ERROR:
        message = str(response.error["message"])[:LONGEST_ERROR] + "…"
        response = Response(response.id, error={"code": response.error["code"], "message": message})
    try:
        return encode_line(response)
    except UNENCODABLE as exc:
        key = response.id if _is_fit(response.id) else None
        code = ProtocolError.code if response.error is None else response.error["code"]
        message = f"the answer can't be encoded: {exc}"
        return encode_line(Response(key, error={"code": code, "message": message}))
