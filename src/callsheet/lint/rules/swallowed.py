"""`result/swallowed`: a tool that hides every failure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.results import is_empty

_BROAD = frozenset({"builtins.Exception", "builtins.BaseException"})
_FIX = "name the error that is expected; let the others out: the executor reports them"


def check(module: Module) -> Iterator[Hit]:
    """Find `except: pass` and its kin in tools."""
    for node in ast.walk(module.tree):
        how = _swallows(node, module)
        if how is not None and module.tool_of(node) is not None:
            yield Hit(node, f"{how} swallows every failure: it will look like a success", _FIX)


def _swallows(node: ast.AST, module: Module) -> str | None:
    """Return how a node that hides every failure is written; None if it does no such thing."""
    if isinstance(node, ast.ExceptHandler):
        return _caught(node.type, module) if all(map(_does_nothing, node.body)) else None
    if isinstance(node, ast.Call) and module.names.dotted(node.func) == "contextlib.suppress":
        broad = any(_is_broad(argument, module) for argument in node.args)
        return ast.unparse(node) if broad else None
    return None


def _caught(type_: ast.expr | None, module: Module) -> str | None:
    """Return how a handler that catches all is written; None if it catches only some errors."""
    if type_ is None:
        return "a bare except"
    for part in type_.elts if isinstance(type_, ast.Tuple) else (type_,):
        if _is_broad(part, module):
            return f"except {ast.unparse(type_)}"
    return None


def _is_broad(node: ast.expr, module: Module) -> bool:
    return module.names.dotted(node) in _BROAD


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Pass, ast.Continue, ast.Break)):
        return True
    if isinstance(statement, ast.Return):
        return is_empty(statement.value)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


RULE = Rule(
    id="result/swallowed",
    title="A failure is swallowed",
    why="What a tool swallows, nobody learns of: the call is reported as a success. In an async tool"
    " a bare except also swallows its cancellation, so that it can't be stopped.",
    fix="Catch the error that is expected, and let all others out. The executor makes a failed"
    " result of them, with their message.",
    bad='''\
from callsheet import Call, ToolResult, tool


@tool
def stop_server(call: Call, name: str) -> ToolResult:
    """Stop a server."""
    try:
        SERVERS[name].stop()
    except:
        pass
    return call.success(f"{name} is stopped.")
''',
    good='''\
from callsheet import Call, ToolResult, tool


@tool
def stop_server(call: Call, name: str) -> ToolResult:
    """Stop a server."""
    try:
        SERVERS[name].stop()
    except ProcessLookupError:
        return call.success(f"{name} was not running.")
    return call.success(f"{name} is stopped.")
''',
    check=check,
)
