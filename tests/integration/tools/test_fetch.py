"""`fetch`, from real servers: which may be reached, what is sent along, what comes back, within what limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import subprocess
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from callsheet import Session, ToolResult
from callsheet.testing import Recorder, check_tool
from callsheet.tools.builtin.fetch import to_text
from callsheet.tools.errors import InvalidArguments, NotPermitted
from callsheet.tools.session import ToolSettings
from callsheet.tools.web import addresses, http_client
from callsheet.tools.web.addresses import AllowedHosts, addresses_of, why_refused
from callsheet.tools.web.http_client import follow, make_request
from tests.support.needs import needs
from tests.support.websites import Asked, Site, Write, answer, redirect

LOOPBACK = ToolSettings(private_hosts=("127.0.0.1",))


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().open() as made:
        yield made


async def fetch(
    url: str, *, settings: ToolSettings = LOOPBACK, recorder: Any = None, **given: Any
) -> ToolResult:
    async with Session(tool_settings=settings, on_update=recorder, strict=True) as session:
        return await session.run("fetch", {"url": url, **given})


def limits(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    for name, value in changed.items():
        monkeypatch.setattr(http_client, name.upper(), value)


# What comes back


async def test_fetch_keeps_the_standard(site: Site) -> None:
    async def never(asked: Asked, write: Write) -> None:
        await asyncio.sleep(20)

    site.pages |= {"/good": answer(b"good"), "/slow": never}
    await check_tool(
        "fetch",
        good={"url": site.url("/good")},
        failing={"url": site.url("/missing")},
        slow={"url": site.url("/slow")},
        tool_settings=LOOPBACK,
    )


async def test_text_and_its_metadata(site: Site) -> None:
    site.pages["/a"] = answer("grüß".encode(), "text/plain; charset=utf-8")
    recorder = Recorder()
    result = await fetch(site.url("/a?q=1#part"), recorder=recorder)
    assert result.success
    assert result.output == "grüß"
    assert result.metadata["url"] == site.url("/a?q=1")
    assert result.metadata["status"] == 200
    assert result.metadata["content_type"] == "text/plain; charset=utf-8"
    assert result.metadata["content_length"] == 6
    assert result.metadata["truncated"] is False
    assert result.metadata["redirects"] == []
    assert site.asked[0].target == "/a?q=1"
    (report,) = recorder.fold()
    assert report.kind == "fetch"
    assert report.title.startswith("Fetching 127.0.0.1:")


async def test_html_is_readable_text_with_whole_links(site: Site) -> None:
    html = "<title>T</title><script>no</script><h1>Head</h1><p>See <a href='/x'>this</a>"
    site.pages["/d/page"] = answer(html.encode(), "text/html")
    result = await fetch(site.url("/d/page"))
    assert result.output == f"Title: T\n\n# Head\n\nSee [this]({site.url('/x')})"


async def test_json_on_one_line_is_spread_out_and_not_changed(site: Site) -> None:
    text = '{"n": 12345678901234567890.10, "a": [1, {"b": "\\u00e9"}], "n": 1e999}'
    site.pages["/a"] = answer(text.encode(), "application/vnd.api+json")
    shown = (await fetch(site.url("/a"))).output
    assert "12345678901234567890.10" in shown
    assert '"n": 1e999' in shown
    assert shown.count("\n") > 5
    site.pages["/b"] = answer(b'{"broken": ', "application/json")
    assert (await fetch(site.url("/b"))).output == '{"broken": '


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8cf500f"
    "00038501809b5f0e2e0000000049454e44ae426082"
)


async def test_an_image_is_shown_as_one_whatever_it_is_called(site: Site) -> None:
    site.pages["/a"] = answer(PNG, "text/plain")
    result = await fetch(site.url("/a"))
    assert result.success
    (image,) = result.content
    assert type(image).__name__ == "ImageContent"
    assert image.mime_type == "image/png"  # pyright: ignore
    assert "image/png" in result.output


async def test_other_binary_is_described(site: Site) -> None:
    site.pages["/a"] = answer(b"%PDF-1.7\0\xff", "application/pdf")
    site.pages["/b"] = answer(b"\0\1\2\xff", None)
    assert (await fetch(site.url("/a"))).output == "Not text: application/pdf, 10 B"
    assert (await fetch(site.url("/b"))).output == "Not text: of unknown type, 4 B"


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"caf\xe9 \x80", "café €"),
        ('text/plain; charset="KOI8-R"', "привет".encode("koi8-r"), "привет"),
        ("text/html", b"<meta charset=shift_jis>" + "日本".encode("shift_jis"), "日本"),
        ("text/plain", "marked".encode("utf-16"), "marked"),
        ("text/plain", "ü".encode(), "ü"),
        ("text/plain", b"caf\xe9", "café"),
        ("text/plain; charset=idna", b"plain", "plain"),
        ("text/plain; charset=unicode_escape", b"\\u0041", "\\u0041"),
        (
            "text/xml",
            b'<?xml version="1.0" encoding="iso-8859-2"?>\xb1',
            '<?xml version="1.0" encoding="iso-8859-2"?>ą',
        ),
        ("", b"no type", "no type"),
        ("application/octet-stream", b"octets", "octets"),
    ],
)
async def test_text_is_read_in_its_own_encoding(
    site: Site, content_type: str, body: bytes, text: str
) -> None:
    site.pages["/a"] = answer(body, content_type)
    assert (await fetch(site.url("/a"))).output == text


def test_a_character_that_is_cut_in_two_does_not_change_the_encoding() -> None:
    assert to_text("aü".encode()[:-1], None, is_cut=True) == "a\ufffd"
    assert to_text("aü".encode()[:-1], None) == "aÃ"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_error_of_the_server_fails_the_call_and_has_its_response(
    site: Site, status: int
) -> None:
    site.pages["/a"] = answer(b"the reason", status=status, Retry_After="7")
    result = await fetch(site.url("/a"))
    assert not result.success
    assert result.error is not None
    assert f"answered {status}" in result.error
    assert "the reason" in result.output
    assert result.metadata["status"] == status
    assert result.metadata["retry"] == (
        "later" if status in (429, 500, 503) else result.metadata["retry"]
    )
    assert (status == 429) <= ("try again after 7" in result.error)


async def test_head_gives_the_headers_and_no_cookies(site: Site) -> None:
    site.pages["/a"] = answer(b"", Content_Length="5", X_Thing="yes", Set_Cookie="s=secret")
    result = await fetch(site.url("/a"), method="HEAD")
    assert site.asked[0].method == "HEAD"
    assert "x-thing: yes" in result.output
    assert "secret" not in result.output


async def test_an_empty_answer_is_reported_as_such(site: Site) -> None:
    site.pages["/a"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert (await fetch(site.url("/a"))).output == "204 No Content, no content"


# What is sent


async def test_method_headers_and_body_are_sent(site: Site) -> None:
    site.pages["/a"] = answer(b"ok")
    result = await fetch(
        site.url("/a"),
        method="POST",
        body='{"ü": 1}',
        headers={"Content-Type": "application/json", "X-Key": "k"},
    )
    assert result.success
    (asked,) = site.asked
    assert (asked.method, asked.body) == ("POST", '{"ü": 1}'.encode())
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["x-key"] == "k"
    assert asked.headers["host"] == f"127.0.0.1:{site.port}"
    assert asked.headers["user-agent"].startswith("callsheet/")


async def test_credentials_in_the_url_are_sent_and_never_shown(site: Site) -> None:
    site.pages["/a"] = redirect("/b")
    site.pages["/b"] = answer(b"missing", status=404)
    recorder = Recorder()
    result = await fetch(f"http://me:hunter%402@127.0.0.1:{site.port}/a", recorder=recorder)
    assert site.asked[1].headers["authorization"] == "Basic bWU6aHVudGVyQDI="
    assert "hunter" not in json.dumps(result.to_dict())
    assert b"hunter" not in b"".join(recorder.lines)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "other"},
        {"content-length": "1"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Proxy-Authorization": "x"},
        {"X": "a\r\nHost: other"},
        {"X\r\nHost": "other"},
        {"X": "a\nb"},
        {"X": "a\0"},
        {"": "x"},
        {"a b": "x"},
    ],
)
async def test_headers_that_would_change_the_message_are_refused(
    site: Site, headers: dict[str, str]
) -> None:
    result = await fetch(site.url("/a"), headers=headers)
    assert result.metadata["error_code"] == "invalid_arguments"
    assert site.asked == []


async def test_a_get_with_a_body_is_refused(site: Site) -> None:
    result = await fetch(site.url("/a"), body="x")
    assert result.metadata["error_code"] == "invalid_arguments"
    assert "POST" in result.output


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "javascript:alert(1)",
        "example.com",
        "//example.com/",
        "http://",
        "http:///path",
        "http://host:0/",
        "http://host:99999/",
        "http://a\r\nb/",
        "http://public.example\\@127.0.0.1/",
        "http://[::1%25lo]/",
        "http://ho st/",
        "http://" + "a" * 9000,
        "",
    ],
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    result = await fetch(url, settings=ToolSettings(private_hosts=("*",)))
    assert result.metadata["error_code"] == "invalid_arguments"
    assert "url" in result.output


async def test_nothing_is_fetched_without_permission(site: Site) -> None:
    async def no(request: Any) -> str:
        return "reject_once"

    async with Session(tool_settings=LOOPBACK, on_permission=no) as session:
        result = await session.run("fetch", {"url": site.url("/a")})
    assert result.metadata["error_code"] == "permission_denied"
    assert site.asked == []


# Which addresses

REFUSED = """
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16
    169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1
    198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    64:ff9b:1::1 ::127.0.0.1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 2001:db8::1 2001::1
    2002:7f00:1:: 100::1 3fff::1 4000::1 e000::1
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1
    192.0.1.1 192.167.1.1 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111
    2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::808:808
