"""`result/missing-time`: results of a tool that nobody measures."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.names import parameters
from callsheet.lint.results import Made, Way
from callsheet.lint.tools import Tool

_STAMP = "with_execution_time"
_FIELD = "execution_time_ms"
_SAID = {True: "output", False: "error"}
_CLOCKS = frozenset(
    {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time"}
)
_SIGNS = frozenset({_STAMP, _FIELD}) | _CLOCKS


def check(module: Module) -> Iterator[Hit]:
    """Find tools outside of an executor whose results don't say how long they took."""
    measured = _measured(module)
    for tool in module.tools.values():
        made = [made for made in module.results_of(tool) if made.way in (Way.HELPER, Way.HAND)]
        if not made or tool.executed or tool.name in measured or _passes_on(made, tool):
            continue
        if all(_FIELD not in result.given and result.whole for result in made):
            message = f"{tool.name} makes results outside of an executor, and measures nothing"
            fix = f"chain .{_STAMP}(milliseconds), or make it a @tool: the executor measures those"
            yield Hit(made[0].node, message, fix)


def _passes_on(made: list[Made], tool: Tool) -> bool:
    """Whether a function only wraps the helpers: its caller tells it which tool, or what to say."""
    told = {argument.arg for argument in parameters(tool.node.args)}
    for result in made:
        name, said = result.given.get("tool_name"), result.given.get(_SAID[result.success is True])
        is_told = (
            isinstance(said, ast.Name) and said.id in told and not isinstance(name, ast.Constant)
        )
        if not is_told and not (isinstance(name, ast.Name) and name.id in told):
            return False
    return True


def _measured(module: Module) -> set[str]:
    """Return the functions that are measured: they do it themselves, or are called by one that does."""
    uses: dict[str, set[str]] = {}
    measured: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            words = {_word(part) for part in ast.walk(node)}
            uses.setdefault(node.name, set()).update(words - {node.name})
            tool = module.tools.get(node)
            if words & _SIGNS or (tool is not None and tool.executed):
                measured.add(node.name)
    waiting = list(measured)
    while waiting:
        for name in uses[waiting.pop()] & uses.keys() - measured:
            measured.add(name)
            waiting.append(name)
    return measured


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.keyword):
        return node.arg or ""
    return ""


RULE = Rule(
    id="result/missing-time",
    title="A result without its execution time",
    why="How long a tool took shows which ones are slow and which hang. The executor measures what"
    " it runs; a tool that makes results on its own has to say it itself.",
    fix="Chain .with_execution_time(milliseconds), or make the function a @tool.",
    bad="""\
from callsheet import ToolResult


def look_up(call_id: str, word: str) -> ToolResult:
    return ToolResult.success(call_id, "look_up", DICTIONARY[word])
""",
    good='''\
from callsheet import Call, ToolResult, tool


@tool
def look_up(call: Call, word: str) -> ToolResult:
    """Look a word up."""
    return call.success(DICTIONARY[word])
''',
    check=check,
    in_tests=False,
)
