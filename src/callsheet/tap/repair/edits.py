"""Diffs of edits that only the input tells: where the old text stands beside the new.

What a file is overwritten with is no diff: nobody knows what stood there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.describe import arguments as roles
from callsheet.observe.model import Json, many, obj, text

_PAIRS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldStr", "newStr"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old_content", "new_content"),
    ("search", "replace"),
    ("find", "replace"),
)
_LISTS = ("edits", "changes", "replacements", "operations")
_MOST = 50


def diffs_in(given: Any) -> list[Json]:
    """Return the diffs of v1 that an edit's input makes: none if a path, or one of the texts, is not told."""
    told = obj(given)
    path = text(roles.first(told, roles.PATH)) or ""
    listed = next((many(told[key]) for key in _LISTS if many(told.get(key))), [told])
    found = [diff for edit in listed[:_MOST] for diff in _diff(obj(edit), path)]
    return found if len(found) == len(listed) else []


def _diff(edit: Json, path: str) -> Iterator[Json]:
    path = text(roles.first(edit, roles.PATH)) or path
    for old_key, new_key in _PAIRS:
        old, new = text(edit.get(old_key)), text(edit.get(new_key))
        if path and old is not None and new is not None and old != new:
            yield {"type": "diff", "path": path, "oldText": old, "newText": new}
            return
