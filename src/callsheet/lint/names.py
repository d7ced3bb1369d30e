"""What names mean in a file: which import a name comes from, through the scopes of Python.

The answer is a dotted name as the import spells it (`callsheet.ToolResult`), whatever alias the
file uses. A name that something else binds too (a parameter, an assignment) has no meaning here: a
rule that isn't sure reports nothing. `ProjectImports` follows imports through a project's own modules, so
that `from .types import ToolResult` is ours if `types.py` imports it from callsheet. Files are
parsed, never imported.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "callsheet"
RESULT = "ToolResult"
CALL = "Call"

ERRORS = frozenset(
    {"ToolError", "InvalidArguments", "NotFound", "NotPermitted", "TimedOut"}
    | {"Cancelled", "ExecutionFailed", "IOFailed"}
)
EXECUTORS = frozenset({"tool", "Tool", "Session", "Executor"})
"""What takes functions as tools. An executor runs these, and measures them."""

NAMES = frozenset({RESULT, CALL}) | ERRORS | EXECUTORS
"""The names that are searched for behind the imports of a project's own modules."""

UNKNOWN = "?"
"""Stands before a name that a file uses but nowhere binds: a snippet without its imports."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Follow = Callable[[str, int, str], str]
"""Returns the dotted name behind (module, level, name) of an import."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NAMED = (*_SCOPES[:2], ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_BUILTINS = frozenset(dir(builtins))


def is_ours(dotted: str) -> bool:
    """Return whether a dotted name begins with our package."""
    return dotted.partition(".")[0] == PACKAGE


def our_name(dotted: str | None) -> str | None:
    """Return which of our names a dotted name is; None if it belongs to somebody else."""
    root, _, rest = (dotted or "").partition(".")
    if root == PACKAGE:
        return rest.rpartition(".")[2] or None
    return rest if root == UNKNOWN and rest in NAMES else None


@dataclass(slots=True)
class NameScope:
    """A module, class or function, and what its names are bound to."""

    node: ast.AST
    parent: NameScope | None
    bound: dict[str, list[str | None]] = field(default_factory=dict[str, list[str | None]])
    """The dotted names that a name was imported as; None for what binds it otherwise."""
    values: dict[str, list[ast.expr | None]] = field(
        default_factory=dict[str, list[ast.expr | None]]
    )
    """What is assigned to a name; None where that is unknown."""

    def bind(self, name: str, dotted: str | None = None) -> None:
        """Record that something is bound to a name."""
        self.bound.setdefault(name, []).append(dotted)

    def assign(self, name: str, value: ast.expr | None) -> None:
        """Record that a value is assigned to a name."""
        self.bind(name)
        self.values.setdefault(name, []).append(value)


