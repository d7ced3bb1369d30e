"""Does a call have locations and diffs that an editor can open?

Does a diff show what was there before?
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from callsheet.check.finding import Violation, quoted, rule
from callsheet.observe.events import CallClosed, PermissionAsked, UpdateApplied, UpdateArrived
from callsheet.observe.model import Json, ObservedCall, ObservedSession, many, obj, text
from callsheet.observe.tool_identity import has_steps, is_absolute, works_on_a_file

_WITH_PATHS = ("locations", "content")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:").match


@rule("complete/locations-at-first", CallClosed)
def nowhere_at_first(event: CallClosed) -> Violation | None:
    """Find a call that works on a file and is announced without a location."""
    call = event.call
    if call.announced is None or call.is_replayed or many(call.opening.get("locations")):
        return None
    if not works_on_a_file(call):
        return None
    return Violation("it is announced without a location", "update.locations", call.announced)


@rule("complete/locations", CallClosed)
def nowhere_for_ever(event: CallClosed) -> Violation | None:
    """Find a call that works on a file and never has a location."""
    call = event.call
    if many(call.fields.get("locations")) or not event.is_known or not event.is_settled:
        return None
    return (
        Violation("no location is ever sent", "update.locations") if works_on_a_file(call) else None
    )


@rule("complete/path-not-absolute", UpdateArrived, fields=_WITH_PATHS, screen=True)
def not_absolute(event: UpdateArrived) -> list[Violation] | None:
    """Find paths that are relative, begin at a home, or are links."""
    return _not_absolute(_paths(event.update, "update")) if _may_have_paths(event.update) else None


@rule("complete/asked-path-not-absolute", PermissionAsked, screen=True)
def not_absolute_when_asked(event: PermissionAsked) -> list[Violation]:
    """Find the same in a request for permission."""
    return _not_absolute(_asked_paths(event))


@rule("complete/path-not-normal", UpdateArrived, fields=_WITH_PATHS, screen=True)
def not_normal(event: UpdateArrived) -> list[Violation] | None:
    """Find absolute paths that go back and forth."""
    if not _may_have_paths(event.update):
        return None
    return [
        Violation(f"{quoted(path)} is not normalized", field, once=path)
        for field, path in _paths(event.update, "update")
        if has_steps(path) and is_absolute(path)
    ]


@rule("complete/line-zero", UpdateArrived, fields=["locations"], screen=True)
def line_zero(event: UpdateArrived) -> list[Violation] | None:
    """Find a line 0."""
    places = many(event.update.get("locations"))
    if not places:
        return None
    before = many(event.call.fields.get("locations")) if event.call is not None else []
    return [
        Violation("the first line of a file is line 1", f"update.locations[{index}].line")
        for index, place in enumerate(places)
        if obj(place).get("line") == 0 and place not in before
    ]


def _may_have_paths(update: Json) -> bool:
    return bool(update.get("locations") or update.get("content"))


def _not_absolute(paths: Iterable[tuple[str, str]]) -> list[Violation]:
    return [
        Violation(f"{quoted(path)} {why}", field, once=path)
        for field, path in paths
        if (why := _why_not_absolute(path))
    ]


def _why_not_absolute(path: str) -> str | None:
    if is_absolute(path):
        return None
    if path[:1] == "~":
        return "starts with a home directory"
    if _SCHEME(path):
        return "is a URI, not a path"
    return "is relative" if path else "is empty"


def _asked_paths(event: PermissionAsked) -> Iterator[tuple[str, str]]:
    question = event.question
    known = {path for _, path in _paths(question.call.fields, "")} if question.call else set[str]()
    for field, path in _paths(question.tool_call, "params.toolCall"):
        if path not in known:
            yield field, path


def _paths(fields: Json, begin: str) -> Iterator[tuple[str, str]]:
    for index, place in enumerate(many(fields.get("locations"))):
        path = text(obj(place).get("path"))
        if path is not None:
            yield f"{begin}.locations[{index}].path", path
    content: Any = fields.get("content")
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


@rule("complete/old-text-left-out", UpdateArrived, fields=["content"], screen=True)
def old_text_left_out(event: UpdateArrived) -> list[Violation] | None:
    """Find diffs without the key `oldText`. It is reported once for each file of a call."""
    bare = list(bare_diffs(event.update)) if event.update.get("content") else None
    if not bare:
        return None
    before = event.call.fields if event.call is not None else {}
    known = {path for _, path in bare_diffs(before)}
    return [
        Violation("the diff has no `oldText`", f"update.content[{index}]")
        for index, path in bare
        if path not in known
    ]


@rule("complete/overwrite-as-new", UpdateApplied)
def overwrite_as_new(event: UpdateApplied) -> list[Violation] | None:
    """Find a call that ends with a diff of a new file, where there was a file before."""
    call = event.call
    if call.ended != event.line.number or call.status != "completed":
        return None
    return list(_as_new(call.fields, event.session, call, "update"))


@rule("complete/overwrite-asked-as-new", PermissionAsked)
def overwrite_asked_as_new(event: PermissionAsked) -> list[Violation] | None:
    """Find the same where the user has to decide about it."""
    question = event.question
    if question.session is None:
        return None
    found = _as_new(question.tool_call, question.session, question.call, "params.toolCall")
    return list(found)


def _as_new(
    fields: Json, session: ObservedSession, call: ObservedCall | None, begin: str
) -> Iterator[Violation]:
    for field, path in _new_files(fields):
        line = session.files.get(path)
        if line is not None and (call is None or line < call.first):
            yield Violation(
                f"it is shown as new, but line {line} shows that {quoted(path)} existed",
                f"{begin}.{field}",
            )


def _new_files(fields: Json) -> Iterator[tuple[str, str]]:
    """Return the files that are shown as new: in v1 by their lack of an old text, in v2 by `add`."""
    for index, diff in _diffs(fields):
        path = text(diff.get("path"))
        if path is not None and diff.get("oldText") is None and diff.get("newText"):
            yield f"content[{index}].oldText", path
        for number, item in enumerate(many(diff.get("changes"))):
            change = obj(item)
            path = text(change.get("path"))
            if path is not None and change.get("operation") == "add":
                yield f"content[{index}].changes[{number}].operation", path


def bare_diffs(fields: Json) -> Iterator[tuple[int, str]]:
    """Return the diffs without the key `oldText`: their places in the content, and their paths."""
    for index, diff in _diffs(fields):
        if "newText" in diff and "oldText" not in diff:
            yield index, text(diff.get("path")) or ""


def _diffs(fields: Json) -> Iterator[tuple[int, Json]]:
    for index, item in enumerate(many(fields.get("content"))):
        diff = obj(item)
        if diff.get("type") == "diff":
            yield index, diff
