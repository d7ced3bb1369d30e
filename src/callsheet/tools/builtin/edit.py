"""Own `edit`, which replaces a text in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import bytes_text
from callsheet.tools.errors import ExecutionFailed, InvalidArguments
from callsheet.tools.files.document import (
    HARD_LINKS,
    MAX_BYTES,
    Document,
    New,
    check_text,
    check_writable,
    explained,
    run_to_end,
)
from callsheet.tools.files.edits import Change, find_spans, not_found, not_unique, replace
from callsheet.tools.files.text_encoding import Unencodable, presentable
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool


class _EditPlan(NamedTuple):
    """The change to make to a file."""

    document: Document
    replacements: int
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
    """Replace text in a file.

    The text must be in the file exactly as given, and only once, unless all are to be replaced. Line
    endings become those of the file, unless new_text has CRLF itself. If the text is not found, the
    most similar one is shown. A file that was changed since it was last read is refused.

    Args:
        path: The file, from the session's directory or absolute.
        old_text: What is replaced: exactly as it is in the file, without the line numbers that read shows.
        new_text: The replacement.
        replace_all: Replace every occurrence.
    """

    def work(check_wanted: Callable[[], None]) -> ToolResult:
        plan = _planned(call, path, old_text, new_text, replace_all, check_wanted)
        new = New(plan.change.text, plan.data)
        with explained(path, call.workspace, "edited"):
            found = call.session.host.replace(call, path, new, plan.document, check_wanted)
            call.files.saw(path, found, new.text)
        call.diff(str(path), *plan.shown())
        call.locate(str(path), plan.change.lines.first)
        return _result(call, path, plan)

    return await run_to_end(work)


def _planned(
    call: Call,
    path: Path,
    old_text: str,
    new_text: str,
    replace_all: bool,
    check_wanted: Callable[[], None],
) -> _EditPlan:
    if not old_text:
        raise InvalidArguments("old_text: it is empty; use write to fill a file")
    if old_text == new_text:
        raise InvalidArguments("new_text: it is the same as old_text, so nothing would change")
    check_text("new_text", new_text)
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "edited"):
        document = call.session.host.load(call, path, check_wanted)
        call.files.check(path, document.text)
        check_writable(path, document.stat, shown)
        text = _text(document, shown)
        spans = find_spans(text, old_text, replace_all=replace_all)
        if not spans:
            raise ExecutionFailed(not_found(text, old_text, shown))
        if len(spans) > 1 and not replace_all:
            raise ExecutionFailed(not_unique(text, spans, shown), occurrences=len(spans))
        change = replace(text, spans, new_text)
        data = _encoded(document, change, text, shown)
    return _EditPlan(document, len(spans), text, change, data)


def _text(document: Document, shown: str) -> str:
    if document.text is not None:
        return document.text
    size = bytes_text(document.size)
    why = (
        f"it is binary ({size}), not text"
        if document.is_binary
        else f"it is {size}, and {bytes_text(MAX_BYTES)} is the most"
    )
    raise ExecutionFailed(f"{shown} can't be edited: {why}")


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
    count, (first, added, removed) = plan.replacements, plan.change.lines
    several = "" if count == 1 else f"{count:,} replacements, the first "
    message = (
        f"Edited {call.workspace.show(path)}: {several}at line {first:,} (+{added:,} −{removed:,})"
    )
    if plan.document.has_other_names:
        message += f"; {HARD_LINKS}"
    return call.success(message).with_all_metadata(
        {
            "file_path": str(path),
            "replacements": count,
            "first_changed_line": first,
            "lines_added": added,
            "lines_removed": removed,
        }
    )
