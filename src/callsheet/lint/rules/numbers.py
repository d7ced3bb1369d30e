"""`result/numbers-in-prose`: counts that stand only in a sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way, returned
from callsheet.lint.tools import Tool, base_of_chain, own_nodes

_COUNTS = re.compile(r"(?:^|_)(?:counts?|totals?|num|n|size|nbytes)(?:_|$)")
_UNIT = re.compile(r"\s+(?!does\b|this\b)[a-z]{3,}s\b", re.IGNORECASE)
_ENRICHED = frozenset({"with_metadata", "with_all_metadata"})


def check(module: Module) -> Iterator[Hit]:
    """Find successes that tell counts in words, and have no metadata."""
    for made in module.results:
        if made.way is Way.DICT or made.success is not True or not made.is_ours:
            continue
        if made.tool is None or "output" not in made.given or _may_have_metadata(made, module):
            continue
        yield from _told(made.given["output"], made.tool, module)
    for tool in module.tools.values():
        if tool.executed:
            for value in returned(own_nodes(tool.node)):
                yield from _told(value, tool, module)


def _told(output: ast.expr, tool: Tool, module: Module) -> Iterator[Hit]:
    text = module.names.value(output)
    count = next(_counts(text, module), None)
    if count is not None and any(map(_has_words, ast.walk(text))):
        shown = ast.unparse(count)
        maker = f"{tool.call}.success(…)" if tool.call else "the result"
        fix = f'chain .with_metadata("total", {shown}) to {maker}, under a name that says what it counts'
        yield Hit(output, f"the number {shown} stands only in prose", fix)


def _may_have_metadata(made: Made, module: Module) -> bool:
    """Whether a result has metadata, or goes where it may still get some."""
    links, top = module.chain(made)
    if _ENRICHED & set(links) or "metadata" in made.given or not made.whole:
        return True
    parent = module.names.parents.get(top)
    if isinstance(parent, (ast.Return, ast.Yield)):
        return False
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        return _is_touched(parent.targets[0].id, made, module)
    return True


def _is_touched(name: str, made: Made, module: Module) -> bool:
    """Whether anything but a plain `return` of a chain without metadata is done with a variable."""
    assert made.tool is not None
    for node in ast.walk(made.tool.node):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            statement = module.statement_of(node)
            if not isinstance(statement, ast.Return) or statement.value is None:
                return True
            if base_of_chain(statement.value) is not node:
                return True
            if any(word in ast.unparse(statement.value) for word in _ENRICHED):
                return True
    return False


def _counts(text: ast.expr, module: Module) -> Iterator[ast.expr]:
    """Return the counts that are written into a text."""
    if isinstance(text, ast.JoinedStr):
        yield from _in_joined(text, module)
    elif isinstance(text, ast.BinOp) and isinstance(text.op, ast.Add):
        for side in (text.left, text.right):
            yield from _counts(side, module)
    elif isinstance(text, ast.BinOp) and isinstance(text.op, ast.Mod) and _is_text(text.left):
        parts = text.right.elts if isinstance(text.right, ast.Tuple) else [text.right]
        yield from (part for part in parts if _is_count(part, module))
    elif isinstance(text, ast.Call) and isinstance(text.func, ast.Attribute):
        if text.func.attr == "format" and _is_text(text.func.value):
            parts = [*text.args, *(keyword.value for keyword in text.keywords)]
            yield from (part for part in parts if _is_count(part, module))
    elif isinstance(text, ast.Call) and module.names.dotted(text.func) == "builtins.str":
        yield from (part for part in text.args if _is_count(part, module))


def _in_joined(text: ast.JoinedStr, module: Module) -> Iterator[ast.expr]:
    for part, after in pairwise([*text.values, ast.Constant("")]):
        if not isinstance(part, ast.FormattedValue):
            continue
        has_unit = isinstance(after, ast.Constant) and _UNIT.match(str(after.value))
        if _is_count(part.value, module) or (has_unit and _is_named_count(part.value)):
            yield part.value


def _is_count(node: ast.expr, module: Module) -> bool:
    """Whether an expression counts something: `len(…)`, `sum(…)`, `….count(…)`, or a sum of these."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _is_count(node.left, module) or _is_count(node.right, module)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "count" and len(node.args) == 1
    return module.names.dotted(node.func) in {"builtins.len", "builtins.sum"}


def _is_named_count(node: ast.expr) -> bool:
    """Whether a variable is called like a count. Only before the name of what it counts is it one."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return bool(_COUNTS.search(name))


def _has_words(node: ast.AST) -> bool:
    """Whether something is text with words in it. A number alone is an answer, not prose."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and any(map(str.isalpha, text))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


RULE = Rule(
    id="result/numbers-in-prose",
    title="A number that stands only in prose",
    why="Output is for people and models, metadata for machines. A count that stands only in a"
    " sentence has to be cut out of it again by whoever shows, stores or tests it, and is lost"
    " when the sentence is translated.",
    fix="Keep the sentence, and chain with_metadata with the number under a name of its own.",
    bad='''\
from callsheet import Call, ToolResult, tool


@tool
def find_todos(call: Call, text: str) -> ToolResult:
    """Find what is left to do."""
    found = [line for line in text.splitlines() if "TODO" in line]
    return call.success(f"Found {len(found)} lines that are left to do.")
''',
    good='''\
from callsheet import Call, ToolResult, tool


@tool
def find_todos(call: Call, text: str) -> ToolResult:
    """Find what is left to do."""
    found = [line for line in text.splitlines() if "TODO" in line]
    shown = call.success(f"Found {len(found)} lines that are left to do.")
    return shown.with_metadata("total_matches", len(found))
''',
    check=check,
    in_tests=False,
)
