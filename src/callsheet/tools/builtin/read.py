"""Own `read`, which reads text files of any size and images, and identifies other files."""

from __future__ import annotations

import os
from io import BytesIO
from mimetypes import guess_type
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, BinaryIO

from msgspec import Meta

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import bytes_text, plural
from callsheet.report.json import JsonObject
from callsheet.tools.files.dirfd import open_regular
from callsheet.tools.files.document import MAX_BYTES, explained
from callsheet.tools.files.line_ranges import LineRange, LineReader
from callsheet.tools.files.text_encoding import (
    BINARY_HEAD,
    UTF8,
    TextCodec,
    codec_of_bom,
    image_type,
    is_binary,
)
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

DEFAULT_LIMIT = 2000
MAX_IMAGE_BYTES = 3_750_000
"""A larger image is described, not shown; in base64 this is 5 MB, the most that models take."""

_NO_LINES: JsonObject = {
    "total_lines": None,
    "lines_read": 0,
    "start_line": None,
    "end_line": None,
    "truncated": False,
}
_SMALL = 1 << 16
"""Bytes of a file that is read on the event loop: changing to a thread would take longer than reading it."""


@tool(kind="read", read_only=True)
async def read(
    call: Call,
    path: Path,
    offset: int = 1,
    limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT,
) -> ToolResult:
    """Read a file.

    Text is returned as numbered lines, `12→text`: what follows the arrow is the exact line. Long
    lines are cut, and long files come in parts; the output says so, with the offset to continue from. Images
    are shown, and of other binary files their type is named.

    Args:
        path: The file, from the session's directory or absolute.
        offset: The first line to read, counted from 1. A negative one counts from the end of the file.
        limit: How many lines to read at most.
    """
    if _is_small(call, path):
        return _read(call, path, offset, limit)
    return await in_thread(lambda: _read(call, path, offset, limit))


def _is_small(call: Call, path: Path) -> bool:
    """Return whether reading a file takes no time worth mentioning. An editor may take long to answer."""
    if call.session.host.by_text:
        return False
    try:
        found = os.stat(path)  # noqa: PTH116 - a fraction of the time
    except OSError:
        return False
    return S_ISREG(found.st_mode) and 0 < found.st_size <= _SMALL


def _read(call: Call, path: Path, offset: int, limit: int) -> ToolResult:
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "read"), open_regular(path, shown) as file:
        found = os.fstat(file.fileno())
        document = call.session.host.look(call, path, found)
        call.files.saw(path, found, None if document is None else document.text)
        source: BinaryIO = file
        size, is_unsaved = found.st_size, document is not None and document.is_unsaved
        if document is not None and is_unsaved:
            source, size = BytesIO(document.data), len(document.data)
        about = _NO_LINES | {"file_path": str(path), "size_bytes": size}
        image = None
        head = source.read(BINARY_HEAD)
        source.seek(0)
        declared = codec_of_bom(head)
        if mime_type := image_type(head):
            text, image = _image(source, size, mime_type)
            about |= {"mime_type": mime_type, "truncated": image is None}
        elif is_binary(head) or head.startswith(b"%PDF-") or _is_too_large(declared, size):
            mime_type = guess_type(path.name)[0] or "application/octet-stream"
            text = f"{shown} is not text ({mime_type}, {bytes_text(size)})"
            about |= {"mime_type": mime_type, "binary": True}
        else:
            text = _text(call, path, source, declared, offset, limit, about)
    if is_unsaved:
        text += "\n(as it is in the editor, where it has changes that are not saved)"
        about["unsaved"] = True
    result = call.success(text).with_all_metadata(about)
    return result if image is None else result.with_content(image)


# Text


def _is_too_large(declared: TextCodec | None, size: int) -> bool:
    """Return whether a file is in UTF-16, which has to be recoded as a whole, and too large for that."""
    return declared is not None and declared.name != UTF8.name and size > MAX_BYTES


def _text(
    call: Call,
    path: Path,
    source: BinaryIO,
    declared: TextCodec | None,
    offset: int,
    limit: int,
    about: JsonObject,
) -> str:
    """Return the lines that are wanted, and add to `about` what is known of them."""
    if declared is not None:
        source.seek(len(declared.bom))
        if declared.name != UTF8.name:
            source = BytesIO(source.read().decode(declared.name, "replace").encode())
    codec, size = None if declared is None else UTF8, about["size_bytes"]
    reader = LineReader(source, size, codec, call.check_wanted)
    shown = reader.read(offset, limit, call.workspace.show(path))
    if shown is None:
        about["total_lines"] = 0
        return "(the file is empty)"
    _locate(call, path, offset, shown.first)
    codec = declared or shown.codec
    about |= {
        "total_lines": shown.total,
        "lines_read": shown.lines,
        "start_line": shown.first,
        "end_line": shown.last,
        "truncated": shown.is_cut or (not shown.at_end and limit >= DEFAULT_LIMIT),
        "encoding": codec.name,
        "line_endings": shown.endings,
    }
    if not shown.at_end:
        about["next_offset"] = shown.last + 1
    return f"{shown.text}\n({_note(shown, codec, size)})"


def _locate(call: Call, path: Path, offset: int, line: int) -> None:
    """Report the file and the line, unless the call was announced with them."""
    known = call.report.locations
    if offset < 0 or not known or known[0].path != str(path):
        call.locate(str(path), line)


def _note(shown: LineRange, codec: TextCodec, size: int) -> str:
    """Return the note on where the file ends, or how to continue, and what is unusual about it."""
    parts: list[str] = []
    if shown.endings in ("crlf", "mixed"):
        parts.append(f"{'CRLF' if shown.endings == 'crlf' else 'mixed'} line endings")
    if codec.name != UTF8.name:
        parts.append(f"encoding {codec.name}{'' if codec.bom else ' (guessed)'}")
    elif codec.bom:
        parts.append("UTF-8 with BOM")
    elif codec.errors != "strict":
        parts.append("UTF-8 with bytes that are none, shown as \ufffd")
    if shown.at_end:
        open_end = ["no newline at the end"] if shown.ends_open else []
        return "; ".join([f"end of file, {plural(shown.last, 'line')}", *parts, *open_end])
    span = f"line {shown.first:,}"
    if shown.lines > 1:
        span = f"lines {shown.first:,}–{shown.last:,}"
    total = f"a file of {bytes_text(size)}" if shown.total is None else f"{shown.total:,}"
    return "; ".join([f"{span} of {total}", *parts, f"continue with offset={shown.last + 1}"])


def _image(source: BinaryIO, size: int, mime_type: str) -> tuple[str, ToolCallContent | None]:
    text = f"An image ({mime_type}, {bytes_text(size)})"
    if size > MAX_IMAGE_BYTES:
        return f"{text}; too large to be shown, {bytes_text(MAX_IMAGE_BYTES)} at most", None
    return text, ToolCallContent.image(source.read(), mime_type)
