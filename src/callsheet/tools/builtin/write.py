"""Own `write`, which creates or replaces a whole file atomically."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from callsheet.report.content import ToolCallContent
from callsheet.report.json import JsonValue
from callsheet.tools.errors import ExecutionFailed, InvalidArguments
from callsheet.tools.files.atomic import run_to_end
from callsheet.tools.files.document import Document, New, check_writable, explained, is_there
from callsheet.tools.files.edits import clamped
from callsheet.tools.files.text_encoding import (
    UTF8,
    TextCodec,
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

    @property
    def has_diff(self) -> bool:
        """Whether the change can be shown."""
        return not self.is_done and (self.old is None or self.old.text is not None)

    def before(self) -> str | None:
        """Return the current text in a form that can be shown."""
        return None if self.old is None else presentable(self.old.text or "")


def _preview(call: Call, path: Path, content: str) -> list[ToolCallContent]:
    """Return the change, for the approval request."""
    plan = _planned(call, path, content, call.check_wanted)
    if not plan.has_diff:
        return []
    return [ToolCallContent.diff(str(path), plan.before(), plan.new.text)]


@tool(kind="edit", title="Writing to {path}", preview=_preview)
async def write(call: Call, path: Path, content: str) -> ToolResult:
    """Write a whole file: a new one, or in place of what is there.

    Missing directories are made. An existing file keeps its encoding, its mode, and its line endings,
    unless content has CRLF itself. It is refused if it was changed since it was last read. To change
    parts of a file, use edit.

    Args:
        path: The file, from the session's directory or absolute.
        content: Everything that is to be in the file.
    """
    return await run_to_end(
        lambda check_wanted: _write(
            call, path, _planned(call, path, content, check_wanted), check_wanted
        )
    )


def _planned(call: Call, path: Path, content: str, check_wanted: Callable[[], None]) -> _WritePlan:
    if has_surrogates(content):
        raise InvalidArguments(
            "content: it has halves of characters (surrogates), which are no text"
        )
    shown = call.workspace.show(path)
    with explained(path, call.workspace, "written"):
        old = call.session.host.load(call, path, check_wanted) if is_there(path) else None
        _check_seen(call, path, old)
        if old is not None:
            check_writable(path, old.stat, shown)
        text, codec, notes = _fitted(content, old)
        return _WritePlan(old, New(text, codec.encode(text)), codec, notes)


def _write(
    call: Call, path: Path, plan: _WritePlan, check_wanted: Callable[[], None]
) -> ToolResult:
    shown, old, new, notes = call.workspace.show(path), plan.old, plan.new, list(plan.notes)
    if plan.is_done:
        assert old is not None
        call.files.saw(path, old.stat, old.text)
        return _result(call, path, plan, f"{shown} has this content already")
    with explained(path, call.workspace, "written"):
        found = call.session.host.replace(call, path, new, old, check_wanted)
        call.files.saw(path, found, new.text)
    _show(call, path, plan)
    if old is not None and old.held is None and old.stat.st_nlink > 1:
        notes.append("its other names (hard links) keep the old content")
    done = "Created" if old is None else "Replaced"
    lines = count_lines(new.text)
    message = (
        f"{done} {shown}: {lines:,} line{'' if lines == 1 else 's'}, {size_text(len(new.data))}"
    )
    return _result(call, path, plan, "; ".join([message, *notes]))


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


def _show(call: Call, path: Path, plan: _WritePlan) -> None:
    text = plan.new.text
    if plan.has_diff:
        call.diff(str(path), plan.before(), text)
    line = 1
    if plan.old is not None and plan.old.text is not None:
        same = common_prefix(plan.old.text, text)
        line = clamped(text.count("\n", 0, same) + 1, text)
    call.locate(str(path), line)


def _result(call: Call, path: Path, plan: _WritePlan, message: str) -> ToolResult:
    about: dict[str, JsonValue] = {
        "file_path": str(path),
        "size_bytes": len(plan.new.data),
        "lines_written": count_lines(plan.new.text),
        "created": plan.old is None,
        "encoding": plan.codec.name,
    }
    return call.success(message).with_all_metadata(about)
