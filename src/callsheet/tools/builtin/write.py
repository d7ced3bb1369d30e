"""The tool `write`: a whole file, new or replaced, at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from callsheet.report.values import JsonValue
from callsheet.tools.errors import ExecutionFailed, InvalidArguments
from callsheet.tools.files.atomic import replace_file
from callsheet.tools.files.document import Document, check_writable, load_if_any
from callsheet.tools.files.finishing import finished
from callsheet.tools.files.matching import clamped
from callsheet.tools.files.text import (
    UTF8,
    Codec,
    Unencodable,
    codec_of_bom,
    common_prefix,
    count_lines,
    has_surrogates,
    newline_of,
    presentable,
    size_text,
    with_newlines,
)
from callsheet.tools.files.trouble import explained
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool


@tool(kind="edit", title="Writing to {path}")
async def write(call: Call, path: Path, content: str) -> ToolResult:
    """Write a whole file: a new one, or in place of what is there.

    Missing directories are made. An existing file keeps its encoding, its mode, and its line endings,
    unless content has CRLF itself. It is refused if it was changed since it was last read. To change
    parts of a file, use edit.

    Args:
        path: The file, from the session's directory or absolute.
        content: Everything that is to be in the file.
    """
    if has_surrogates(content):
        raise InvalidArguments(
            "content: it has halves of characters (surrogates), which are no text"
        )
    return await finished(lambda go_on: _write(call, path, content, go_on))


def _write(call: Call, path: Path, content: str, go_on: Callable[[], None]) -> ToolResult:
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "written"):
        old = load_if_any(path, shown)
        _check_seen(call, path, exists=old is not None)
        if old is not None:
            check_writable(path, old.stat, shown)
        text, codec, notes = _fitted(content, old)
        data = codec.encode(text)
        if old is not None and old.text is not None and old.data == data:
            call.files.saw(path, old.stat)
            return _result(
                call, path, data, text, codec, f"{shown} has this content already", False
            )
        found = replace_file(path, data, None if old is None else old.stat, go_on)
        call.files.saw(path, found)
    _show(call, path, old, text)
    if old is not None and old.stat.st_nlink > 1:
        notes.append("its other names (hard links) keep the old content")
    done = "Created" if old is None else "Replaced"
    lines = count_lines(text)
    said = f"{done} {shown}: {lines:,} line{'' if lines == 1 else 's'}, {size_text(len(data))}"
    return _result(call, path, data, text, codec, "; ".join([said, *notes]), old is None)


def _check_seen(call: Call, path: Path, *, exists: bool) -> None:
    """Refuse a file that was changed since it was read. One that was deleted is refused once."""
    try:
        call.files.check(path)
    except ExecutionFailed:
        if not exists:
            call.files.forget(path)
        raise


def _fitted(content: str, old: Document | None) -> tuple[str, Codec, list[str]]:
    """Give content the line endings and the encoding of the file that it replaces."""
    if old is None:
        return content, UTF8, []
    if old.is_binary:
        return content, UTF8, [f"it was binary, {size_text(old.size)}, so there is no diff"]
    notes: list[str] = []
    if old.text is None:
        notes.append(f"it was {size_text(old.size)}, too large for a diff")
    before = old.codec.decode_part(old.data) if old.text is None else old.text
    text = with_newlines(content, newline_of(before))
    codec = (codec_of_bom(old.data) or old.codec)._replace(errors="strict")
    if codec.bom:
        text = text.removeprefix("\ufeff")
    try:
        codec.encode(text)
    except Unencodable as exc:
        notes.append(f"it is UTF-8 now, because {exc}")
        codec = UTF8
    return text, codec, notes


def _show(call: Call, path: Path, old: Document | None, text: str) -> None:
    if old is None:
        call.diff(str(path), None, text)
        call.locate(str(path), 1)
    elif old.text is None:
        call.locate(str(path), 1)
    else:
        call.diff(str(path), presentable(old.text), text)
        same = common_prefix(old.text, text)
        call.locate(str(path), clamped(text.count("\n", 0, same) + 1, text))


def _result(
    call: Call, path: Path, data: bytes, text: str, codec: Codec, said: str, created: bool
) -> ToolResult:
    about: dict[str, JsonValue] = {
        "file_path": str(path),
        "size_bytes": len(data),
        "lines_written": count_lines(text),
        "created": created,
        "encoding": codec.name,
    }
    return call.success(said).with_all_metadata(about)