"""


@pytest.mark.parametrize("address", REFUSED.split())
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert why_refused(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_not_refused(address: str) -> None:
    assert why_refused(ip_address(address)) is None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "localhost",
        "LOCALHOST.",
        "2130706433",
        "017700000001",
        "0x7f.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[fe80::1]",
        "169.254.169.254",
    ],
)
async def test_every_way_to_write_a_private_address_is_refused(site: Site, host: str) -> None:
    result = await fetch(site.url("/a", host), settings=ToolSettings())
    assert result.metadata["error_code"] in ("permission_denied", "io_error"), result.output
    assert "not a public address" in result.output or "not known" in result.output
    assert site.asked == []


@pytest.mark.parametrize(
    ("allowed", "host", "reached"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "2130706433", True),
        ("127.0.0.0/8", "127.0.0.1", True),
        ("localhost", "localhost", True),
        ("LocalHost.", "localhost", True),
        ("*", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", False),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.0/8", "127.0.0.1", False),
        ("127.0.0.2", "127.0.0.1", False),
    ],
)
async def test_private_hosts_allows_names_addresses_and_networks(
    site: Site, allowed: str, host: str, reached: bool
) -> None:
    site.pages["/a"] = answer(b"ok")
    settings = ToolSettings(private_hosts=(allowed,))
    assert (await fetch(site.url("/a", host), settings=settings)).success is reached


async def test_the_address_that_was_judged_is_the_one_that_is_reached(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads to a public address when it is judged, and to loopback ever after."""
    site.pages["/a"] = answer(b"private")
    answers = iter(["192.0.2.7", "127.0.0.1", "127.0.0.1"])
    asked: list[str] = []

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    monkeypatch.setattr(addresses, "why_refused", lambda a: "loopback" if a.is_loopback else None)
    limits(monkeypatch, connect_seconds=0.3)
    result = await fetch(site.url("/a", "rebind.example"), settings=ToolSettings())
    assert not result.success
    assert site.asked == []
    assert asked == ["rebind.example"], "the name was looked up again"


