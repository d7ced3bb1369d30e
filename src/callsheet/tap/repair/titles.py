"""Find a title for a call's card where the agent's own is poor, such as no more than the name of a tool.

A good title of the agent stays, unless the call's arguments are still being streamed. Otherwise an earlier
good title, or that of a permission request, is used; else one that `describe` makes, unless that would
show less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from callsheet.describe.classify import known_names
from callsheet.describe.titles import squash, words_of
from callsheet.observe.model import many, obj, text
from callsheet.observe.tool_identity import LONGEST_NAME, is_name_of_tool
from callsheet.tap.repair.context import FINAL, CallDraft, Known
from callsheet.tap.repair.description import arguments_of, description_of, stand_in
from callsheet.tap.repair.names import core_of, is_bare, mentions

_FEW = 4
"""Words that a title has at most if it is just a tool's name in a readable form."""

_GENERAL = frozenset(
    re.findall(
        r"\w+",
        "a an the some this to in for of edit edits editing write writing create creating update updating "
        "apply applying change changes changing modify modifying replace replacing read reading view viewing "
        "open opening delete deleting remove removing move moving rename renaming search searching find "
        "finding list listing fetch fetching run running execute executing use using call calling file files "
        "folder directory command commands shell terminal code content contents text patch diff web page "
        "url tool",
    )
)
"""Words that describe a sort of call, and nothing specific to one call."""

_LONGEST_ARGUMENT = 1000


def say_title(known: Known, draft: CallDraft) -> None:
    """Find a title that describes the call. A good one of the agent stays when a poorer one arrives."""
    newer = text(known.newer.get("title")) or ""
    if newer and newer != draft.title and not _is_poor(known, draft, newer):
        draft.title = newer
        return
    is_cut = draft.is_streaming and not known.call.questions and draft.status not in FINAL
    is_weak = bool(known.title) and draft.title != known.title and _is_weak(draft, draft.title)
    if not is_cut and not is_weak and not _is_poor(known, draft, draft.title):
        return
    before = "" if known.has_own_title else known.title
    for better in (before, text(known.asked.get("title")) or ""):
        if not is_cut and not _is_poor(known, draft, better):
            draft.title = better
            draft.repaired.add("title")
            return
    made = description_of(known, draft).title
    if made and not is_bare(made, "", None, None) and not _says_less(made, draft):
        draft.title, draft.has_own_title = made, True
        draft.repaired.add("title")
    elif is_weak:
        draft.title, draft.has_own_title = known.title, known.has_own_title


def _says_less(made: str, draft: CallDraft) -> bool:
    """Whether the tap's title would show none of the arguments that the agent's title shows."""
    arguments = arguments_of(draft.raw_input, draft.name)
    mentioned = [one for one in _texts(arguments) if mentions(draft.title, one)]
    return bool(mentioned) and not any(mentions(made, one) for one in mentioned)


def _is_poor(known: Known, draft: CallDraft, title: str) -> bool:
    """Whether a title is the tool's name, or describes less than one that the tap would make."""
    if is_bare(title, draft.name, draft.kind, draft.raw_input):
        return True
    return (
        _is_labelled(draft, title)
        or _is_argument(draft, title.strip())
        or _is_vague(known, draft, title.strip())
    )


def _is_argument(draft: CallDraft, title: str) -> bool:
    """Whether a title is a path or a pattern and has no word for what is done. A command is its own verb."""
    title = title.strip("'\"`") or title
    if draft.kind == "execute" or not draft.raw_input or len(title) > _LONGEST_ARGUMENT:
        return False
    arguments = arguments_of(draft.raw_input, draft.name)
    return any(
        _is_end(title, mentioned) or _is_end(mentioned, title)
        for mentioned in _texts(arguments, None)
    )


def _is_end(path: str, whole: str) -> bool:
    """Whether a path is another, or the end of it."""
    return bool(path) and (
        path == whole or (whole.endswith(f"/{path}") and " " not in whole[: -len(path)])
    )


def _is_vague(known: Known, draft: CallDraft, title: str) -> bool:
    """Whether a title is a tool's name in words, and the input has more: `Read File`, `Preparing file…`."""
    if not draft.raw_input or len(title) > LONGEST_NAME:
        return False
    if not _is_weak(draft, title) and (core_of(title) == title or title != _opening(known)):
        return False
    arguments = arguments_of(draft.raw_input, draft.name)
    if any(mentions(title, mentioned) for mentioned in _texts(arguments)):
        return False
    name = draft.name or stand_in(draft.kind, arguments)
    return description_of(known, draft).title != known.describer(name).title


def _is_labelled(draft: CallDraft, title: str) -> bool:
    """Whether a title is a program's name for a well-known tool, and an argument: `StrReplaceFile: a.py`."""
    label, colon, rest = title.partition(": ")
    if not colon or not rest.strip() or not draft.raw_input:
        return False
    if rest.strip() == draft.name or is_name_of_tool(rest.strip()):
        return True  # `Permission: bash`
    return label == draft.name and squash(label) in known_names()


def _is_weak(draft: CallDraft, title: str) -> bool:
    """Whether a title fits every call of a tool or of a kind: `Read File`, `Editing files`."""
    title = title.strip()
    if len(title) > LONGEST_NAME:
        return False
    core = core_of(title)
    return _GENERAL.issuperset(words_of(core.lower())) or _is_spoken_name(core, draft.name)


def _opening(known: Known) -> str:
    return (text(known.call.opening.get("title")) or "").strip()


def _is_spoken_name(title: str, name: str) -> bool:
    squashed = squash(title)
    if name and squashed == squash(name):
        return True
    return squashed in known_names() and len(words_of(title)) <= _FEW


def _texts(arguments: Any, longest: int | None = LONGEST_NAME) -> Iterator[str]:
    for value in (arguments, *obj(arguments).values()):
        if type(value) is str:
            yield value[:longest]
        for item in many(value):
            if type(item) is str:
                yield item[:longest]
