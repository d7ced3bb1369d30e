"""Describe a call by its tool and its input (`callsheet.describe`): find its kind and its title.

A long command takes long to describe, and most updates change neither the tool nor the input, so a
description is cached for as long as its call is known.

Clients approve calls by their kind. So until a call has ended, a repair must never change the kind to one
for which a client would ask less often than for the kind that the agent itself reported (`ask_no_less`).

A good title of the agent stays, unless the call's arguments are still being streamed. Otherwise an earlier
good title, or that of a permission request, is used; else one that `describe` makes, unless that would
show less.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from callsheet.describe import Describer, Description
from callsheet.describe import arguments as roles
from callsheet.describe.classify import MAX_NAME, declared_kind, known_names, plan_of
from callsheet.describe.titles import squash, words_of
from callsheet.observe.evidence import object_in
from callsheet.observe.model import Json, ObservedCall, many, obj, text
from callsheet.observe.tool_identity import LONGEST_NAME, is_name_of_tool
from callsheet.report.fields import UNASKED, ToolKind
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.infer_input import members_of
from callsheet.tap.repair.names import core_of, is_bare, listed, mentions, unwrapped

_NAMED_LIKE_TOOLS = ("read", "edit", "delete", "move", "search", "fetch", "switch_mode")
_BY_KIND = {kind: kind for kind in _NAMED_LIKE_TOOLS} | {"execute": "bash"}
"""Well-known tools of each kind, for calls whose own tool is unknown."""


_made: WeakKeyDictionary[ObservedCall, tuple[Describer, str, Any, Description]] = (
    WeakKeyDictionary()
)


def description_of(draft: CallDraft) -> Description:
    """Describe a call by what is known of it."""
    raw = draft.raw_input
    tool_input = arguments_of(raw, draft.name)
    name = draft.name or stand_in(draft.kind, tool_input)
    made = _made.get(draft.call)
    if made is not None and made[0] is draft.describer and made[1] == name and _same(made[2], raw):
        return made[3]
    description = draft.describer(name, tool_input)
    _made[draft.call] = draft.describer, name, raw, description
    return description


def _same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except RecursionError:
        return False


def arguments_of(raw: Any, name: str) -> Any:
    """Return the arguments in an input, which may be a whole call, or a text of JSON, perhaps cut off."""
    whole = unwrapped(raw)
    if whole is not None and whole[0] == name:
        raw = whole[1]
    if type(raw) is str and raw[:1] == "{":
        found = object_in(raw)
        return members_of(raw) if found is None else found
    return raw


def stand_in(kind: str | None, tool_input: Any) -> str:
    """Return the name of a well-known tool that does the same, by the input or the kind; "" if unclear."""
    reported = obj(tool_input)
    if (
        roles.first(reported, roles.COMMAND) is not None
        and roles.first(reported, roles.PATH) is None
    ):
        return "bash"
    if (text(reported.get("url")) or "")[:4] == "http":
        return "fetch"
    return _BY_KIND.get(kind or "", "")


_OTHER = ToolKind.OTHER
_CHANGING = frozenset((ToolKind.EDIT, ToolKind.MOVE, ToolKind.DELETE, ToolKind.SWITCH_MODE))


def find_kind(draft: CallDraft) -> CallDraft:
    """Find the kind. A kind that the agent reported stays, unless it is `other`."""
    reported = declared_kind(draft.kind)
    if reported is not None and reported != _OTHER:
        return draft
    found = _asked(draft.call) or _described(draft, was_reported=reported is not None)
    return draft if found in (None, draft.kind) else draft.with_repair("kind", kind=found)


def ask_no_less(draft: CallDraft) -> CallDraft:
    """Set the kind that the call has while the user may be asked about it: never a laxer one."""
    reported = reported_kind(draft.call)
    if draft.kind is not None and _strictness(draft.kind) >= _strictness(reported):
        return draft
    reported = _OTHER.value if declared_kind(reported) is None else reported
    return replace(draft, kind_while_open=reported)


def reported_kind(call: ObservedCall) -> str | None:
    """Return the strictest of the kinds that updates and permission requests have reported.

    If the updates report none, or `other`, the kind of the last request counts alone. An invalid kind counts
    as `other`.
    """
    reported, asked, last = map(_kind_in, (call.fields, call.asked, call.asked_since))
    if reported in (None, _OTHER) and declared_kind(last) is not None:
        return last
    return max(
        (kind for kind in (reported, asked) if kind is not None), key=_strictness, default=None
    )


def _kind_in(fields: Json) -> str | None:
    reported = fields.get("kind")
    return reported if reported is None or type(reported) is str else ""


def _strictness(kind: str | None) -> int:
    """Rank kinds by how readily clients approve them. An invalid kind is shown as `other`."""
    if kind in UNASKED:
        return 0
    if kind in _CHANGING:
        return 1
    return 3 if kind == ToolKind.EXECUTE else 2


def _asked(call: ObservedCall) -> str | None:
    kind = declared_kind(text(call.asked.get("kind")))
    return None if kind is None or kind == _OTHER else str(kind)


def _described(draft: CallDraft, *, was_reported: bool) -> str | None:
    """Return the kind that `describe` finds. A guess by words never replaces a kind that was reported."""
    found = description_of(draft).kind
    if found == _OTHER:
        return None
    if was_reported and draft.name and plan_of(draft.name[:MAX_NAME]).by_words:
        return None
    return str(found)


# Titles

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
    is_worse = bool(earlier) and draft.title != earlier and _fits_many(draft, draft.title)
    if not is_cut and not is_worse and not _is_poor(draft, draft.title):
        return draft
    before = "" if draft.had_own_title else earlier
    for better in (before, text(call.asked.get("title")) or ""):
        if not is_cut and not _is_poor(draft, better):
            return draft.with_repair("title", title=better)
    made = description_of(draft).title
    mentioned = [one for one in _texts(draft) if mentions(draft.title, one)]
    shows_less = bool(mentioned) and not any(mentions(made, one) for one in mentioned)
    if made and not is_bare(made, "", None, None) and not shows_less:
        return draft.with_repair("title", title=made, has_own_title=True)
    if is_worse:
        return replace(draft, title=earlier, has_own_title=draft.had_own_title)
    return draft


def _is_poor(draft: CallDraft, title: str) -> bool:
    """Whether a title is the tool's name, or an argument, or describes less than one that the tap makes."""
    if is_bare(title, draft.name, draft.kind, draft.raw_input):
        return True
    title = title.strip()
    if not draft.raw_input:
        return False
    if _is_labelled(draft, title) or _is_argument(draft, title):
        return True
    return _fits_many(draft, title) and not any(mentions(title, one) for one in _texts(draft))


