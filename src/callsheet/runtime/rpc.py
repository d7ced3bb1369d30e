"""JSON-RPC in both directions over a pair of pipes: the one peer of the agent and of the test client.

`RpcPeer` serves the other side's requests and sends requests of its own. Each request is served in a task,
so that one never blocks another, and `$/cancel_request` can end it. Nothing that the other side sends ends
the loop: it is answered with an error, or ignored. What waits is bounded: at most `AT_ONCE` requests are
served at once, and while `UNREAD` responses are unread, nothing more is read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from callsheet.acp.jsonrpc import (
    UNENCODABLE,
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
from callsheet.report.errors import CallsheetError
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.runtime.pipes import PipeWriter, Source

LONGEST_ID = 1024
"""Characters of a request's id."""

LONGEST_ERROR = 2000
"""Characters of an error's message: it may quote what was wrong."""

AT_ONCE = 1024
"""Requests that are served at once. More are refused."""

UNREAD = 256
"""Responses that wait for the other side to read them. With more, nothing more is read from it."""

PATIENCE = 2.0
"""Seconds to wait for a peer that has closed its end, and for tasks that were cancelled."""


class Answer(NamedTuple):
    """A result, and what to call when it was sent."""

    result: JsonValue
    then: Callable[[], None] | None = None


Serve: TypeAlias = Callable[[str, JsonObject], Coroutine[Any, Any, Answer]]
OnNotification: TypeAlias = Callable[[str, JsonObject], None]
OnLine: TypeAlias = Callable[[Literal["in", "out"], bytes], None]


class TooBusy(ProtocolError):
    """Too much is asked at once."""

    code = -32000
    label = "Too busy"


class RequestCancelled(ProtocolError):
    """The other side has cancelled its request."""

    code = -32800
    label = "Request cancelled"


class RemoteError(CallsheetError):
    """The other side answered a request with an error. `error` is the error of its response."""

    def __init__(self, method: str, error: JsonObject) -> None:
        super().__init__(f"{method}: {error.get('message')} ({error.get('code')})")
        self.error: JsonObject = error


class Disconnected(CallsheetError):
    """The other side is gone."""


