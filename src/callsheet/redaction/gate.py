"""The gate: the fast first search, which says where in a text a secret could begin.

A gate is made of patterns that match at least wherever the rules do, and RE2 searches for all of
them at once, in linear time: its automaton reads each byte once, so whole rules cost no more than
their first letters, and have far fewer false hits. `scanner.py` then looks at the places that the
gate names with Python's `re`, and decides there. So the gate can change how fast secrets are found,
but not what is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from callsheet.redaction.rules import InvalidRule


@lru_cache(maxsize=16)
def make_gate(patterns: tuple[bytes, ...]) -> Gate:
    """Return the gate for these patterns. Sessions share it, since compiling takes milliseconds."""
    return Gate(patterns)


class Gate:
    """All patterns in one automaton. A `Set` says whether one matches; a search says where."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        re2 = _re2()
        self._options = re2.Options()
        self._options.encoding = re2.Options.Encoding.LATIN1
        self._options.never_capture = True
        self._options.log_errors = False
        self._options.max_mem = 64 << 20
        self._union = b"|".join(b"(?:" + one + b")" for one in patterns) or rb"[^\x00-\xff]"
        gate = re2.Set.SearchSet(self._options)
        try:
            gate.Add(self._union)
        except re2.error as error:
            raise InvalidRule(f"the rules don't work in re2: {_text(error)}") from None
        gate.Compile()
        self._match = gate.Match

    def finds(self, data: bytes) -> bool:
        """Return whether a pattern matches anywhere."""
        return self._match(data) is not None

    def each(self, data: bytes) -> Iterator[int]:
        """Yield each place where a pattern matches, in order; matches may overlap."""
        match = self._search(data) if self.finds(data) else None
        while match is not None:
            place: int = match.start()
            yield place
            match = self._search(data, place + 1)

    @cached_property
    def _search(self) -> Any:
        """The search that says where. Most processes never find anything, and never compile it."""
        return _re2().compile(self._union, self._options).search


def _re2() -> Any:
    """Import RE2 when the first gate is made: starting a process should not wait for it."""
    return import_module("re2")


def _text(error: Exception) -> str:
    return str(error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error)


_REPEAT = re.compile(rb"(?<!\\)\{(\d+)(,?)(\d*)\}\??")

_ENOUGH = 20


def simplified(pattern: bytes) -> bytes:
    """Return a pattern with its long repeats made endless and lazy.

    That makes a smaller automaton, which matches at least as often and reads no further than it
    must.
    """

    def widen(match: re.Match[bytes]) -> bytes:
        low, comma, high = int(match[1]), match[2], match[3]
        endless = comma and not high
        if low > _ENOUGH or endless or (high and int(high) > 2 * _ENOUGH):
            return b"{%d,}?" % min(low, _ENOUGH)
        return match[0]

    return _REPEAT.sub(widen, pattern)