class Names:
    """The scopes of one file."""

    def __init__(self, tree: ast.Module, follow: Follow) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._follow: Follow = follow
        self._stars: list[tuple[str, int]] = []
        self._module: NameScope = NameScope(tree, None)
        self._scopes: dict[ast.AST, NameScope] = {tree: self._module}
        self._collect(tree)

    def dotted(self, node: ast.AST) -> str | None:
        """Return the dotted name that an expression means; None if it has none, or it is unknown."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        scope: NameScope | None = self._scope_of(node)
        first = True
        while scope is not None:  # a class's names are not seen from the functions in it
            if node.id in scope.bound and (first or not isinstance(scope.node, ast.ClassDef)):
                return _agreed(scope.bound[node.id])
            scope, first = scope.parent, False
        return self._unbound(node.id)

    def value(self, node: ast.expr) -> ast.expr:
        """Return what a name was assigned, if that was once and in the same function; else the node."""
        if isinstance(node, ast.Name):
            scope = self._scope_of(node)
            values = scope.values.get(node.id, [])
            if scope is not self._module and len(values) == len(scope.bound.get(node.id, [])) == 1:
                return values[0] or node
        return node

    def _scope_of(self, node: ast.AST) -> NameScope:
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if parent in self._scopes and _is_inside(child, parent):
                return self._scopes[parent]
            child, parent = parent, self.parents.get(parent)
        return self._module

    def _unbound(self, name: str) -> str | None:
        if name in _BUILTINS:
            return f"builtins.{name}"
        if not self._stars:
            return f"{UNKNOWN}.{name}"
        if name in NAMES:
            found = (self._follow(module, level, name) for module, level in self._stars)
            return next(filter(is_ours, found), None)
        return None

    def _collect(self, tree: ast.Module) -> None:
        waiting: list[tuple[ast.AST, NameScope]] = [(tree, self._module)]
        while waiting:
            node, scope = waiting.pop()
            self._record(node, scope)
            inner = scope
            if isinstance(node, _SCOPES):
                inner = self._scopes[node] = NameScope(node, scope)
                if not isinstance(node, ast.ClassDef):
                    for argument in parameters(node.args):
                        inner.bind(argument.arg)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                waiting.append((child, inner if _is_inside(child, node) else scope))

    def _record(self, node: ast.AST, scope: NameScope) -> None:
        """Record what a node binds."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                scope.bind(alias.asname or top, alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self._stars.append((node.module or "", node.level))
                else:
                    dotted = self._follow(node.module or "", node.level, alias.name)
                    scope.bind(alias.asname or alias.name, dotted)
        elif isinstance(node, _NAMED):
            if node.name:
                scope.bind(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                scope.assign(name, None)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            parent = self.parents[node]
            is_plain = isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
            scope.assign(node.id, parent.value if is_plain else None)


def parameters(arguments: ast.arguments) -> Iterable[ast.arg]:
    """Yield all parameters of a function, in order."""
    yield from (*arguments.posonlyargs, *arguments.args)
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def _is_inside(child: ast.AST, node: ast.AST) -> bool:
    """Return whether a child of a scope is evaluated in it: decorators and defaults are not."""
    if isinstance(node, ast.Lambda):
        return child is node.body
    return not isinstance(node, _SCOPES) or isinstance(child, ast.stmt)


def _agreed(bound: list[str | None]) -> str | None:
    """Return the one import behind a name; ours, if there is another one (`except ImportError`)."""
    for dotted in bound:
        if dotted is not None and is_ours(dotted):
            return dotted
    return bound[0] if len(set(bound)) == 1 else None


_MOST_HOPS = 5
"""Files that an import is followed through. More would be a maze, or a circle."""


class ProjectImports:
    """The modules of a project, as far as imports lead through them; caches what it has parsed."""

    def __init__(self, read: Callable[[Path], str | None]) -> None:
        self._read: Callable[[Path], str | None] = read
        self._imports: dict[Path, list[ast.ImportFrom]] = {}

    def follow(self, path: Path, module: str, level: int, name: str, hops: int = _MOST_HOPS) -> str:
        """Return the dotted name that an import in the file at `path` leads to."""
        package = _package(path.parent)
        if level:
            base = package[: len(package) - level + 1]
            module = ".".join((*base, module) if module else base)
        if name not in NAMES or not hops or not module or is_ours(module):
            return f"{module}.{name}"
        above = level - 1 if level and not package else len(package)
        for start in dict.fromkeys((*path.parents[above : above + 1], path.parent)):
            file = start.joinpath(*module.split("."))
            for candidate in (file.parent / f"{file.name}.py", file / "__init__.py"):
                found = self._through(candidate, name, hops)
                if found is not None:
                    return found
        return f"{module}.{name}"

    def _through(self, file: Path, name: str, hops: int) -> str | None:
        """Return where a name that a file imports leads to, if that is ours."""
        if file not in self._imports:
            self._imports[file] = _imports_in(self._read(file) or "")
        for node in self._imports[file]:
            for alias in node.names:
                if alias.name == "*" or (alias.asname or alias.name) == name:
                    original = name if alias.name == "*" else alias.name
                    found = self.follow(file, node.module or "", node.level, original, hops - 1)
                    if is_ours(found):
                        return found
        return None


def _package(directory: Path) -> tuple[str, ...]:
    """Return the package that the files of a directory belong to."""
    if not directory.name or not (directory / "__init__.py").is_file():
        return ()
    return (*_package(directory.parent), directory.name)


def _imports_in(text: str) -> list[ast.ImportFrom]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
