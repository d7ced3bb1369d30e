"""The tool `edit`: one text in a file in place of another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from callsheet.report.values import JsonValue
from callsheet.tools.errors import ExecutionFailed, InvalidArguments
from callsheet.tools.files.atomic import replace_file
from callsheet.tools.files.document import MOST_BYTES, Document, check_writable, load
from callsheet.tools.files.finishing import finished
from callsheet.tools.files.matching import Change, Finder, Span, replace
from callsheet.tools.files.refusals import not_found, not_unique
from callsheet.tools.files.text import Unencodable, has_surrogates, presentable, size_text
from callsheet.tools.files.trouble import explained
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool


@tool(kind="edit", title="Editing {path}")
async def edit(
    call: Call, path: Path, old_text: str, new_text: str, replace_all: bool = False
) -> ToolResult:
    """Replace a text in a file by another.

    The text must be in the file exactly as given, and only once, unless all are to be replaced. Line
    endings become those of the file, unless new_text has CRLF itself. If the text is not there, the
    nearest is shown. A file that was changed since it was last read is refused.

    Args:
        path: The file, from the session's directory or absolute.
        old_text: What is replaced: exactly as it is in the file, without the line numbers that read shows.
        new_text: What takes its place.
        replace_all: Replace it wherever it is.
    """
    if not old_text:
        raise InvalidArguments("old_text: it is empty; use write to fill a file")
    if old_text == new_text:
        raise InvalidArguments("new_text: it is the same as old_text, so nothing would change")
    if has_surrogates(new_text):
        raise InvalidArguments(
            "new_text: it has halves of characters (surrogates), which are no text"
        )
    return await finished(
        lambda go_on: _edit(call, path, old_text, new_text, replace_all=replace_all, go_on=go_on)
    )


def _edit(
    call: Call,
    path: Path,
    old_text: str,
    new_text: str,
    *,
    replace_all: bool,
    go_on: Callable[[], None],
) -> ToolResult:
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "edited"):
        document = load(path, shown)
        call.files.check(path)
        check_writable(path, document.stat, shown)
        text = _text(document, shown)
        spans = _spans(text, old_text, shown, replace_all=replace_all)
        change = replace(text, spans, new_text)
        data = _encoded(document, change, text, shown)
        call.files.saw(path, replace_file(path, data, document.stat, go_on))
    call.diff(str(path), presentable(text), presentable(change.text))
    call.locate(str(path), change.first_line)
    return _result(call, path, document, spans, change, shown)


def _text(document: Document, shown: str) -> str:
    if document.text is not None:
        return document.text
    size = size_text(document.size)
    why = (
        f"it is binary ({size}), not text"
        if document.is_binary
        else f"it is {size}, and {size_text(MOST_BYTES)} is the most"
    )
    raise ExecutionFailed(f"{shown} can't be edited: {why}")


def _spans(text: str, old_text: str, shown: str, *, replace_all: bool) -> list[Span]:
    finder = Finder(text)
    spans = list(finder.spans(old_text, overlapping=not replace_all))
    if not spans:
        raise ExecutionFailed(not_found(finder.flat, old_text, shown))
    if len(spans) > 1 and not replace_all:
        message = not_unique(finder, spans, shown)
        raise ExecutionFailed(message, occurrences=len(spans))
    return spans


def _encoded(document: Document, change: Change, text: str, shown: str) -> bytes:
    if change.text == text:
        raise InvalidArguments("new_text: with the file's line endings it is the same as old_text")
    try:
        return document.codec.encode(change.text)
    except Unencodable as exc:
        raise ExecutionFailed(
            f"new_text can't be put into {shown}: the file is {document.codec.name}, and {exc}. "
            "Use other characters, or write the whole file anew, which makes it UTF-8",
        ) from None


def _result(
    call: Call, path: Path, document: Document, spans: list[Span], change: Change, shown: str
) -> ToolResult:
    count = "" if len(spans) == 1 else f"{len(spans):,} replacements, the first "
    said = f"Edited {shown}: {count}at line {change.first_line:,} (+{change.added:,} −{change.removed:,})"
    if document.stat.st_nlink > 1:
        said += "; its other names (hard links) keep the old content"
    about: dict[str, JsonValue] = {
        "file_path": str(path),
        "replacements": len(spans),
        "first_changed_line": change.first_line,
        "lines_added": change.added,
        "lines_removed": change.removed,
    }
    return call.success(said).with_all_metadata(about)