async def test_of_several_addresses_only_good_ones_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = ["10.0.0.1", "8.8.8.8", "8.8.8.8", "::1", "2606:4700::1"]

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    assert await addresses_of("a.example", 80, AllowedHosts()) == ["8.8.8.8", "2606:4700::1"]
    found[1:] = ["::1"]
    with pytest.raises(NotPermitted, match=r"10\.0\.0\.1"):
        await addresses_of("a.example", 80, AllowedHosts())


async def test_the_next_address_is_tried_where_the_first_takes_no_connection(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in ("127.0.0.9", "127.0.0.1")]

    site.pages["/a"] = answer(b"ok")
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    settings = ToolSettings(private_hosts=("two.example",))
    assert (await fetch(site.url("/a", "two.example"), settings=settings)).output == "ok"
    assert site.asked[0].headers["host"] == f"two.example:{site.port}"


async def test_proxies_of_the_environment_are_not_used(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/a"] = answer(b"direct")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await fetch(site.url("/a"))).output == "direct"


# Redirects


async def test_redirects_are_followed_and_reported(site: Site) -> None:
    site.pages |= {"/a": redirect("b", 301), "/b": redirect("/c?x=1", 307), "/c": answer(b"there")}
    result = await fetch(site.url("/a"))
    assert result.success
    assert result.output == f"Redirected to {site.url('/c?x=1')}\n\nthere"
    assert result.metadata["url"] == site.url("/c?x=1")
    assert result.metadata["redirects"] == [site.url("/a"), site.url("/b")]


async def test_redirects_in_a_circle_end(site: Site) -> None:
    site.pages["/a"] = redirect("/a")
    result = await fetch(site.url("/a"))
    assert not result.success
    assert "more than 10 times" in result.output
    assert len(site.asked) == 11


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/b",
        "//[::ffff:127.0.0.2]:{port}/b",
        "http://0x7f000002:{port}/b",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(site: Site, location: str) -> None:
    site.pages["/a"] = redirect(location.format(port=site.port))
    site.pages["/b"] = answer(b"private")
    result = await fetch(site.url("/a"))
    assert result.metadata["error_code"] == "permission_denied"
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "javascript:x", "http://a b/", "http://[x"]
)
async def test_a_redirect_to_something_else_is_refused(site: Site, location: str) -> None:
    site.pages["/a"] = redirect(location)
    result = await fetch(site.url("/a"))
    assert not result.success
    assert "redirects to something that can't be fetched" in result.output


