"""ACP v1: reports → `tool_call` and `tool_call_update`, and back to events.

v1 can't express everything that a report can. What it can't goes into `_meta.callsheet` beside the
report's own notes, and is taken out again by `decode`: `kind` (a custom kind, shown as other),
`status` (paused, shown as in progress), `cleared` (fields that lost their value; in v1 null means
unchanged). A cancelled call is `failed` with the reason cancelled.

Likewise for diffs, of which v1 knows one text file per item, created or changed. Changes of several
files become one item each, marked with `file: [index, count]`; an operation that v1 does not have
(delete, move, binary, …) goes into `change`; a change without texts is shown as a line of text. All
of it stands in the item's `_meta.callsheet`, and is decoded from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw, Struct

from callsheet.acp.codec import (
    FIELD_OF,
    TOOL_NAME,
    ToolCall,
    ToolCallUpdate,
    Update,
    as_dict,
    as_object,
    check_same_call,
    code_span,
    decode_block,
    decode_fields,
    decode_meta,
    decode_terminal,
    encode_block,
    encode_locations,
    encode_terminal,
    named_meta,
    patch_of,
    read_object,
    rest,
    same,
    typed_errors,
    with_notes,
)
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.permission import (
    PermissionOption,
    check_request,
    encode_options,
)
from callsheet.acp.terminals import decode_v1_terminals
from callsheet.report.content import (
    DiffContent,
    FileChange,
    TerminalContent,
    TextContent,
    ToolCallContent,
    UnknownContent,
)
from callsheet.report.events import CallChanged, CallOpened, Event
from callsheet.report.fields import NOTES, CustomKind, ToolKind, foreign_kind
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_list, is_object
from callsheet.report.report import ToolCallReport, report_of
from callsheet.report.status import Reason, ToolCallStatus

STATUS = {
    ToolCallStatus.PENDING: "pending",
    ToolCallStatus.IN_PROGRESS: "in_progress",
    ToolCallStatus.PAUSED: "in_progress",
    ToolCallStatus.COMPLETED: "completed",
    ToolCallStatus.FAILED: "failed",
    ToolCallStatus.CANCELLED: "failed",
}
_PAUSED = ToolCallStatus.PAUSED
_OTHER = ToolKind.OTHER
_EMPTY_OF: JsonObject = {"name": "", "title": "", "raw_input": None, "raw_output": None}


# Encoding


def encode(report: ToolCallReport, seen: ToolCallReport | None = None) -> list[Update]:
    """Return what to send to a peer that has seen `seen`: one update, or none if nothing changed."""
    if seen is None:
        return [announce(report)]
    change = update(report, seen)
    return [] if change is None else [change]


def announce(report: ToolCallReport) -> Update:
    """Return the complete `tool_call` for a call that the peer doesn't know."""
    name, title, kind, raw_input = report.name, report.title, report.kind, report.raw_input
    meta = report.meta
    if type(kind) is CustomKind or report.status is _PAUSED:
        meta = _wire_meta(report)
    if name:
        meta = named_meta(report, meta) if meta else {TOOL_NAME: name}
    if not title:
        meta = with_notes(meta, {"cleared": ["title"]})
    out = ToolCall(
        report.tool_call_id,
        title or _stand_in_title(report),
        "other" if type(kind) is CustomKind else kind._value_,
        STATUS[report.status],
        name or UNSET,
        encode_items(report.content) if report.content else UNSET,
        encode_locations(report.locations) if report.locations else UNSET,
        UNSET if raw_input is None else raw_input,
        UNSET if report.raw_output is None else report.raw_output,
        meta or UNSET,
    )
    return {**_extra(report), **as_dict(out)} if report.extra else out


class SealedResult(Struct, frozen=True, gc=False):
    """What a call ends with, if it is one text and a raw output: checked, and encoded once.

    `fields` are those of the report; its `content` is just the text.
    """

    fields: JsonObject
    text: bytes
    raw_output: bytes


_TEXT = b'[{"type":"content","content":{"type":"text","text":%b}}]'


def moved(
    tool_call_id: str,
    status: ToolCallStatus,
    fields: JsonObject,
    sealed: SealedResult | None,
    notes: JsonObject,
) -> ToolCallUpdate | None:
    """Return the update for a call of which a peer knows all but this change of its status.

    Args:
        tool_call_id: The call.
        status: Its new status; not paused, which v1 does not have.
        fields: The `content` and the `raw_output` that came with it, if the call had none before.
        sealed: The same, encoded.
        notes: All notes of the call, if they have changed.

    Returns:
        The update; None if there are terminals in the content, of which a view knows what to send.
    """
    out = ToolCallUpdate(tool_call_id, STATUS[status])
    if notes:
        out.meta = {NOTES: notes}
    if sealed is not None:
        out.content = Raw(_TEXT % sealed.text)
        if sealed.raw_output != b"null":
            out.raw_output = Raw(sealed.raw_output)
    elif len(fields) > 1:
        content, raw = fields.get("content"), fields.get("raw_output")
        if content:
            if any(type(item) is TerminalContent for item in content):
                return None
            out.content = encode_items(content)
        out.raw_output = UNSET if raw is None else raw
    return out


def update(report: ToolCallReport, seen: ToolCallReport) -> Update | None:
    """Return the smallest `tool_call_update` for a peer that has seen `seen`, or None.

    Nearly always an unchanged field is the same object, which is quick to see.

    Args:
        report: The call as it is now.
        seen: The call as the peer has seen it.
    """
    out = ToolCallUpdate(report.tool_call_id)
    if report.status is not seen.status:
        out.status = STATUS[report.status]
    if report.content is not seen.content and not (
        seen.content and same(seen.content, report.content)
    ):
        out.content = encode_items(report.content)
    if report.raw_output is not seen.raw_output and (
        seen.raw_output is None or not same(seen.raw_output, report.raw_output)
    ):
        out.raw_output = UNSET if report.raw_output is None else report.raw_output
    if report.meta is not seen.meta:
        out.meta = (patch_of(seen.meta, report.meta) if seen.meta else report.meta) or UNSET
    if (
        report.title is not seen.title
        or report.name is not seen.name
        or report.kind is not seen.kind
        or report.locations is not seen.locations
        or report.raw_input is not seen.raw_input
        or report.extra is not seen.extra
        or report.status is _PAUSED
        or seen.status is _PAUSED
        or type(report.kind) is CustomKind
        or (report.raw_output is None and seen.raw_output is not None)
    ):
        _update_rest(report, seen, out)
        if extra := patch_of(_extra(seen), _extra(report)):
            return {**extra, **as_dict(out)}
    if out.status is UNSET and out == ToolCallUpdate(report.tool_call_id):
        return None
    return out


def _update_rest(report: ToolCallReport, seen: ToolCallReport, out: ToolCallUpdate) -> None:
    """Add to an update what rarely changes, and what only `_meta` can express."""
    check_same_call(report, seen)
    cleared: list[str] = []
    if not same(seen.locations, report.locations):
        out.locations = encode_locations(report.locations)
    if not same(seen.raw_input, report.raw_input):
        out.raw_input = UNSET if report.raw_input is None else report.raw_input
        if report.raw_input is None:
            cleared.append("rawInput")
    if report.raw_output is None and seen.raw_output is not None:
        cleared.append("rawOutput")
    if report.title != seen.title:
        out.title = report.title or _stand_in_title(report)
        if not report.title:
            cleared.append("title")
    if report.name != seen.name:
        out.name = report.name or UNSET
        if not report.name:
            cleared.append("name")
    if report.kind != seen.kind:
        out.kind = "other" if type(report.kind) is CustomKind else report.kind._value_
    out.meta = _meta_update(report, seen, cleared) or UNSET


def encode_items(items: Sequence[Any]) -> list[JsonObject]:
    """Return content as v1 writes it."""
    out: list[JsonObject] = []
    for item in items:
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if (
            kind is TextContent
            and item.annotations is item.meta is item.extra is item.outer is None
        ):
            out.append({"type": "content", "content": {"type": "text", "text": item.text}})
        elif kind is DiffContent:
            out.extend(encode_diff(item))
        elif kind is TerminalContent:
            out.append(encode_terminal(item))
        elif kind is UnknownContent:
            out.append(_encode_unknown(item))
        else:
            out.append(encode_block(item))
        if kind is not UnknownContent and getattr(item, "annotations", None) is not None:
            _keep_known_roles(out[-1]["content"])
    return out


def _keep_known_roles(block: JsonObject) -> None:
    """Leave out roles of v2 that v1's readers reject."""
    annotations: JsonObject = block["annotations"]
    if annotations.get("audience"):
        known = [role for role in annotations["audience"] if role in ("user", "assistant")]
        block["annotations"] = {**annotations, "audience": known}


def _encode_unknown(item: Any) -> JsonObject:
    """Stand in for an item that v1 has no word for; v1 readers reject the whole update otherwise."""
    text = f"(content of type {code_span(str(item.raw['type']))})"
    return {
        "type": "content",
        "content": {"type": "text", "text": text},
        "_meta": {NOTES: {"item": item.raw}},
    }


def _wire_meta(report: ToolCallReport) -> JsonObject:
    """Return `_meta` with what v1's own fields can't express."""
    custom = type(report.kind) is CustomKind
    if not custom and report.status is not _PAUSED:
        return report.meta
    notes: JsonObject = {"kind": str(report.kind)} if custom else {}
    if report.status is _PAUSED:
        notes["status"] = "paused"
    return with_notes(report.meta, notes)


def _meta_update(report: ToolCallReport, seen: ToolCallReport, cleared: list[str]) -> JsonObject:
    now, before = report.meta, seen.meta
    is_custom = CustomKind in (type(report.kind), type(seen.kind))
    if is_custom or _PAUSED in (report.status, seen.status):
        now, before = _wire_meta(report), _wire_meta(seen)
    patch = EMPTY if now is before else patch_of(before, now)
    if report.name != seen.name:
        patch = named_meta(report, patch)
    if cleared:
        patch = {**patch, NOTES: {**(now.get(NOTES) or EMPTY), "cleared": cleared}}
    return patch


def _stand_in_title(report: ToolCallReport) -> str:
    """Return a title where there is none: v1 requires one."""
    return report.name or "Unknown tool"


def _extra(report: ToolCallReport) -> JsonObject:
    """Return the unknown fields; an unknown status is not for v1, whose clients would show it as pending."""
    return {key: value for key, value in report.extra.items() if key != "status"}


# Decoding


@typed_errors
def decode(update: JsonValue) -> tuple[Event, ...]:
    """Return the events of an `update`; none if it is not about tool calls."""
    raw = read_object(update, "update")
    what = raw.get("sessionUpdate")
    if what not in ("tool_call", "tool_call_update"):
        if not isinstance(what, str):
            raise InvalidParams("sessionUpdate: expected text")
        return ()
    change, terminals = _decode_call(raw)
    if what == "tool_call_update":
        return *terminals, change
    if "title" not in change.fields:
        raise InvalidParams("title: is missing; a tool_call must have one")
    return *terminals, CallOpened(report_of(change))


def _decode_call(raw: JsonObject, *, upsert: bool = False) -> tuple[CallChanged, list[Event]]:
    fields, extra = decode_fields(raw, decode_items, null_clears=False)
    meta = decode_meta(raw, fields)
    terminals = decode_v1_terminals(meta)
    if is_object(meta.get(NOTES)):
        meta[NOTES] = _decode_notes(dict(meta[NOTES]), fields) or None
    call = CallChanged(
        tool_call_id=raw.get("toolCallId"),  # pyright: ignore[reportArgumentType]
        fields=fields,
        meta=meta or None,
        extra=extra,
        upsert=upsert,
    )
    return call, terminals


def _decode_notes(notes: JsonObject, fields: JsonObject) -> JsonObject:
    """Remove from the notes what the encoder added because v1's fields can't express it."""
    kind, status, cleared = (notes.pop(key, None) for key in ("kind", "status", "cleared"))
    custom = foreign_kind(kind) if isinstance(kind, str) else None
    if type(custom) is CustomKind and fields.get("kind", _OTHER) is _OTHER:
        fields["kind"] = custom
    if status == "paused":
        fields["status"] = ToolCallStatus.PAUSED
    if notes.get("reason") == Reason.CANCELLED and fields.get("status") is ToolCallStatus.FAILED:
        fields["status"] = ToolCallStatus.CANCELLED
    for key in cleared if is_list(cleared) else ():
        name = FIELD_OF.get(key) if isinstance(key, str) else None
        if name in _EMPTY_OF:
            fields[name] = _EMPTY_OF[name]
    return notes


def decode_items(items: list[JsonValue]) -> tuple[ToolCallContent, ...]:
    """Read content, and put the files of one diff together again."""
    out: list[ToolCallContent] = []
    group: list[DiffContent] = []  # the files of a diff, as far as they are read
    for raw in items:
        item = _decode_item(as_object(raw, "content"))
        index, count = file_mark(raw)
        if not isinstance(item, DiffContent) or index != len(group):
            out.extend(group)
            group = []
        if not isinstance(item, DiffContent) or count < 2 or index != len(group):
            out.append(item)
            continue
        group.append(item)
        if len(group) == count:
            changes = tuple(file.changes[0] for file in group)
            out.append(DiffContent(changes, None, group[0].meta, group[0].extra))
            group = []
    return (*out, *group)


