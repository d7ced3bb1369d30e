"""`result/missing-call-id`: a result that belongs to no call, or to a made-up one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way, is_empty

_WAYS = (Way.HELPER, Way.HAND)


def check(module: Module) -> Iterator[Hit]:
    """Find results whose call id is missing, None, blank, or written into the code."""
    for made in module.results:
        if made.way in _WAYS and made.is_ours:
            problem = _problem(made, module)
            if problem is not None:
                yield Hit(made.node, problem, _fix(made))


def _problem(made: Made, module: Module) -> str | None:
    call_id = made.given.get("call_id")
    if call_id is None:
        return "a result has no call id" if made.whole else None
    if is_empty(call_id):
        return "a result has an empty call id"
    value = module.names.value(call_id)
    if made.tool is not None and isinstance(value, ast.Constant):
        return f"the call id {value.value!r} is written into the code: every call gets the same"
    return None


def _fix(made: Made) -> str:
    if made.tool is None or not made.tool.executed:
        return "take the id of the call as a parameter, and pass it on"
    if made.tool.call is None:
        return "take `call: Call` as the first parameter, and use call.success(…) or call.error(…)"
    return f"use {made.tool.call}.success(…) or {made.tool.call}.error(…): these know the call"


RULE = Rule(
    id="result/missing-call-id",
    title="A result without the id of its call",
    why="The id is how a result finds the call that it answers. With none, or with one that is"
    " written into the code, answers of parallel calls are mixed up.",
    fix="In a tool, use call.success and call.error. Elsewhere pass the id of the call on.",
    bad="""\
import time

from callsheet import ToolResult


def say_hello(name: str) -> ToolResult:
    began = time.perf_counter()
    result = ToolResult.success("call_1", "say_hello", f"Hello, {name}.")
    return result.with_execution_time((time.perf_counter() - began) * 1000)
""",
    good="""\
import time

from callsheet import ToolResult


def say_hello(call_id: str, name: str) -> ToolResult:
    began = time.perf_counter()
    result = ToolResult.success(call_id, "say_hello", f"Hello, {name}.")
    return result.with_execution_time((time.perf_counter() - began) * 1000)
""",
    check=check,
    in_tests=False,
)
