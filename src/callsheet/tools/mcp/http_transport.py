"""A server that is reached over streamable HTTP: each message is a POST, which its answers come back on.

A server may also send messages on a stream of its own, which a GET opens (`listen`). A request fails alone:
that one request was lost says nothing about the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import httpx2

from callsheet.acp.jsonrpc import Message, Request, Response
from callsheet.report.json import is_object
from callsheet.tools.mcp.config import STATELESS, McpServer, NotDelivered, ServerFault

LONGEST_EVENT = 32 << 20
"""Maximum size of one message in bytes."""

CONNECT_TIMEOUT = 10.0
WRITE_TIMEOUT = 60.0
"""Seconds. For an answer, nobody waits less long than the call may take."""

GOODBYE = 1.0
"""Seconds in which a server may take note that its session is over."""

_PAUSE = 1.0
"""Seconds until a stream that ended is opened again."""

_SESSION = "mcp-session-id"


class HttpTransport:
    """The requests of one session with a server.

    Args:
        server: Its configuration.
        receive: Called with each message, and the id of the request that it came back on.
        on_end: Called with the reason when the server can't be reached any more.
    """

    tail = ""
    is_over = False
    version: str | None = None
    """The version of MCP that was agreed on, which every later request names."""

    def __init__(
        self,
        server: McpServer,
        receive: Callable[[bytes | str, int | None], Message | None],
        on_end: Callable[[str], None],
    ) -> None:
        timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT)
        self._client = httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout)
        self._url = httpx2.URL(server.url or "")
        self._receive = receive
        self._on_end = on_end
        self._session: str | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Do nothing: the first message connects."""

    def listen(self) -> None:
        """Open the stream on which the server sends messages of its own, if it has a session."""
        if self._session is not None:
            self._listening = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """End the session."""
        if self._listening is not None:
            self._listening.cancel()
        if self._session is not None:
            with suppress(httpx2.HTTPError, ServerFault, TimeoutError):
                async with asyncio.timeout(GOODBYE), self._sent("DELETE"):
                    pass
        await self._client.aclose()

    async def send(self, message: Message, data: bytes) -> None:
        """Send an encoded message; of a request, receive what comes back, until its response has come.

        Raises:
            NotDelivered: The server can't be reached, or does not know the session, and so has run nothing.
            ServerFault: There is no response.
        """
        key = message.id if isinstance(message, Request) else None
        assert key is None or isinstance(key, int)
        try:
            async with self._sent("POST", message, data) as response:
                if key is None or (response.is_error and await self._is_refusal(response, key)):
                    return
                self._check(response)
                self._session = response.headers.get(_SESSION, self._session)
                if not await self._is_answered(response, key):
                    raise ServerFault("lost the connection (it ended before the answer)")
        except httpx2.HTTPError as exc:
            raise ServerFault(f"lost the connection ({_text_of(exc)})") from None

    async def _listen(self) -> None:
        while True:
            try:
                async with self._sent("GET") as response:
                    self._check(response)
                    await self._is_answered(response, None)
            except NotDelivered as exc:
                self._on_end(str(exc))
                return
            except ServerFault:  # it has no such stream
                return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(_PAUSE)

    @asynccontextmanager
    async def _sent(
        self, method: str, message: Message | None = None, data: bytes | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request, and close its response in the end."""
        headers = {"accept": "application/json, text/event-stream"}
        headers |= {_SESSION: self._session} if self._session else {}
        headers |= {"mcp-protocol-version": self.version} if self.version else {}
        headers |= {"content-type": "application/json"} if data else {}
        if self.version == STATELESS and isinstance(message, Request):
            headers |= _routing(message)
        request = self._client.build_request(method, self._url, headers=headers, content=data)
        try:
            response = await self._client.send(request, stream=True)
            after = response.next_request
            # Only the server itself gets what was meant for it.
            if after is not None and (after.method, _origin(after)) == (method, _origin(request)):
                await response.aclose()
                response = await self._client.send(after, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
            raise NotDelivered(f"can't be reached ({_text_of(exc)})") from None
        try:
            yield response
        finally:
            await response.aclose()

    async def _is_refusal(self, response: httpx2.Response, key: int) -> bool:
        """Receive the server's own error, if an error status comes with one."""
        if not _is_json(response) or self._is_forgotten(response):
            return False
        return isinstance(self._receive(await response.aread(), key), Response)

    def _check(self, response: httpx2.Response) -> None:
        status, line = response.status_code, f"{response.status_code} {response.reason_phrase}"
        if self._is_forgotten(response):
            raise NotDelivered(f"has forgotten the session ({line.strip()})")
        if not response.is_success:
            hint = "; put what it wants in `headers`" if status in (401, 403) else ""
            raise ServerFault(f"answered {line.strip()}{hint}")

    def _is_forgotten(self, response: httpx2.Response) -> bool:
        """Return whether the server does not know the session, and so has run nothing."""
        return response.status_code == 404 and self._session is not None

    async def _is_answered(self, response: httpx2.Response, key: int | None) -> bool:
        """Receive the messages of a response, and return whether one answers the request `key`."""
        if _is_json(response):
            return isinstance(self._receive(await response.aread(), key), Response)
        try:
            async for event in httpx2.EventSource(response, LONGEST_EVENT):
                message = self._receive(event.data, key) if event.data else None
                if key is not None and isinstance(message, Response):
                    return True
        except httpx2.SSEError as exc:
            raise ServerFault(f"answered with something else than messages ({exc})") from None
        return False


def _routing(message: Request) -> dict[str, str]:
    """Return the headers that repeat what is called, which the newest version asks for."""
    name = message.params.get("name") if is_object(message.params) else None
    named = isinstance(name, str) and name.isascii() and name.isprintable()
    return {"mcp-method": message.method, **({"mcp-name": str(name)} if named else {})}


def _origin(request: httpx2.Request) -> tuple[str, str, int | None]:
    return request.url.scheme, request.url.host, request.url.port


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _text_of(exc: Exception) -> str:
    return str(exc).strip() or type(exc).__name__
