"""HTTP for the tool `fetch`: requests, redirects and responses, within a size and a time.

Each hop is a connection of its own, to an address that was judged (`addresses`), with the host's name sent
for TLS and to the server. So a name that resolves to another address the next time gains nothing. Proxies of
the environment are not used, because the address behind a proxy can't be checked here. Certificates are
those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, where set.

A redirect never carries to another origin what was meant for the first: a body, credentials, or any header
that might be one. It never goes from https to http.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import msgspec

from callsheet import __version__
from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotPermitted,
    TimedOut,
)
from callsheet.tools.invocation import in_thread
from callsheet.tools.web.addresses import AllowedHosts, addresses_of
from callsheet.tools.web.bodies import DECODED, BodyDecoder

if TYPE_CHECKING:
    import httpx
    from httpx import URL


MAX_URL = 8192
REDIRECTS = (301, 302, 303, 307, 308)

_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
# These frame the message, or are set here.
_OURS = (
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)
# The headers of the caller that may be sent to another origin.
_HARMLESS = ("accept", "accept-language", "cache-control", "pragma", "range", "user-agent")
_OF_BODY = ("content-type", "content-encoding", "content-language", "content-location")


class FetchRequest(msgspec.Struct, frozen=True):
    """A request. Its URL has no credentials: those became a header."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None = None

    @property
    def host(self) -> str:
        """The host's name, as it is looked up."""
        return self.url.raw_host.decode("ascii")

    @property
    def port(self) -> int:
        """The port, by default that of the scheme."""
        return self.url.port or _PORTS[self.url.scheme]


def make_request(
    method: str, url: str, headers: Mapping[str, str], body: str | None
) -> FetchRequest:
    """Return the request for the tool's arguments. Raise `InvalidArguments` if it can't be sent."""
    checked = check_url(url)
    given = _check_headers(headers)
    if body is not None and method in ("GET", "HEAD"):
        raise InvalidArguments(
            f"body: a {method} request has none; give method: POST, PUT or PATCH"
        )
    if checked.userinfo and "authorization" not in given:
        user = unquote_to_bytes(checked.userinfo)
        given["authorization"] = f"Basic {b64encode(user).decode()}"
    given.setdefault("user-agent", f"callsheet/{__version__}")
    given.setdefault("accept", "text/html, application/json, text/*;q=0.9, */*;q=0.5")
    if body is not None:
        given.setdefault("content-type", "text/plain; charset=utf-8")
    try:
        return FetchRequest(method, _bare(checked), given, None if body is None else body.encode())
    except UnicodeEncodeError:
        raise InvalidArguments(
            "body: it has halves of characters (surrogates), which are no text"
        ) from None


def check_url(text: str) -> URL:
    """Parse a URL. Raise `InvalidArguments` if it can't be fetched."""
    import httpx

    if len(text) > MAX_URL:
        raise InvalidArguments(f"url: too long ({len(text)} characters; {MAX_URL} are allowed)")
    if "\\" in text:  # some readers take it for a slash, and see another host
        raise InvalidArguments("url: a backslash has no place in a URL; write %5C")
    try:
        url = httpx.URL(text.strip())
        port = url.port
    except (httpx.InvalidURL, ValueError) as exc:
        raise InvalidArguments(f"url: {exc}; expected something like https://host/path") from None
    if url.scheme not in _PORTS:
        given = f"{url.scheme}:" if url.scheme else "no scheme"
        raise InvalidArguments(f"url: got {given}; only http:// and https:// can be fetched")
    if not url.host or "%" in url.host:
        raise InvalidArguments("url: it names no host; expected something like https://host/path")
    if port is not None and not 0 < port < 65536:
        raise InvalidArguments(f"url: the port is {port}; expected 1 to 65535")
    return url


def shown(url: URL) -> str:
    """Return a URL as it may be shown: without credentials."""
    return str(_bare(url))


def follow(request: FetchRequest, status: int, location: str) -> FetchRequest:
    """Return the request that a redirect asks for. Raise `NotPermitted` if it must not be sent."""
    url = _target(request.url, location)
    if request.url.scheme == "https" and url.scheme == "http":
        raise NotPermitted(
            f"{shown(request.url)} redirects from https to {shown(url)}, which is not secret any more; "
            "fetch that by itself if it is wanted"
        )
    method, headers, body = request.method, dict(request.headers), request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name not in _OF_BODY}
    if not _is_same_origin(request.url, url):
        if body is not None or method not in ("GET", "HEAD", "OPTIONS"):
            raise NotPermitted(
                f"{shown(request.url)} redirects the {method} to another server, {shown(url)}; "
                "fetch that by itself if it is meant for it"
            )
        headers = {name: value for name, value in headers.items() if name in _HARMLESS}
    return FetchRequest(method, url, headers, body)


def _target(base: URL, location: str) -> URL:
    import httpx

    try:
        return _bare(check_url(str(base.join(location))))
    except (httpx.InvalidURL, InvalidArguments) as exc:
        reason = str(exc).removeprefix("url: ")
        raise ExecutionFailed(
            f"{shown(base)} redirects to something that can't be fetched: {reason}"
        ) from None


