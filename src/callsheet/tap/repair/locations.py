"""Repair a call's locations: add missing ones, and make paths such that an editor can open them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import is_
from typing import Any

from callsheet.describe.paths import MAX_LOCATIONS, PathContext
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.tool_identity import diff_paths
from callsheet.report.fields import ToolCallLocation
from callsheet.tap.repair.context import CallDraft, Known
from callsheet.tap.repair.description import description_of

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\").match
_LINK = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+://", re.IGNORECASE).match
_PATHS = ("path", "file_path", "filePath", "file", "uri")
"""Names under which agents send the path of a location."""
_LONG = 8
"""Digits from which on a number is no line number."""
_STEP = re.compile(r"(?:^|[\\/])\.{1,2}(?:[\\/]|$)").search


def find_places(known: Known, draft: CallDraft) -> None:
    """Find locations where there are none, and make paths absolute, if the directory is known."""
    draft.locations = _openable(draft, draft.locations)
    draft.content = _with_whole_paths(draft)
    if not draft.locations:
        _locate(known, draft)
    draft.locations = _mended(draft, draft.locations, known)
    draft.content = _mended(draft, draft.content, known)


def _openable(draft: CallDraft, reported: list[Any]) -> list[Any]:
    """Return places in ACP's form, without what no editor can open: links to the web, and empty paths."""
    places = [place for one in reported if (place := _place(one)) is not None]
    if len(places) == len(reported) and all(map(is_, places, reported)):
        return reported
    draft.repaired.add("paths")
    return places


def _place(reported: Any) -> Json | None:
    """Return a location in ACP's form, also from a path alone or under another name; None if it is none."""
    place = {"path": reported} if type(reported) is str else obj(reported)
    path = next((found for key in _PATHS if (found := text(place.get(key)))), "")
    if not path.strip() or _LINK(path):
        return None
    line = place.get("line")
    is_line = line is None or (type(line) is int and line >= 0)
    if is_line and place.get("path") == path:
        return place
    rest = {key: value for key, value in place.items() if key not in (*_PATHS, "line")}
    if type(line) is str and line.isdecimal() and len(line) < _LONG:
        line, is_line = int(line), True
    return {"path": path, **({"line": line} if is_line and line is not None else {}), **rest}


def _locate(known: Known, draft: CallDraft) -> None:
    asked = _openable(draft, many(known.asked.get("locations")))
    found = asked or list(_shown(known, draft))
    if found:
        draft.locations = found[-MAX_LOCATIONS:]
        draft.repaired.add("locations")


def _shown(known: Known, draft: CallDraft) -> Iterator[Json]:
    """Yield the files of diffs, then those that the input names: the last is where the work is."""
    described = description_of(known, draft).locations
    named = [place for place in described if known.cwd or _is_named(place.path, draft.raw_input)]
    paths = {place.path for place in named}
    seen: set[str] = set()
    for path in diff_paths({"content": draft.content}):
        if path not in seen and absolute(path, known) not in paths:
            seen.add(path)
            yield {"path": path}
    yield from map(_as_json, named)


def _as_json(place: ToolCallLocation) -> Json:
    reported: Json = {"path": place.path}
    if place.line is not None:
        reported["line"] = place.line
    if place.meta:
        reported["_meta"] = dict(place.meta)
    return reported


def _is_named(path: str, raw: Any) -> bool:
    """Whether an input has exactly this path: then it was not resolved against an unknown directory."""
    if type(raw) is str:
        return path in raw
    values = many(raw) or obj(raw).values()
    return any(_is_named(path, value) for value in values if type(value) in (str, list))


def _with_whole_paths(draft: CallDraft) -> list[Any]:
    """Return content with partial paths of diffs completed, where exactly one known path ends so."""
    reported = [obj(item) for item in draft.content if obj(item).get("type") == "diff"]
    if all(_ABSOLUTE(text(item.get("path")) or "/") for item in reported):
        return draft.content
    places = [text(obj(place).get("path")) for place in draft.locations]
    inputs = [value for value in obj(draft.raw_input).values() if type(value) is str]
    whole = {path for path in (*places, *inputs) if path and _ABSOLUTE(path)}
    made: list[Any] = []
    for item in draft.content:
        end = text(obj(item).get("path")) or "" if obj(item).get("type") == "diff" else ""
        found = [path for path in whole if end and path.endswith(("/" + end, "\\" + end))]
        made.append({**obj(item), "path": found[0]} if len(found) == 1 else item)
        if len(found) == 1:
            draft.repaired.add("paths")
    return made


def _mended(draft: CallDraft, items: list[Any], known: Known) -> list[Any]:
    """Return items with correct paths and lines; the same list if nothing had to be changed."""
    mended = [_mended_item(obj(item), known) if type(item) is dict else item for item in items]
    if all(new is old for new, old in zip(mended, items, strict=True)):
        return items
    draft.repaired.add("paths")
    return mended


def _mended_item(item: Json, known: Known) -> Json:
    """Return a location or an item of content with absolute paths, and lines that begin at 1."""
    changed: Json = {}
    for key in ("path", "oldPath") if item.get("type") in (None, "diff") else ():
        path = text(item.get(key))
        if path is not None and (better := absolute(path, known)) != path:
            changed[key] = better
    if item.get("line") == 0 and type(item["line"]) is int:
        changed["line"] = 1
    changes = many(item.get("changes")) if item.get("type") == "diff" else None
    if changes:
        found = [_mended_item(obj(one), known) if type(one) is dict else one for one in changes]
        if any(new is not old for new, old in zip(found, changes, strict=True)):
            changed["changes"] = found
    return {**item, **changed} if changed else item


def absolute(path: str, known: Known) -> str:
    """Return a path as editors need it: absolute, and without `.` and `..`."""
    if _ABSOLUTE(path):
        if not _STEP(path):
            return path
    elif not known.cwd and path[:5].lower() != "file:":
        return path
    workspace: PathContext = known.describer.workspace
    return workspace.resolve(path)[0] or path
