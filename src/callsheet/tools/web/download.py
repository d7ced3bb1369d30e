"""Sending a request and taking the answer: by hand from hop to hop, within a size and a time.

Each hop is a connection of its own, to an address that was judged (`addresses`), with the host's name
kept for TLS and for the server. Proxies of the environment are not used: behind one, nobody here could
tell which address is reached. Certificates are those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, where set.
"""

from __future__ import annotations

import asyncio
import zlib
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING

import msgspec

from callsheet.tools.errors import ExecutionFailed, IOFailed, TimedOut
from callsheet.tools.invocation import in_thread

from .addresses import Allowed, addresses_of
from .bodies import UNPACKED, Unpacker
from .requests import REDIRECTS, Request, follow, shown

if TYPE_CHECKING:
    import httpx


class Limits(msgspec.Struct, frozen=True):
    """How much is taken, and for how long."""

    size: int = 5_000_000
    seconds: float = 30.0
    connect_seconds: float = 10.0
    redirects: int = 10


class Answer(msgspec.Struct):
    """What came, as far as it came."""

    url: str
    status: int = 0
    phrase: str = ""
    headers: dict[str, str] = {}
    body: bytearray = msgspec.field(default_factory=bytearray)
    truncated: bool = False
    redirects: list[str] = []

    @property
    def encoding(self) -> str:
        """How the body is packed."""
        return self.headers.get("content-encoding", "").strip().lower()


async def download(request: Request, allowed: Allowed, limits: Limits, answer: Answer) -> None:
    """Send a request, follow where it leads, and put what comes into `answer`, also if it fails."""
    limit = asyncio.timeout(limits.seconds)
    try:
        async with limit:
            await _follow_all(request, allowed, limits, answer)
    except TimeoutError:
        if not limit.expired():
            raise
        came = f", only {len(answer.body):,} bytes of it" if answer.status else ""
        raise TimedOut(
            f"{answer.url} gave no whole answer within {limits.seconds:g} s{came}"
        ) from None


async def _follow_all(request: Request, allowed: Allowed, limits: Limits, answer: Answer) -> None:
    while True:
        answer.url = shown(request.url)
        location = await _hop(request, allowed, limits, answer)
        if location is None:
            return
        if len(answer.redirects) >= limits.redirects:
            raise ExecutionFailed(
                f"{answer.redirects[0]} redirects more than {limits.redirects} times"
            )
        request = follow(request, answer.status, location)
        answer.redirects.append(answer.url)


async def _hop(request: Request, allowed: Allowed, limits: Limits, answer: Answer) -> str | None:
    """Ask one server. Gives where it redirects to, or None if it has answered."""
    import httpx

    addresses = await addresses_of(request.host, request.port, allowed)
    secure = request.url.scheme == "https"
    context = await in_thread(_certificates) if secure else _nothing_secret()
    # A connection is never shared by hops: it would not be told apart which host it was made for.
    async with httpx.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
        try:
            response = await _connect(transport, request, addresses, limits)
            try:
                return await _take(response, request, limits, answer)
            finally:
                await response.aclose()
        except httpx.HTTPError as exc:
            raise IOFailed(f"{answer.url}: {_why(exc)}") from None
        except zlib.error:
            raise IOFailed(
                f"{answer.url}: the answer is packed as {answer.encoding}, but broken"
            ) from None


async def _connect(
    transport: httpx.AsyncHTTPTransport, request: Request, addresses: list[str], limits: Limits
) -> httpx.Response:
    """Send the request to the first of the addresses that takes a connection."""
    import httpx

    for address in addresses[:-1]:
        try:
            return await transport.handle_async_request(_pinned(request, address, limits))
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue  # nothing was sent yet
    return await transport.handle_async_request(_pinned(request, addresses[-1], limits))


def _pinned(request: Request, address: str, limits: Limits) -> httpx.Request:
    """Make the request that goes to one address, in the name of its host."""
    import httpx

    host = request.url.netloc.decode("ascii")
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=httpx.Headers(
            {
                "host": host,
                **request.headers,
                "accept-encoding": "gzip, deflate",
                "connection": "close",
            },
            encoding="utf-8",
        ),
        content=request.body,
        extensions={
            "sni_hostname": request.host.rstrip("."),
            "timeout": {
                "connect": limits.connect_seconds,
                "read": limits.seconds,
                "write": limits.seconds,
                "pool": limits.seconds,
            },
        },
    )


async def _take(
    response: httpx.Response, request: Request, limits: Limits, answer: Answer
) -> str | None:
    answer.status, answer.phrase = response.status_code, response.reason_phrase
    answer.headers = {name.lower(): value for name, value in response.headers.items()}
    location = answer.headers.get("location")
    if response.status_code in REDIRECTS and location is not None:
        return location
    if request.method != "HEAD":
        await _take_body(response, limits, answer)
    return None


async def _take_body(response: httpx.Response, limits: Limits, answer: Answer) -> None:
    unpacker = Unpacker(answer.encoding if answer.encoding in UNPACKED else "")
    taken = 0
    async for data in response.aiter_raw():
        taken += len(data)
        # One byte more than allowed tells a body that is just as long from one that is longer.
        answer.body += unpacker.feed(data, limits.size + 1 - len(answer.body))
        if len(answer.body) > limits.size or taken > limits.size:
            del answer.body[limits.size :]
            answer.truncated = True
            return


@cache
def _certificates() -> SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=True)


@cache
def _nothing_secret() -> SSLContext:
    """Return what stands for certificates where none are looked at; loading them takes a while."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _why(exc: Exception) -> str:
    import httpx

    said = str(exc) or type(exc).__name__
    if isinstance(exc, httpx.ConnectTimeout):
        return "no connection in time"
    if isinstance(exc, httpx.ConnectError):
        return f"no connection ({said})"
    if isinstance(exc, httpx.RemoteProtocolError):
        return f"the answer breaks the protocol or was cut off ({said})"
    return f"the connection failed ({said})"