def _is_same_origin(one: URL, other: URL) -> bool:
    if one.host != other.host:
        return False
    ports = [url.port or _PORTS[url.scheme] for url in (one, other)]
    # The same site, only safer, is no other.
    return (one.scheme == other.scheme and ports[0] == ports[1]) or (
        (one.scheme, other.scheme, *ports) == ("http", "https", 80, 443)
    )


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise InvalidArguments(f"headers: {name!r} can't be the name of a header")
        if lower in _OURS or lower.startswith("proxy-"):
            raise InvalidArguments(f"headers: {name} is set by the tool itself; leave it out")
        if _CONTROL.search(value):
            raise InvalidArguments(
                f"headers: the value of {name} has a line break or another character that can't be sent"
            )
        checked[lower] = value.strip()
    return checked


def _bare(url: URL) -> URL:
    return url.copy_with(userinfo=b"", fragment=None)


class FetchLimits(msgspec.Struct, frozen=True):
    """How many bytes are read, for how long, and over how many redirects."""

    size: int = 5_000_000
    seconds: float = 30.0
    connect_seconds: float = 10.0
    redirects: int = 10


class FetchResponse(msgspec.Struct):
    """A response, as far as it was received."""

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


async def download(
    request: FetchRequest, allowed: AllowedHosts, limits: FetchLimits, answer: FetchResponse
) -> None:
    """Send a request and follow its redirects.

    Args:
        request: The request.
        allowed: Hosts that may be reached though they are not public.
        limits: How much is received, and for how long.
        answer: Is filled with what is received, also if this fails.

    Raises:
        ToolError: There is no whole response, or it must not be asked for.
    """
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


async def _follow_all(
    request: FetchRequest, allowed: AllowedHosts, limits: FetchLimits, answer: FetchResponse
) -> None:
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


async def _hop(
    request: FetchRequest, allowed: AllowedHosts, limits: FetchLimits, answer: FetchResponse
) -> str | None:
    """Send one request. Return the target of a redirect, or None for a final response."""
    import httpx

    addresses = await addresses_of(request.host, request.port, allowed)
    secure = request.url.scheme == "https"
    context = await in_thread(_certificates) if secure else _no_certificates()
    # Hops never share a connection, because the host that it was made for would be unknown.
    async with httpx.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
        try:
            response = await _connect(transport, request, addresses, limits)
            try:
                return await _receive(response, request, limits, answer)
            finally:
                await response.aclose()
        except httpx.HTTPError as exc:
            raise IOFailed(f"{answer.url}: {_why(exc)}") from None
        except zlib.error:
            raise IOFailed(
                f"{answer.url}: the answer is packed as {answer.encoding}, but broken"
            ) from None


async def _connect(
    transport: httpx.AsyncHTTPTransport,
    request: FetchRequest,
    addresses: list[str],
    limits: FetchLimits,
) -> httpx.Response:
    """Send the request to the first of the addresses that takes a connection."""
    import httpx

    for address in addresses[:-1]:
        try:
            return await transport.handle_async_request(_pinned(request, address, limits))
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue  # nothing was sent yet
    return await transport.handle_async_request(_pinned(request, addresses[-1], limits))


def _pinned(request: FetchRequest, address: str, limits: FetchLimits) -> httpx.Request:
    """Return the request that goes to one address, in the name of its host."""
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


async def _receive(
    response: httpx.Response, request: FetchRequest, limits: FetchLimits, answer: FetchResponse
) -> str | None:
    answer.status, answer.phrase = response.status_code, response.reason_phrase
    answer.headers = {name.lower(): value for name, value in response.headers.items()}
    location = answer.headers.get("location")
    if response.status_code in REDIRECTS and location is not None:
        return location
    if request.method != "HEAD":
        await _receive_body(response, limits, answer)
    return None


async def _receive_body(
    response: httpx.Response, limits: FetchLimits, answer: FetchResponse
) -> None:
    decoder = BodyDecoder(answer.encoding if answer.encoding in DECODED else "")
    received = 0
    async for data in response.aiter_raw():
        received += len(data)
        # Read one byte more than allowed, to distinguish a body of exactly that size from a longer one.
        answer.body += decoder.feed(data, limits.size + 1 - len(answer.body))
        if len(answer.body) > limits.size or received > limits.size:
            del answer.body[limits.size :]
            answer.truncated = True
            return


@cache
def _certificates() -> SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=True)


@cache
def _no_certificates() -> SSLContext:
    """Return what stands for certificates where none are looked at; loading them takes a while."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _why(exc: Exception) -> str:
    import httpx

    reason = str(exc) or type(exc).__name__
    if isinstance(exc, httpx.ConnectTimeout):
        return "no connection in time"
    if isinstance(exc, httpx.ConnectError):
        return f"no connection ({reason})"
    if isinstance(exc, httpx.RemoteProtocolError):
        return f"the answer breaks the protocol or was cut off ({reason})"
    return f"the connection failed ({reason})"