async def test_a_redirect_without_a_place_is_an_answer(site: Site) -> None:
    site.pages["/a"] = answer(b"choose", status=302)
    assert (await fetch(site.url("/a"))).output == "choose"


async def test_another_origin_gets_no_credentials(site: Site) -> None:
    async with Site().open() as other:
        other.pages["/b"] = answer(b"ok")
        site.pages["/a"] = redirect(other.url("/b"))
        headers = {"Authorization": "Bearer t", "X-Api-Key": "k", "Cookie": "c", "Accept": "text/x"}
        assert (await fetch(site.url("/a"), headers=headers)).success
        sent = other.asked[0].headers
    assert sent["accept"] == "text/x"
    assert not {"authorization", "x-api-key", "cookie"} & sent.keys()
    assert site.asked[0].headers["x-api-key"] == "k"


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", b""),
        (302, "POST", "GET", b""),
        (303, "PUT", "GET", b""),
        (303, "HEAD", "HEAD", b""),
        (307, "POST", "POST", b"data"),
        (308, "PUT", "PUT", b"data"),
        (302, "PUT", "PUT", b"data"),
    ],
)
async def test_method_and_body_follow_a_redirect_as_they_should(
    site: Site, status: int, method: str, then: str, body: bytes
) -> None:
    site.pages |= {"/a": redirect("/b", status), "/b": answer(b"")}
    given = {} if method == "HEAD" else {"body": "data"}
    assert (await fetch(site.url("/a"), method=method, **given)).success
    assert (site.asked[1].method, site.asked[1].body) == (then, body)
    assert ("content-type" in site.asked[1].headers) == bool(body)


