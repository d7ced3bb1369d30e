"""Own `read`, which reads text files of any size, images and notebooks, and identifies other files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from callsheet.report.content import ToolCallContent
from callsheet.report.json import JsonValue
from callsheet.tools.files.document import explained
from callsheet.tools.files.formats import (
    HEAD,
    MAX_NOTEBOOK_BYTES,
    Image,
    image_of,
    is_document,
    kind_of,
    render_notebook,
)
from callsheet.tools.files.line_ranges import (
    PLACES,
    FileBytes,
    FileLines,
    LineRange,
    Total,
    find_start,
    read_range,
    total_of,
)
from callsheet.tools.files.text_encoding import UTF8, codec_of_bom, is_binary, size_text
from callsheet.tools.fs.dirfd import OpenFile, open_regular
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

DEFAULT_LIMIT = 2000
MAX_IMAGE_BYTES = 3_750_000
"""A larger image is described, not shown; in base64 this is 5 MB, the most that models take."""

MAX_UNSIZED = 1 << 20
"""Bytes that are read of a file whose size is unknown."""


@tool(kind="read", read_only=True)
def read(
    call: Call,
    path: Path,
    offset: int = 1,
    limit: Annotated[int, Meta(ge=1)] = DEFAULT_LIMIT,
) -> ToolResult:
    """Read a file.

    Text comes as numbered lines, `12→text`: what follows the arrow is the line exactly as it is. Long
    lines are cut, and long files come in parts; the output says so, with the offset to continue from. Images
    are shown, notebooks come as the text of their cells, and of other binary files their type is named.

    Args:
        path: The file, from the session's directory or absolute.
        offset: The first line to read, counted from 1. A negative one counts from the end of the file.
        limit: How many lines to read at most.
    """
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "read"), open_regular(path, shown) as (file, found):
        document = call.session.host.look(call, path, found)
        unsaved = document.data if document is not None and document.is_unsaved else None
        source = _source(call, OpenFile(file, found), unsaved)
        head = source.read(0, HEAD)
        call.files.saw(path, found, None if document is None else document.text)
        about: dict[str, JsonValue] = {"file_path": str(path), "size_bytes": found.st_size}
        if unsaved is not None:
            about |= {"size_bytes": len(unsaved), "unsaved": True}
        image = image_of(head)
        if image is not None:
            result = _image(call, image, source)
        elif is_binary(head) or is_document(head):
            result = _binary(call, head, source.size, shown)
        else:
            state = found if found.st_size and unsaved is None else None
            result = _notebook(call, path, source, offset, limit) or _text(
                call, path, state, source, head, offset, limit
            )
    if unsaved is not None:
        text = f"{result.output}\n(as it is in the editor, where it has changes that are not saved)"
        result = call.success(text).with_content(*result.content).with_all_metadata(result.metadata)
    return result.with_all_metadata({**about, **result.metadata})


def _source(call: Call, file: OpenFile, unsaved: bytes | None) -> FileBytes:
    """Return the bytes of a file. One of no size may be made up as it is read, as in /proc."""
    if unsaved is not None:
        return FileBytes.of_bytes(unsaved)
    if file.stat.st_size:
        return FileBytes(file.file, file.stat.st_size, call.check_wanted)
    data = bytearray()
    while len(data) < MAX_UNSIZED and (more := file.file.read(MAX_UNSIZED)):
        data += more
    return FileBytes.of_bytes(data)


# Text


def _text(
    call: Call,
    path: Path,
    state: os.stat_result | None,
    source: FileBytes,
    head: bytes,
    offset: int,
    limit: int,
) -> ToolResult:
    """Read lines. With the state of the file on disk, it is remembered where they are."""
    codec = codec_of_bom(head) or UTF8
    if source.size <= len(codec.bom):
        source.size = 0
    reader = FileLines(source, codec)
    if state is not None:
        reader.known = PLACES.get(state)
    result, shown = _lines(call, reader, head, offset, limit, call.workspace.show(path))
    if state is not None:
        PLACES.put(state, reader.known)
    line = shown.first if shown is not None and shown.first > 0 else None
    call.locate(str(path), line)
    return result


def _lines(
    call: Call, reader: FileLines, head: bytes, offset: int, limit: int, name: str
) -> tuple[ToolResult, LineRange | None]:
    start = find_start(reader, offset, name)
    if start is None:
        nothing = _about_lines(0, 0, None, None)
        return call.success("(the file is empty)").with_all_metadata(nothing), None
    shown = read_range(reader, start, limit, head)
    total = total_of(reader, shown)
    note = _note(shown, total, is_open=shown.at_end and reader.ends_open())
    about = _about_lines(
        total.lines if total.is_exact else None, shown.lines, shown.first, shown.last
    )
    about["truncated"] = (
        shown.cut_lines > 0 or shown.is_bounded or (not shown.at_end and limit >= DEFAULT_LIMIT)
    )
    about |= {"encoding": shown.codec.name, "line_endings": shown.endings}
    if not total.is_exact:
        about["total_lines_estimate"] = total.lines
    if not shown.at_end:
        about["next_offset"] = shown.last + 1
    return call.success(f"{shown.text}\n{note}").with_all_metadata(about), shown


def _about_lines(
    total: int | None, lines: int, first: int | None, last: int | None
) -> dict[str, JsonValue]:
    return {
        "total_lines": total,
        "lines_read": lines,
        "start_line": first,
        "end_line": last,
        "truncated": False,
    }


def _note(shown: LineRange, total: Total, *, is_open: bool) -> str:
    """Return the note on where the file ends, or how to continue, and what is unusual about it."""
    if shown.at_end:
        unit = "line" if total.lines == 1 else "lines"
        parts = [f"end of file, {_number(total)} {unit}"]
        if is_open:
            parts.append("no newline at the end")
    else:
        parts = [f"{_span(shown)} of {_number(total)}", f"continue with offset={shown.last + 1}"]
    if shown.codec.name != "utf-8" or shown.codec.errors != "strict":
        parts.insert(1, f"encoding {_encoding(shown)}")
    if shown.endings in ("crlf", "mixed"):
        parts.insert(1, f"{'CRLF' if shown.endings == 'crlf' else 'mixed'} line endings")
    return f"({'; '.join(parts)})"


def _span(shown: LineRange) -> str:
    if shown.lines == 1:
        return f"line {shown.first:,}"
    between = "–" if shown.first > 0 else " to "
    return f"lines {shown.first:,}{between}{shown.last:,}"


def _number(total: Total) -> str:
    if total.is_exact:
        return f"{total.lines:,}"
    digits = max(0, len(str(total.lines)) - 2)
    return f"about {round(total.lines, -digits):,} (estimated)"


def _encoding(shown: LineRange) -> str:
    codec = shown.codec
    if codec.name != "utf-8":
        return f"{codec.name}{'' if codec.bom else ' (guessed)'}"
    return "UTF-8 with BOM" if codec.bom else "UTF-8 with bytes that are none, shown as \ufffd"


# Other files


def _image(call: Call, image: Image, source: FileBytes) -> ToolResult:
    pixels = f", {image.width} × {image.height}" if image.width and image.height else ""
    text = f"{image.kind.name}{pixels}, {size_text(source.size)}"
    too_large = source.size > MAX_IMAGE_BYTES
    if too_large:
        text += f"; too large to be shown, {size_text(MAX_IMAGE_BYTES)} at most"
    result = call.success(text).with_all_metadata(
        _about_lines(None, 0, None, None)
        | {
            "mime_type": image.kind.mime_type,
            "width": image.width,
            "height": image.height,
            "truncated": too_large,
        }
    )
    if too_large:
        return result
    data = source.read(0, source.size)
    return result.with_content(ToolCallContent.image(data, image.kind.mime_type))


def _binary(call: Call, head: bytes, size: int, shown: str) -> ToolResult:
    kind = kind_of(head)
    article = "an" if kind.name[0] in "aeioE" else "a"
    text = f"{shown} is not text: {article} {kind.name}, {size_text(size)} ({kind.mime_type})"
    about = _about_lines(None, 0, None, None) | {"mime_type": kind.mime_type, "binary": True}
    return call.success(text).with_all_metadata(about)


def _notebook(
    call: Call, path: Path, source: FileBytes, offset: int, limit: int
) -> ToolResult | None:
    """Return a notebook as the text of its cells; None if the file is not a notebook."""
    if path.suffix.lower() != ".ipynb" or not 0 < source.size <= MAX_NOTEBOOK_BYTES:
        return None
    notebook = render_notebook(source.read(0, source.size))
    if notebook is None:
        return None
    data = notebook.text.encode("utf-8", "replace")
    reader = FileLines(FileBytes.of_bytes(data), UTF8)
    result, shown = _lines(call, reader, data[:HEAD], offset, limit, call.workspace.show(path))
    call.locate(str(path))
    cells = f"{notebook.cells} cell{'' if notebook.cells == 1 else 's'}"
    notice = f"(notebook, {cells}, as text; the file itself is JSON, which edit works on)"
    output = f"{notice}\n{result.output}" if shown is not None else f"(notebook, {cells})"
    about: dict[str, JsonValue] = {**result.metadata, "cells": notebook.cells}
    about["images_left_out"] = notebook.images_left_out
    about["truncated"] = bool(result.metadata["truncated"]) or notebook.images_left_out > 0
    pictures = notebook.images if shown is not None and shown.first == 1 else ()
    return call.success(output).with_all_metadata(about).with_content(*pictures)
