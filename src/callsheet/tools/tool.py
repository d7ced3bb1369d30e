"""`@tool`, which turns a plain function into a tool, and `Registry`, a session's tools by name.

What a model needs to know about a tool is derived from the function: its name, docstring and type hints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

from callsheet.report.fields import Kind, ToolCallLocation, ToolKind, to_kind
from callsheet.report.json import JsonObject
from callsheet.report.patterns import lazy
from callsheet.tools.arguments import Checker, nearest
from callsheet.tools.builtin import BUILTIN
from callsheet.tools.errors import InvalidArguments
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

_NAME = lazy(r"[A-Za-z0-9_.-]{1,128}")
_READING = (ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK)


class ToolOptions(TypedDict, total=False):
    """What can be declared of a tool; see `tool`. MCP servers declare `annotations`."""

    kind: Kind | str | None
    title: str | None
    locations: Sequence[str] | Locate | None
    read_only: bool | None
    timeout: float | None
    permission: Permission
    writes: Sequence[str] | None
    reads: Sequence[str] | None
    annotations: Mapping[str, Any] | None
    preview: Preview | None
    scope: Scope | None


class Tool:
    """A function, and everything that a model, a user and the executor need to know about it.

    It can still be called like the function that it was made from. For the options, see `tool`.

    Raises:
        BadTool: The name or the timeout is invalid, or `writes` or `reads` names an argument without a path.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        parameters: Parameters,
        **options: Unpack[ToolOptions],
    ) -> None:
        if not _NAME.fullmatch(name):
            raise BadTool(
                f"tool {name!r}: a name has letters, digits, '_', '-' and '.', at most 128 of them"
            )
        if unknown := options.keys() - ToolOptions.__annotations__.keys():
            raise BadTool(f"tool {name!r}: there is no option {', '.join(sorted(unknown))}")
        kind, timeout = options.get("kind"), options.get("timeout")
        if timeout is not None and not timeout > 0:
            raise BadTool(f"tool {name!r}: timeout: expected seconds above 0, got {timeout}")
        self.function: Callable[..., Any] = function
        self.name: str = name
        self.description: str = description
        self.parameters: Parameters = parameters
        self.kind: Kind | None = None if kind is None else to_kind(kind)
        self.title: str | None = options.get("title")
        self.locations: Sequence[str] | Locate | None = options.get("locations")
        read_only, writes = options.get("read_only"), options.get("writes")
        self.read_only: bool = self.kind in _READING if read_only is None else read_only
        self.timeout: float | None = timeout
        self.permission: Permission = options.get("permission")
        self.annotations: Mapping[str, Any] | None = options.get("annotations")
        self.preview: Preview | None = options.get("preview")
        self.scope: Scope | None = options.get("scope")
        self.how: How = _how(function)
        self._checker: Checker | None = None
        self.paths: tuple[PathArgument, ...] = parameters.paths
        names = frozenset(path.name for path in self.paths)
        own = frozenset[str]() if self.read_only else names
        self.writes: frozenset[str] = own if writes is None else self._paths("writes", writes)
        others, reads = names - self.writes, options.get("reads")
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
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """Return a tool whose schema does not come from its function.

        Args:
            name: The tool's name.
            description: What a model reads about the tool.
            schema: The JSON Schema of the arguments.
            function: Called as `function(call, arguments)`.
            options: As in `tool`.
        """
        parameters = Parameters(schema, None, (), takes_call=True)
        return cls(function, name, description, parameters, **options)

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        return self.parameters.schema

    def convert(self, arguments: Any) -> dict[str, Any]:
        """Return the values that the function takes for arguments.

        Raises:
            InvalidArguments: The arguments don't match the schema, or a type refuses them.
        """
        convert = self.parameters.convert
        if convert is None:
            self._check(arguments)
            return {"arguments": dict(arguments)}
        try:
            return convert(arguments)
        except Exception as exc:
            self._check(arguments)  # it explains what the schema would take
            raise InvalidArguments(f"{self.name}: {exc}") from exc

    def _check(self, arguments: Any) -> None:
        if self._checker is None:
            self._checker = Checker(self.name, self.schema)
        self._checker(arguments)

    def needs_permission(self, arguments: JsonObject) -> bool:
        """Return whether the user should approve a call with these arguments before it runs."""
        if callable(self.permission):
            return bool(self.permission(arguments))
        return not self.read_only if self.permission is None else self.permission

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function directly, without validation, permission or reporting."""
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
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Turn a function, sync or async, into a tool: `@tool` or `@tool(kind="read", title="Reading {path}")`.

    - The name, description and schema come from the function's name, docstring and type hints.
    - A first parameter `call: Call` receives the live call. Arguments with the type hint `Path` are
      resolved against the workspace, and are absolute when the function receives them.
    - `kind`, `title` and `locations` are shown to the user; `describe` fills in what isn't declared.
      `locations` names arguments (`["{path}"]`), or is a function of the arguments.
    - `read_only` tools need no permission, and run concurrently. (Tools of kind read, search and think are
      read-only, unless declared otherwise.) Tools that write the same path run one after another. `writes`
      names the arguments whose paths are written, by default all of them; `reads` names the other paths
      that must not be written during the call, by default all the others.
    - `timeout` is in seconds. `permission` is True (always needed), False (never), or a function of the
      arguments.
    - `preview` is called like the tool before the user is asked, and returns the change as content
      (`ToolCallContent.diff(path, old, new)`). If it raises, the call ends, and the user is not asked.
    - `scope` defines what an "always" answer applies to: it returns a name that similar arguments share
      (`git status`), or None for these arguments only. Without it, "always" applies to the tool.

    The function may return a `ToolResult`, text, or data; if it yields, that is its live output.

    Raises:
        BadTool: The function can't be a tool, or an option is invalid.
    """

    def make(function: Callable[..., Any]) -> Tool:
        if isinstance(function, Tool) or not callable(function):
            raise BadTool(f"@tool makes a tool of a function, got {function!r}")
        named = name or getattr(function, "__name__", "")
        doc = read_docstring(function.__doc__)
        parameters = read_signature(function, named, doc)
        return Tool(function, named, description or doc.text, parameters, **options)

    return make if function is None else make(function)


class Registry:
    """The tools of a session, by name. A tool replaces a built-in one of the same name.

    Built-in tools are imported when they are first requested.

    Args:
        tools: Tools, or functions to turn into tools.
        builtin: Whether to include the built-in tools, or the names of those to include.

    Raises:
        BadTool: Two of `tools` have the same name, or there is no built-in tool of a name.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        builtin: bool | Sequence[str] = True,
    ) -> None:
        names = builtin if not isinstance(builtin, bool) else BUILTIN if builtin else ()
        if unknown := [name for name in names if name not in BUILTIN]:
            known = ", ".join(BUILTIN)
            raise BadTool(f"there is no built-in tool {unknown[0]!r}; there are {known}")
        self._tools: dict[str, Tool | str] = {name: BUILTIN[name] for name in names}
        given: set[str] = set()
        for one in tools:
            made = self.add(one)
            if made.name in given:
                raise BadTool(f"there are two tools named {made.name!r}; give one another name")
            given.add(made.name)

    def add(self, one: Tool | Callable[..., Any]) -> Tool:
        """Add a tool, or a function to turn into one, and return the tool. Replace one of the same name."""
        made = one if isinstance(one, Tool) else tool(one)
        self._tools[made.name] = made
        return made

    def remove(self, name: str) -> None:
        """Remove a tool, if it is there."""
        self._tools.pop(name, None)

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
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
        """Return the names of tools that are most similar to `name`, best match first."""
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
