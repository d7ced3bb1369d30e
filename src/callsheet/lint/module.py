"""One parsed file, as the rules see it: which functions are tools, and where results are made.

A tool is a function that is decorated with our `tool` or passed to an executor, one whose
annotation declares that it returns a `ToolResult`, or one that returns results it makes. All other code
is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from callsheet.lint.names import (
    CALL,
    EXECUTORS,
    RESULT,
    Function,
    Names,
    our_name,
    parameters,
)

FIELDS = (
    "call_id",
    "tool_name",
    "success",
    "output",
    "error",
    "exit_code",
    "execution_time_ms",
    "metadata",
    "content",
)
"""The fields of a result, in the order in which they are passed by position."""

HELPERS = {"success": "output", "error": "error"}
"""The helpers that make results, and the field that each takes last."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NESTED = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_SEQUENCES = (ast.List, ast.Tuple, ast.Set)
_TRANSPARENT = frozenset(
    {"Optional", "Union", "Annotated", "Awaitable", "Coroutine"}
    | {"Generator", "Iterator", "AsyncGenerator", "AsyncIterator"}
)


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A function that is a tool."""

    node: Function
    executed: bool
    """Whether an executor runs it: then it stamps id and time, and reports."""
    call: str | None
    """The parameter that is the live call."""


class Way(Enum):
    """How a result is made."""

    HELPER = auto()
    """`ToolResult.success(…)`, `ToolResult.error(…)`"""
    CALL = auto()
    """`call.success(…)`, `call.error(…)`"""
    HAND = auto()
    """`ToolResult(…)`"""
    DICT = auto()
    """`{"success": True, "output": …}`, returned from a tool"""


@dataclass(frozen=True, slots=True)
class MadeResult:
    """One place where a result is made."""

    node: ast.Call | ast.Dict
    way: Way
    success: bool | None
    """Whether it is a success; None if that is known only when it runs."""
    arguments: Mapping[str, ast.expr]
    """The arguments, by field."""
    whole: bool
    """Whether `arguments` is all: no `*args`, no `**kwargs`, no name that isn't a field."""
    tool: ToolFunction | None