async def test_a_body_is_not_carried_to_another_server(site: Site) -> None:
    async with Site().open() as other:
        site.pages["/a"] = redirect(other.url("/b"), 307)
        result = await fetch(site.url("/a"), method="POST", body="for the first only")
        assert result.metadata["error_code"] == "permission_denied"
        assert other.asked == []


def test_a_redirect_never_goes_from_https_to_http() -> None:
    request = make_request("GET", "https://a.example/x", {}, None)
    with pytest.raises(NotPermitted, match=r"from https to http://a\.example/y"):
        follow(request, 302, "http://a.example/y")


def test_the_same_host_over_https_is_no_other_origin() -> None:
    request = make_request("GET", "http://a.example/x", {"Authorization": "t"}, None)
    assert follow(request, 301, "https://a.example/x").headers["authorization"] == "t"
    for other in ("https://a.example:8443/x", "https://b.example/x", "http://a.example:81/"):
        assert "authorization" not in follow(request, 301, other).headers


def test_credentials_that_a_redirect_brings_are_dropped() -> None:
    request = make_request("GET", "http://a.example/x", {}, None)
    followed = follow(request, 302, "http://user:pass@a.example/y")
    assert str(followed.url) == "http://a.example/y"
    assert "authorization" not in followed.headers


def test_a_request_without_a_host_is_refused() -> None:
    with pytest.raises(InvalidArguments):
        make_request("GET", "http:path", {}, None)


# Limits


async def test_a_large_answer_is_cut_and_not_taken_whole(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0

    async def endless(asked: Asked, write: Write) -> None:
        nonlocal sent
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while sent < 50_000_000:
            await write(b"x" * 10_000)
            sent += 10_000

    site.pages["/a"] = endless
    limits(monkeypatch, size=50_000)
    result = await fetch(site.url("/a"))
    assert result.success
    assert result.metadata["truncated"] is True
    assert result.output.startswith("x" * 50_000 + "\n\n[cut: only the first 50,000 bytes")
    assert sent < 20_000_000


async def test_an_answer_of_just_the_limit_is_whole(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/a"] = answer(b"x" * 1000)
    limits(monkeypatch, size=1000)
    assert (await fetch(site.url("/a"))).metadata["truncated"] is False
    limits(monkeypatch, size=999)
    assert (await fetch(site.url("/a"))).metadata["truncated"] is True


async def test_a_long_text_is_cut_for_the_model(site: Site) -> None:
    site.pages["/a"] = answer(b"word " * 50_000)
    result = await fetch(site.url("/a"))
    assert result.metadata["truncated"] is True
    assert "[cut: 100,000 of 250,000 characters]" in result.output
    assert len(result.output) < 101_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "padded"])
