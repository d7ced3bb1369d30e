"""`result/by-hand`: a result is built by hand instead of by the helpers."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way
from callsheet.lint.rewrite import Refusal, rewrite

_MESSAGES = {
    Way.HAND: "a result is built by hand: ToolResult(…)",
    Way.TRICK: "a result is built on a detour around the helpers",
    Way.DICT: "a dict stands in for a result",
}


def check(module: Module) -> Iterator[Hit]:
    """Find results that no helper made."""
    for made in module.results:
        if made.way in _MESSAGES:
            done = rewrite(made, module)
            if isinstance(done, Refusal):
                yield Hit(
                    made.node, _message(made), f"{_advice(made)} (not by --fix: {done.reason})"
                )
            else:
                yield Hit(made.node, _message(made), f"write {done.shown}", done.edits)


def _message(made: Made) -> str:
    if made.way is Way.DICT and made.success is False and made.tool and made.tool.executed:
        return "a dict stands in for a failed result, and will be reported as a success"
    return _MESSAGES[made.way]


def _advice(made: Made) -> str:
    maker = "ToolResult" if made.tool is None or made.tool.call is None else made.tool.call
    if made.success is None:
        return f"make it by {maker}.success(…) or {maker}.error(…)"
    return f"make it by {maker}.{'success' if made.success else 'error'}(…)"


RULE = Rule(
    id="result/by-hand",
    title="A result is built by hand",
    why="The helpers see to it that a result is whole, and that a model never gets an empty text."
    " What is built by hand is refused when it runs; a dict that tells of a failure is even"
    " reported as a success.",
    fix="Use ToolResult.success or ToolResult.error (in a tool, call.success or call.error), and"
    " chain with_metadata, with_exit_code and with_execution_time. --fix does it where all parts"
    " are there to see.",
    bad='''\
from callsheet import Call, ToolResult, tool


@tool
def count_lines(call: Call, path: str) -> ToolResult:
    """Count the lines of a file."""
    with open(path) as file:
        total = sum(1 for _ in file)
    return ToolResult(
        call_id=call.id,
        tool_name="count_lines",
        success=True,
        output=f"{path} was counted",
        metadata={"total_lines": total},
    )
''',
    good='''\
from callsheet import Call, ToolResult, tool


@tool
def count_lines(call: Call, path: str) -> ToolResult:
    """Count the lines of a file."""
    with open(path) as file:
        total = sum(1 for _ in file)
    return call.success(f"{path} was counted").with_metadata("total_lines", total)
''',
    check=check,
)
