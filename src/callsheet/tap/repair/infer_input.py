"""Restore the input of a call that the agent does not report in `rawInput`, or reports as a text.

It is looked for in this order: the last input that was reported and permission requests, arguments
streamed in the content, `_meta`, the text of a permission request, the agent's profile, and what else the
call shows: diffs, locations, and titles that are a command, a path, a pattern or a URL. Keys are those that
clients look for: `command`, `path`, `pattern`, `url`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from callsheet.describe.shell.programs import program_names
from callsheet.observe.evidence import object_in, sole_text
from callsheet.observe.model import FINAL, Json, ObservedCall, many, obj, text
from callsheet.observe.tool_identity import diff_paths, entry_of, needs_of
from callsheet.tap.profiles import without_notes
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.names import is_bare, listed
from callsheet.tap.repair.streamed_input import Streamed, streamed_in

_IN_META = ("rawInput", "raw_input", "toolInput", "tool_input", "input", "arguments", "args")
_SHOWN = re.compile(
    r"(?:[^{]{0,400}\n)?(?:input|arguments|args|parameters): *(?P<input>\{.*\})\s*",
    re.IGNORECASE | re.DOTALL,
).fullmatch
_LONGEST = 64 * 1024
_NEED_INPUT = ("edit", "delete", "move")


def restore_input(draft: CallDraft) -> CallDraft:
    """Find the input, as far as it can be known, and remove streamed arguments from the content."""
    call = draft.call
    found = _reported(call, draft.name)
    streamed = streamed_in(draft)
    if streamed is not None:
        draft = replace(
            _without(streamed, draft), is_streaming=streamed.whole is None and streamed.is_shown
        )
    elif sole_text(draft.content) == "" and call.status not in FINAL:
        # An empty text shows nothing, and arguments may follow in it.
        draft = replace(draft, content=[], is_streaming=is_empty(found))
    if is_empty(found):
        found = _guessed(found, draft) if streamed is None else _read(streamed, call)
    if is_empty(found) and not is_empty(draft.earlier_input):
        found = draft.earlier_input  # it was found in something that is no longer reported
    elif found is None and type(draft.raw_input) is str:
        found = _as_object(draft.raw_input)
    if found is None:
        return draft
    if found is call.fields.get("rawInput"):
        return replace(draft, raw_input=found)
    return draft.with_repair("input", raw_input=found)


def is_empty(value: Any) -> bool:
    """Whether there is no input, or an empty one."""
    return value is None or (type(value) in (dict, list, str) and not value)


def _reported(call: ObservedCall, name: str) -> Any:
    """Return the input that updates and permission requests have reported, merged where they differ."""
    reported = call.fields.get("rawInput")
    own = _as_object(
        call.last_input if is_empty(reported) and call.last_input is not None else reported
    )
    asked = _as_object(call.asked.get("rawInput"))
    if is_empty(asked):
        return own
    if is_empty(own):
        return asked
    needs = needs_of(name)
    if needs and _has(asked, needs) and not _has(own, needs):
        return {**obj(own), **asked}
    newer = _as_object(call.asked_since.get("rawInput"))
    if is_empty(newer) or not _differs(own, newer, needs):
        return own
    # The agent asks for something else than it has announced, or for more: this is what would be run.
    if not obj(own) or not obj(newer):
        return newer
    replaced = needs if _has(newer, needs) else ()
    return {**{key: value for key, value in own.items() if key not in replaced}, **newer}


def _has(arguments: Any, needs: tuple[str, ...]) -> bool:
    return not obj(arguments).keys().isdisjoint(needs)


def _differs(own: Any, newer: Any, needs: tuple[str, ...]) -> bool:
    """Whether the newer input differs from the other or has more, and not only other names for the same."""
    known, reported = obj(own), obj(newer)
    if not known or not reported:
        return own != newer
    shared = known.keys() & reported.keys()
    if shared and any(key not in known or known[key] != reported[key] for key in reported):
        return True
    before, now = (
        [arguments[key] for key in needs if key in arguments] for arguments in (known, reported)
    )
    return bool(before and now) and not any(one in before for one in now)


def _as_object(raw: Any) -> Any:
    """Return an object that is written as a text of JSON."""
    if type(raw) is not str:
        return raw
    stripped = raw.strip()
    whole = {} if stripped == "{}" else object_in(stripped)
    return raw if whole is None else whole


def _read(found: Streamed, call: ObservedCall) -> Any:
    """Return streamed arguments: as an object; what was never closed, as the text that was sent."""
    if found.whole is not None:
        return found.whole
    is_over = not found.is_shown or call.status in FINAL or call.is_left
    return found.text if is_over else found.parts() or None


def _without(found: Streamed, draft: CallDraft) -> CallDraft:
    """Remove arguments from the content. While a permission request is open, show its content instead."""
    if not found.is_shown:
        return draft
    call = draft.call
    is_asked = any(one.answered is one.withdrawn is None for one in call.questions)
    content = found.rest or (many(call.asked.get("content")) if is_asked else [])
    return draft.with_repair("content", content=content)


def _guessed(reported: Any, draft: CallDraft) -> Any:
    """Return an input found elsewhere, unless the reported empty input may well be correct."""
    if reported is not None and not needs_of(draft.name) and draft.kind not in _NEED_INPUT:
        return reported
    call, input_of = draft.call, draft.profile.input_of
    if draft.title and draft.title == draft.describer(draft.name).title:
        # Another tap made the title without an input, so it is no evidence of one.
        return _in_meta(call)
    return (
        _in_meta(call)
        or _in_question(call)
        or (None if input_of is None else input_of(call))
        or input_by_clues(draft)
    )


def _in_meta(call: ObservedCall) -> Json | None:
    """Return the input in `_meta`, also within an agent's own object there."""
    for meta in (call.fields.get("_meta"), call.asked.get("_meta")):
        reported = obj(meta)
        for corner in (reported, *map(obj, reported.values())) if reported else ():
            for key in _IN_META:
                value = corner.get(key)
                found = obj(_as_object(value) if text(value) else value)
                if found:
                    return found
    return None