def _is_argument(draft: CallDraft, title: str) -> bool:
    """Whether a title is a path or a pattern and has no word for what is done. A command is its own verb."""
    title = title.strip("'\"`") or title
    if draft.kind == "execute" or len(title) > _LONGEST_ARGUMENT:
        return False
    return any(_is_end(title, one) or _is_end(one, title) for one in _texts(draft, None))


def _is_end(path: str, whole: str) -> bool:
    """Whether a path is another, or the end of it."""
    return bool(path) and (
        path == whole or (whole.endswith(f"/{path}") and " " not in whole[: -len(path)])
    )


def _is_labelled(draft: CallDraft, title: str) -> bool:
    """Whether a title is a program's name for a well-known tool, and an argument: `StrReplaceFile: a.py`."""
    label, _, rest = title.partition(": ")
    if rest.strip() and (rest.strip() == draft.name or is_name_of_tool(rest.strip())):
        return True  # `Permission: bash`
    return bool(rest.strip()) and label == draft.name and squash(label) in known_names()


def _fits_many(draft: CallDraft, title: str) -> bool:
    """Whether a title fits every call of a tool or of a kind: `Read File`, `Editing files`."""
    if len(title.strip()) > LONGEST_NAME:
        return False
    core = core_of(title)
    words, squashed = words_of(core), squash(core)
    is_name = bool(draft.name) and squashed == squash(draft.name)
    is_known = squashed in known_names() and len(words) <= _FEW
    return is_name or is_known or _GENERAL.issuperset(words_of(core.lower()))


def _texts(draft: CallDraft, longest: int | None = LONGEST_NAME) -> Iterator[str]:
    """Yield the texts among a call's arguments."""
    arguments = arguments_of(draft.raw_input, draft.name)
    for value in (arguments, *obj(arguments).values()):
        for item in (value, *many(value)):
            if type(item) is str:
                yield item[:longest]
