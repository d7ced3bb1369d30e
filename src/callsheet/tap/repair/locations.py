"""Repair a call's locations: add missing ones, and make paths such that an editor can open them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import is_
from typing import Any

from callsheet.describe.paths import MAX_LOCATIONS, PathContext
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.tool_identity import diff_paths, has_steps, is_absolute
from callsheet.report.fields import ToolCallLocation
from callsheet.tap.repair.description import description_of
from callsheet.tap.repair.draft import CallDraft

_LINK = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+://", re.IGNORECASE).match


def find_locations(draft: CallDraft) -> CallDraft:
    """Find locations where there are none, and make paths absolute, if the directory is known."""
    locations = _openable(draft.locations)
    if locations is not draft.locations:
        draft = draft.with_repair("paths", locations=locations)
    if not locations:
        found = _openable(many(draft.call.asked.get("locations"))) or list(_shown(draft))
        if found:
            draft = draft.with_repair("locations", locations=found[-MAX_LOCATIONS:])
    locations, content = (_corrected(draft, one) for one in (draft.locations, draft.content))
    if locations is draft.locations and content is draft.content:
        return draft
    return draft.with_repair("paths", locations=locations, content=content)


def _openable(reported: list[Any]) -> list[Any]:
    """Return places in ACP's form, without what no editor can open: links to the web, and empty paths.

    If all of them are good, that is the same list.
    """
    places = [place for one in reported if (place := _place(one)) is not None]
    return reported if len(places) == len(reported) and all(map(is_, places, reported)) else places


def _place(reported: Any) -> Json | None:
    """Return a location in ACP's form, also where it is just a path; None if it is none."""
    place = {"path": reported} if type(reported) is str else obj(reported)
    path, line = text(place.get("path")) or "", place.get("line")
    if not path.strip() or _LINK(path):
        return None
    if line is None or (type(line) is int and line >= 0):
        return place
    return {key: value for key, value in place.items() if key != "line"}


def _shown(draft: CallDraft) -> Iterator[Json]:
    """Yield the files of diffs, then those that the input names: the last is where the work is."""
    described = description_of(draft).locations
    named = [place for place in described if draft.cwd or _is_named(place.path, draft.raw_input)]
    paths = {place.path for place in named}
    seen: set[str] = set()
    for path in diff_paths({"content": draft.content}):
        if path not in seen and absolute(path, draft) not in paths:
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


def _corrected(draft: CallDraft, items: list[Any]) -> list[Any]:
    """Return items with correct paths and lines; the same list if nothing had to be changed."""
    made = [_corrected_item(obj(item), draft) if type(item) is dict else item for item in items]
    return items if all(map(is_, made, items)) else made


def _corrected_item(item: Json, draft: CallDraft) -> Json:
    """Return a location or an item of content with absolute paths, and lines that begin at 1."""
    changed: Json = {}
    for key in ("path", "oldPath") if item.get("type") in (None, "diff") else ():
        path = text(item.get(key))
        if path is not None and (better := absolute(path, draft)) != path:
            changed[key] = better
    if item.get("line") == 0 and type(item["line"]) is int:
        changed["line"] = 1
    changes = many(item.get("changes")) if item.get("type") == "diff" else None
    if changes:
        found = _corrected(draft, changes)
        if found is not changes:
            changed["changes"] = found
    return {**item, **changed} if changed else item


def absolute(path: str, draft: CallDraft) -> str:
    """Return a path as editors need it: absolute, and without `.` and `..`."""
    if is_absolute(path):
        if not has_steps(path):
            return path
    elif not draft.cwd and path[:5].lower() != "file:":
        return path
    workspace: PathContext = draft.describer.workspace
    return workspace.resolve(path)[0] or path
