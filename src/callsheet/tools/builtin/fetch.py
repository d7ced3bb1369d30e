"""The tool `fetch`, which requests a page or an API over http and https. HTML is converted to readable text.

Only public addresses can be reached, unless the session's settings allow others (`private_hosts`). A status
of 400 or more makes the call fail; its result contains the response of the server.
"""

from __future__ import annotations

import codecs
import re
from email.message import Message
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import bytes_text
from callsheet.report.json import JsonObject
from callsheet.report.patterns import lazy
from callsheet.tools.errors import ExecutionFailed, IOFailed, NotFound, NotPermitted, ToolError
from callsheet.tools.files.text_encoding import image_type
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from callsheet.tools.web.html_reader import readable

if TYPE_CHECKING:
    from callsheet.tools.web.http_client import FetchResponse

BodyKind: TypeAlias = Literal["html", "json", "text", "image", "binary"]

TIMEOUT = 45.0
"""Seconds: more than a request may take, so that what has come until then is not lost."""

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


@tool(kind="fetch", timeout=TIMEOUT, scope=_scope)
async def fetch(
    call: Call,
    url: str,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET",
    headers: dict[str, str] = {},  # noqa: B006 - each call gets its own
    body: str | None = None,
) -> ToolResult:
    """Fetch a web page or call an API. HTML is returned as readable text, an image as an image.

    Redirects are followed. At most 5 MB are read, for at most 30 seconds.

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
    answer: FetchResponse = http.FetchResponse(str(request.url))
    try:
        await http.download(request, call.session.tool_settings.private_hosts, answer)
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
    if not answer.is_decoded:
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


# Kinds of bodies, and their text

_TEXTUAL = lazy(
    r"text/.*|.*\+xml|application/(xml|javascript|ecmascript|x-javascript|yaml|x-yaml|toml|x-sh|sql|"
    r"x-www-form-urlencoded|graphql|x-ndjson|jsonl|x-httpd-php|rtf)"
)
_JSON = lazy(r"(application|text)/(json|x-json)|.*\+json")
_HTML = ("text/html", "application/xhtml+xml")
_LOOKS_LIKE_HTML = lazy(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S)


def kind_of(content_type: str, body: bytes) -> BodyKind:
    """Return what a body is: by its declared type, unless its bytes show otherwise."""
    if image_type(body) is not None:
        return "image"
    if content_type in _HTML:
        return "html"
    if _JSON.fullmatch(content_type):
        return "json"
    if _TEXTUAL.fullmatch(content_type):
        return "text"
    if content_type and content_type != "application/octet-stream":
        return "binary"
    if _LOOKS_LIKE_HTML.match(body[:1024]) and not content_type:
        return "html"
    return "text" if _is_text(body) else "binary"


def _is_text(body: bytes) -> bool:
    start = body[:8192]
    try:  # its last character may be incomplete
        codecs.utf_8_decode(start, "strict", len(body) <= len(start))
    except UnicodeDecodeError:
        return False
    return b"\0" not in start


def split_type(header: str) -> tuple[str, str | None]:
    """Return the type in a Content-Type header, in small letters, and its charset."""
    message = Message()
    message["content-type"] = header.replace("\r", " ").replace("\n", " ")
    charset = message.get_content_charset() if header else None
    return header.partition(";")[0].strip().lower(), charset


# The encodings of the WHATWG, as Python names them. Others that it knows are no encodings of pages; some are
# slow.
_ENCODINGS = lazy(
    r"utf-(8|16(-[lb]e)?)|iso8859-\d+|cp(125\d|874|866|932|949)|koi8-[ru]|gb(2312|k|18030)|big5"
    r"|euc_(jp|kr)|iso2022_jp|shift_jis|mac-roman|ascii"
)
# Pages that name one of these mean the larger encoding that it is a part of.
_LARGER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_META = lazy(rb"<meta\b[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.I)
_XML = lazy(rb"<\?xml\b[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{1,40})", re.I)


def _codec(charset: str) -> str | None:
    """Return Python's name of a page's encoding, or None if it is none."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    return _LARGER.get(name, name) if _ENCODINGS.fullmatch(name) else None


def to_text(body: bytes, charset: str | None, *, is_cut: bool = False) -> str:
    """Decode text: by its byte order mark, the declared charset, or the one that it names itself.

    If the body `is_cut`, its last character may be incomplete.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body.decode(codec, "replace")
    codec = _codec(charset) if charset else None
    if codec is None:
        start = body[:2048]
        found = _META.search(start) or _XML.match(start.lstrip())
        codec = _codec(found[1].decode("ascii")) if found else None
        if codec is not None and codec.startswith("utf-16"):
            codec = "utf-8"  # it can't be, or the tag would not have been found
    if codec is not None:
        return body.decode(codec, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        is_utf8 = is_cut and exc.start >= len(body) - 3
        return body.decode("utf-8" if is_utf8 else "windows-1252", "replace")
