"""Looking into JSON that may be anything: what is not of the kind that is wanted counts as not there."""

from __future__ import annotations

from typing import Any

_NOTHING: dict[str, Any] = {}
_NONE: list[Any] = []


def obj(value: Any) -> dict[str, Any]:
    """Return an object; an empty one, which nobody may change, for anything else."""
    return value if value.__class__ is dict else _NOTHING


def many(value: Any) -> list[Any]:
    """Return a list; an empty one, which nobody may change, for anything else."""
    return value if value.__class__ is list else _NONE


def text(value: Any) -> str | None:
    """Return a text, or None for anything else."""
    return value if type(value) is str else None


def rpc_id(value: Any) -> Any:
    """Return an id of JSON-RPC as a key: 1 and "1" are not the same."""
    return value if isinstance(value, (str, int, float)) else None


def name_of(info: Any) -> str:
    """Return a program's name and version, as `initialize` tells them."""
    told = obj(info)
    return " ".join(filter(None, (text(told.get("name")), text(told.get("version")))))
