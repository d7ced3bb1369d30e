"""What a tool does, in ACP's words, and the custom kinds of ACP v2."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TypeAlias, final

from .errors import InvalidKind
from .values import check_text


class ToolKind(StrEnum):
    """ACP's kinds. Editors choose an icon and a presentation by them."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


@final
class CustomKind(str):
    """A kind outside `ToolKind`. ACP v2 sends it as it is; ACP v1 shows it as `other`.

    Your own kinds start with an underscore. Kinds of a future ACP, met while decoding, don't.
    """

    __slots__ = ()


Kind: TypeAlias = ToolKind | CustomKind

UNASKED: frozenset[Kind] = frozenset(
    (ToolKind.READ, ToolKind.SEARCH, ToolKind.FETCH, ToolKind.THINK)
)
"""Kinds that clients let pass without asking, if their users want that."""

_KNOWN: dict[str, Kind] = {kind.value: kind for kind in ToolKind}
_CUSTOM = re.compile(r"_[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")


def to_kind(value: object) -> Kind:
    """Return the kind that `value` names, or raise `InvalidKind`."""
    if type(value) is ToolKind:
        return value
    if type(value) is CustomKind:
        check_text(value, "kind", InvalidKind)
        return value
    if isinstance(value, str):
        known = _KNOWN.get(value)
        if known is not None:
            return known
        if _CUSTOM.fullmatch(value):
            return CustomKind(value)
    raise InvalidKind(
        f"unknown kind {value!r}: use one of {', '.join(_KNOWN)}, "
        "or a custom kind that starts with an underscore (_deploy)"
    )


def foreign_kind(value: str) -> Kind:
    """Return the kind that another program sent. One that we don't know is kept as it is."""
    return _KNOWN.get(value) or CustomKind(value)
