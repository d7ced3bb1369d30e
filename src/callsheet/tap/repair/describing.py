"""What `describe` makes of a call, as far as its tool and its input are known. Other stages take from it."""

from __future__ import annotations

from typing import Any

from callsheet.check.recording.values import obj, text
from callsheet.describe import arguments as roles

from .known import Draft, Known
from .streamed import members_of, object_in
from .wording import unwrapped

_BY_KIND = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "bash",
    "fetch": "fetch",
    "switch_mode": "switch_mode",
}
"""Tools that do what a kind says, for calls whose own tool nobody knows."""


def describe_call(known: Known, draft: Draft) -> None:
    """Describe a call for the stages that follow."""
    name, given = draft.name, arguments_of(draft.raw_input)
    draft.description = known.describer(name or stand_in(draft.kind, given), given)


def arguments_of(raw: Any) -> Any:
    """Give the arguments in an input: of one that is a whole call, of one that is a text or cut off."""
    whole = unwrapped(raw)
    if whole is not None:
        raw = whole[1]
    if type(raw) is str and raw[:1] == "{":
        found = object_in(raw)
        return members_of(raw) if found is None else found
    return raw


def stand_in(kind: str | None, given: Any) -> str:
    """Give the name of a tool that does the same, where the kind or the input tells what is done."""
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    told = obj(given)
    if roles.first(told, roles.COMMAND) is not None and roles.first(told, roles.PATH) is None:
        return "bash"
    address = text(told.get("url")) or ""
    return "fetch" if address[:4] == "http" else ""
