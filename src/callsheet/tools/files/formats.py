"""Files that are no plain text: what they are by their first bytes, and notebooks as text.

A binary file gets a name and a MIME type, an image its size in pixels. A notebook (.ipynb) becomes text that
can be read cell by cell, with outputs; the images in outputs come apart.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from callsheet.report.content import ImageContent, ToolCallContent
from callsheet.tools.files.text_encoding import size_text


class Kind(NamedTuple):
    """What a file is."""

    name: str
    mime_type: str


class Image(NamedTuple):
    """An image that models and editors can show. Its size is None if it is unknown."""

    kind: Kind
    width: int | None
    height: int | None


HEAD = 1 << 16
"""First bytes that are enough, even for a JPEG whose camera wrote much before the picture."""

UNKNOWN = Kind("binary file", "application/octet-stream")
_PNG = Kind("PNG image", "image/png")
_JPEG = Kind("JPEG image", "image/jpeg")
_GIF = Kind("GIF image", "image/gif")
_WEBP = Kind("WebP image", "image/webp")
_ISO_MEDIA = Kind("MP4 or similar media", "video/mp4")
_WAV = Kind("WAV audio", "audio/wav")

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"%PDF-", Kind("PDF document", "application/pdf")),
    (b"PK\x03\x04", Kind("ZIP archive", "application/zip")),
    (b"PK\x05\x06", Kind("ZIP archive", "application/zip")),
    (b"\x1f\x8b", Kind("gzip data", "application/gzip")),
    (b"BZh", Kind("bzip2 data", "application/x-bzip2")),
    (b"\xfd7zXZ\x00", Kind("XZ data", "application/x-xz")),
    (b"\x28\xb5\x2f\xfd", Kind("Zstandard data", "application/zstd")),
    (b"7z\xbc\xaf\x27\x1c", Kind("7-Zip archive", "application/x-7z-compressed")),
    (b"Rar!\x1a\x07", Kind("RAR archive", "application/vnd.rar")),
    (b"\x7fELF", Kind("ELF program or library", "application/x-elf")),
    (b"MZ", Kind("Windows program or library", "application/vnd.microsoft.portable-executable")),
    (b"\xcf\xfa\xed\xfe", Kind("Mach-O program or library", "application/x-mach-binary")),
    (b"\xca\xfe\xba\xbe", Kind("Java class or Mach-O program", "application/octet-stream")),
    (b"\x00asm", Kind("WebAssembly module", "application/wasm")),
    (b"SQLite format 3\x00", Kind("SQLite database", "application/vnd.sqlite3")),
    (b"PAR1", Kind("Parquet file", "application/vnd.apache.parquet")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind("old Office document", "application/x-ole-storage")),
    (b"BM", Kind("BMP image", "image/bmp")),
    (b"II*\x00", Kind("TIFF image", "image/tiff")),
    (b"MM\x00*", Kind("TIFF image", "image/tiff")),
    (b"\x00\x00\x01\x00", Kind("icon", "image/vnd.microsoft.icon")),
    (b"OggS", Kind("Ogg media", "application/ogg")),
    (b"fLaC", Kind("FLAC audio", "audio/flac")),
    (b"ID3", Kind("MP3 audio", "audio/mpeg")),
    (b"wOFF", Kind("WOFF font", "font/woff")),
    (b"wOF2", Kind("WOFF2 font", "font/woff2")),
    (b"\x00\x01\x00\x00", Kind("TrueType font", "font/ttf")),
    (b"OTTO", Kind("OpenType font", "font/otf")),
)

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_SCAN = 0xDA


def kind_of(head: bytes) -> Kind:
    """Return the kind of a binary file."""
    image = image_of(head)
    if image is not None:
        return image.kind
    if head[4:8] == b"ftyp":
        return _ISO_MEDIA
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE":
        return _WAV
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), UNKNOWN)


def image_of(head: bytes) -> Image | None:
    """Return the image that begins with these bytes: PNG, JPEG, GIF or WebP. Names are not used."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return Image(_PNG, _big(head[16:20]), _big(head[20:24]))
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Image(_GIF, _little(head[6:8]), _little(head[8:10]))
    if head.startswith(b"\xff\xd8\xff"):
        return Image(_JPEG, *_jpeg_size(head))
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return Image(_WEBP, *_webp_size(head))
    return None


def _big(data: bytes) -> int | None:
    return int.from_bytes(data, "big") or None


def _little(data: bytes) -> int | None:
    return int.from_bytes(data, "little") or None


