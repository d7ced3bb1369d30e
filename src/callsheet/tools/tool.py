"""`@tool` makes a tool of a plain function, and `Registry` holds the tools of a session by name.

What a model needs to know of a tool is read off the function: its name, docstring and hints.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, TypeAlias, overload

from callsheet.report.fields import Kind, ToolCallLocation, ToolKind, to_kind
from callsheet.report.json import JsonObject
from callsheet.tools.arguments import nearest
from callsheet.tools.builtin import BUILTIN
from callsheet.tools.signature import (
    BadTool,
    Parameters,
    PathArgument,
    read_docstring,
    read_signature,
)

Locate: TypeAlias = Callable[[JsonObject], Sequence[ToolCallLocation | str]]
Permission: TypeAlias = bool | Callable[[JsonObject], bool] | None
Preview: TypeAlias = Callable[..., Any]
Scope: TypeAlias = Callable[[JsonObject], str | None]
How: TypeAlias = Literal["async", "async stream", "sync", "stream"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}").fullmatch
_READING = (ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK)


class Tool:
    """A function, and everything that a model, a user and the executor must know of it.

    It can still be called like the function that it was made from.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        parameters: Parameters,
        *,
        kind: Kind | str | None = None,
        title: str | None = None,
        locations: Sequence[str] | Locate | None = None,
        read_only: bool | None = None,
        timeout: float | None = None,
        permission: Permission = None,
        writes: Sequence[str] | None = None,
        reads: Sequence[str] | None = None,
        annotations: Mapping[str, Any] | None = None,
        preview: Preview | None = None,
        scope: Scope | None = None,
    ) -> None:
        if not _NAME(name):
            raise BadTool(
                f"tool {name!r}: a name has letters, digits, '_', '-' and '.', at most 128 of them"
            )
        if timeout is not None and not timeout > 0:
            raise BadTool(f"tool {name!r}: timeout: expected seconds above 0, got {timeout}")
        self.function: Callable[..., Any] = function
        self.name: str = name
        self.description: str = description
        self.parameters: Parameters = parameters
        self.kind: Kind | None = None if kind is None else to_kind(kind)
        self.title: str | None = title
        self.locations: Sequence[str] | Locate | None = locations
        self.read_only: bool = self.kind in _READING if read_only is None else read_only
        self.timeout: float | None = timeout
        self.permission: Permission = permission
        self.annotations: Mapping[str, Any] | None = annotations
        self.preview: Preview | None = preview
        self.scope: Scope | None = scope
        self.how: How = _how(function)
        self.paths: tuple[PathArgument, ...] = parameters.paths
        names = frozenset(path.name for path in self.paths)
        own = frozenset[str]() if self.read_only else names
        self.writes: frozenset[str] = own if writes is None else self._paths("writes", writes)
        others = names - self.writes
        self.reads: frozenset[str] = others if reads is None else self._paths("reads", reads)
        self.__doc__ = description
        self.__name__ = name

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        schema: JsonObject,
        function: Callable[..., Any],
        *,
        read_only: bool = False,
        **declared: Any,
    ) -> Tool:
        """Make a tool whose schema is known from elsewhere: `function(call, arguments)`.

        `declared` are further arguments of `Tool`.
        """
        parameters = Parameters(schema, _as_one, (), takes_call=True)
        return cls(function, name, description, parameters, read_only=read_only, **declared)

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        return self.parameters.schema

    def needs_permission(self, arguments: JsonObject) -> bool:
        """Whether the user should be asked before it is run with these arguments."""
        if callable(self.permission):
            return bool(self.permission(arguments))
        return not self.read_only if self.permission is None else self.permission

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the bare function: nothing is checked, asked or reported."""
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<Tool {self.name}({', '.join(self.schema.get('properties', ()))})>"

    def _paths(self, option: str, declared: Sequence[str]) -> frozenset[str]:
        paths = {path.name for path in self.paths}
        for name in declared:
            if name not in paths:
                raise BadTool(
                    f"tool {self.name!r}: {option}: {name!r} is not an argument with a Path"
                )
        return frozenset(declared)


def _as_one(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"arguments": dict(arguments)}


def _how(function: Callable[..., Any]) -> How:
    if inspect.isasyncgenfunction(function):
        return "async stream"
    if inspect.iscoroutinefunction(function):
        return "async"
    return "stream" if inspect.isgeneratorfunction(function) else "sync"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    kind: Kind | str | None = None,
    title: str | None = None,
    locations: Sequence[str] | Locate | None = None,
    read_only: bool | None = None,
    timeout: float | None = None,
    permission: Permission = None,
    writes: Sequence[str] | None = None,
    reads: Sequence[str] | None = None,
    preview: Preview | None = None,
    scope: Scope | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **declared: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async: `@tool` or `@tool(kind="read", title="Reading {path}")`.

    - Name, description and schema come from the function's name, docstring and hints.
    - A first parameter `call: Call` gets the live call. Arguments with the hint `Path` are held inside
      the workspace, and are absolute when the function gets them.
    - `kind`, `title` and `locations` are shown to the user; what isn't declared is found by `describe`.
      `locations` names arguments (`["{path}"]`), or is a function of the arguments.
    - `read_only` tools are not asked about, and run beside each other. (Those of kind read, search and
      think are, unless declared otherwise.) Tools that write are run one after another for each path;
      `writes` names the arguments that are written to, if not all paths are; `reads` those of the others
      that must not be written to meanwhile, if not all must not.
    - `timeout` is in seconds. `permission` is True (always ask), False (never), or a function of the
      arguments.
    - `preview` is called like the tool before the user is asked, and returns what would change, as content
      (`ToolCallContent.diff(path, old, new)`). What it raises ends the call, and the user is not asked.
    - `scope` says what "always" means in the answer: it returns a name for all arguments that are alike
      (`git status`), or None for just these. Without it, "always" is for the tool.

    The function may return a `ToolResult`, text, or data; if it yields, that is its live output.
    """

    def make(function: Callable[..., Any]) -> Tool:
        if isinstance(function, Tool) or not callable(function):
            raise BadTool(f"@tool makes a tool of a function, got {function!r}")
        named = name or getattr(function, "__name__", "")
        doc = read_docstring(function.__doc__)
        parameters = read_signature(function, named, doc)
        return Tool(function, named, description or doc.text, parameters, **declared)

    return make if function is None else make(function)


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
        """Return the names that may be meant."""
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
