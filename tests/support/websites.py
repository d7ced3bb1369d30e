"""A real web server on loopback whose answers are written byte by byte, to be as odd as wanted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
Page: TypeAlias = bytes | Callable[["Asked", Write], Awaitable[None]]


class Asked:
    """A request as it came."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.body = body


class Site:
    """Pages by their path. What was asked is kept."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[Asked] = []
        self.port = 0
        self._serving: set[asyncio.Future[None]] = set()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            head = await reader.readuntil(b"\r\n\r\n")
            asked = Asked(head, b"")
            asked.body = await reader.readexactly(int(asked.headers.get("content-length", 0)))
            self.asked.append(asked)
            page = self.pages.get(asked.target.partition("?")[0], answer(b"nothing", status=404))
            await (write(page) if isinstance(page, bytes) else page(asked, write))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client went away, as some tests want it to
        finally:
            writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    @asynccontextmanager
    async def open(
        self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Site]:
        server = await asyncio.start_server(self._came, host, 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for serving in self._serving:
                serving.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
            await server.wait_closed()


def answer(
    body: bytes, content_type: str | None = "text/plain", *, status: int = 200, **headers: str
) -> bytes:
    """Return an answer with a body, and its length and type in the head."""
    given = {"Content-Length": str(len(body)), "Content-Type": content_type}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status} Said so", *lines, "", ""]).encode("latin-1") + body


def redirect(to: str, status: int = 302) -> bytes:
    """Return an answer that leads elsewhere."""
    return answer(b"elsewhere", status=status, Location=to)