def _jpeg_size(head: bytes) -> tuple[int | None, int | None]:
    """Walk the segments up to the first frame, and return its width and height."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if marker in _JPEG_FRAMES:
            return _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
        if marker == _JPEG_SCAN:
            break
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None, None


def _webp_size(head: bytes) -> tuple[int | None, int | None]:
    form = head[12:16] if len(head) >= 30 else b""
    if form == b"VP8X":
        wide, high = int.from_bytes(head[24:27], "little"), int.from_bytes(head[27:30], "little")
        return wide + 1, high + 1
    if form == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        wide, high = int.from_bytes(head[26:28], "little"), int.from_bytes(head[28:30], "little")
        return wide & 0x3FFF or None, high & 0x3FFF or None
    return None, None


def is_document(head: bytes) -> bool:
    """Return whether a file is a document that has lines, but is not text."""
    return head.startswith(b"%PDF-")


# Notebooks

MAX_NOTEBOOK_BYTES = 32 << 20
"""Maximum size in bytes of a notebook that is rendered; a larger one is read as JSON text."""

MAX_IMAGES = 8
MAX_IMAGE_BYTES = 3_750_000
"""Of all images together; in base64 that is 5 MB."""

_OUTPUT_LINES = 200
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("text/markdown", "text/latex", "text/plain")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Notebook(NamedTuple):
    """A notebook as text, with the images of its outputs."""

    text: str
    cells: int
    images: tuple[ImageContent, ...]
    images_left_out: int


class _Images:
    """The images of outputs, as many as fit."""

    def __init__(self) -> None:
        self.taken: list[ImageContent] = []
        self.left_out: int = 0
        self._room: int = MAX_IMAGE_BYTES

    def add(self, mime_type: str, data: str) -> str:
        """Store an image if it fits, and return the text that represents it."""
        data = "".join(data.split())
        try:
            size = len(b64decode(data, validate=True))
        except (BadBase64, ValueError):
            return f"[{mime_type}, not readable]"
        if len(self.taken) >= MAX_IMAGES or size > self._room:
            self.left_out += 1
            return f"[{mime_type}, {size_text(size)}, left out]"
        self._room -= size
        self.taken.append(ToolCallContent.image(data, mime_type))
        return f"[{mime_type}, {size_text(size)}, image {len(self.taken)}]"


def render_notebook(data: bytes) -> Notebook | None:
    """Return a notebook as text; None if the data is not a notebook."""
    try:
        raw: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    cells = _dict(raw).get("cells")
    if not isinstance(cells, list):
        return None
    images, language = _Images(), _language(raw)
    parts = [
        "\n".join(_cell(number, _dict(cell), language, images))
        for number, cell in enumerate(cast("list[Any]", cells), 1)
    ]
    text = "\n\n".join(parts)
    return Notebook(text + "\n" if text else "", len(parts), tuple(images.taken), images.left_out)


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a notebook's text, which may be a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in _list(value) if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _language(raw: Any) -> str:
    about = _dict(_dict(raw).get("metadata"))
    named = _dict(about.get("kernelspec")).get("language")
    return _text(named or _dict(about.get("language_info")).get("name"))


def _cell(number: int, cell: dict[str, Any], language: str, images: _Images) -> Iterator[str]:
    kind = _text(cell.get("cell_type")) or "unknown"
    count = cell.get("execution_count")
    run = f" [{count}]" if isinstance(count, int) else ""
    tongue = f", {language}" if kind == "code" and language else ""
    yield f"--- Cell {number}: {kind}{tongue}{run} ---"
    source = _text(cell.get("source"))
    if source:
        yield source.rstrip("\n")
    for output in _list(cell.get("outputs")):
        yield "--- Output ---"
        yield from _short(_output(_dict(output), images))


def _output(output: dict[str, Any], images: _Images) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return _COLOURS.sub("", _text(output.get("text")))
    if kind == "error":
        trace = "\n".join(part for part in _list(output.get("traceback")) if isinstance(part, str))
        error = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        return _COLOURS.sub("", trace) or error
    data = _dict(output.get("data"))
    pictures = [images.add(mime, _text(data[mime])) for mime in _IMAGES if mime in data]
    if pictures:
        return "\n".join(pictures)
    for mime in _TEXTS:
        if mime in data:
            return _text(data[mime])
    return f"[{', '.join(data) or 'nothing'}]"


def _short(text: str) -> Iterator[str]:
    lines = text.rstrip("\n").split("\n")
    yield from lines[:_OUTPUT_LINES]
    if len(lines) > _OUTPUT_LINES:
        yield f"[{len(lines) - _OUTPUT_LINES:,} more lines of output left out]"
