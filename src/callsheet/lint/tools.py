"""Which functions of a file are tools.

A tool is a function that is decorated with our `tool` or given to an executor, one that says in
its annotation that it returns a `ToolResult`, or one that returns results it makes. All else is
ordinary code, and none of our business.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.lint.names import Function, Names, parameters
from callsheet.lint.vocabulary import CALL, EXECUTORS, HELPERS, RESULT, TOOL, meaning

_SEE_THROUGH = frozenset(
    {
        "Optional",
        "Union",
        "Annotated",
        "Awaitable",
        "Coroutine",
        "Generator",
        "Iterator",
        "AsyncGenerator",
        "AsyncIterator",
    }
)
_LISTS = (ast.List, ast.Tuple, ast.Set)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that is a tool."""

    node: Function
    executed: bool
    """Whether an executor runs it: then it stamps id and time, and reports."""
    call: str | None
    """The parameter that is the live call."""

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.name

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop."""
        return isinstance(self.node, ast.AsyncFunctionDef)


def find_tools(tree: ast.Module, names: Names) -> dict[ast.AST, Tool]:
    """Return the tools of a file by their nodes."""
    given = set(_given_to_executors(tree, names))
    found: dict[ast.AST, Tool] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            tool = _as_tool(node, node.name in given, names)
            if tool is not None:
                found[node] = tool
    return found


def _as_tool(node: Function, given: bool, names: Names) -> Tool | None:
    call = _annotated_call(node, names)
    if given or _is_decorated(node, names):
        return Tool(node, True, call or _named_call(node))
    if call is not None and any(_is_made_by(part, call) for part in ast.walk(node)):
        return Tool(node, True, call)  # a part of a tool: it makes results for its caller's call
    if is_a(node.returns, RESULT, names) or _returns(node, names):
        return Tool(node, False, call)
    return None


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Return what a function itself does: its nodes, without those of functions inside."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        child = waiting.pop()
        yield child
        if not isinstance(child, _NESTED):
            waiting.extend(ast.iter_child_nodes(child))


def base_of_chain(node: ast.expr) -> ast.expr:
    """Return what a chain of `.with_…(…)` begins with."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if not node.func.attr.startswith("with_"):
            break
        node = node.func.value
    return node


def _given_to_executors(tree: ast.Module, names: Names) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            func = node.func.func if isinstance(node.func, ast.Call) else node.func
            if meaning(names.dotted(func)) in EXECUTORS:
                tools = [keyword.value for keyword in node.keywords if keyword.arg == "tools"]
                for argument in (*node.args, *tools):
                    parts = argument.elts if isinstance(argument, _LISTS) else [argument]
                    yield from (part.id for part in parts if isinstance(part, ast.Name))


def _is_decorated(node: Function, names: Names) -> bool:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if meaning(names.dotted(target)) == TOOL:
            return True
    return False


def _annotated_call(node: Function, names: Names) -> str | None:
    for argument in parameters(node.args):
        if is_a(argument.annotation, CALL, names):
            return argument.arg
    return None


def _named_call(node: Function) -> str | None:
    arguments = [argument.arg for argument in parameters(node.args)]
    first = [name for name in arguments[:2] if name not in ("self", "cls")]
    return CALL.lower() if CALL.lower() in first[:1] else None


def _is_made_by(node: ast.AST, call: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in HELPERS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == call
    )


def is_a(annotation: ast.expr | None, word: str, names: Names) -> bool:
    """Whether an annotation says that a value is of one of our classes, perhaps awaited or None."""
    return any(meaning(names.dotted(part)) == word for part in _types(annotation, names))


def _types(annotation: ast.expr | None, names: Names) -> Iterator[ast.expr]:
    """Return the types that an annotation allows, looking through text, unions and awaitables."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from _types(_quoted(annotation, names), names)
    elif isinstance(annotation, ast.BinOp):
        yield from _types(annotation.left, names)
        yield from _types(annotation.right, names)
    elif isinstance(annotation, ast.Subscript):
        base = annotation.value
        if (
            base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        ) in _SEE_THROUGH:
            inner = annotation.slice
            for part in inner.elts if isinstance(inner, ast.Tuple) else (inner,):
                yield from _types(part, names)
    elif annotation is not None:
        yield annotation


def _quoted(constant: ast.Constant, names: Names) -> ast.expr | None:
    """Parse an annotation that is written as text; its names mean what they do around it."""
    try:
        body = ast.parse(str(constant.value), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    for part in ast.walk(body):
        names.parents.setdefault(part, constant)
    return body


def _returns(node: Function, names: Names) -> bool:
    """Whether a function returns results that it makes by `ToolResult.success` and the like."""
    for part in own_nodes(node):
        if isinstance(part, (ast.Return, ast.Yield)) and part.value is not None:
            made = base_of_chain(names.value(base_of_chain(part.value)))
            if isinstance(made, ast.Call) and _makes_result(made.func, names):
                return True
    return False


def _makes_result(func: ast.expr, names: Names) -> bool:
    if meaning(names.dotted(func)) == RESULT:
        return True
    if not isinstance(func, ast.Attribute) or func.attr not in HELPERS:
        return False
    return meaning(names.dotted(func.value)) == RESULT
