"""The tool `fetch`, which requests a page or an API over http and https. HTML is converted to readable text.

Only public addresses can be reached, unless the session's settings allow others (`private_hosts`). A status
of 400 or more makes the call fail; its result contains the response of the server.
"""

from __future__ import annotations

from importlib import import_module
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import bytes_text
from callsheet.report.json import JsonObject
from callsheet.tools.errors import ExecutionFailed, IOFailed, NotFound, NotPermitted, ToolError
from callsheet.tools.files.text_encoding import image_type
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.web.addresses import AllowedHosts
from callsheet.tools.web.bodies import (
    DECODED,
    FetchLimits,
    FetchResponse,
    kind_of,
    split_type,
    to_text,
)
from callsheet.tools.web.html_reader import readable

LIMITS = FetchLimits()
MAX_TEXT = 100_000
"""Maximum number of characters of a response that are returned."""

_MAX_HEADERS = 40
_LATER = (408, 425, 429, 500, 502, 503, 504)


def _scope(arguments: JsonObject) -> str | None:
    """Return the scope of an "always" answer: a host, and whether the request only reads from it."""
    try:
        host = urlsplit(str(arguments["url"])).netloc.rpartition("@")[2].lower()
    except ValueError:
        return None
    method = arguments.get("method", "GET")
    changes = "" if method in ("GET", "HEAD", "OPTIONS") else f"{method} "
    return f"fetch {changes}{host}" if host else None


@tool(kind="fetch", timeout=LIMITS.seconds + 15, scope=_scope)
async def fetch(
    call: Call,
    url: str,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET",
    headers: dict[str, str] = {},  # noqa: B006 - each call gets its own
    body: str | None = None,
) -> ToolResult:
    """Fetch a web page or call an API. HTML is given as readable text, an image as an image.

    Redirects are followed. At most 5 MB are taken, for at most 30 seconds.

    Args:
        url: What to fetch, beginning with http:// or https://.
        method: The HTTP method.
        headers: Headers to send, by name.
        body: Text to send, with POST, PUT, PATCH or DELETE.
    """
    http = await in_thread(
        lambda: import_module("callsheet.tools.web.http_client")
    )  # takes a while
    request = http.make_request(method, url, headers, body)
    answer = FetchResponse(str(request.url))
    allowed = AllowedHosts(call.session.tool_settings.private_hosts)
    try:
        await http.download(request, allowed, LIMITS, answer)
    except ToolError as exc:
        if not exc.output and answer.body:
            exc.output = (await in_thread(lambda: _rendered(answer, method))).text
        exc.metadata = {**_facts(answer), **exc.metadata}
        raise
    made: _Rendered = await in_thread(lambda: _rendered(answer, method))
    if answer.status >= 400:
        raise _failure(answer, made.text)
    result = call.success(made.text).with_all_metadata(_facts(answer, made.truncated))
    return result if made.image is None else result.with_content(made.image)


def _facts(answer: FetchResponse, truncated: bool = False) -> JsonObject:
    """Return the metadata of a response."""
    facts: JsonObject = {"url": answer.url, "redirects": list(answer.redirects)}
    if not answer.status:
        return facts
    declared = answer.headers.get("content-length", "")
    is_size = declared.isascii() and declared.isdigit() and len(declared) < 16
    return {
        **facts,
        "status": answer.status,
        "content_type": answer.headers.get("content-type"),
        "content_length": int(declared) if is_size else len(answer.body),
        "truncated": answer.truncated or truncated,
    }


def _failure(answer: FetchResponse, text: str) -> ToolError:
    message = f"{answer.url} answered {_status(answer)}"
    kinds: dict[int, type[ToolError]] = {
        404: NotFound,
        410: NotFound,
        401: NotPermitted,
        403: NotPermitted,
    }
    kind = kinds.get(answer.status, ExecutionFailed)
    if answer.status in _LATER:
        kind = IOFailed
        wait = answer.headers.get("retry-after", "")[:40]
        message += f"; try again after {wait}" if wait else ""
    error = kind(message, output=text, **_facts(answer))
    error.reason = ExecutionFailed.reason  # the server refused, not the user
    return error


def _status(answer: FetchResponse) -> str:
    return f"{answer.status} {answer.phrase}".strip()


class _Rendered(NamedTuple):
    """A response as text, and its image if it is one."""

    text: str
    truncated: bool = False
    image: ToolCallContent | None = None


def _rendered(answer: FetchResponse, method: str) -> _Rendered:
    text, truncated, image = _body(answer, method)
    if len(text) > MAX_TEXT:
        truncated = True
        text = f"{text[:MAX_TEXT]}\n\n[cut: {MAX_TEXT:,} of {len(text):,} characters]"
    if answer.truncated:
        text += f"\n\n[cut: only the first {len(answer.body):,} bytes were taken]"
    if answer.redirects:
        text = f"Redirected to {answer.url}\n\n{text}"
    return _Rendered(text, truncated or answer.truncated, image)


def _body(answer: FetchResponse, method: str) -> _Rendered:
    body = bytes(answer.body)
    if method == "HEAD":
        return _Rendered(f"{_status(answer)}\n{_headers(answer)}")
    if not body:
        return _Rendered(f"{_status(answer)}, no content")
    size = bytes_text(len(body))
    if answer.encoding not in DECODED:
        return _Rendered(f"{size} packed as {answer.encoding}, which can't be unpacked here")
    content_type, charset = split_type(answer.headers.get("content-type", ""))
    kind = kind_of(content_type, body)
    if kind == "image" and not answer.truncated:
        mime_type = image_type(body) or content_type
        image = ToolCallContent.image(body, mime_type)
        return _Rendered(f"An image ({mime_type}, {size})", image=image)
    if kind in ("image", "binary"):
        return _Rendered(f"Not text: {content_type or 'of unknown type'}, {size}")
    text = to_text(body, charset, is_cut=answer.truncated)
    if kind != "html":
        return _Rendered(_indented(text) if kind == "json" else text)
    page = readable(text, answer.url, MAX_TEXT * 2)
    text = page.text or "The page has no text."
    if page.title and page.title not in page.text.partition("\n")[0]:
        text = f"Title: {page.title}\n\n{page.text}"
    return _Rendered(text, page.truncated)


def _headers(answer: FetchResponse) -> str:
    shown_ones = [
        f"{name}: {value}" for name, value in answer.headers.items() if name != "set-cookie"
    ]
    return "\n".join(shown_ones[:_MAX_HEADERS])


def _indented(text: str) -> str:
    """Return JSON over several lines, if it was on one. Numbers and order are unchanged."""
    if text.strip().count("\n") > 2:
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text
