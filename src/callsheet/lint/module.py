"""One parsed file, as rules see it: its tools, the results it makes, and what surrounds a node."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from callsheet.lint.names import Follow, Function, Names
from callsheet.lint.results import (
    Made,
    is_unmistakable,
    made_by,
    made_of_dict,
    returned,
    shaped_dict,
)
from callsheet.lint.source import Source
from callsheet.lint.tools import Tool, find_tools, own_nodes

_REFUSALS = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    """A parsed file."""

    def __init__(self, source: Source, tree: ast.Module, follow: Follow) -> None:
        self.source: Source = source
        self.tree: ast.Module = tree
        self.names: Names = Names(tree, follow)
        self.tools: dict[ast.AST, Tool] = find_tools(tree, self.names)

    @cached_property
    def results(self) -> list[Made]:
        """All places where results are made, in order."""
        found = [*self._made(), *self._dicts()]
        kept = (made for made in found if not self._is_refused(made.node))
        return sorted(kept, key=lambda made: (made.node.lineno, made.node.col_offset))

    def results_of(self, tool: Tool) -> list[Made]:
        """The results that a tool makes."""
        return [made for made in self.results if made.tool is tool]

    def _made(self) -> Iterator[Made]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                made = made_by(node, self.names, self.tool_of(node))
                if made is not None and not self._is_in_class(node, "ToolResult"):
                    yield made

    def _dicts(self) -> Iterator[Made]:
        seen: set[ast.Dict] = set()
        for function in ast.walk(self.tree):
            if isinstance(function, _FUNCTIONS):
                tool = self.tools.get(function)
                for value in returned(own_nodes(function)):
                    shaped = shaped_dict(self.names.value(value), self.names)
                    if shaped is None or shaped in seen:
                        continue
                    if tool is not None or is_unmistakable(shaped):
                        seen.add(shaped)
                        yield made_of_dict(shaped, tool)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Return what a node stands in, from the inside out."""
        parent = self.names.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.names.parents.get(parent)

    def function_of(self, node: ast.AST) -> Function | ast.Lambda | None:
        """Return the innermost function that a node stands in."""
        for parent in self.ancestors(node):
            if isinstance(parent, (*_FUNCTIONS, ast.Lambda)):
                return parent
        return None

    def tool_of(self, node: ast.AST) -> Tool | None:
        """Return the innermost tool that a node stands in, also in a function inside of that."""
        for parent in self.ancestors(node):
            if parent in self.tools:
                return self.tools[parent]
        return None

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement that a node is a part of."""
        if isinstance(node, ast.stmt):
            return node
        return next(
            (parent for parent in self.ancestors(node) if isinstance(parent, ast.stmt)), None
        )

    def chain(self, made: Made) -> tuple[list[str], ast.AST]:
        """Return what is chained to a result (`with_metadata`, …), and the whole expression."""
        links: list[str] = []
        node: ast.AST = made.node
        while True:
            parent = self.names.parents.get(node)
            if isinstance(parent, ast.Attribute):
                links.append(parent.attr)
            elif not (isinstance(parent, ast.Call) and parent.func is node):
                return links, node
            node = parent

    def _is_refused(self, node: ast.AST) -> bool:
        """Whether a test holds here that something is refused."""
        for parent in self.ancestors(node):
            if isinstance(parent, (ast.With, ast.AsyncWith)):
                for item in parent.items:
                    call = item.context_expr
                    func = call.func if isinstance(call, ast.Call) else call
                    if isinstance(func, ast.Attribute) and func.attr in _REFUSALS:
                        return True
        return False

    def _is_in_class(self, node: ast.AST, name: str) -> bool:
        return any(
            isinstance(parent, ast.ClassDef) and parent.name == name
            for parent in self.ancestors(node)
        )
