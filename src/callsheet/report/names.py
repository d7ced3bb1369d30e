"""Which names lead to which call: ids, aliases, parents, dependencies, and which ids are used up.

The ledger's index. It knows calls by their ids and notes only.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Protocol, TypeAlias

from .ids import is_ours
from .values import JsonObject, is_list

_Links: TypeAlias = dict[str, dict[str, None]]
"""From a call to the calls that name it, in order; a dict because leaving must be as cheap as joining."""


LINKS = frozenset({"alias", "parentId", "dependsOn"})
"""The notes by which calls are found."""


class Named(Protocol):
    """What the index needs of a call."""

    @property
    def tool_call_id(self) -> str:
        """Its id."""
        ...

    @property
    def notes(self) -> JsonObject:
        """What stands in `_meta.callsheet`."""
        ...


class Names:
    """The names of one session's calls. `calls` are those that the ledger still knows."""

    def __init__(self, calls: Container[str]) -> None:
        self.aliases: dict[str, str] = {}
        self.last_own: str = ""
        self.first_own: str = ""
        self._calls: Container[str] = calls
        self._children: _Links = {}
        self._dependents: _Links = {}
        self._foreign: set[str] = set()
        self._came_as: dict[str, str] = {}
        self._used: _Bloom = _Bloom()

    def children(self, key: str) -> tuple[str, ...]:
        """Return the ids of the calls whose parent this is, in the order they were linked."""
        return tuple(self._children.get(self.aliases.get(key, key), ()))

    def dependents(self, key: str) -> tuple[str, ...]:
        """Return the ids of the calls that depend on this one."""
        return tuple(self._dependents.get(self.aliases.get(key, key), ()))

    def is_used(self, tool_call_id: str) -> bool:
        """Whether an id was ever used here. Our own increase, so the first and the last tell of all."""
        return (
            tool_call_id in self._calls
            or tool_call_id in self.aliases
            or (self.first_own <= tool_call_id <= self.last_own and is_ours(tool_call_id))
            or tool_call_id in self._used
        )

    def use(self, tool_call_id: str) -> None:
        """Note an id from outside."""
        self._foreign.add(tool_call_id)

    def rename(self, old: str, new: str) -> None:
        """Let a call that came under a used id be found under it, beside its new one."""
        self._came_as[new] = old
        self._name(old, new)

    def link(self, call: Named) -> None:
        """Make a call findable by its alias, and from the calls that it stands under or waits for."""
        tool_call_id, notes = call.tool_call_id, call.notes
        alias, parent = notes.get("alias"), notes.get("parentId")
        if isinstance(alias, str) and alias != tool_call_id:
            self._name(alias, tool_call_id)
        if isinstance(parent, str):
            self._children.setdefault(self.aliases.get(parent, parent), {})[tool_call_id] = None
        for other in _dependencies(notes):
            self._dependents.setdefault(self.aliases.get(other, other), {})[tool_call_id] = None

    def unlink(self, call: Named) -> None:
        """Take a call out of the indexes that its notes put it in."""
        tool_call_id, notes = call.tool_call_id, call.notes
        alias, parent = notes.get("alias"), notes.get("parentId")
        if isinstance(parent, str):
            _drop(self._children, self.aliases.get(parent, parent), tool_call_id)
        for other in _dependencies(notes):
            _drop(self._dependents, self.aliases.get(other, other), tool_call_id)
        if isinstance(alias, str) and self.aliases.get(alias) == tool_call_id:
            del self.aliases[alias]

    def forget(self, calls: Sequence[Named]) -> None:
        """Let calls leave. All that stays of them is that their ids are used up."""
        if self._foreign or self.aliases or self._children or self._dependents:
            for call in calls:
                self._forget(call)

    def _forget(self, call: Named) -> None:
        tool_call_id = call.tool_call_id
        self.unlink(call)
        self._children.pop(tool_call_id, None)
        self._dependents.pop(tool_call_id, None)
        if tool_call_id in self._foreign:
            self._foreign.remove(tool_call_id)
            self._used.add(tool_call_id)
        came_as = self._came_as.pop(tool_call_id, None)
        if came_as is not None and self.aliases.get(came_as) == tool_call_id:
            del self.aliases[came_as]

    def _name(self, alias: str, tool_call_id: str) -> None:
        """Let an alias name its latest holder.

        Whoever holds one of our own ids reaches that call, whatever aliases a model makes up.
        """
        if not (alias in self._calls and is_ours(alias)):
            self.aliases[alias] = tool_call_id


class _Bloom:
    """Which ids from outside were used by calls that have left, in fixed memory.

    A Bloom filter: it never forgets an id, and at worst takes a new one for taken. That costs such
    a call nothing but a fresh id; using an id twice would make editors rewrite the card of an old
    call.
    """

    BITS = 1 << 24  # 2 MiB: one wrong "taken" in 1,700 after a million ids
    PROBES = 7

    def __init__(self) -> None:
        self._bits: bytearray | None = None

    def add(self, tool_call_id: str) -> None:
        if self._bits is None:
            self._bits = bytearray(self.BITS // 8)
        for bit in self._probe(tool_call_id):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, tool_call_id: str) -> bool:
        bits = self._bits
        return bits is not None and all(
            bits[bit >> 3] >> (bit & 7) & 1 for bit in self._probe(tool_call_id)
        )

    def _probe(self, tool_call_id: str) -> Iterator[int]:
        bit, step = hash(tool_call_id), hash((tool_call_id,)) | 1
        for _ in range(self.PROBES):
            yield bit % self.BITS
            bit += step


def _dependencies(notes: JsonObject) -> list[str]:
    others = notes.get("dependsOn")
    return [other for other in others if isinstance(other, str)] if is_list(others) else []


def _drop(links: _Links, key: str, tool_call_id: str) -> None:
    linked = links.get(key)
    if linked is not None:
        linked.pop(tool_call_id, None)
        if not linked:
            del links[key]