async def test_a_packed_answer_is_unpacked(site: Site, encoding: str) -> None:
    text = b"some text " * 500
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw deflate": zlib.compress(text)[2:-4],
        "padded": gzip.compress(text) + b"\0" * 20,
    }[encoding]
    name = "deflate" if "deflate" in encoding else "gzip"
    site.pages["/a"] = answer(packed, Content_Encoding=name)
    assert (await fetch(site.url("/a"))).output == text.decode()
    assert site.asked[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("layers", [1, 2])
async def test_a_bomb_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    bomb = gzip.compress(b"\0" * 30_000_000)
    for _ in range(layers - 1):
        bomb = gzip.compress(bomb)
    site.pages["/a"] = answer(bomb, Content_Encoding=", ".join(["gzip"] * layers))
    limits(monkeypatch, size=100_000)
    tracemalloc.start()
    try:
        result = await fetch(site.url("/a"))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert result.metadata["truncated"] is (layers == 1)
    assert layers == 1 or "can't be unpacked" in result.output


async def test_a_broken_packing_fails_the_call(site: Site) -> None:
    site.pages["/a"] = answer(b"\x1f\x8bnot gzip at all", Content_Encoding="gzip")
    result = await fetch(site.url("/a"))
    assert result.metadata["error_code"] == "io_error"
    assert "packed as gzip, but broken" in result.output


async def test_a_slow_drip_ends_in_time_and_keeps_what_came(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drip(asked: Asked, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            await write(b"x")
            await asyncio.sleep(0.05)

    site.pages["/a"] = drip
    limits(monkeypatch, seconds=0.5)
    async with asyncio.timeout(5):
        result = await fetch(site.url("/a"))
    assert result.metadata["error_code"] == "timeout"
    assert result.metadata["status"] == 200
    assert result.output.startswith("xx")


async def test_a_slow_redirect_counts_for_the_whole_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(asked: Asked, write: Write) -> None:
        await asyncio.sleep(0.2)
        await write(redirect("/a"))

    site.pages["/a"] = slow
    limits(monkeypatch, seconds=0.5)
    async with asyncio.timeout(5):
        assert (await fetch(site.url("/a"))).metadata["error_code"] == "timeout"
    assert len(site.asked) <= 3


async def test_an_answer_that_breaks_off_fails_and_keeps_what_came(site: Site) -> None:
    site.pages["/a"] = answer(b"half", Content_Length="1000")
    result = await fetch(site.url("/a"))
    assert result.metadata["error_code"] == "io_error"
    assert result.output.startswith("half")


@pytest.mark.parametrize(
    "said", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 300_000]
)
async def test_what_is_no_answer_fails_the_call(site: Site, said: bytes) -> None:
    site.pages["/a"] = said
    assert (await fetch(site.url("/a"))).metadata["error_code"] == "io_error"


async def test_nobody_listening_fails_the_call() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = await fetch(f"http://127.0.0.1:{taken.getsockname()[1]}/")
    assert result.metadata["error_code"] == "io_error"
    assert "no connection" in result.output


# Secure


def _certificate(path: Path, name: str) -> ssl.SSLContext:
    """Make a certificate for a name, and give a server's context with it."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test -addext"
    made = [*command.split(), f"subjectAltName=DNS:{name}"]
    files = ["-keyout", str(path / "key.pem"), "-out", str(path / "cert.pem")]
    subprocess.run([*made, *files], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path / "cert.pem", path / "key.pem")
    return context


@needs("openssl")
@pytest.mark.parametrize(("host", "reached"), [("good.example", True), ("other.example", False)])
async def test_the_certificate_must_be_the_hosts_though_its_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, reached: bool
) -> None:
    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    context = _certificate(tmp_path, "good.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    http_client._certificates.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        async with Site().open(tls=context) as site:
            site.pages["/a"] = answer(b"secure")
            url = site.url("/a", host).replace("http:", "https:")
            result = await fetch(url, settings=ToolSettings(private_hosts=("*",)))
    finally:
        http_client._certificates.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert result.success is reached
    assert reached or "certificate" in result.output.lower()


# think


async def test_think_returns_its_thought_and_asks_nobody() -> None:
    async def no(request: Any) -> str:
        raise AssertionError

    async with Session(on_permission=no, strict=True) as session:
        result = await session.run("think", {"thought": "First this, then that."})
        (report,) = session.reports
    assert result.output == "First this, then that."
    assert (report.kind, report.title, report.locations) == ("think", "Thinking", ())


async def test_think_keeps_the_standard() -> None:
    await check_tool("think", good={"thought": "Hm."})


async def test_headers_and_bodies_that_are_not_ascii_are_sent_and_those_that_are_no_text_refused(
    site: Site,
) -> None:
    site.pages["/a"] = answer(b"ok")
    assert (await fetch(site.url("/a"), headers={"X-Name": "Jürgen"})).success
    assert site.asked[0].headers["x-name"].encode("latin-1") == "Jürgen".encode()
    for odd in ({"headers": {"X-Name": "\ud800"}}, {"method": "POST", "body": "\ud800"}):
        result = await fetch(site.url("/a"), **odd)
        assert result.metadata["error_code"] == "invalid_arguments"
    assert len(site.asked) == 1
