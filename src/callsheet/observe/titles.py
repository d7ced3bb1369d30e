"""Does a title say what a call does, or is it no more than the name of a tool?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.observe.moments import Call
from callsheet.observe.tools import IDENTIFIER, LONGEST_NAME, is_name_of_tool, tool_name
from callsheet.observe.values import many, obj

NO_KIND = (None, "other")

_WORDS = frozenset(
    ("tool", "tool call", "tool use", "call", "function", "unknown", "unknown tool", "untitled")
)
"""Titles that would fit any call. Others are names of tools."""


def is_bare_title(title: str, call: Call | None) -> bool:
    """Whether a title says no more than the name of a tool. `call` is what is known besides, if anything."""
    title = title.strip()
    if call is None:
        return fits_any_call(title) or is_name_of_tool(title)
    fields = call.fields
    return fits_any_call(title) or says_no_more(
        title, call.name, tool_name(call), fields.get("kind"), fields.get("rawInput")
    )


def fits_any_call(title: str) -> bool:
    """Whether a title, without blanks around it, tells nothing at all."""
    return not title or title.lower() in _WORDS


def says_no_more(title: str, told_name: str, name: str, kind: object, raw: object) -> bool:
    """Whether a title, without blanks around it, says no more than the name of its call's tool.

    `told_name` is the name that was told, `name` the one that is known.
    """
    if len(title) > LONGEST_NAME or not IDENTIFIER(title) or title in _arguments(raw):
        return False
    if is_name_of_tool(title):
        return True
    if title == told_name:
        return kind not in ("think", "switch_mode")
    if name and title.rpartition("/")[2] == name.rpartition("/")[2]:
        return True
    # A name that only a program would write, of a tool that nobody knows.
    return "_" in title and kind in NO_KIND


def _arguments(raw: Any) -> Iterator[Any]:
    """Return what a call was given: a title that is just that says something."""
    if type(raw) is str:
        yield raw
    for value in obj(raw).values():
        yield value
        yield from many(value)
