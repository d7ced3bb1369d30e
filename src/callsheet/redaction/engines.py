"""The fast first search: where could a secret begin?

A gate gets the rules' patterns, made simpler so that they match at least wherever the
rules do, and gives the places where one matches. `scan.py` then looks at these places with Python's
`re` and decides. So the engines can differ in speed only, not in what is found.

* `re2` (the usual one) searches for all patterns at once, in linear time.
* `re` needs nothing. It looks for each rule's literals first, and uses the patterns of those it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from callsheet.redaction.rules import InvalidRule

ENGINES = ("re2", "re")


class Trigger(NamedTuple):
    """A pattern to look for, and what its matches begin with or hold. Literals are in lower case."""

    pattern: bytes
    literals: tuple[bytes, ...] = ()


class Gate(Protocol):
    """Says where secrets may begin."""

    @property
    def name(self) -> str:
        """The engine's name."""
        ...

    def hits(self, data: bytes) -> Sequence[int]:
        """Return each place where a trigger matches, in order. Nothing, as a rule."""
        ...

    def each(self, data: bytes) -> Iterator[int]:
        """Return the same one by one, for those who may not need all."""
        ...

    def finds(self, data: bytes) -> bool:
        """Return whether there is any."""
        ...


@lru_cache(maxsize=16)
def make_gate(triggers: tuple[Trigger, ...], engine: str | None = None) -> Gate:
    """Make a gate with this engine, or with the best that is installed. Sessions share it."""
    name = engine or best()
    if name == "re2":
        return Re2Gate(triggers)
    if name == "re":
        return ReGate(triggers)
    raise InvalidRule(f"unknown engine {name!r}: use one of {', '.join(ENGINES)}")


def best() -> str:
    """Return the name of the fastest engine that is installed."""
    return next(name for name in ENGINES if find_spec(name))


class Re2Gate:
    """All patterns in one automaton. A `Set` says whether; a search says where."""

    name = "re2"

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        re2 = _installed("re2")
        self._options = re2.Options()
        self._options.encoding = re2.Options.Encoding.LATIN1
        self._options.never_capture = True
        self._options.log_errors = False
        self._options.max_mem = 64 << 20
        self._union = _union(triggers)
        gate = re2.Set.SearchSet(self._options)
        try:
            gate.Add(self._union)
        except re2.error as error:
            raise InvalidRule(f"the rules don't work in re2: {_text(error)}") from None
        gate.Compile()
        self._match = gate.Match

    def hits(self, data: bytes) -> Sequence[int]:
        """Search on from each match, one byte further: what overlaps counts too."""
        return list(self.each(data)) if self._match(data) else ()

    def each(self, data: bytes) -> Iterator[int]:
        """Search only as far as somebody asks."""
        match = self._search(data) if self._match(data) else None
        while match is not None:
            place: int = match.start()
            yield place
            match = self._search(data, place + 1)

    def finds(self, data: bytes) -> bool:
        """Ask the set alone."""
        return self._match(data) is not None

    @cached_property
    def _search(self) -> Any:
        """Made when there is something to find; most processes never need it."""
        return _installed("re2").compile(self._union, self._options).search


class ReGate:
    """One pattern after the other, and only those whose literals are there."""

    name = "re"

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self._triggers = triggers
        self._compiled: dict[bytes, re.Pattern[bytes]] = {}

    def hits(self, data: bytes) -> Sequence[int]:
        """Look for literals in lower case: that is the wider net."""
        lower = data.lower()
        found: set[int] = set()
        for trigger in self._triggers:
            if not trigger.literals or any(literal in lower for literal in trigger.literals):
                self._add(trigger.pattern, data, found)
        return sorted(found) if found else ()

    def each(self, data: bytes) -> Iterator[int]:
        """Return them all; one after the other they would not be in order."""
        return iter(self.hits(data))

    def finds(self, data: bytes) -> bool:
        """Stop at the first pattern that matches."""
        lower = data.lower()
        return any(
            self._compile(trigger.pattern).search(data)
            for trigger in self._triggers
            if not trigger.literals or any(literal in lower for literal in trigger.literals)
        )

    def _add(self, pattern: bytes, data: bytes, found: set[int]) -> None:
        search = self._compile(pattern).search
        match = search(data)
        while match is not None:
            found.add(match.start())
            match = search(data, match.start() + 1)

    def _compile(self, pattern: bytes) -> re.Pattern[bytes]:
        compiled = self._compiled.get(pattern)
        if compiled is None:
            compiled = self._compiled[pattern] = re.compile(pattern)
        return compiled


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        wanted = "google-re2" if name == "re2" else name
        raise InvalidRule(f"the engine {name!r} is not installed: pip install {wanted}") from None


def _union(triggers: Sequence[Trigger]) -> bytes:
    return b"|".join(b"(?:" + trigger.pattern + b")" for trigger in triggers) or rb"[^\x00-\xff]"


def _text(error: Exception) -> str:
    return str(error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error)


_REPEAT = re.compile(rb"(?<!\\)\{(\d+)(,?)(\d*)\}\??")

_ENOUGH = 20


def simpler(pattern: bytes) -> bytes:
    """Let long repeats be longer than they may, and end them early.

    That makes a smaller automaton, which matches at least as often and reads no further than it must.
    """

    def widen(match: re.Match[bytes]) -> bytes:
        low, comma, high = int(match[1]), match[2], match[3]
        endless = comma and not high
        if low > _ENOUGH or endless or (high and int(high) > 2 * _ENOUGH):
            return b"{%d,}?" % min(low, _ENOUGH)
        return match[0]

    return _REPEAT.sub(widen, pattern)
