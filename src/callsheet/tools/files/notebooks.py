"""Notebooks (.ipynb) as text that can be read: cell by cell, with outputs; images of outputs apart."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from callsheet.report.content import ImageContent, ToolCallContent

from .text import size_text

MOST_BYTES = 32 << 20
"""A larger notebook is read as what it is, JSON."""

MOST_IMAGES = 8
MOST_IMAGE_BYTES = 3_750_000
"""Of all images together; in base64 that is 5 MB."""

_OUTPUT_LINES = 200
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("text/markdown", "text/latex", "text/plain")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Notebook(NamedTuple):
    """What a notebook says."""

    text: str
    cells: int
    images: tuple[ImageContent, ...]
    images_left_out: int


class _Images:
    """The images of outputs, as many as fit."""

    def __init__(self) -> None:
        self.kept: list[ImageContent] = []
        self.left_out: int = 0
        self._room: int = MOST_IMAGE_BYTES

    def add(self, mime_type: str, data: str) -> str:
        """Keep an image if there is room. Gives what stands in its place."""
        data = "".join(data.split())
        try:
            size = len(b64decode(data, validate=True))
        except (BadBase64, ValueError):
            return f"[{mime_type}, not readable]"
        if len(self.kept) >= MOST_IMAGES or size > self._room:
            self.left_out += 1
            return f"[{mime_type}, {size_text(size)}, left out]"
        self._room -= size
        self.kept.append(ToolCallContent.image(data, mime_type))
        return f"[{mime_type}, {size_text(size)}, image {len(self.kept)}]"


def render(data: bytes) -> Notebook | None:
    """Return a notebook as text; None if it is none."""
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
    return Notebook(text + "\n" if text else "", len(parts), tuple(images.kept), images.left_out)


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
        said = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        return _COLOURS.sub("", trace) or said
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
