"""Own `read`, which reads text files of any size and images, and identifies other files."""

from __future__ import annotations

from io import BytesIO
from mimetypes import guess_type
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, BinaryIO

from msgspec import Meta

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import bytes_text, plural
from callsheet.report.json import JsonObject
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
from callsheet.tools.fs.dirfd import open_regular
from callsheet.tools.invocation import in_thread
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

DEFAULT_LIMIT = 2000
MAX_IMAGE_BYTES = 3_750_000
"""A larger image is described, not shown; in base64 this is 5 MB, the most that models take."""

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

    Text comes as numbered lines, `12→text`: what follows the arrow is the line exactly as it is. Long
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
        found = path.stat()
    except OSError:
        return False
    return S_ISREG(found.st_mode) and 0 < found.st_size <= _SMALL


def _read(call: Call, path: Path, offset: int, limit: int) -> ToolResult:
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "read"), open_regular(path, shown) as (file, found):
        document = call.session.host.look(call, path, found)
        call.files.saw(path, found, None if document is None else document.text)
        about: JsonObject = {"file_path": str(path), "size_bytes": found.st_size}
        source: BinaryIO = file
        if document is not None and document.is_unsaved:
            source = BytesIO(document.data)
            about |= {"size_bytes": len(document.data), "unsaved": True}
        size: int = about["size_bytes"]
        head = source.read(BINARY_HEAD)
        source.seek(0)
        declared = codec_of_bom(head)
        if mime_type := image_type(head):
            result = _image(call, source, size, mime_type)
        elif is_binary(head) or head.startswith(b"%PDF-") or _is_too_large(declared, size):
            result = _binary(call, path, size)
        else:
            result = _text(call, path, source, size, declared, offset, limit)
    if "unsaved" in about:
        text = f"{result.output}\n(as it is in the editor, where it has changes that are not saved)"
        result = call.success(text).with_content(*result.content).with_all_metadata(result.metadata)
    return result.with_all_metadata({**about, **result.metadata})


# Text


def _is_too_large(declared: TextCodec | None, size: int) -> bool:
    """Return whether a file is in UTF-16, which has to be recoded as a whole, and too large for that."""
    return declared is not None and declared.name != UTF8.name and size > MAX_BYTES


def _text(
    call: Call,
    path: Path,
    source: BinaryIO,
    size: int,
    declared: TextCodec | None,
    offset: int,
    limit: int,
) -> ToolResult:
    if declared is not None:
        source.seek(len(declared.bom))
        if declared.name != UTF8.name:
            source = BytesIO(source.read().decode(declared.name, "replace").encode())
    codec = None if declared is None else UTF8
    reader = LineReader(source, size, codec, call.check_wanted)
    shown = reader.read(offset, limit, call.workspace.show(path))
    if shown is None:
        call.locate(str(path))
        return call.success("(the file is empty)").with_all_metadata(_about_lines(total=0))
    call.locate(str(path), shown.first)
    codec = declared or shown.codec
    about = _about_lines(shown.total, shown.lines, shown.first, shown.last)
    about["truncated"] = shown.is_cut or (not shown.at_end and limit >= DEFAULT_LIMIT)
    about |= {"encoding": codec.name, "line_endings": shown.endings}
    if not shown.at_end:
        about["next_offset"] = shown.last + 1
    return call.success(f"{shown.text}\n({_note(shown, codec, size)})").with_all_metadata(about)


def _about_lines(
    total: int | None, lines: int = 0, first: int | None = None, last: int | None = None
) -> JsonObject:
    return {
        "total_lines": total,
        "lines_read": lines,
        "start_line": first,
        "end_line": last,
        "truncated": False,
    }


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


# Other files


def _image(call: Call, source: BinaryIO, size: int, mime_type: str) -> ToolResult:
    text, too_large = f"An image ({mime_type}, {bytes_text(size)})", size > MAX_IMAGE_BYTES
    if too_large:
        text += f"; too large to be shown, {bytes_text(MAX_IMAGE_BYTES)} at most"
    about = _about_lines(None) | {"mime_type": mime_type, "truncated": too_large}
    result = call.success(text).with_all_metadata(about)
    return (
        result
        if too_large
        else result.with_content(ToolCallContent.image(source.read(), mime_type))
    )


def _binary(call: Call, path: Path, size: int) -> ToolResult:
    mime_type = guess_type(path.name)[0] or "application/octet-stream"
    text = f"{call.workspace.show(path)} is not text ({mime_type}, {bytes_text(size)})"
    about = _about_lines(None) | {"mime_type": mime_type, "binary": True}
    return call.success(text).with_all_metadata(about)