def _in_question(call: ObservedCall) -> Json | None:
    """Return the input that a permission request shows as a text: `Input: {…}`, in JSON or in Python."""
    shown = sole_text(many(call.asked.get("content"))) or ""
    match = _SHOWN(shown) if len(shown) <= _LONGEST else None
    if match is None:
        return None
    whole = object_in(match["input"])
    if whole is None:
        try:
            whole = ast.literal_eval(match["input"])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return obj(whole) or None


SMALL = 2000
"""Characters of a diff that is small enough to be sent again as the input."""

MOST_PATHS = 20

_ON_FILES = ("read", "edit", "delete", "move")
_PATH = re.compile(r"(?=\S*[/\\]|\S+\.[A-Za-z]\w{0,4}$)(?!\w+://)\S*[\w)\]]").fullmatch
_QUOTED = re.compile(r"(['\"`])(?P<quoted>(?:(?!\1).)+)\1").fullmatch
_SOUGHT = re.compile(r"(?i:search|grep|glob|find)(?: files)?: (?P<quoted>\S.*[^.…]|\S)").fullmatch
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]")
_RUNS = re.compile(
    r"(?:(?:run|running|execute|executing|ran|shell|bash|command|terminal)\b[: ]*(?:command\b[: ]*)?)?"
    r"(?P<tick>`+)(?P<quoted>[^`]+)(?P=tick)",
    re.IGNORECASE,
).fullmatch
_PROMPT = re.compile(r"(?:[^$`]{1,200}: )?\$ (?P<quoted>\S.*)", re.DOTALL).fullmatch
_FIRST_WORD = re.compile(
    r"(?:[A-Za-z_]\w*=\S*\s+)*(?P<word>[a-z0-9_.~/][\w.+/~@-]*)(?=[\s;|&<>]|$)"
).match
_SURELY_SHELL = re.compile(r"(?:^|\s)--?[A-Za-z]|[|;<>]|&&|\$[\w({]|\s[\w.~-]*/|=\S")

_PROGRAMS = listed("programs")


def input_by_clues(draft: CallDraft) -> Json | None:
    """Return what is known of an input by the call's diffs, locations and title; None if nothing is."""
    entry = entry_of(draft.name)
    kind = draft.kind if draft.kind not in (None, "other") else entry.kind.value if entry else None
    if kind in ("edit", None):
        for content in (draft.content, draft.call.asked.get("content"), draft.earlier_diffs):
            found = _by_diffs(many(content))
            if found:
                return found
    title = draft.title.strip()
    if kind in _ON_FILES:
        is_path = kind != "move" and not draft.earlier_input and _PATH(title)
        return _by_places(draft.locations) or _one_argument("path", title if is_path else "")
    if is_bare(title, draft.name, draft.kind, None):
        return None
    if kind == "execute":
        return _one_argument("command", _shown_command(draft.call) or command_in(title))
    if kind == "search":
        match = _QUOTED(title) or _SOUGHT(title)
        return _one_argument("pattern", match["quoted"] if match else "")
    if kind == "fetch":
        found = _ADDRESS.findall(title)
        return _one_argument("url", found[0] if len(found) == 1 else "")
    return None


def _one_argument(key: str, value: str) -> Json | None:
    """Return an input of one argument; None if the argument is empty."""
    return {key: value} if value else None


def command_in(title: str) -> str:
    """Return the command that a title is, or shows between backticks; "" if it is a phrase."""
    title = without_notes(title)
    for match in (_RUNS(title), _PROMPT(title)):
        if match is not None:
            return match["quoted"].strip()
    first = _FIRST_WORD(title)
    if first is None or title[-1:] in "…":
        return ""
    word = first["word"].rpartition("/")[2]
    is_command = word in _PROGRAMS or word in program_names() or _SURELY_SHELL.search(title)
    return title if is_command else ""


def _shown_command(call: ObservedCall) -> str:
    """Return the command that an announcement shows after a prompt, before there can be any output."""
    match = _PROMPT(sole_text(many(call.opening.get("content"))) or "")
    return match["quoted"].strip() if match is not None else ""


def _by_places(locations: list[Any]) -> Json | None:
    return _of_paths(path for place in locations if (path := text(obj(place).get("path"))))


def _of_paths(paths: Iterator[str]) -> Json | None:
    found = list(dict.fromkeys(paths))[:MOST_PATHS]
    if len(found) > 1:
        return {"paths": found}
    return {"path": found[0]} if found else None


def _by_diffs(content: list[Any]) -> Json | None:
    """Return the paths of diffs; of a single small one, its texts as well."""
    reported = _of_paths(diff_paths({"content": content}))
    diffs = [item for item in map(obj, many(content)) if item.get("type") == "diff"]
    if reported is None or len(diffs) != 1:
        return reported
    old, new = text(diffs[0].get("oldText")) or "", text(diffs[0].get("newText"))
    if new is None or len(old) + len(new) > SMALL:
        return reported
    return {**reported, "old_text": old, "new_text": new} if old else {**reported, "content": new}
