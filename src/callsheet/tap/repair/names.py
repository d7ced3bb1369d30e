"""Which tool a call is of: declared, told elsewhere, or the bare name that the call was announced under."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from callsheet.observe.model import Json, obj, text
from callsheet.observe.tool_identity import is_name_of_tool, is_plain_name

from .known import Draft, Known
from .wording import name_called, name_in, unwrapped

_KEYS = ("tool_name", "toolName")
_LONGEST = 256

_COUNTED = re.compile(r"([A-Za-z][\w-]*?)(?::\d+)?").fullmatch
_BEFORE_ID = re.compile(r"([A-Za-z][A-Za-z_-]*?)(?:(__)|[-_](?=\d))").match


def name_tool(known: Known, draft: Draft) -> None:
    """Return the tool's name where the agent has not declared it."""
    if draft.name.strip():
        return
    name = (
        _hidden(known)
        or _of_profile(known)
        or _in_input(known)
        or _in_titles(known)
        or in_id(known.call.id)
        or _in_output(known)
        or _called(known)
    )
    if name:
        draft.name = name
        draft.repaired.add("name")


def _hidden(known: Known) -> str:
    """Return the name that is told in `_meta`, be it in an agent's own corner."""
    for meta in (known.call.fields.get("_meta"), known.asked.get("_meta")):
        for corner in _corners(obj(meta)):
            for key in _KEYS:
                name = _checked(corner.get(key))
                if name:
                    return name
    return ""


def _corners(meta: Json) -> Iterator[Json]:
    """Return what is in `_meta`: itself, an agent's own corner, and what that has on the call."""
    if not meta:
        return
    inner = [obj(value) for value in meta.values()]
    yield meta
    yield from inner
    for corner in inner:
        yield from map(obj, corner.values())


def _of_profile(known: Known) -> str:
    find = known.profile.name_of
    return _checked(find(known)) if find is not None else ""


def _in_titles(known: Known) -> str:
    """Return the name that the call was announced under, or is asked about."""
    call = known.call
    kind, raw = call.fields.get("kind"), call.fields.get("rawInput") or known.asked.get("rawInput")
    told = call.opening or call.fields
    for title in (text(told.get("title")), text(known.asked.get("title"))):
        name = name_in(title, kind, raw) if title else ""
        if name:
            return name
    return ""


def _in_input(known: Known) -> str:
    """Return the name in an input that is a whole call."""
    whole = unwrapped(known.call.fields.get("rawInput") or known.asked.get("rawInput"))
    return whole[0] if whole is not None else ""


def _in_output(known: Known) -> str:
    """Return the name in a raw output that is a whole answer to a model's call."""
    raw = obj(known.call.fields.get("rawOutput"))
    is_answer = "tool_call_id" in raw or "toolCallId" in raw
    return (
        next((name for key in _KEYS if (name := _checked(raw.get(key)))), "") if is_answer else ""
    )


def _called(known: Known) -> str:
    """Return the name that a title begins with, before what the tool is given."""
    title = text(known.call.opening.get("title")) or text(known.call.fields.get("title"))
    return name_called(title or "")


def in_id(key: str) -> str:
    """Return the name of the tool that an id is made of: `bash:0`, `functions.grep:1`, `read_file-17…`."""
    key = key.rpartition("/")[2].removeprefix("functions.")
    match = _COUNTED(key)
    if match is not None and is_name_of_tool(match[1]):
        return match[1]
    match = _BEFORE_ID(key)
    if match is None or not is_name_of_tool(match[1]):
        return ""
    return match[1] if match[2] or is_plain_name(match[1]) else ""


def _checked(name: Any) -> str:
    name = text(name) or ""
    return name if name.strip() and len(name) <= _LONGEST else ""
