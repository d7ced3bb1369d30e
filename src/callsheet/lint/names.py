"""What names mean in a file: which import a name comes from, through the scopes of Python.

The answer is a dotted name as the import says it (`callsheet.ToolResult`, `time.sleep`), whatever
alias the file uses. A name that something else binds too (a parameter, an assignment) means
nothing here: a rule that isn't sure says nothing.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from callsheet.lint.vocabulary import NAMES, UNKNOWN, is_ours

Function = ast.FunctionDef | ast.AsyncFunctionDef
Follow = Callable[[str, int, str], str]
"""Gives the dotted name behind (module, level, name) of an import, through a project's own files."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NAMED = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
    ast.MatchAs,
    ast.MatchStar,
)
_BUILTINS = frozenset(dir(builtins))


@dataclass(slots=True)
class Scope:
    """A module, class or function, and what its names are bound to."""

    node: ast.AST
    parent: Scope | None
    bound: dict[str, list[str | None]] = field(default_factory=dict[str, list[str | None]])
    """The dotted names that a name was imported as; None for what binds it otherwise."""
    values: dict[str, list[ast.expr | None]] = field(
        default_factory=dict[str, list[ast.expr | None]]
    )
    """What is assigned to a name; None where that can't be told."""
    types: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """The annotation of a name."""

    def bind(self, name: str, dotted: str | None = None) -> None:
        """Note that something is bound to a name."""
        self.bound.setdefault(name, []).append(dotted)

    def assign(self, name: str, value: ast.expr | None) -> None:
        """Note that a value is assigned to a name."""
        self.bind(name)
        self.values.setdefault(name, []).append(value)


class Names:
    """The scopes of one file."""

    def __init__(self, tree: ast.Module, follow: Follow) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._scopes: dict[ast.AST, Scope] = {}
        self._follow: Follow = follow
        self._stars: list[tuple[str, int]] = []
        self.module: Scope = Scope(tree, None)
        self._scopes[tree] = self.module
        self._walk(tree)

    # Asking

    def dotted(self, node: ast.AST) -> str | None:
        """Return the dotted name that an expression means; None if it's none, or can't be told."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        scope = self.scope_of_name(node.id, node)
        return self._unbound(node.id) if scope is None else _agreed(scope.bound[node.id])

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the scope in which an expression is evaluated."""
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if parent in self._scopes and _is_inside(child, parent):
                return self._scopes[parent]
            child, parent = parent, self.parents.get(parent)
        return self.module

    def scope_of_name(self, name: str, node: ast.AST) -> Scope | None:
        """Return the scope that binds a name as seen from a node; None if none does."""
        scope: Scope | None = self.scope_of(node)
        first = True
        while scope is not None:
            if name in scope.bound and (first or not isinstance(scope.node, ast.ClassDef)):
                return scope
            scope, first = scope.parent, False
        return None

    def value(self, node: ast.expr) -> ast.expr:
        """Return what a name was assigned, if that was once and in the same function; else the node."""
        if isinstance(node, ast.Name):
            scope = self.scope_of(node)
            values = scope.values.get(node.id, [])
            if scope is not self.module and len(values) == len(scope.bound.get(node.id, [])) == 1:
                return values[0] or node
        return node

    def type_of(self, node: ast.expr) -> str | None:
        """Return the dotted class of a value, by its annotation or by the call that made it."""
        if isinstance(node, ast.Call):
            return self.dotted(node.func)
        if not isinstance(node, ast.Name):
            return None
        scope = self.scope_of_name(node.id, node)
        if scope is None:
            return None
        if node.id in scope.types:
            return self.dotted(scope.types[node.id])
        made = {self._made_by(value) for value in scope.values.get(node.id, [])}
        alone = len(made) == 1 and len(scope.values[node.id]) == len(scope.bound[node.id])
        return made.pop() if alone else None

    def _made_by(self, value: ast.expr | None) -> str | None:
        return self.dotted(value.func) if isinstance(value, ast.Call) else None

    def _unbound(self, name: str) -> str | None:
        if name in _BUILTINS:
            return f"builtins.{name}"
        if not self._stars:
            return f"{UNKNOWN}.{name}"
        if name in NAMES:
            found = (self._follow(module, level, name) for module, level in self._stars)
            return next(filter(is_ours, found), None)
        return None

    # Collecting

    def _walk(self, tree: ast.Module) -> None:
        waiting: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        while waiting:
            node, scope = waiting.pop()
            self._note(node, scope)
            inner = scope
            if isinstance(node, _SCOPES):
                inner = self._scopes[node] = Scope(node, scope)
                self._note_arguments(node, inner)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                waiting.append((child, inner if _is_inside(child, node) else scope))

    def _note(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                scope.bind(alias.asname or top, alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            self._note_from(node, scope)
        elif isinstance(node, _NAMED):
            if node.name:
                scope.bind(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                scope.assign(name, None)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            scope.assign(node.id, self._assigned(node))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            scope.types[node.target.id] = node.annotation

    def _assigned(self, name: ast.Name) -> ast.expr | None:
        """Return what stands on the other side of a plain assignment or of `with … as name`."""
        parent = self.parents[name]
        if isinstance(parent, ast.Assign):
            return parent.value
        if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)) and parent.target is name:
            return parent.value
        if isinstance(parent, ast.withitem) and parent.optional_vars is name:
            return parent.context_expr
        return None

    def _note_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                self._stars.append((module, node.level))
            else:
                dotted = self._follow(module, node.level, alias.name)
                scope.bind(alias.asname or alias.name, dotted)

    def _note_arguments(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for argument in parameters(node.args):
                scope.bind(argument.arg)
                if argument.annotation is not None:
                    scope.types[argument.arg] = argument.annotation


def parameters(arguments: ast.arguments) -> Iterable[ast.arg]:
    """Return all parameters of a function, in order."""
    yield from arguments.posonlyargs
    yield from arguments.args
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def _is_inside(child: ast.AST, node: ast.AST) -> bool:
    """Whether a child of a scope is evaluated in it: decorators, defaults and annotations aren't."""
    if isinstance(node, ast.Lambda):
        return child is node.body
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return isinstance(child, ast.stmt)
    return True


def _agreed(bound: list[str | None]) -> str | None:
    """Return the one import behind a name; ours, if there is another way (`except ImportError`)."""
    for dotted in bound:
        if dotted is not None and is_ours(dotted):
            return dotted
    return bound[0] if len(set(bound)) == 1 else None
