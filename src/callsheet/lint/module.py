"""One parsed file: what its names mean, which of its functions are tools, and where results are made.

A name is ours if the file itself imports it from callsheet, under whatever alias; imports are not followed
into other files. A tool is a function that is decorated with our `tool`, one whose annotation says that it
returns a `ToolResult`, or one that makes results for a `Call`, or returns results it makes. All other code is
left alone: a rule that isn't sure reports nothing.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

PACKAGE = "callsheet"
RESULT = "ToolResult"
CALL = "Call"
TOOL = "tool"

ERRORS = frozenset(
    {"ToolError", "InvalidArguments", "NotFound", "NotPermitted", "TimedOut"}
    | {"Cancelled", "ExecutionFailed", "IOFailed"}
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
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A function that is a tool."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    executed: bool
    """Whether an executor runs it: then it stamps id and time, and reports."""
    call: str | None
    """The parameter that is the live call."""
    decorator: ast.expr | None = None
    """Our `tool`, where it is decorated with it."""

    @property
    def parameters(self) -> list[ast.arg]:
        """All parameters but the live call, in order."""
        given = self.node.args
        named = [*given.posonlyargs, *given.args]
        named = named[1:] if named and named[0].arg == self.call else named
        starred = [one for one in (given.vararg, given.kwarg) if one]
        return [*named, *given.kwonlyargs, *starred]


@dataclass(frozen=True, slots=True)
class MadeResult:
    """One place where a result is made."""

    node: ast.Call | ast.Dict
    way: Literal["helper", "call", "hand", "dict"]
    """By `ToolResult.success(…)`, by `call.success(…)`, by `ToolResult(…)`, or as a dict like one."""
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
        self._parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._imported: dict[str, str] = _imported(tree)
        found = map(self._as_tool, ast.walk(tree))
        self.tools: dict[ast.AST, ToolFunction] = {one.node: one for one in found if one}

    @cached_property
    def results(self) -> list[MadeResult]:
        """All places where results are made, in order."""
        return sorted(
            self._find_results(), key=lambda made: (made.node.lineno, made.node.col_offset)
        )

    @cached_property
    def comments(self) -> dict[int, str]:
        """The comments, by line."""
        lines = (line + "\n" for line in _NEWLINE.split(self.text))
        found: dict[int, str] = {}
        try:
            for token in tokenize.generate_tokens(lambda: next(lines, "")):
                if token.type == tokenize.COMMENT:
                    found[token.start[0]] = token.string
        except (tokenize.TokenError, SyntaxError):  # it parsed, so what was found so far is right
            pass
        return found

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place that `ast` names: line from 1, column in bytes from 0."""
        starts = [0, *(match.end() for match in _NEWLINE.finditer(self.text))]
        start = starts[line - 1]
        before = self.text[start : start + column].encode()[:column]
        return start + len(before.decode(errors="replace"))

    @cached_property
    def for_checkers(self) -> set[str]:
        """The names that are imported for type checkers only."""
        blocks = (node for node in ast.walk(self.tree) if isinstance(node, ast.If))
        return {
            (alias.asname or alias.name).partition(".")[0]
            for block in blocks
            if self.dotted(block.test)
            in ("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING")
            for line in block.body
            if isinstance(line, (ast.Import, ast.ImportFrom))
            for alias in line.names
        }

    def source(self, node: ast.expr) -> str:
        """Return the code of a node, as it is written."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    # What surrounds a node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node stands in, from the inside out."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def tool_of(self, node: ast.AST) -> ToolFunction | None:
        """Return the innermost tool that a node stands in, also in a function inside of that."""
        return next((self.tools[one] for one in self.ancestors(node) if one in self.tools), None)

    # What names mean

    def dotted(self, node: ast.AST | None) -> str | None:
        """Return the dotted name that the file imports an expression by; None if it is not imported."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return self._imported.get(node.id) if isinstance(node, ast.Name) else None

    def our_name(self, node: ast.AST | None) -> str | None:
        """Return which of our names an expression is; None if it belongs to somebody else."""
        dotted = self.dotted(node)
        return dotted.rpartition(".")[2] if dotted and _is_ours(dotted) else None

    # Tools

    def _as_tool(self, node: ast.AST) -> ToolFunction | None:
        if not isinstance(node, _FUNCTIONS):
            return None
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        call = next((one.arg for one in arguments if self._is_a(one.annotation, CALL)), None)
        decorator = next(filter(self._is_tool_decorator, node.decorator_list), None)
        if decorator is not None:
            first = [one.arg for one in arguments[:2] if one.arg not in ("self", "cls")]
            call = call or ("call" if first[:1] == ["call"] else None)
            return ToolFunction(node, True, call, decorator)
        if call is not None and any(_is_helper(part, call) for part in ast.walk(node)):
            return ToolFunction(node, True, call)  # it makes results for its caller's call
        parts = (part for value in returned(node) for part in ast.walk(value))
        if self._is_a(node.returns, RESULT) or any(map(self._is_result, parts)):
            return ToolFunction(node, False, call)
        return None

    def _is_tool_decorator(self, decorator: ast.expr) -> bool:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        return self.our_name(target) == TOOL

    def _is_result(self, node: ast.AST) -> bool:
        """Return whether a node is `ToolResult(…)` or one of its helpers."""
        if not isinstance(node, ast.Call):
            return False
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in HELPERS:
            func = func.value
        return self.our_name(func) == RESULT

    def _is_a(self, annotation: ast.expr | None, name: str) -> bool:
        """Return whether an annotation names one of our classes, perhaps in quotes, or optional."""
        annotation = unquoted(annotation)
        if isinstance(annotation, ast.BinOp):
            return self._is_a(annotation.left, name) or self._is_a(annotation.right, name)
        if isinstance(annotation, ast.Subscript):
            is_optional = self.dotted(annotation.value) == "typing.Optional"
            return is_optional and self._is_a(annotation.slice, name)
        return self.our_name(annotation) == name

    # Results

    def _find_results(self) -> Iterator[MadeResult]:
        for node in ast.walk(self.tree):
            made = self._made_by(node, self.tool_of(node)) if isinstance(node, ast.Call) else None
            if made is not None:
                yield made
        for tool in self.tools.values():
            yield from self._made_as_dicts(tool)

    def _made_by(self, node: ast.Call, tool: ToolFunction | None) -> MadeResult | None:
        func = node.func
        if self.our_name(func) == RESULT:
            arguments, whole = _arguments(node, FIELDS)
            success = _truth(arguments.get("success"))
            return MadeResult(node, "hand", success, arguments, whole, tool)
        if not (isinstance(func, ast.Attribute) and func.attr in HELPERS):
            return None
        by_result = self.our_name(func.value) == RESULT
        if not by_result and not (tool and tool.call and _is_helper(node, tool.call)):
            return None
        fields = (*(FIELDS[:2] if by_result else ()), HELPERS[func.attr], "output")
        arguments, whole = _arguments(node, fields)
        way = "helper" if by_result else "call"
        return MadeResult(node, way, func.attr == "success", arguments, whole, tool)

    def _made_as_dicts(self, tool: ToolFunction) -> Iterator[MadeResult]:
        """Yield the dicts that a tool returns in place of a result: with a success, or just an error."""
        for value in returned(tool.node):
            if isinstance(value, ast.Dict):
                arguments = dict_items(value)
                whole = len(arguments) == len(value.keys)
                is_error = whole and arguments.keys() == {"error"}
                texts = arguments.keys() & {"output", "error", "message"}
                if is_error or ("success" in arguments and texts):
                    success = False if is_error else _truth(arguments.get("success"))
                    yield MadeResult(value, "dict", success, arguments, whole, tool)


def unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """Return an annotation without the quotes that it may stand in; None if that is no expression."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError):
            return None
    return annotation


def returned(function: ast.AST) -> Iterator[ast.expr]:
    """Yield the values that a function itself returns and yields, not those of functions inside."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        child = waiting.pop()
        if isinstance(child, (ast.Return, ast.Yield)) and child.value is not None:
            yield child.value
        if not isinstance(child, _NESTED):
            waiting.extend(ast.iter_child_nodes(child))


def dict_items(node: ast.Dict) -> dict[str, ast.expr]:
    """Return the items of a dict whose keys are literal text."""
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def is_empty(node: ast.expr | None) -> bool:
    """Return whether nothing is passed, or None, or blank text."""
    if isinstance(node, ast.JoinedStr):
        return not node.values
    if isinstance(node, ast.Constant):
        return node.value is None or (isinstance(node.value, str) and not node.value.strip())
    return node is None


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the imported names of a file, and the dotted name of each.

    A name that something else binds as well, such as a parameter, is left out, because it can mean either;
    but one of ours is ours also where `except ImportError` assigns it.
    """
    found: dict[str, str] = {}
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = f"{'.' * node.level}{node.module or ''}"
            for alias in node.names:
                name = alias.asname or alias.name
                if not _is_ours(found.get(name, "")):
                    found[name] = f"{module}.{alias.name}"
            if "*" in found and _is_ours(module):
                ours = {RESULT, CALL, *ERRORS, TOOL}
                found |= {name: f"{PACKAGE}.{name}" for name in ours}
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and _is_stored(node):
            bound.add(node.id)
    return {name: one for name, one in found.items() if _is_ours(one) or name not in bound}


def _is_ours(dotted: str) -> bool:
    return dotted.partition(".")[0] == PACKAGE


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _is_helper(node: ast.AST, call: str) -> bool:
    """Return whether a node is `call.success(…)` or `call.error(…)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in HELPERS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == call
    )


def _arguments(node: ast.Call, order: tuple[str, ...]) -> tuple[dict[str, ast.expr], bool]:
    """Return the arguments by their names, and whether these are all."""
    arguments = dict(zip(order, node.args, strict=False))
    whole = len(node.args) <= len(order)
    whole = whole and not any(isinstance(argument, ast.Starred) for argument in node.args)
    for keyword in node.keywords:
        if keyword.arg in order and keyword.arg not in arguments:
            arguments[keyword.arg] = keyword.value
        else:
            whole = False
    return arguments, whole


def _truth(node: ast.expr | None) -> bool | None:
    """Return a literal `True` or `False`; None for all else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None