class RpcPeer:
    """One connection, from the first byte to the last.

    Args:
        source: Where the other side's bytes come from.
        writer: The pipe to the other side.
        serve: Answers a request, in a task of its own.
        on_notification: Called with each notification.
        on_line: Called with each line, both ways.
        when_cancelled: Results of requests that were cancelled, by method. Default: an error.
        is_lenient: Whether lines that are no messages are ignored, instead of answered with an error.
    """

    def __init__(
        self,
        source: Source,
        writer: PipeWriter,
        serve: Serve,
        on_notification: OnNotification,
        *,
        on_line: OnLine | None = None,
        when_cancelled: Mapping[str, JsonValue] = EMPTY,
        is_lenient: bool = False,
    ) -> None:
        self.writer: PipeWriter = writer
        self.serving: dict[RequestId, tuple[Request, asyncio.Task[Answer]]] = {}
        """The requests that are being served, by their ids."""
        self._source: Source = source
        self._serve: Serve = serve
        self._on_notification: OnNotification = on_notification
        self._on_line: OnLine | None = on_line
        self._when_cancelled: Mapping[str, JsonValue] = when_cancelled
        self._is_lenient: bool = is_lenient
        self._asked: dict[RequestId, tuple[str, asyncio.Future[JsonValue]]] = {}
        self._next_id: int = 0
        self._unread: deque[asyncio.Future[None]] = deque()
        self._lost: Exception | None = None

    async def run(self) -> None:
        """Serve until the other side closes its end. The owner calls `lose` then."""
        lines = LineBuffer(drops_long=True)
        while data := await self._source.piece():
            more, whole, begun = lines.feed(data)
            if self._on_line is not None and more:
                self._on_line("in", more)
            if not await self._receive_all(split_lines(whole)):
                return
            if begun:
                if self._on_line is not None:
                    self._on_line("in", begun)
                self._refuse(
                    InvalidRequest(f"a line has over {lines.limit} bytes, which is the limit")
                )
        rest = lines.end()
        if rest:
            await self._receive_all([rest])

    def lose(self, exc: Exception) -> None:
        """Let all who wait for a response fail, and all who ask from now on."""
        self._lost = exc
        for _, answer in list(self._asked.values()):
            if not answer.done():
                answer.set_exception(exc)

    async def stop(self) -> None:
        """Cancel what is still being served."""
        tasks = [task for _, task in self.serving.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)

    # Sending

    async def request(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request, and return its result.

        If this task is cancelled, the other side is sent `$/cancel_request`.

        Raises:
            RemoteError: The other side has answered with an error.
            Disconnected: The other side is gone.
            FrameTooLarge: The request is too large to send.
        """
        key, answer = self.begin(method, params)
        try:
            return await answer
        except asyncio.CancelledError:
            with suppress(OSError):
                self.post(Notification("$/cancel_request", {"requestId": key}))
            raise

    def begin(self, method: str, params: JsonObject) -> tuple[int, asyncio.Future[JsonValue]]:
        """Send a request, and return its id and the future of its result."""
        if self._lost is not None:
            raise self._lost
        self._next_id += 1
        key = self._next_id
        line = encode_line(Request(key, method, params))
        answer: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._asked[key] = method, answer
        answer.add_done_callback(lambda _: self._asked.pop(key, None))
        self.post(line)
        return key, answer

    def post(self, message: Message | bytes) -> asyncio.Future[None] | None:
        """Write a message, or bytes as they are. Return a future if the other side has yet to read them."""
        line = message if isinstance(message, bytes) else encode_line(message)
        if self._on_line is not None:
            self._on_line("out", line)
        rest = self.writer.send(deque((line,)))
        if rest is not None:
            rest.add_done_callback(_ignore_errors)
        return rest

    # Receiving

    async def _receive_all(self, lines: Iterable[bytes]) -> bool:
        """Handle lines. Return False when the other side has gone without reading its responses."""
        for line in lines:
            if self._on_line is not None:
                self._on_line("in", line)
            message = decode_line(line)
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
                self._refuse(message)
            if not await self._is_read():
                return False
        return True

    async def _is_read(self) -> bool:
        """Wait until responses were read. Return False if the other side has gone without that."""
        while len(self._unread) >= UNREAD:
            oldest = self._unread[0]  # they are read in order
            await asyncio.wait({oldest, self._source.ended}, return_when="FIRST_COMPLETED")
            if not oldest.done():
                await asyncio.wait({oldest}, timeout=PATIENCE)
            if not oldest.done():
                return False
            self._unread.popleft()
        return True

    def _notified(self, note: Notification) -> None:
        params = note.params if is_object(note.params) else {}
        if note.method == "$/cancel_request":
            key = params.get("requestId")
            if isinstance(key, (str, int)) and not isinstance(key, bool) and key in self.serving:
                self.serving[key][1].cancel()
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
            answer.set_exception(RemoteError(method, response.error))

    def _requested(self, request: Request) -> None:
        problem = None
        if not _is_fit(request.id):
            problem = InvalidRequest(
                f"id: expected at most {LONGEST_ID} characters, or a number of 64 bits"
            )
        elif request.id in self.serving:
            problem = InvalidRequest(f"the id {request.id!r} is in use", request_id=request.id)
        elif len(self.serving) >= AT_ONCE:
            problem = TooBusy(f"{AT_ONCE} requests are being served; wait", request_id=request.id)
        elif not (request.params is None or is_object(request.params)):
            problem = InvalidParams("expected an object", request_id=request.id)
        if problem is not None:
            self._reply(error_response(problem))
            return
        task = asyncio.get_running_loop().create_task(
            self._serve(request.method, request.params or {})
        )
        self.serving[request.id] = request, task
        # A callback, not code in the task: one that is cancelled before its first step never runs.
        task.add_done_callback(partial(self._served, request))

    def _served(self, request: Request, task: asyncio.Task[Answer]) -> None:
        """Answer a request, when its task is done."""
        del self.serving[request.id]
        if task.cancelled() and request.method in self._when_cancelled:
            self._reply(Response(request.id, self._when_cancelled[request.method]))
            return
        exc = None if task.cancelled() else task.exception()
        if task.cancelled():
            error: ProtocolError = RequestCancelled(request.method)
        elif isinstance(exc, ProtocolError):
            error = exc
        elif isinstance(exc, CallsheetError):
            error = InvalidParams(str(exc))
        elif exc is not None:
            error = ProtocolError(f"{request.method}: {type(exc).__name__}")
        else:
            result, then = task.result()
            rest = self._reply(Response(request.id, result))
            if then is not None:
                then() if rest is None else rest.add_done_callback(lambda _: then())
            return
        error.request_id = request.id
        self._reply(error_response(error))

    def _refuse(self, error: ProtocolError) -> None:
        """Answer a line that is no message."""
        if not self._is_lenient:
            self._reply(error_response(error))

    def _reply(self, response: Response) -> asyncio.Future[None] | None:
        """Send a response. Return a future where the other side has yet to read it."""
        try:
            rest = self.post(_line(response))
        except OSError:  # a peer that is gone gets no answer
            return None
        if rest is not None:
            self._unread.append(rest)
        return rest


def _ignore_errors(rest: asyncio.Future[None]) -> None:
    if not rest.cancelled():
        rest.exception()  # a peer that is gone is handled elsewhere


def _is_fit(key: RequestId) -> bool:
    """Return whether an id can be sent back."""
    if isinstance(key, str):
        return len(key) <= LONGEST_ID
    return key is None or -(1 << 63) <= key < 1 << 63


def _line(response: Response) -> bytes:
    """Return the line of a response; of one that is too long or can't be encoded, that of an error."""
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
