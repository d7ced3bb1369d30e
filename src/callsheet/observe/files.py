"""Which files are there, surely, as far as calls have shown it: those that were read or changed.

A command may remove any file without a word, so whatever could have run one makes all of it uncertain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from callsheet.observe.moments import Call, Json, Session
from callsheet.observe.values import many, obj, text

KEPT = 1024
"""Files of a session that are known."""

_HARMLESS = ("read", "search", "fetch", "think", "edit", "switch_mode")
_COMPLAINT = re.compile(r"(?i)not found|no such|n.t exist|not exist|enoent|error|cannot|could not")
_LOOKED_AT = 400
_LEAVES = ("add", "modify", "move", "copy")
"""What a change of v2 does so that there is a file afterwards."""


def note(session: Session, call: Call, line: int) -> None:
    """Take in what a call shows, after an update of it."""
    if call.fields.get("kind") not in _HARMLESS:
        session.files.clear()
    if call.ended != line:
        return
    if call.status != "completed":  # it may have failed because a file is not there any more
        for place in many(call.fields.get("locations")):
            session.files.pop(text(obj(place).get("path")) or "", None)
        return
    for path in _shown(call.fields):
        if len(session.files) >= KEPT:
            del session.files[next(iter(session.files))]
        session.files[path] = line


def _shown(fields: Json) -> Iterator[str]:
    """Return the files that a completed call has read or changed."""
    kind, content, places = fields.get("kind"), many(fields.get("content")), fields.get("locations")
    if kind == "edit":
        for item in content:
            for told in (obj(item), *map(obj, many(obj(item).get("changes")))):
                path = text(told.get("path"))
                if path is not None and (told.get("newText") or told.get("operation") in _LEAVES):
                    yield path
    elif kind == "read" and len(many(places)) == 1 and _is_good(content):
        path = text(obj(many(places)[0]).get("path"))
        if path is not None:
            yield path


def _is_good(content: list[object]) -> bool:
    """Whether a read has given something that is no complaint."""
    said = text(obj(obj(content[0]).get("content")).get("text")) if content else None
    return bool(said) and not _COMPLAINT.search(said[:_LOOKED_AT])
