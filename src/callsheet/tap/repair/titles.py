"""Find a title for a call's card where the agent's own is poor, such as no more than the name of a tool.

A good title of the agent stays, unless the call's arguments are still being streamed. Otherwise an earlier
good title, or that of a permission request, is used; else one that `describe` makes, unless that would
show less.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from callsheet.describe.classify import known_names
from callsheet.describe.titles import squash, words_of
from callsheet.observe.model import many, obj, text
from callsheet.observe.tool_identity import LONGEST_NAME, is_name_of_tool
from callsheet.tap.repair.description import arguments_of, description_of, stand_in
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.names import core_of, is_bare, listed, mentions

_FEW = 4
"""Words that a title has at most if it is just a tool's name in a readable form."""

_GENERAL = listed("general")
_LONGEST_ARGUMENT = 1000


def find_title(draft: CallDraft) -> CallDraft:
    """Find a title that describes the call. A good one of the agent stays when a poorer one arrives."""
    call, earlier = draft.call, draft.earlier_title
    newer = text(call.asked_since.get("title")) or ""
    if newer and newer != draft.title and not _is_poor(draft, newer):
        return replace(draft, title=newer)
    is_cut = draft.is_streaming and not call.questions and not draft.has_ended
    is_weak = bool(earlier) and draft.title != earlier and _is_weak(draft, draft.title)
    if not is_cut and not is_weak and not _is_poor(draft, draft.title):
        return draft
    before = "" if draft.had_own_title else earlier
    for better in (before, text(call.asked.get("title")) or ""):
        if not is_cut and not _is_poor(draft, better):
            return draft.with_repair("title", title=better)
    made = description_of(draft).title
    if made and not is_bare(made, "", None, None) and not _shows_less(made, draft):
        return draft.with_repair("title", title=made, has_own_title=True)
    if is_weak:
        return replace(draft, title=earlier, has_own_title=draft.had_own_title)
    return draft


def _shows_less(made: str, draft: CallDraft) -> bool:
    """Whether the tap's title would show none of the arguments that the agent's title shows."""
    arguments = arguments_of(draft.raw_input, draft.name)
    mentioned = [one for one in _texts(arguments) if mentions(draft.title, one)]
    return bool(mentioned) and not any(mentions(made, one) for one in mentioned)


def _is_poor(draft: CallDraft, title: str) -> bool:
    """Whether a title is the tool's name, or describes less than one that the tap would make."""
    if is_bare(title, draft.name, draft.kind, draft.raw_input):
        return True
    return (
        _is_labelled(draft, title)
        or _is_argument(draft, title.strip())
        or _is_vague(draft, title.strip())
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


def _is_vague(draft: CallDraft, title: str) -> bool:
    """Whether a title is a tool's name in words, and the input has more: `Read File`, `Preparing file…`."""
    if not draft.raw_input or len(title) > LONGEST_NAME:
        return False
    if not _is_weak(draft, title) and (core_of(title) == title or title != _opening(draft)):
        return False
    arguments = arguments_of(draft.raw_input, draft.name)
    if any(mentions(title, mentioned) for mentioned in _texts(arguments)):
        return False
    name = draft.name or stand_in(draft.kind, arguments)
    return description_of(draft).title != draft.describer(name).title


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


def _opening(draft: CallDraft) -> str:
    return (text(draft.call.opening.get("title")) or "").strip()


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