class Module:
    """A parsed file."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.text: str = text
        self.tree: ast.Module = tree
        self.names: Names = Names(tree)
        self.tools: dict[ast.AST, ToolFunction] = self._find_tools()

    @cached_property
    def results(self) -> list[MadeResult]:
        """All places where results are made, in order."""
        return sorted(
            self._find_results(), key=lambda made: (made.node.lineno, made.node.col_offset)
        )

    # What surrounds a node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node stands in, from the inside out."""
        parent = self.names.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.names.parents.get(parent)

    def tool_of(self, node: ast.AST) -> ToolFunction | None:
        """Return the innermost tool that a node stands in, also in a function inside of that."""
        return next((self.tools[one] for one in self.ancestors(node) if one in self.tools), None)

    def chained(self, made: MadeResult) -> set[str]:
        """Return the names of the methods that are chained to a result: `with_metadata`, …"""
        names: set[str] = set()
        node: ast.AST = made.node
        for parent in self.ancestors(made.node):
            if isinstance(parent, ast.Attribute):
                names.add(parent.attr)
            elif not (isinstance(parent, ast.Call) and parent.func is node):
                break
            node = parent
        return names

    # Tools

    def _find_tools(self) -> dict[ast.AST, ToolFunction]:
        passed = set(self._passed_to_executors())
        found: dict[ast.AST, ToolFunction] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, _FUNCTIONS):
                tool = self._as_tool(node, node.name in passed)
                if tool is not None:
                    found[node] = tool
        return found

    def _as_tool(self, node: Function, is_passed: bool) -> ToolFunction | None:
        arguments = list(parameters(node.args))
        call = next((one.arg for one in arguments if self.is_a(one.annotation, CALL)), None)
        if is_passed or any(map(self._is_tool_decorator, node.decorator_list)):
            first = [one.arg for one in arguments[:2] if one.arg not in ("self", "cls")]
            return ToolFunction(node, True, call or ("call" if first[:1] == ["call"] else None))
        if call is not None and any(is_helper(part, call) for part in ast.walk(node)):
            return ToolFunction(node, True, call)  # it makes results for its caller's call
        if self.is_a(node.returns, RESULT) or any(map(self._makes_result, returned(node))):
            return ToolFunction(node, False, call)
        return None

    def _passed_to_executors(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                func = node.func.func if isinstance(node.func, ast.Call) else node.func
                if our_name(self.names.dotted(func)) in EXECUTORS:
                    tools = [keyword.value for keyword in node.keywords if keyword.arg == "tools"]
                    for argument in (*node.args, *tools):
                        parts = argument.elts if isinstance(argument, _SEQUENCES) else [argument]
                        yield from (part.id for part in parts if isinstance(part, ast.Name))

    def _is_tool_decorator(self, decorator: ast.expr) -> bool:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        return our_name(self.names.dotted(target)) == "tool"

    def _makes_result(self, value: ast.expr) -> bool:
        """Return whether a returned value begins with `ToolResult(…)` or one of its helpers."""
        node = _begin_of_chain(self.names.value(_begin_of_chain(value)))
        if not isinstance(node, ast.Call):
            return False
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in HELPERS:
            func = func.value
        return our_name(self.names.dotted(func)) == RESULT

    def is_a(self, annotation: ast.expr | None, name: str) -> bool:
        """Return whether an annotation names one of our classes, perhaps awaited or optional."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                body = ast.parse(annotation.value, mode="eval").body
            except (SyntaxError, ValueError):
                return False
            for part in ast.walk(body):  # its names mean what they do around it
                self.names.parents.setdefault(part, annotation)
            return self.is_a(body, name)
        if isinstance(annotation, ast.BinOp):
            return self.is_a(annotation.left, name) or self.is_a(annotation.right, name)
        if isinstance(annotation, ast.Subscript):
            outer = ast.unparse(annotation.value).rpartition(".")[2]
            inner = annotation.slice
            parts = inner.elts if isinstance(inner, ast.Tuple) else (inner,)
            return outer in _TRANSPARENT and any(self.is_a(part, name) for part in parts)
        return annotation is not None and our_name(self.names.dotted(annotation)) == name

    # Results

    def _find_results(self) -> Iterator[MadeResult]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                made = self._made_by(node, self.tool_of(node))
                if made is not None:
                    yield made
            elif isinstance(node, _FUNCTIONS):
                yield from self._made_as_dicts(node, self.tools.get(node))

    def _made_by(self, node: ast.Call, tool: ToolFunction | None) -> MadeResult | None:
        func = node.func
        if our_name(self.names.dotted(func)) == RESULT:
            arguments, whole = _arguments(node, FIELDS)
            return MadeResult(
                node, Way.HAND, truth(arguments.get("success")), arguments, whole, tool
            )
        if not (isinstance(func, ast.Attribute) and func.attr in HELPERS):
            return None
        fields, way = (HELPERS[func.attr],), Way.CALL
        if our_name(self.names.dotted(func.value)) == RESULT:
            fields, way = ("call_id", "tool_name", *fields), Way.HELPER
        elif tool is None or tool.call is None or not is_helper(node, tool.call):
            return None
        arguments, whole = _arguments(node, fields, ("output",) if func.attr == "error" else ())
        return MadeResult(node, way, func.attr == "success", arguments, whole, tool)

    def _made_as_dicts(self, node: Function, tool: ToolFunction | None) -> Iterator[MadeResult]:
        """Yield the dicts shaped like a result that a function returns, if it is a tool.

        Elsewhere too, if the dict names call, tool and a literal success.
        """
        for value in {self.names.value(value) for value in returned(node)}:
            if not isinstance(value, ast.Dict):
                continue
            arguments = dict_items(value)
            success = False if arguments.keys() == {"error"} else truth(arguments.get("success"))
            is_shaped = "success" in arguments and not arguments.keys().isdisjoint(
                ("output", "error", "message")
            )
            is_named = arguments.keys() >= {"call_id", "tool_name"} and success is not None
            if (is_shaped and (tool or is_named)) or (tool and list(arguments) == ["error"]):
                whole = len(arguments) == len(value.keys)
                if whole or is_shaped:
                    yield MadeResult(value, Way.DICT, success, arguments, whole, tool)


def returned(function: ast.AST) -> Iterator[ast.expr]:
    """Yield the values that a function itself returns and yields, not those of functions inside."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        child = waiting.pop()
        if isinstance(child, (ast.Return, ast.Yield)) and child.value is not None:
            yield child.value
        if not isinstance(child, _NESTED):
            waiting.extend(ast.iter_child_nodes(child))


def is_helper(node: ast.AST, call: str) -> bool:
    """Return whether a node is `call.success(…)` or `call.error(…)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in HELPERS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == call
    )


def _begin_of_chain(node: ast.expr) -> ast.expr:
    """Return what a chain of `.with_…(…)` begins with."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if not node.func.attr.startswith("with_"):
            break
        node = node.func.value
    return node


def _arguments(
    node: ast.Call, order: tuple[str, ...], by_name: tuple[str, ...] = ()
) -> tuple[dict[str, ast.expr], bool]:
    """Return the arguments by their names, and whether these are all."""
    arguments = dict(zip(order, node.args, strict=False))
    whole = len(node.args) <= len(order)
    whole = whole and not any(isinstance(argument, ast.Starred) for argument in node.args)
    for keyword in node.keywords:
        if keyword.arg in (*order, *by_name) and keyword.arg not in arguments:
            arguments[keyword.arg] = keyword.value
        else:
            whole = False
    return arguments, whole


def dict_items(node: ast.Dict) -> dict[str, ast.expr]:
    """Return the items of a dict whose keys are literal text."""
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def truth(node: ast.expr | None) -> bool | None:
    """Return a literal `True` or `False`; None for all else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def is_empty(node: ast.expr | None) -> bool:
    """Return whether nothing is passed, or None, or blank text."""
    if isinstance(node, ast.JoinedStr):
        return not node.values
    if isinstance(node, ast.Constant):
        return node.value is None or (isinstance(node.value, str) and not node.value.strip())
    return node is None
