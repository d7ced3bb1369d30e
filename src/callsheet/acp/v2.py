"""ACP v2 (a draft): reports → upserts and chunks, and back to events.

v2 sends exactly what changed: an omitted field is unchanged, null is cleared, a value is new.
Content that only grew is sent as `tool_call_content_chunk`, item by item. Diffs carry git patches
(see `git_patch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from msgspec import UNSET

from callsheet.acp import codec, git_patch, terminals
from callsheet.acp.codec import ToolCallUpdate, Update, as_dict, same
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.permission import (
    PermissionOption,
    check_request,
    encode_options,
)
from callsheet.report.content import (
    DiffContent,
    FileChange,
    TerminalContent,
    ToolCallContent,
    UnknownContent,
)
from callsheet.report.events import CallChanged, ContentAppended, Event
from callsheet.report.fields import ToolKind
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.report.report import ToolCallReport

# Encoding


def encode(report: ToolCallReport, seen: ToolCallReport | None = None) -> list[Update]:
    """Return what to send to a peer that has seen `seen`, in order; nothing if nothing changed."""
    if seen is None:
        return [announce(report)]
    return changes(report, seen, grown(seen.content, report.content))


def changes(
    report: ToolCallReport, seen: ToolCallReport, added: Sequence[ToolCallContent]
) -> list[Update]:
    """Return what to send where some items were added to the content: chunks, and the codec.rest."""
    chunks: list[Update] = [encode_chunk(report.tool_call_id, item) for item in added]
    change = update(report, seen, content=not added)
    return chunks if change is None else [*chunks, change]


def announce(report: ToolCallReport) -> Update:
    """Return the complete `tool_call_update` for a call that the peer doesn't know."""
    out = ToolCallUpdate(
        report.tool_call_id,
        report.status.value,
        str(report.kind),
        report.title or UNSET,
        report.name or UNSET,
        encode_items(report.content) if report.content else UNSET,
        codec.encode_locations(report.locations) if report.locations else UNSET,
        UNSET if report.raw_input is None else report.raw_input,
        UNSET if report.raw_output is None else report.raw_output,
        codec.named_meta(report, report.meta) or UNSET,
    )
    return {**as_dict(out), **report.extra} if report.extra else out


def update(report: ToolCallReport, seen: ToolCallReport, *, content: bool = True) -> Update | None:
    """Return the smallest `tool_call_update` for a peer that has seen `seen`, or None.

    With `content=False` the content is left to chunks.
    """
    if report.tool_call_id is not seen.tool_call_id:
        codec.check_same_call(report, seen)
    out = ToolCallUpdate(report.tool_call_id)
    if report.status is not seen.status:
        out.status = report.status.value
    if report.title != seen.title:
        out.title = report.title or None
    if report.name != seen.name:
        out.name = report.name or None
    if report.kind != seen.kind:
        out.kind = None if report.kind is ToolKind.OTHER else str(report.kind)
    if content and not same(seen.content, report.content):
        out.content = encode_items(report.content) or None
    if not same(seen.locations, report.locations):
        out.locations = codec.encode_locations(report.locations) or None
    if not same(seen.raw_input, report.raw_input):
        out.raw_input = report.raw_input
    if not same(seen.raw_output, report.raw_output):
        out.raw_output = report.raw_output
    if report.meta is not seen.meta or report.name != seen.name:
        meta = codec.patch_of(
            codec.named_meta(seen, seen.meta), codec.named_meta(report, report.meta)
        )
        out.meta = meta or UNSET
    if report.extra is not seen.extra and (extra := _extra_patch(report, seen)):
        return {**as_dict(out), **extra}
    return None if out == ToolCallUpdate(report.tool_call_id) else out


def _extra_patch(report: ToolCallReport, seen: ToolCallReport) -> JsonObject:
    patch = codec.patch_of(seen.extra, report.extra)
    if patch.get("status", EMPTY) is None:  # a known status has overtaken an unknown one
        patch["status"] = report.status.value
    return patch


def encode_chunk(tool_call_id: str, item: ToolCallContent) -> JsonObject:
    """Return a `tool_call_content_chunk`."""
    return {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": tool_call_id,
        "content": _encode_item(item),
    }


def encode_items(items: Sequence[ToolCallContent]) -> list[JsonObject]:
    """Return content as v2 writes it."""
    return [_encode_item(item) for item in items]


def grown(seen: tuple[ToolCallContent, ...], now: tuple[ToolCallContent, ...]) -> tuple[Any, ...]:
    """Return the items that were appended, if nothing else happened to the content."""
    if now is seen or not seen or len(now) <= len(seen):
        return ()
    kept = now[: len(seen)]
    return now[len(seen) :] if all(map(is_, kept, seen)) or same(seen, kept) else ()


def _encode_item(item: Any) -> JsonObject:
    kind = type(item)  # pyright: ignore[reportUnknownVariableType]
    if kind is DiffContent:
        return _encode_diff(item)
    if kind is TerminalContent:
        return codec.encode_terminal(item)
    return item.raw if kind is UnknownContent else codec.encode_block(item)


