"""What `describe` makes of a call, as far as its tool and its input are known. Stages take from it.

A long command takes long to describe, and most updates change neither the tool nor the input: what was made
is kept for as long as the call is.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from callsheet.describe import Describer, Description
from callsheet.describe import arguments as roles
from callsheet.observe.model import ObservedCall, obj, text

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


_made: WeakKeyDictionary[ObservedCall, tuple[Describer, str, Any, Description]] = (
    WeakKeyDictionary()
)


def description_of(known: Known, draft: Draft) -> Description:
    """Describe a call by what is known of it."""
    raw = draft.raw_input
    given = arguments_of(raw, draft.name)
    name = draft.name or stand_in(draft.kind, given)
    made = _made.get(known.call)
    if made is not None and made[0] is known.describer and made[1] == name and _same(made[2], raw):
        return made[3]
    description = known.describer(name, given)
    _made[known.call] = known.describer, name, raw, description
    return description


def _same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except RecursionError:
        return False


def arguments_of(raw: Any, name: str) -> Any:
    """Return the arguments in an input: of one that is a whole call, of one that is a text or cut off."""
    whole = unwrapped(raw)
    if whole is not None and whole[0] == name:
        raw = whole[1]
    if type(raw) is str and raw[:1] == "{":
        found = object_in(raw)
        return members_of(raw) if found is None else found
    return raw


def stand_in(kind: str | None, given: Any) -> str:
    """Return the name of a tool that does the same, where the input or the kind tells what is done."""
    told = obj(given)
    if roles.first(told, roles.COMMAND) is not None and roles.first(told, roles.PATH) is None:
        return "bash"
    if (text(told.get("url")) or "")[:4] == "http":
        return "fetch"
    return _BY_KIND.get(kind or "", "")
