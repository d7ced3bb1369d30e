"""HTTP for the tool `fetch`: requests, redirects and responses, within a size and a time.

Each hop is a connection of its own, to an address that was judged (`addresses`), with the host's name sent
for TLS and to the server. So a name that resolves to another address the next time gains nothing. Proxies of
the environment are not used, because the address behind a proxy can't be checked here. Certificates are
those of the system, or of `SSL_CERT_FILE` or `SSL_CERT_DIR`, where set.

A redirect never carries to another origin what was meant for the first: a body, credentials, or any header
that might be one. It never goes from https to http.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from urllib.parse import unquote_to_bytes

import httpx2
import msgspec
from httpx2 import URL

from callsheet import __version__
from callsheet.report.patterns import lazy
from callsheet.tools.errors import (
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotPermitted,
    TimedOut,
)
from callsheet.tools.invocation import in_thread
from callsheet.tools.web.addresses import AllowedHosts, addresses_of

SIZE = 5_000_000
"""Bytes of a body that are read."""

SECONDS = 30.0
"""Seconds that a request may take with all its redirects."""

CONNECT_SECONDS = 10.0
MAX_REDIRECTS = 10
MAX_URL = 8192
REDIRECTS = (301, 302, 303, 307, 308)

_PORTS = {"http": 80, "https": 443}
_TOKEN = lazy(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = lazy(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
# These frame the message, or are set here.
_OURS = lazy(
    r"accept-encoding|connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|"
    r"upgrade|proxy-.*"
)
# The headers of the caller that may be sent to another origin.
_HARMLESS = ("accept", "accept-language", "cache-control", "pragma", "range", "user-agent")
_OF_BODY = ("content-type", "content-encoding", "content-language", "content-location")


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

    @property
    def is_decoded(self) -> bool:
        """Whether it is packed in none but the ways that are asked for."""
        return self.encoding in ("", "identity", "gzip", "deflate")


class FetchRequest(msgspec.Struct, frozen=True):
    """A request. Its URL has no credentials: those became a header."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None = None


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
    if len(text) > MAX_URL:
        raise InvalidArguments(f"url: too long ({len(text)} characters; {MAX_URL} are allowed)")
    if "\\" in text:  # some readers take it for a slash, and see another host
        raise InvalidArguments("url: a backslash has no place in a URL; write %5C")
    try:
        url = URL(text.strip())
        port = url.port
    except (httpx2.InvalidURL, ValueError) as exc:
        raise InvalidArguments(f"url: {exc}; expected something like https://host/path") from None
    if url.scheme not in _PORTS:
        given = f"{url.scheme}:" if url.scheme else "no scheme"
        raise InvalidArguments(f"url: got {given}; only http:// and https:// can be fetched")
    if not url.host or "%" in url.host:
        raise InvalidArguments("url: it names no host; expected something like https://host/path")
    if port is not None and not 0 < port < 65536:
        raise InvalidArguments(f"url: the port is {port}; expected 1 to 65535")
    return url


def follow(request: FetchRequest, status: int, location: str) -> FetchRequest:
    """Return the request that a redirect asks for. Raise `ToolError` if it must not be sent."""
    base = request.url
    try:
        url = _bare(check_url(str(base.join(location))))
    except (httpx2.InvalidURL, InvalidArguments) as exc:
        reason = str(exc).removeprefix("url: ")
        raise ExecutionFailed(
            f"{base} redirects to something that can't be fetched: {reason}"
        ) from None
    if base.scheme == "https" and url.scheme == "http":
        raise NotPermitted(
            f"{base} redirects from https to {url}, which is not secret any more; "
            "fetch that by itself if it is wanted"
        )
    method, headers, body = request.method, dict(request.headers), request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name not in _OF_BODY}
    if not _is_same_origin(base, url):
        if body is not None or method not in ("GET", "HEAD", "OPTIONS"):
            raise NotPermitted(
                f"{base} redirects the {method} to another server, {url}; "
                "fetch that by itself if it is meant for it"
            )
        headers = {name: value for name, value in headers.items() if name in _HARMLESS}
    return FetchRequest(method, url, headers, body)


def _is_same_origin(one: URL, other: URL) -> bool:
    origins = [(url.scheme, url.host, url.port or _PORTS[url.scheme]) for url in (one, other)]
    # The same site, only safer, is no other.
    safer = [("http", one.host, 80), ("https", one.host, 443)]
    return origins[0] == origins[1] or origins == safer


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise InvalidArguments(f"headers: {name!r} can't be the name of a header")
        if _OURS.fullmatch(lower):
            raise InvalidArguments(f"headers: {name} is set by the tool itself; leave it out")
        if _CONTROL.search(value):
            raise InvalidArguments(
                f"headers: the value of {name} has a line break or another character that can't be sent"
            )
        checked[lower] = value.strip()
    return checked


