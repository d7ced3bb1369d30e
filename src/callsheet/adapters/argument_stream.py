"""Arguments of calls: whole ones of any kind, and JSON text that a model is still writing."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from callsheet.limits.to_json import jsonsafe
from callsheet.report.json import is_list, is_object


def whole_arguments(given: Any) -> Any:
    """Return arguments as JSON: text that is an object or a list becomes it."""
    if isinstance(given, str):
        try:
            parsed: Any = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return given
        return parsed if is_object(parsed) or is_list(parsed) else given
    # A session makes JSON of any value; a dict need not be copied before that.
    return cast("Any", given) if type(given) is dict else jsonsafe(given)


class ArgumentStream:
    """The arguments of a call that a model is writing, as JSON text, and those of them that are complete.

    Half of a value is never shown: it may be half of a secret. The text is read again only when it is twice
    as long, so that the time and the bytes that are sent grow with the text, not with its square.
    """

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name: str = name
        self.options: dict[str, Any] = options
        self._pieces: list[str] = []
        self._size: int = 0
        self._next: int = 1
        self._known: int = 0

    def feed(self, piece: str) -> dict[str, Any] | None:
        """Add a piece, and return the complete members if there are new ones."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size < self._next:
            return None
        self._next = 2 * self._size
        text = "".join(self._pieces)
        self._pieces = [text]
        members = _members(text)
        if len(members) <= self._known:
            return None
        self._known = len(members)
        return members


_OPENING = re.compile(r"\s*\{?\s*")
_NEXT = re.compile(r"\s*([,}])\s*")
_COLON = re.compile(r"\s*:\s*")


def _members(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    decode = json.JSONDecoder().raw_decode
    try:
        at = cast("re.Match[str]", _OPENING.match(text)).end()
        while True:
            name, at = decode(text, at)
            colon = _COLON.match(text, at)
            if colon is None:
                return found
            value, at = decode(text, colon.end())
            after = _NEXT.match(text, at)
            if after is None:  # a number may go on
                return found
            found[name] = value
            at = after.end()
    except (ValueError, RecursionError):  # no more has arrived yet
        return found
