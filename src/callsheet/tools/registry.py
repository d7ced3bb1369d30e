"""Which tools there are, by name. Built-in ones are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from .arguments import nearest
from .builtin import BUILTIN
from .signature import BadTool
from .tool import Tool, tool


class Registry:
    """The tools of a session. One of the same name takes the place of a built-in one."""

    def __init__(
        self, tools: Iterable[Tool | Callable[..., Any]] = (), *, builtin: bool = True
    ) -> None:
        self._tools: dict[str, Tool | str] = dict(BUILTIN) if builtin else {}
        given: set[str] = set()
        for one in tools:
            made = self.add(one)
            if made.name in given:
                raise BadTool(f"there are two tools named {made.name!r}; give one another name")
            given.add(made.name)

    def add(self, one: Tool | Callable[..., Any]) -> Tool:
        """Add a tool, or a function that becomes one."""
        made = one if isinstance(one, Tool) else tool(one)
        self._tools[made.name] = made
        return made

    def remove(self, name: str) -> None:
        """Take a tool away."""
        self._tools.pop(name, None)

    def get(self, name: str) -> Tool | None:
        """Return a tool by its name."""
        found = self._tools.get(name)
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._tools[name] = getattr(
                import_module(f"callsheet.tools.builtin.{module}"), attribute
            )
        return found if isinstance(found, Tool) else None

    def names(self) -> list[str]:
        """Return the names of all tools."""
        return list(self._tools)

    def nearest(self, name: str) -> list[str]:
        """Return the names that somebody may have meant."""
        return nearest(name, self._tools)

    def __iter__(self) -> Iterator[Tool]:
        for name in self.names():
            found = self.get(name)
            if found is not None:
                yield found

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools
