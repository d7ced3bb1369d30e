"""Diffs of ACP v1, which knows one text file per item and no word but "changed".

Changes of several files become one item each, marked with `file: [index, count]`; what v1 has no word
for (deleted, moved, binary, …) is said in `change`; a change without texts is shown as a line of text.
All of it stands in the item's `_meta.callsheet`, and is read back from there.
"""

from __future__ import annotations

import re

from callsheet.acp.blocks import as_object, rest
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.content import DiffContent, FileChange
from callsheet.report.fields import NOTES
from callsheet.report.json import EMPTY, JsonObject, is_list, is_object


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
    """Say in one line what happened to a file that has no text to show."""
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


def with_notes(meta: JsonObject, notes: JsonObject) -> JsonObject:
    """Return a `_meta` with more notes in it."""
    return {**meta, NOTES: {**(meta.get(NOTES) or EMPTY), **notes}}


def code_span(text: str) -> str:
    """Return text as code in Markdown, whatever backticks it has."""
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"