def _bare(url: URL) -> URL:
    """Return a URL as it may be shown and sent: without credentials and fragment."""
    return url.copy_with(userinfo=b"", fragment=None)


async def download(
    request: FetchRequest, private_hosts: Iterable[str], answer: FetchResponse
) -> None:
    """Send a request and follow its redirects.

    Args:
        request: The request.
        private_hosts: Hosts that may be reached though they are not public.
        answer: Is filled with what is received, also if this fails.

    Raises:
        ToolError: There is no whole response, or it must not be asked for.
    """
    allowed, limit = AllowedHosts(private_hosts), asyncio.timeout(SECONDS)
    try:
        async with limit:
            while (location := await _hop(request, allowed, answer)) is not None:
                if len(answer.redirects) >= MAX_REDIRECTS:
                    raise ExecutionFailed(
                        f"{answer.redirects[0]} redirects more than {MAX_REDIRECTS} times"
                    )
                request = follow(request, answer.status, location)
                answer.redirects.append(answer.url)
                answer.url = str(request.url)
    except TimeoutError:
        if not limit.expired():
            raise
        came = f", only {len(answer.body):,} bytes of it" if answer.status else ""
        raise TimedOut(f"{answer.url} gave no whole answer within {SECONDS:g} s{came}") from None


async def _hop(request: FetchRequest, allowed: AllowedHosts, answer: FetchResponse) -> str | None:
    """Send one request. Return the target of a redirect, or None for a final response."""
    url = request.url
    host, port = url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
    addresses = await addresses_of(host, port, allowed)
    context = await in_thread(_certificates) if url.scheme == "https" else _no_certificates()
    # Hops never share a connection, because the host that it was made for would be unknown.
    async with httpx2.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
        try:
            response = await _connect(transport, request, addresses)
            try:
                return await _receive(response, request, answer)
            finally:
                await response.aclose()
        except httpx2.DecodingError:
            raise IOFailed(
                f"{answer.url}: the answer is packed as {answer.encoding}, but broken"
            ) from None
        except httpx2.HTTPError as exc:
            raise IOFailed(f"{answer.url}: {_why(exc)}") from None


async def _connect(
    transport: httpx2.AsyncHTTPTransport,
    request: FetchRequest,
    addresses: list[str],
) -> httpx2.Response:
    """Send the request to the first of the addresses that takes a connection."""
    for address in addresses[:-1]:
        try:
            return await transport.handle_async_request(_pinned(request, address))
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue  # nothing was sent yet
    return await transport.handle_async_request(_pinned(request, addresses[-1]))


def _pinned(request: FetchRequest, address: str) -> httpx2.Request:
    """Return the request that goes to one address, in the name of its host."""
    url, timeout = request.url, httpx2.Timeout(SECONDS, connect=CONNECT_SECONDS)
    headers = {
        "host": url.netloc.decode("ascii"),
        **request.headers,
        "accept-encoding": "gzip, deflate",
        "connection": "close",
    }
    host = url.raw_host.decode("ascii").rstrip(".")
    return httpx2.Request(
        request.method,
        url.copy_with(host=address),
        headers=httpx2.Headers(headers, encoding="utf-8"),
        content=request.body,
        extensions={"sni_hostname": host, "timeout": timeout.as_dict()},
    )


async def _receive(
    response: httpx2.Response, request: FetchRequest, answer: FetchResponse
) -> str | None:
    answer.status, answer.phrase = response.status_code, response.reason_phrase
    answer.headers = {name.lower(): value for name, value in response.headers.items()}
    location = answer.headers.get("location")
    if response.status_code in REDIRECTS and location is not None:
        return location
    if request.method == "HEAD":
        return None
    # What is packed comes in pieces of a bounded size, however much there is of it.
    async for data in response.aiter_bytes() if answer.is_decoded else response.aiter_raw():
        answer.body += data
        if max(len(answer.body), response.num_bytes_downloaded) > SIZE:
            del answer.body[SIZE:]
            answer.truncated = True
            break
    return None


@cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=True)


@cache
def _no_certificates() -> ssl.SSLContext:
    """Return what stands for certificates where none are looked at; loading them takes a while."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _why(exc: Exception) -> str:
    reason = str(exc) or type(exc).__name__
    if isinstance(exc, httpx2.ConnectTimeout):
        return "no connection in time"
    if isinstance(exc, httpx2.ConnectError):
        return f"no connection ({reason})"
    if isinstance(exc, httpx2.RemoteProtocolError):
        return f"the answer breaks the protocol or was cut off ({reason})"
    return f"the connection failed ({reason})"
