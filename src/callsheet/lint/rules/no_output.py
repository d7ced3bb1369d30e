"""`result/success-without-output`: a success that says nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way, is_empty, returned
from callsheet.lint.tools import Tool, own_nodes

_FIX = "say in a sentence what was done or found, also when that is nothing"
_WAYS = (Way.HELPER, Way.CALL, Way.HAND)
_SHOWN = frozenset({"with_content", "as_written"})


def check(module: Module) -> Iterator[Hit]:
    """Find successes whose output is missing, None or blank, and tools that return nothing."""
    for made in module.results:
        if made.success is True and made.way in _WAYS and _says_nothing(made, module):
            yield Hit(made.node, "a success says nothing: its output is empty", _FIX)
    for tool in module.tools.values():
        if tool.executed:
            values = list(returned(own_nodes(tool.node)))
            for value in filter(_is_blank, values):
                yield Hit(value, f"tool {tool.name} returns an empty text", _FIX)
            if not values and _should_speak(tool):
                yield Hit(tool.node, f"tool {tool.name} returns nothing", _FIX)


def _says_nothing(made: Made, module: Module) -> bool:
    if not made.is_ours or "content" in made.given or _SHOWN & set(module.chain(made)[0]):
        return False
    output = made.given.get("output")
    if output is None:
        return made.whole
    return is_empty(module.names.value(output))


def _is_blank(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and is_empty(value)


def _should_speak(tool: Tool) -> bool:
    """Whether a tool that returns nothing does something, and doesn't tell of it through its call."""
    for node in ast.walk(tool.node):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Raise)):
            return False
        if isinstance(node, ast.Name) and node.id == tool.call:
            return False
    return any(not isinstance(line, ast.Pass) and not _is_constant(line) for line in tool.node.body)


def _is_constant(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


RULE = Rule(
    id="result/success-without-output",
    title="A success without output",
    why="The output is all that a model gets. From an empty one it can't tell success from a tool"
    " that did nothing, so it tries again, or guesses.",
    fix="Say in one sentence what was done or found. If nothing was found, say so.",
    bad='''\
from callsheet import Call, ToolResult, tool


@tool
async def clear_cache(call: Call) -> ToolResult:
    """Empty the cache."""
    await cache.clear()
    return call.success("")
''',
    good='''\
from callsheet import Call, ToolResult, tool


@tool
async def clear_cache(call: Call) -> ToolResult:
    """Empty the cache."""
    await cache.clear()
    return call.success("The cache is empty.")
''',
    check=check,
    in_tests=False,
)
