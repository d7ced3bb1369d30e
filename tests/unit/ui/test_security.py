"""Which `Host` headers are ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callsheet.ui.security import RequestGate, hosts_of


def status(host: str, port: int, *, any_address: bool = False) -> int:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host.encode())]}
    known = hosts_of("127.0.0.1", port)
    gate = RequestGate(app, token="t", hosts=known, any_address=any_address, port=port)
    asyncio.run(gate(scope, None, send))  # pyright: ignore[reportArgumentType]
    return sent[0]["status"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.0.0.1:80"])
def test_the_usual_port_need_not_be_named(host: str) -> None:
    assert status(host, 80) == 200
    assert status(host, 8080) == 403


def test_any_address_may_be_named_but_no_name() -> None:
    for host in ("10.1.2.3", "10.1.2.3:80", "[fe80::80]"):
        assert status(host, 80, any_address=True) == 200
        assert status(host, 80) == 403
    for host in ("evil.example", "evil.example:80", "10.1.2.3:81", ":80", ""):
        assert status(host, 80, any_address=True) == 403
    assert status("10.1.2.3:8080", 8080, any_address=True) == 200
    assert status("10.1.2.3", 8080, any_address=True) == 403
