"""Find the name of a call's tool where the agent does not declare it.

Agents put names into `_meta`, ids, titles, and inputs that are whole calls. This module also knows what a
name looks like in a title, and when a title is no more than a name (`is_bare`).
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Any

from callsheet.describe.titles import squash
from callsheet.observe.model import ObservedCall, many, obj, text
from callsheet.observe.tool_identity import (
    LONGEST_NAME,
    NO_KIND,
    PROGRAMS,
    entry_of,
    fits_any_call,
    is_name_of_tool,
    is_only_name,
    is_plain_name,
)
from callsheet.tap.repair.draft import CallDraft

_TABLES = tomllib.loads(
    files("callsheet.tap.repair").joinpath("words.toml").read_text(encoding="utf-8")
)


def listed(table: str) -> frozenset[str]:
    """Return the words of a table of `words.toml`, which states what they are for."""
    return frozenset(_TABLES[table]["words"].split())


_BEFORE = re.compile(
    r"(?:(?:running|calling|executing|using|invoking|preparing|starting) (?:the )?(?:tool )?"
    r"|(?:mcp )?tool(?: call| use)?: *|function: *)(?=\S)",
    re.IGNORECASE,
).match
_DOING = re.compile(r"[A-Za-z]+ing [a-z]+$").match
_AFTER = re.compile(
    r"\s*(?:\((?:streaming|running|pending|preparing|loading|in progress|started|queued)\b[^()]*\)"
    r"|…|\.\.\.| tool)$",
    re.IGNORECASE,
).search
_NAME = re.compile(r"[A-Za-z][\w-]*(?:(?:[/.:]|::)[A-Za-z][\w-]*){0,3}").fullmatch
_LAST = re.compile(r"[/.:]|__").split
_EXTENSION = re.compile(r".*\.[A-Za-z][A-Za-z0-9]{0,4}").fullmatch
_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+").fullmatch
_TOOL = ("tool", "tool_name", "toolName")
_CALLED = re.compile(r"([A-Za-z][\w-]*)(?:\(|: | · )").match


def core_of(title: str) -> str:
    """Return a title without what agents put around a name: `Calling read_file…` is `read_file`."""
    title = title.strip()
    if len(title) > 2 * LONGEST_NAME:
        return title
    if after := _AFTER(title):
        title = title[: after.start()]
    if before := _BEFORE(title):
        title = title[before.end() :]
    return title.strip()


def is_bare(title: str, name: str, kind: object, raw: object) -> bool:
    """Whether a title is no more than the name of its call's tool, or describes nothing at all."""
    title = title.strip()
    if fits_any_call(title):
        return True
    core = core_of(title)
    return fits_any_call(core) or is_only_name(core, name, name, kind, raw)


def name_in(title: str, kind: object, raw: object) -> str:
    """Return the name of a tool that a title is, if it is one; else ""."""
    whole, title = title.strip(), core_of(title)
    if len(title) > LONGEST_NAME or not _NAME(title) or _is_argument(title, raw):
        return ""
    last = _LAST(title)[-1]
    if squash(last) in PROGRAMS or (_DOING(whole) and not is_plain_name(title)):
        return ""  # `ls` may be a command, and `Running command` is a phrase
    if is_name_of_tool(title) or title.startswith("mcp__"):
        return title
    may_be = is_name_of_tool(last) or ("_" in title and not _EXTENSION(title))
    return title if may_be and kind in NO_KIND else ""


def name_called(title: str) -> str:
    """Return the name in front of arguments: that of `read_file: a.py` and of `bash(ls)`; else ""."""
    match = _CALLED(title)
    if match is None or len(match[1]) > LONGEST_NAME:
        return ""
    name = match[1]
    is_known = is_name_of_tool(name) and is_plain_name(name)
    return name if is_known or _SNAKE(name) else ""


def mentions(title: str, words: str) -> bool:
    """Whether a title shows something of an argument: all of it, or the end of a path."""
    title, words = title.lower(), words.strip().lower()
    last = words.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return bool(words) and (words in title or (len(last) > 1 and last in title))


