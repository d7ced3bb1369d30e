"""What is asked of a server, and what becomes of it when the server redirects. Nothing is sent here.

A redirect never carries to another origin what was meant for the first: a body, credentials, or any
header that might be one. It never goes from https to http.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import msgspec

from callsheet import __version__
from callsheet.tools.errors import ExecutionFailed, InvalidArguments, NotPermitted

if TYPE_CHECKING:
    from httpx import URL

LONGEST_URL = 8192
REDIRECTS = (301, 302, 303, 307, 308)

_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
# These frame the message, or are ours to say.
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
# What another origin may see of the headers that were given.
_HARMLESS = ("accept", "accept-language", "cache-control", "pragma", "range", "user-agent")
_OF_BODY = ("content-type", "content-encoding", "content-language", "content-location")


class Request(msgspec.Struct, frozen=True):
    """What is asked for. The URL has no credentials: those became a header."""

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
        """The port, also if it is not given."""
        return self.url.port or _PORTS[self.url.scheme]


def make_request(method: str, url: str, headers: Mapping[str, str], body: str | None) -> Request:
    """Make a request of what a tool was given. Raises `InvalidArguments` if it can't be sent so."""
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
        return Request(method, _bare(checked), given, None if body is None else body.encode())
    except UnicodeEncodeError:
        raise InvalidArguments(
            "body: it has halves of characters (surrogates), which are no text"
        ) from None


def check_url(text: str) -> URL:
    """Read a URL. Raises `InvalidArguments` if it is not one that can be fetched."""
    import httpx

    if len(text) > LONGEST_URL:
        raise InvalidArguments(f"url: too long ({len(text)} characters; {LONGEST_URL} are allowed)")
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
    """Return a URL as people may see it: without credentials."""
    return str(_bare(url))


def follow(request: Request, status: int, location: str) -> Request:
    """Return the request that a redirect asks for. Raises if it should not be made."""
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
    return Request(method, url, headers, body)


def _target(base: URL, location: str) -> URL:
    import httpx

    try:
        return _bare(check_url(str(base.join(location))))
    except (httpx.InvalidURL, InvalidArguments) as exc:
        said = str(exc).removeprefix("url: ")
        raise ExecutionFailed(
            f"{shown(base)} redirects to something that can't be fetched: {said}"
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
