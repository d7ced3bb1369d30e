"""Own `edit`, which replaces a text in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from callsheet.report.content import ToolCallContent
from callsheet.report.json import JsonValue
from callsheet.tools.errors import ExecutionFailed, InvalidArguments
from callsheet.tools.files.atomic import run_to_end
from callsheet.tools.files.document import MAX_BYTES, Document, New, check_writable, explained
from callsheet.tools.files.edits import Change, Finder, TextSpan, replace
from callsheet.tools.files.fuzzy_match import not_found, not_unique
from callsheet.tools.files.text_encoding import Unencodable, has_surrogates, presentable, size_text
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool


class _EditPlan(NamedTuple):
    """The change to make to a file."""

    document: Document
    spans: list[TextSpan]
    before: str
    change: Change
    data: bytes

    def shown(self) -> tuple[str, str]:
        """Return the old and the new text in a form that can be shown."""
        return presentable(self.before), presentable(self.change.text)


def _preview(
    call: Call, path: Path, old_text: str, new_text: str, replace_all: bool = False
) -> list[ToolCallContent]:
    """Return the change, for the approval request."""
    plan = _planned(call, path, old_text, new_text, replace_all, call.check_wanted)
    return [ToolCallContent.diff(str(path), *plan.shown())]


@tool(kind="edit", title="Editing {path}", preview=_preview)
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
    return await run_to_end(
        lambda check_wanted: _edit(
            call,
            path,
            _planned(call, path, old_text, new_text, replace_all, check_wanted),
            check_wanted,
        )
    )


def _edit(call: Call, path: Path, plan: _EditPlan, check_wanted: Callable[[], None]) -> ToolResult:
    change = plan.change
    with explained(path, call.workspace, "edited"):
        new = New(change.text, plan.data)
        found = call.session.host.replace(call, path, new, plan.document, check_wanted)
        call.files.saw(path, found, change.text)
    call.diff(str(path), *plan.shown())
    call.locate(str(path), change.first_line)
    return _result(call, path, plan)


def _planned(
    call: Call,
    path: Path,
    old_text: str,
    new_text: str,
    replace_all: bool,
    check_wanted: Callable[[], None],
) -> _EditPlan:
    _check(old_text, new_text)
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "edited"):
        document = call.session.host.load(call, path, check_wanted)
        call.files.check(path, document.text)
        check_writable(path, document.stat, shown)
        text = _text(document, shown)
        spans = _spans(text, old_text, shown, replace_all=replace_all)
        change = replace(text, spans, new_text)
        data = _encoded(document, change, text, shown)
    return _EditPlan(document, spans, text, change, data)


def _check(old_text: str, new_text: str) -> None:
    if not old_text:
        raise InvalidArguments("old_text: it is empty; use write to fill a file")
    if old_text == new_text:
        raise InvalidArguments("new_text: it is the same as old_text, so nothing would change")
    if has_surrogates(new_text):
        raise InvalidArguments(
            "new_text: it has halves of characters (surrogates), which are no text"
        )


def _text(document: Document, shown: str) -> str:
    if document.text is not None:
        return document.text
    size = size_text(document.size)
    why = (
        f"it is binary ({size}), not text"
        if document.is_binary
        else f"it is {size}, and {size_text(MAX_BYTES)} is the most"
    )
    raise ExecutionFailed(f"{shown} can't be edited: {why}")


def _spans(text: str, old_text: str, shown: str, *, replace_all: bool) -> list[TextSpan]:
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


def _result(call: Call, path: Path, plan: _EditPlan) -> ToolResult:
    spans, change = plan.spans, plan.change
    count = "" if len(spans) == 1 else f"{len(spans):,} replacements, the first "
    message = (
        f"Edited {call.workspace.show(path)}: {count}at line {change.first_line:,} "
        f"(+{change.added:,} −{change.removed:,})"
    )
    if plan.document.held is None and plan.document.stat.st_nlink > 1:
        message += "; its other names (hard links) keep the old content"
    about: dict[str, JsonValue] = {
        "file_path": str(path),
        "replacements": len(spans),
        "first_changed_line": change.first_line,
        "lines_added": change.added,
        "lines_removed": change.removed,
    }
    return call.success(message).with_all_metadata(about)
