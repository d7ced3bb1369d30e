"""What names mean in a file: which import a name comes from, through the scopes of Python.

The answer is a dotted name as the import spells it (`callsheet.ToolResult`), whatever alias the
file uses. A name that something else binds too (a parameter, an assignment) has no meaning here: a
rule that isn't sure reports nothing. Imports are not followed into other files: a name is ours if the file
itself imports it from callsheet.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

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
"""The names that `from callsheet import *` may bring."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Binding = str | ast.expr | None
"""What a name is bound to: the dotted name of an import, an expression, or something unknown."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NAMED = (*_SCOPES[:2], ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_BUILTINS = frozenset(dir(builtins))


def is_ours(dotted: str) -> bool:
    """Return whether a dotted name begins with our package."""
    return dotted.partition(".")[0] == PACKAGE


def our_name(dotted: str | None) -> str | None:
    """Return which of our names a dotted name is; None if it belongs to somebody else."""
    return dotted.rpartition(".")[2] if dotted and is_ours(dotted) else None


class Names:
    """The scopes of one file, and what is bound in each."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._has_star: bool = False
        self._bound: dict[ast.AST, dict[str, list[Binding]]] = {tree: {}}
        waiting: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
        while waiting:
            node, scope = waiting.pop()
            for name, binding in self._bindings(node):
                self._bound[scope].setdefault(name, []).append(binding)
            if isinstance(node, _SCOPES):
                self._bound[node] = {}
                if not isinstance(node, ast.ClassDef):
                    self._bound[node] = {one.arg: [None] for one in parameters(node.args)}
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                is_inner = isinstance(node, _SCOPES) and _is_inside(child, node)
                waiting.append((child, node if is_inner else scope))

    def dotted(self, node: ast.AST) -> str | None:
        """Return the dotted name that an expression means; None if it has none, or it is unknown."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        for depth, scope in enumerate(self._scopes_of(node)):
            # A class's names are not seen from the functions in it.
            if node.id in self._bound[scope] and not (depth and isinstance(scope, ast.ClassDef)):
                return _agreed(self._bound[scope][node.id])
        return self._unbound(node.id)

    def value(self, node: ast.expr) -> ast.expr:
        """Return what a name was assigned, if that was once and in the same function; else the node."""
        if isinstance(node, ast.Name):
            scope = next(self._scopes_of(node), None)
            if scope is not None and not isinstance(scope, ast.Module):
                bound = self._bound[scope].get(node.id, [])
                if len(bound) == 1 and isinstance(bound[0], ast.expr):
                    return bound[0]
        return node

    def _scopes_of(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the scopes that a node stands in, from the inside out."""
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if parent in self._bound and _is_inside(child, parent):
                yield parent
            child, parent = parent, self.parents.get(parent)

    def _unbound(self, name: str) -> str | None:
        if name in _BUILTINS:
            return f"builtins.{name}"
        return f"{PACKAGE}.{name}" if self._has_star and name in NAMES else None

    def _bindings(self, node: ast.AST) -> Iterator[tuple[str, Binding]]:
        """Yield the names that a node binds in its scope, and to what."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = f"{'.' * node.level}{node.module or ''}"
            for alias in node.names:
                if alias.name == "*":
                    self._has_star |= is_ours(module)
                else:
                    yield alias.asname or alias.name, f"{module}.{alias.name}"
        elif isinstance(node, _NAMED):
            if node.name:
                yield node.name, None
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from ((name, None) for name in node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            parent = self.parents[node]
            is_plain = isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
            yield node.id, parent.value if is_plain else None


def parameters(arguments: ast.arguments) -> Iterable[ast.arg]:
    """Yield all parameters of a function, in order."""
    rest = (arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
    yield from (one for one in (*arguments.posonlyargs, *arguments.args, *rest) if one is not None)


def _is_inside(child: ast.AST, node: ast.AST) -> bool:
    """Return whether a child of a scope is evaluated in it: decorators and defaults are not."""
    if isinstance(node, ast.Lambda):
        return child is node.body
    return isinstance(child, ast.stmt)


def _agreed(bound: list[Binding]) -> str | None:
    """Return the one import behind a name; ours, if there is another one (`except ImportError`)."""
    for dotted in bound:
        if isinstance(dotted, str) and (is_ours(dotted) or len(set(bound)) == 1):
            return dotted
    return None