def _encode_diff(diff: DiffContent) -> JsonObject:
    out: JsonObject = {"type": "diff", "changes": [_encode_change(c) for c in diff.changes]}
    patch = git_patch.write(diff.changes) if diff.patch is None else diff.patch
    if patch:
        out["patch"] = {"format": "git_patch", "text": patch}
    return codec.with_others(out, diff)


def _encode_change(change: FileChange) -> JsonObject:
    known = {"operation": change.operation, "path": change.path, "oldPath": change.old_path}
    known |= {"fileType": change.file_type, "mimeType": change.mime_type}
    return codec.with_others(
        {key: value for key, value in known.items() if value is not None}, change
    )


# Decoding


@codec.typed_errors
def decode(update: JsonValue) -> tuple[Event, ...]:
    """Return the events of an `update`; none if it is about neither tool calls nor terminals."""
    raw = codec.read_object(update, "update")
    what = raw.get("sessionUpdate")
    if not isinstance(what, str):
        raise InvalidParams("sessionUpdate: expected text")
    reader = _READERS.get(what)
    return () if reader is None else (reader(raw),)


def _decode_call(raw: JsonObject) -> CallChanged:
    fields, extra = codec.decode_fields(raw, decode_items, null_clears=True)
    meta = codec.decode_meta(raw, fields)
    return CallChanged(
        tool_call_id=raw.get("toolCallId"),  # pyright: ignore[reportArgumentType]
        fields=fields,
        meta=meta or None,
        extra=extra,
        clear_meta=raw.get("_meta", EMPTY) is None,
        upsert=True,
    )


def _decode_content_chunk(raw: JsonObject) -> ContentAppended:
    return ContentAppended(
        tool_call_id=raw.get("toolCallId"),  # pyright: ignore[reportArgumentType]
        item=_decode_item(codec.as_object(raw.get("content"), "content")),
    )


_READERS = {
    "tool_call_update": _decode_call,
    "tool_call_content_chunk": _decode_content_chunk,
    "terminal_update": terminals.decode_update,
    "terminal_output_chunk": terminals.decode_chunk,
}


def decode_items(items: list[JsonValue]) -> tuple[ToolCallContent, ...]:
    """Read content."""
    return tuple([_decode_item(codec.as_object(raw, "content")) for raw in items])


def _decode_item(raw: JsonObject) -> ToolCallContent:
    kind = raw.get("type")
    if kind == "content":
        return codec.decode_block(raw)
    if kind == "diff" and raw.get("changes"):
        return _decode_diff(raw)
    return codec.decode_terminal(raw) if kind == "terminal" else UnknownContent(raw)


def _decode_diff(raw: JsonObject) -> DiffContent:
    """Decode a diff. The patch is stored if it differs from what we would write ourselves."""
    known = ["type", "changes", "_meta"]
    patch = raw.get("patch")
    text = None
    if is_object(patch) and patch == {"format": "git_patch", "text": str(patch.get("text"))}:
        text = patch["text"]
        known.append("patch")
    texts = git_patch.read(text) if text else {}
    changes = [
        _decode_change(codec.as_object(change, "change"), texts)
        for change in codec.as_list(raw["changes"], "changes")
    ]
    foreign = text if text is not None and git_patch.write(changes) != text else None
    return DiffContent(tuple(changes), foreign, raw.get("_meta"), codec.rest(raw, *known))


def _decode_change(raw: JsonObject, texts: dict[str, git_patch.Texts]) -> FileChange:
    operation = raw.get("operation")
    known = ["operation", "path", "fileType", "mimeType", "_meta"]
    if operation in ("move", "copy"):
        known.append("oldPath")
    path = raw.get("path")
    found = None
    if isinstance(path, str) and operation in ("add", "modify", "delete", "move", "copy"):
        found = texts.pop(path, None)  # a file's text belongs to its first change
    return FileChange(
        path=path,  # pyright: ignore[reportArgumentType]
        operation=operation,  # pyright: ignore[reportArgumentType]
        old_path=raw.get("oldPath") if "oldPath" in known else None,
        old_text=found.old if found and operation != "add" else None,
        new_text=found.new if found and operation != "delete" else None,
        file_type=raw.get("fileType"),
        mime_type=raw.get("mimeType"),
        meta=raw.get("_meta"),
        extra=codec.rest(raw, *known),
    )


# Permission


def encode_permission(
    session_id: str,
    report: ToolCallReport,
    options: Sequence[PermissionOption],
) -> JsonObject:
    """Return the params of `session/request_permission`. The whole call travels with it."""
    call = as_dict(announce(check_request(report, options, custom_kinds=True)))
    del call["sessionUpdate"]
    return {
        "sessionId": session_id,
        "title": report.title or report.name or "Unknown tool",
        "subject": {"type": "tool_call", "toolCall": call},
        "options": encode_options(options),
    }
