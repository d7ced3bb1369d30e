"""What people read on a call's card, where the agent gives them no more than the name of a tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.check.recording.tools import LONGEST_NAME, is_name_of_tool
from callsheet.check.recording.values import many, obj, text
from callsheet.describe.names import TABLE
from callsheet.describe.naming import squash, words_of

from .describing import arguments_of, description_of, stand_in
from .known import Draft, Known
from .statuses import FINAL
from .wording import core_of, is_bare, mentions

_FEW = 4
"""Words that a title has at most which is just a tool's name, written for people."""


def say_title(known: Known, draft: Draft) -> None:
    """Give a title that says what is done. One of the agent that says so stays."""
    newer = text(known.newer.get("title")) or ""
    if newer and newer != draft.title and not _is_poor(known, draft, newer):
        draft.title = newer
        return
    is_cut = draft.is_streaming and not known.call.questions and draft.status not in FINAL
    if not is_cut and not _is_poor(known, draft, draft.title):
        return
    asked = text(known.asked.get("title")) or ""
    if not _is_poor(known, draft, asked):
        draft.title = asked
        draft.repaired.add("title")
        return
    made = description_of(known, draft).title
    if made and not is_bare(made, "", None, None) and not _says_less(made, draft):
        draft.title, draft.has_own_title = made, True
        draft.repaired.add("title")


def _says_less(made: str, draft: Draft) -> bool:
    """Whether a title of ours would not say what the agent's does: one long argument, or one of a list."""
    given = arguments_of(draft.raw_input, draft.name)
    said = [one for one in _texts(given) if mentions(draft.title, one)]
    return bool(said) and not any(mentions(made, one) for one in said)


def _is_poor(known: Known, draft: Draft, title: str) -> bool:
    """Whether a title is the tool's name, or says less than one of ours would."""
    if is_bare(title, draft.name, draft.kind, draft.raw_input):
        return True
    return _is_labelled(draft, title) or _is_vague(known, draft, title.strip())


def _is_vague(known: Known, draft: Draft, title: str) -> bool:
    """Whether a title is a tool's name in words, and the input says more: `Read File`, `Preparing file…`."""
    if not draft.raw_input or len(title) > LONGEST_NAME:
        return False
    core = core_of(title)
    if not _is_spoken_name(core, draft.name) and (core == title or title != _opening(known)):
        return False
    given = arguments_of(draft.raw_input, draft.name)
    if any(mentions(title, said) for said in _texts(given)):
        return False
    name = draft.name or stand_in(draft.kind, given)
    return description_of(known, draft).title != known.describer(name).title


def _is_labelled(draft: Draft, title: str) -> bool:
    """Whether a title is a program's name for a well-known tool, and an argument: `StrReplaceFile: a.py`."""
    label, colon, rest = title.partition(": ")
    if not colon or not rest.strip() or not draft.raw_input:
        return False
    if rest.strip() == draft.name or is_name_of_tool(rest.strip()):
        return True  # `Permission: bash`
    return label == draft.name and squash(label) in TABLE


def _opening(known: Known) -> str:
    return (text(known.call.opening.get("title")) or "").strip()


def _is_spoken_name(title: str, name: str) -> bool:
    squashed = squash(title)
    if name and squashed == squash(name):
        return True
    return squashed in TABLE and len(words_of(title)) <= _FEW


def _texts(given: Any) -> Iterator[str]:
    for value in (given, *obj(given).values()):
        if type(value) is str:
            yield value[:LONGEST_NAME]
        for item in many(value):
            if type(item) is str:
                yield item[:LONGEST_NAME]
