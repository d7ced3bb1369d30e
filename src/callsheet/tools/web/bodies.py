"""Responses and their bodies: classified, and decoded in their own encoding."""

from __future__ import annotations

import codecs
import re
from email.message import Message
from typing import Literal, TypeAlias

import msgspec

from callsheet.report.patterns import lazy
from callsheet.tools.files.text_encoding import image_type

BodyKind: TypeAlias = Literal["html", "json", "text", "image", "binary"]

DECODED = ("", "identity", "gzip", "deflate")
"""The content encodings that are decoded: those that are asked for."""


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


# Kinds of bodies

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


# Text


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
