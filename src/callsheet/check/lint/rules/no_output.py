"""`result/success-without-output`: a success that says nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.check.lint.finding import Hit, Rule
from callsheet.check.lint.module import Module
from callsheet.check.lint.results import Made, Way, is_empty, returned
from callsheet.check.lint.tools import own_nodes

_FIX = "say in a sentence what was done or found, also when that is nothing"
_WAYS = (Way.HELPER, Way.CALL, Way.HAND)


def check(module: Module) -> Iterator[Hit]:
    """Find successes whose output is missing, None or blank."""
    for made in module.results:
        if (
            made.success is True
            and made.way in _WAYS
            and made.is_ours
            and _says_nothing(made, module)
        ):
            yield Hit(made.node, "a success says nothing: its output is empty", _FIX)
    for tool in module.tools.values():
        if tool.executed:
            for value in returned(own_nodes(tool.node)):
                if _is_blank(value):
                    yield Hit(value, f"tool {tool.name} returns an empty text", _FIX)


def _says_nothing(made: Made, module: Module) -> bool:
    output = made.given.get("output")
    if output is None:
        return made.whole
    return is_empty(module.names.value(output))


def _is_blank(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and is_empty(value)


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
)
