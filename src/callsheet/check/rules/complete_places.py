"""Does a call say where it works, by paths and lines that an editor can open?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import quoted
from callsheet.observe.events import CallClosed, PermissionAsked, UpdateArrived
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.tool_identity import works_on_a_file

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\").match
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:").match
_STEP = re.compile(r"(?:^|[\\/])\.{1,2}(?:[\\/]|$)").search


def nowhere_at_first(over: CallClosed) -> Said | None:
    """Find a call that works on a file and is announced without a location."""
    call = over.call
    if call.announced is None or call.is_replayed or many(call.opening.get("locations")):
        return None
    if not works_on_a_file(call):
        return None
    return Said("it is announced without a location", "update.locations", call.announced)


def nowhere_for_ever(over: CallClosed) -> Said | None:
    """Find a call that works on a file and never gives a location."""
    call = over.call
    if many(call.fields.get("locations")) or not over.is_known or not over.is_settled:
        return None
    return (
        Said("it never says where it works", "update.locations") if works_on_a_file(call) else None
    )


def not_absolute(told: UpdateArrived) -> list[Said] | None:
    """Find paths that are relative, begin at a home, or are links."""
    return _not_absolute(_paths(told.update, "update")) if _may_have_paths(told.update) else None


def not_absolute_when_asked(asked: PermissionAsked) -> list[Said]:
    """Find the same in a request for permission."""
    return _not_absolute(_asked_paths(asked))


def not_normal(told: UpdateArrived) -> list[Said] | None:
    """Find absolute paths that go back and forth."""
    if not _may_have_paths(told.update):
        return None
    return [
        Said(f"{quoted(path)} has steps in it that lead nowhere", field, once=path)
        for field, path in _paths(told.update, "update")
        if _STEP(path) and _ABSOLUTE(path)
    ]


def line_zero(told: UpdateArrived) -> list[Said] | None:
    """Find a line 0."""
    places = many(told.update.get("locations"))
    if not places:
        return None
    before = many(told.call.fields.get("locations")) if told.call is not None else []
    return [
        Said("the first line of a file is line 1", f"update.locations[{index}].line")
        for index, place in enumerate(places)
        if obj(place).get("line") == 0 and place not in before
    ]


def _may_have_paths(update: Json) -> bool:
    return bool(update.get("locations") or update.get("content"))


def _not_absolute(paths: Iterable[tuple[str, str]]) -> list[Said]:
    return [
        Said(f"{quoted(path)} {why}", field, once=path)
        for field, path in paths
        if (why := _why_not_absolute(path))
    ]


def _why_not_absolute(path: str) -> str | None:
    if _ABSOLUTE(path):
        return None
    if path[:1] == "~":
        return "begins at somebody's home"
    if _SCHEME(path):
        return "is a link, no path"
    return "is relative" if path else "is empty"


def _asked_paths(asked: PermissionAsked) -> Iterator[tuple[str, str]]:
    question = asked.question
    known = {path for _, path in _paths(question.call.fields, "")} if question.call else set[str]()
    for field, path in _paths(question.tool_call, "params.toolCall"):
        if path not in known:
            yield field, path


def _paths(told: Json, begin: str) -> Iterator[tuple[str, str]]:
    for index, place in enumerate(many(told.get("locations"))):
        path = text(obj(place).get("path"))
        if path is not None:
            yield f"{begin}.locations[{index}].path", path
    content: Any = told.get("content")
    if type(content) is dict:  # a chunk of v2 brings one item
        yield from _paths_of_item(obj(content), f"{begin}.content")
    for index, item in enumerate(many(content)):
        yield from _paths_of_item(obj(item), f"{begin}.content[{index}]")


def _paths_of_item(item: Json, begin: str) -> Iterator[tuple[str, str]]:
    if item.get("type") != "diff":
        return
    holders = [(begin, item)]
    holders += [
        (f"{begin}.changes[{index}]", obj(change))
        for index, change in enumerate(many(item.get("changes")))
    ]
    for field, holder in holders:
        for key in ("oldPath", "path"):
            path = text(holder.get(key))
            if path is not None:
                yield f"{field}.{key}", path


_PROTOCOL = "`locations` are the files that a call works on. Clients follow the agent by them."

RULES = (
    Rule(
        id="complete/locations-at-first",
        severity="advice",
        moment=CallClosed,
        title="A call on a file is announced without a location",
        protocol=f"{_PROTOCOL} They may come later, by an update.",
        harm="An editor that follows the agent stays behind until an update comes.",
        fix="Send the locations with the announcement, as soon as the path is known.",
        check=nowhere_at_first,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "name": "read",'
        ' "rawInput": {"path": "a.py"}}\n'
        '{"tool_call_update": "c1", "status": "completed", "locations": [{"path": "/code/a.py"}]}',
    ),
    Rule(
        id="complete/locations",
        severity="warning",
        moment=CallClosed,
        title="A call on a file never gives a location",
        protocol=_PROTOCOL,
        harm="Following the agent goes nowhere, and the file can't be opened from the card.",
        fix="Send the absolute path of the file, and the line if it is known, in `locations`.",
        check=nowhere_for_ever,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "name": "read",'
        ' "rawInput": {"path": "a.py"}, "status": "completed", "content": [{"type": "content",'
        ' "content": {"type": "text", "text": "x"}}]}',
    ),
    Rule(
        id="complete/path-not-absolute",
        severity="error",
        moment=UpdateArrived,
        title="A path is not absolute",
        protocol="Paths of locations and diffs are absolute. They are no URIs.",
        harm="An editor opens the wrong file, or none, and shows no diff.",
        fix="Resolve the path against the session's directory before sending it.",
        check=not_absolute,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "locations": [{"path":'
        ' "src/a.py"}], "status": "completed"}',
    ),
    Rule(
        id="complete/asked-path-not-absolute",
        severity="error",
        moment=PermissionAsked,
        title="A path in a request for permission is not absolute",
        protocol="Paths of locations and diffs are absolute. They are no URIs.",
        harm="People decide about a file that the editor can't show.",
        fix="Resolve the path against the session's directory before sending it.",
        check=not_absolute_when_asked,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1", "locations": [{"path": "src/a.py"}]}, "options":'
        ' [{"optionId": "n", "name": "No", "kind": "reject_once"}]}}',
    ),
    Rule(
        id="complete/path-not-normal",
        severity="warning",
        moment=UpdateArrived,
        title="A path goes back and forth",
        protocol="Paths of locations and diffs are absolute; clients compare them as they are.",
        harm="`/a/../b` looks like another file than `/b`: it is opened twice, or taken for one outside.",
        fix="Take `.` and `..` out of a path before sending it.",
        check=not_normal,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "locations": [{"path":'
        ' "/code/src/../a.py"}], "status": "completed"}',
    ),
    Rule(
        id="complete/line-zero",
        severity="warning",
        moment=UpdateArrived,
        title="A line is 0",
        protocol="Lines count from 1. ACP v2 refuses 0.",
        harm="Clients that go by the protocol open the line before the first, or drop the location.",
        fix="Count lines from 1, or leave the line out.",
        check=line_zero,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "locations": [{"path":'
        ' "/code/a.py", "line": 0}], "status": "completed"}',
    ),
)
