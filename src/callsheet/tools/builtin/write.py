"""Own `write`, which creates or replaces a whole file atomically."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from callsheet.report.content import ToolCallContent
from callsheet.report.humanize import bytes_text, plural
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.files.dirfd import parent_of, stat_of
from callsheet.tools.files.document import (
    HARD_LINKS,
    Document,
    New,
    check_text,
    check_writable,
    explained,
    run_to_end,
)
from callsheet.tools.files.edits import line_changes
from callsheet.tools.files.text_encoding import (
    UTF8,
    TextCodec,
    Unencodable,
    codec_of_bom,
    count_lines,
    newline_of,
    presentable,
    with_newlines,
)
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool


class _WritePlan(NamedTuple):
    """The file to write, and the one that it replaces."""

    old: Document | None
    new: New
    codec: TextCodec
    notes: list[str]

    @property
    def is_done(self) -> bool:
        """Whether the file has the new content already."""
        old = self.old
        if old is None or old.text is None or old.is_unsaved:
            return False
        return old.data == self.new.data

    def diff(self) -> tuple[str | None, str] | None:
        """Return the old and the new text, if something changes and the change can be shown."""
        if self.old is None:
            return None, self.new.text
        if self.is_done or self.old.text is None:
            return None
        return presentable(self.old.text), self.new.text


def _preview(call: Call, path: Path, content: str) -> list[ToolCallContent]:
    """Return the change, for the approval request."""
    diff = _planned(call, path, content, call.check_wanted).diff()
    return [ToolCallContent.diff(str(path), *diff)] if diff else []


@tool(kind="edit", title="Writing to {path}", preview=_preview)
async def write(call: Call, path: Path, content: str) -> ToolResult:
    """Write a file: create it, or replace its whole content.

    Missing directories are created. An existing file keeps its encoding, its mode, and its line endings,
    unless content has CRLF itself. It is refused if it was changed since it was last read. To change
    parts of a file, use edit.

    Args:
        path: The file, from the session's directory or absolute.
        content: The complete new content of the file.
    """

    def work(check_wanted: Callable[[], None]) -> ToolResult:
        return _write(call, path, _planned(call, path, content, check_wanted), check_wanted)

    return await run_to_end(work)


def _planned(call: Call, path: Path, content: str, check_wanted: Callable[[], None]) -> _WritePlan:
    check_text("content", content)
    with explained(path, call.workspace, "written"):
        old = None
        if stat_of(path) is not None:
            old = call.session.host.load(call, path, check_wanted)
        else:  # a file where a directory should be is an error now, not after the approval
            with suppress(FileNotFoundError), parent_of(path):
                pass
        _check_seen(call, path, old)
        if old is not None:
            check_writable(path, old.stat, call.workspace.show(path))
        text, codec, notes = _fitted(content, old)
        return _WritePlan(old, New(text, codec.encode(text)), codec, notes)


def _check_seen(call: Call, path: Path, old: Document | None) -> None:
    """Raise if a file was changed since it was read. For a deleted file, raise only once."""
    try:
        call.files.check(path, None if old is None else old.text)
    except ExecutionFailed:
        if old is None:
            call.files.forget(path)
        raise


def _fitted(content: str, old: Document | None) -> tuple[str, TextCodec, list[str]]:
    """Return content with the line endings of the file that it replaces, the encoding, and notes."""
    if old is None:
        return content, UTF8, []
    if old.is_binary:
        return content, UTF8, [f"it was binary, {bytes_text(old.size)}, so there is no diff"]
    before, notes = old.text, list[str]()
    if before is None:
        before = old.data.decode(old.codec.name, "replace")
        notes.append(f"it was {bytes_text(old.size)}, too large for a diff")
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


def _write(
    call: Call, path: Path, plan: _WritePlan, check_wanted: Callable[[], None]
) -> ToolResult:
    shown, old, new = call.workspace.show(path), plan.old, plan.new
    if plan.is_done:
        assert old is not None
        call.files.saw(path, old.stat, old.text)
        call.locate(str(path))
        return _result(call, path, plan, f"{shown} has this content already")
    with explained(path, call.workspace, "written"):
        found = call.session.host.replace(call, path, new, old, check_wanted)
        call.files.saw(path, found, new.text)
    if diff := plan.diff():
        call.diff(str(path), *diff)
    before = None if old is None else old.text
    call.locate(str(path), line_changes(before, new.text).first if before else 1)
    done = "Created" if old is None else "Replaced"
    lines = plural(count_lines(new.text), "line")
    message = f"{done} {shown}: {lines}, {bytes_text(len(new.data))}"
    links = [HARD_LINKS] if old is not None and old.has_other_names else []
    return _result(call, path, plan, "; ".join([message, *plan.notes, *links]))


def _result(call: Call, path: Path, plan: _WritePlan, message: str) -> ToolResult:
    return call.success(message).with_all_metadata(
        {
            "file_path": str(path),
            "size_bytes": len(plan.new.data),
            "lines_written": count_lines(plan.new.text),
            "created": plan.old is None,
            "encoding": plan.codec.name,
        }
    )
