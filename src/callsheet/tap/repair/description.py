"""Describe a call by its tool and its input (`callsheet.describe`), and find its kind.

A long command takes long to describe, and most updates change neither the tool nor the input, so a
description is cached for as long as its call is known.

Clients approve calls by their kind. So until a call has ended, a repair must never change the kind to one
for which a client would ask less often than for the kind that the agent itself reported (`ask_no_less`).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from callsheet.describe import Describer, Description
from callsheet.describe import arguments as roles
from callsheet.describe.classify import MAX_NAME, declared_kind, plan_of
from callsheet.observe.evidence import object_in
from callsheet.observe.model import Json, ObservedCall, obj, text
from callsheet.report.fields import UNASKED, ToolKind
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.names import unwrapped
from callsheet.tap.repair.streamed_input import members_of

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
