"""What the tool was given, where the agent does not tell it in `rawInput`, or tells it as a text.

In this order: the last input that was told, a request for permission, arguments streamed in the content,
`_meta`, the agent's profile, and what the call shows otherwise (`clues.py`).
"""

from __future__ import annotations

import ast
import re
from typing import Any

from callsheet.observe.evidence import sole_text
from callsheet.observe.model import FINAL, Json, many, obj, text
from callsheet.observe.tool_identity import needs_of
from callsheet.tap.profiles.profile import InputOf

from .clues import input_by_clues
from .known import Draft, Known
from .streamed import Streamed, object_in, streamed_in

_IN_META = ("rawInput", "raw_input", "toolInput", "tool_input", "input", "arguments", "args")
_SHOWN = re.compile(
    r"(?:[^{]{0,400}\n)?(?:input|arguments|args|parameters): *(?P<given>\{.*\})\s*",
    re.IGNORECASE | re.DOTALL,
).fullmatch
_LONGEST = 64 * 1024
_NEED_INPUT = ("edit", "delete", "move")


def restore_input(known: Known, draft: Draft) -> None:
    """Return the input, as far as it can be known. Arguments that were streamed are no output any more."""
    found = _told(known, draft.name)
    streamed = streamed_in(known, draft)
    if streamed is not None:
        _hide(streamed, known, draft)
        draft.is_streaming = streamed.whole is None and streamed.is_shown
    elif sole_text(draft.content) == "" and known.call.status not in FINAL:
        draft.content = []  # nothing to see, and what arguments may follow in
        draft.is_streaming = is_empty(found)
    if is_empty(found):
        found = _guessed(found, known, draft) if streamed is None else _read(streamed, known)
    if is_empty(found) and not is_empty(known.earlier):
        found = known.earlier  # it was found out once, by something that is not told any more
    elif found is None and type(draft.raw_input) is str:
        found = _as_object(draft.raw_input)
    if found is not None:
        if found is not known.call.fields.get("rawInput"):
            draft.repaired.add("input")
        draft.raw_input = found


def is_empty(value: Any) -> bool:
    """Whether an input tells nothing: there is none, or it is empty."""
    return value is None or (type(value) in (dict, list, str) and not value)


def _told(known: Known, name: str) -> Any:
    """Return what was told by updates and by requests for permission. Which tells more depends on the tool."""
    call = known.call
    told = call.fields.get("rawInput")
    own = _as_object(call.given if is_empty(told) and call.given is not None else told)
    asked = _as_object(known.asked.get("rawInput"))
    if is_empty(asked):
        return own
    if is_empty(own):
        return asked
    needs = needs_of(name)
    if needs and _has(asked, needs) and not _has(own, needs):
        return {**obj(own), **asked}
    newer = _as_object(known.newer.get("rawInput"))
    if is_empty(newer) or not _says_otherwise(own, newer, needs):
        return own
    # The agent asks for something else than it has announced, or for more: this is what would be done.
    if not obj(own) or not obj(newer):
        return newer
    replaced = needs if _has(newer, needs) else ()
    return {**{key: value for key, value in own.items() if key not in replaced}, **newer}


def _has(given: Any, needs: tuple[str, ...]) -> bool:
    return not obj(given).keys().isdisjoint(needs)


def _says_otherwise(own: Any, newer: Any, needs: tuple[str, ...]) -> bool:
    """Whether an input says something else than another, or more; not just the same by other names."""
    known, told = obj(own), obj(newer)
    if not known or not told:
        return own != newer
    shared = known.keys() & told.keys()
    if shared and any(key not in known or known[key] != told[key] for key in told):
        return True
    before, now = ([given[key] for key in needs if key in given] for given in (known, told))
    return bool(before and now) and not any(one in before for one in now)


def _as_object(raw: Any) -> Any:
    """Return an object that is written as a text of JSON."""
    if type(raw) is not str:
        return raw
    said = raw.strip()
    whole = {} if said == "{}" else object_in(said)
    return raw if whole is None else whole


def _read(found: Streamed, known: Known) -> Any:
    """Return streamed arguments: as an object; what was never closed, as the text that was sent."""
    if found.whole is not None:
        return found.whole
    is_over = not found.is_shown or known.call.status in FINAL or known.call.is_left
    return found.text if is_over else found.parts() or None


def _hide(found: Streamed, known: Known, draft: Draft) -> None:
    """Take arguments out of the content. What a question shows stands there instead while it is open."""
    if found.is_shown:
        is_asked = any(one.answered is one.withdrawn is None for one in known.call.questions)
        draft.content = found.rest or (many(known.asked.get("content")) if is_asked else [])
        draft.repaired.add("content")


def _guessed(told: Any, known: Known, draft: Draft) -> Any:
    """Return what can be known from elsewhere, unless an input that was told to be empty may be true."""
    if told is not None and not needs_of(draft.name) and draft.kind not in _NEED_INPUT:
        return told
    if draft.title and draft.title == known.describer(draft.name).title:
        return _in_meta(known)  # another tap has made the title, for want of an input
    return (
        _in_meta(known)
        or _in_question(known)
        or _of_profile(known.profile.input_of, known)
        or input_by_clues(known, draft)
    )


def _in_meta(known: Known) -> Json | None:
    """Return the input that is told in `_meta`, be it in an agent's own corner."""
    for meta in (known.call.fields.get("_meta"), known.asked.get("_meta")):
        told = obj(meta)
        for corner in (told, *map(obj, told.values())) if told else ():
            for key in _IN_META:
                value = corner.get(key)
                found = obj(_as_object(value) if text(value) else value)
                if found:
                    return found
    return None


def _in_question(known: Known) -> Json | None:
    """Return the input that a request for permission shows as a text: `Input: {…}`, in JSON or in Python."""
    shown = sole_text(many(known.asked.get("content"))) or ""
    match = _SHOWN(shown) if len(shown) <= _LONGEST else None
    if match is None:
        return None
    whole = object_in(match["given"])
    if whole is None:
        try:
            whole = ast.literal_eval(match["given"])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return obj(whole) or None


def _of_profile(find: InputOf | None, known: Known) -> Any:
    return None if find is None else find(known)
