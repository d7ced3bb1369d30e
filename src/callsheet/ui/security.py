"""Who may ask the web inspector: a check of every request before anything else sees it.

A page of another site can send requests to a server on this machine. It can't read our token; it can't
choose the headers `Host` and `Origin` (so a name of its own that points here, DNS rebinding, is refused); and
no response has a header that would let it read one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANY = ("0.0.0.0", "::")
USUAL = 80
METHODS = ("GET", "PUT")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-dns-prefetch-control": "off",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def hosts_of(host: str, port: int) -> frozenset[str]:
    """Return the `Host` headers of requests that are meant for us."""
    own = f"[{host}]" if ":" in host else host.lower()
    names = (*LOOPBACK, own)
    # Browsers don't send the port that is usual.
    return frozenset([*(f"{name}:{port}" for name in names), *(names if port == USUAL else ())])


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class RequestGate:
    """Refuses requests that are not the page's own, and adds the headers that all responses have.

    Args:
        app: Answers the others.
        token: What a request for data must know.
        hosts: The `Host` headers that are ours.
        any_address: Whether any address may be named instead of those, as it can't be known which we have.
            A name never may.
        port: The port, for that.
    """

    def __init__(
        self, app: App, *, token: str, hosts: Collection[str], any_address: bool, port: int
    ) -> None:
        self._app: App = app
        self._expected: bytes = f"Bearer {token}".encode()
        self._hosts: Collection[str] = hosts
        self._any_address: bool = any_address
        self._port: int = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_RAW_HEADERS]
            await send(message)

        refused = self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send_with_headers)
        else:
            status, text = refused
            await JSONResponse({"error": text}, status)(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return why a request is refused, and the status that says so; None if it is not."""
        headers = Headers(scope=scope)
        found = headers.getlist("host")
        host = found[0].lower() if len(found) == 1 else ""
        if not self._is_ours(host):
            return 403, "The Host header names another server."
        if any(origin.lower() != f"http://{host}" for origin in headers.getlist("origin")):
            return 403, "The Origin header names another site."
        if scope["method"] not in METHODS:
            return 405, f"{scope['method']} is not understood; expected {' or '.join(METHODS)}."
        if scope["path"].startswith("/api"):
            known = headers.get("authorization", "").encode(errors="replace")
            if not compare_digest(known, self._expected):
                return (
                    401,
                    "The token is missing or wrong; open the address that `callsheet ui` printed.",
                )
        return None

    def _is_ours(self, host: str) -> bool:
        if host in self._hosts:
            return True
        address = host.removesuffix(f":{self._port}")
        if not self._any_address or (address == host and self._port != USUAL):
            return False
        try:
            ip_address(address.strip("[]"))
        except ValueError:
            return False
        return True