def _is_argument(title: str, raw: object) -> bool:
    """Whether a text is one of a call's arguments."""
    arguments = {key: value for key, value in obj(raw).items() if key not in _TOOL}
    return any(title == one or title in many(one) for one in (raw, *arguments.values()))


_NAMES = ("name", *_TOOL, "function")
_INPUTS = ("arguments", "args", "input", "parameters", "params")
_BESIDE = frozenset((*_NAMES, *_INPUTS, "id", "type", "server", "server_name", "call_id", "callId"))


def unwrapped(raw: Any) -> tuple[str, Any] | None:
    """Return the tool's name and its arguments, where an input is a whole call: a name, and arguments."""
    reported = obj(raw)
    if not reported or not _BESIDE.issuperset(reported):
        inner = obj(reported.get("invocation"))
        return unwrapped(inner) if inner else None
    name = next((name for key in _NAMES if (name := text(reported.get(key)))), "")
    tool_input = next((reported[key] for key in _INPUTS if key in reported), None)
    if not name or not _NAME(name) or type(tool_input) not in (dict, str):
        return None
    if (
        entry_of(name) is None
        and "server" not in reported
        and type(tool_input) is str
        and tool_input[:1] != "{"
    ):
        return None
    server = text(reported.get("server")) or text(reported.get("server_name"))
    return (f"mcp__{server}__{name}" if server else name), tool_input


_KEYS = ("tool_name", "toolName")
_LONGEST = 256

_COUNTED = re.compile(r"([A-Za-z][\w-]*?)(?::\d+)?").fullmatch


def name_tool(draft: CallDraft) -> CallDraft:
    """Find the tool's name, where the agent has not declared it."""
    if draft.name.strip():
        return draft
    call = draft.call
    name = (
        _hidden(call)
        or _of_profile(draft)
        or _in_input(call)
        or _in_titles(call)
        or in_id(call.id)
        or _called(call)
    )
    return draft.with_repair("name", name=name) if name else draft


def _hidden(call: ObservedCall) -> str:
    """Return the name in `_meta`, also within an agent's own objects there, down to two levels."""
    for meta in (call.fields.get("_meta"), call.asked.get("_meta")):
        outer = list(map(obj, obj(meta).values()))
        inner = [obj(value) for corner in outer for value in corner.values()]
        for corner in (obj(meta), *outer, *inner):
            for key in _KEYS:
                if name := _checked(corner.get(key)):
                    return name
    return ""


def _of_profile(draft: CallDraft) -> str:
    find = draft.profile.name_of
    return _checked(find(draft.call)) if find is not None else ""


def _in_titles(call: ObservedCall) -> str:
    """Return the name that the call was announced under, or is asked about."""
    kind, raw = call.fields.get("kind"), call.fields.get("rawInput") or call.asked.get("rawInput")
    reported = call.opening or call.fields
    for title in (text(reported.get("title")), text(call.asked.get("title"))):
        name = name_in(title, kind, raw) if title else ""
        if name:
            return name
    return ""


def _in_input(call: ObservedCall) -> str:
    """Return the name in an input that is a whole call."""
    whole = unwrapped(call.fields.get("rawInput") or call.asked.get("rawInput"))
    return whole[0] if whole is not None else ""


def _called(call: ObservedCall) -> str:
    """Return the name that a title begins with, before the arguments."""
    title = text(call.opening.get("title")) or text(call.fields.get("title"))
    return name_called(title or "")


def in_id(key: str) -> str:
    """Return the name of the tool that an id is made of: `bash:0`, `functions.grep:1`."""
    match = _COUNTED(key.rpartition("/")[2].removeprefix("functions."))
    return match[1] if match is not None and is_name_of_tool(match[1]) else ""


def _checked(name: Any) -> str:
    name = text(name) or ""
    return name if name.strip() and len(name) <= _LONGEST else ""