def _decode_item(raw: JsonObject) -> ToolCallContent:
    notes = notes_of(raw)
    if is_object(notes.get("item")):
        return UnknownContent(notes["item"])
    if is_object(notes.get("change")) or raw.get("type") == "diff":
        return decode_diff(raw, notes)
    if raw.get("type") == "content":
        return decode_block(raw)
    return decode_terminal(raw) if raw.get("type") == "terminal" else UnknownContent(raw)


# Permission


def encode_permission(
    session_id: str,
    report: ToolCallReport,
    options: Sequence[PermissionOption],
) -> JsonObject:
    """Return the params of `session/request_permission`. The whole call travels with it."""
    call = as_dict(announce(check_request(report, options, custom_kinds=False)))
    del call["sessionUpdate"]
    return {"sessionId": session_id, "toolCall": call, "options": encode_options(options)}


def encode_diff(diff: DiffContent) -> list[JsonObject]:
    """Return the items of a diff, one for each file."""
    out = [_encode_change(change) for change in diff.changes]
    if len(out) > 1:
        for index, item in enumerate(out):
            item["_meta"] = with_notes(item.get("_meta") or EMPTY, {"file": [index, len(out)]})
    if diff.meta is not None:
        own = (out[0].get("_meta") or EMPTY).get(NOTES)
        out[0]["_meta"] = diff.meta if own is None else with_notes(diff.meta, own)
    if diff.extra is not None:
        out[0] = {**diff.extra, **out[0]}
    return out


def _encode_change(change: FileChange) -> JsonObject:
    facts = {
        "operation": None if change.operation in ("add", "modify") else change.operation,
        "oldPath": change.old_path,
        "fileType": change.file_type,
        "mimeType": change.mime_type,
        "meta": change.meta,
        "extra": change.extra,
    }
    facts = {key: value for key, value in facts.items() if value is not None}
    if change.old_text is None and change.new_text is None:
        facts |= {"operation": change.operation, "path": change.path}
        out: JsonObject = {
            "type": "content",
            "content": {"type": "text", "text": _describe_change(change)},
        }
    else:
        out = {
            "type": "diff",
            "path": change.path,
            "oldText": change.old_text,
            "newText": change.new_text or "",
        }
    if facts:
        out["_meta"] = {NOTES: {"change": facts}}
    return out


def _describe_change(change: FileChange) -> str:
    """Describe in one line what happened to a file that has no text to show."""
    names = [name for name in (change.old_path, change.path) if name is not None]
    where = " → ".join(code_span(name) for name in names)
    return f"{change.operation} {where}" + (f" ({change.file_type})" if change.file_type else "")


def decode_diff(raw: JsonObject, notes: JsonObject) -> DiffContent:
    """Read the item of one file."""
    facts = notes.get("change")
    facts = dict(facts) if is_object(facts) else {}
    old, new = raw.get("oldText"), raw.get("newText")
    if raw.get("type") == "diff" and not isinstance(new, str):
        raise InvalidParams("diff: newText is missing")
    operation = facts.get("operation") or ("add" if old is None else "modify")
    change = FileChange(
        path=facts.get("path", raw.get("path")),  # pyright: ignore[reportArgumentType]
        operation=operation,
        old_path=facts.get("oldPath"),
        old_text=old,
        new_text=None if operation == "delete" else new,
        file_type=facts.get("fileType"),
        mime_type=facts.get("mimeType"),
        meta=facts.get("meta"),
        extra=facts.get("extra"),
    )
    meta = dict(as_object(raw.get("_meta") or EMPTY, "_meta"))
    own = {key: value for key, value in notes.items() if key not in ("change", "file")}
    if NOTES in meta:
        meta[NOTES] = own
    meta = {key: value for key, value in meta.items() if key != NOTES or value}
    known = ("type", "path", "oldText", "newText", "_meta")
    if raw.get("type") != "diff":
        known = ("type", "content", "_meta")
    return DiffContent((change,), None, meta or None, rest(raw, *known))


def notes_of(raw: JsonObject) -> JsonObject:
    """Return what stands in an item's `_meta.callsheet`."""
    meta = raw.get("_meta")
    notes = meta.get(NOTES) if is_object(meta) else None
    return notes if is_object(notes) else EMPTY


def file_mark(raw: JsonObject) -> tuple[int, int]:
    """Read which file of how many an item is; one that is not marked stands alone."""
    mark = notes_of(raw).get("file")
    if is_list(mark) and len(mark) == 2 and all(type(number) is int for number in mark):
        return mark[0], mark[1]
    return 0, 1
