"""The rules: what breaks the result standard. Their words and examples are in `rules.toml`.

To add a rule: a function here that yields a `Hit` for each breach, and a table there by its id.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files

from callsheet.lint.fix import Edit, Refused, rewrite
from callsheet.lint.module import MadeResult, Module, ToolFunction, Way, is_empty, returned
from callsheet.lint.names import ERRORS, our_name

_BY_HELPERS = (Way.HELPER, Way.CALL, Way.HAND)
_BROAD = frozenset({"builtins.Exception", "builtins.BaseException"})


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a rule is broken."""

    node: ast.expr | ast.stmt | ast.excepthandler
    message: str
    fix: str
    edit: Edit | None = None


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule: what it is called, why it holds, what to do, and the check for breaches."""

    id: str
    check: Callable[[Module], Iterator[Hit]]
    title: str
    why: str
    fix: str
    bad: str
    """Code that breaks the rule: shown by `--explain` and in docs/lint.md, and run by the tests."""
    good: str
    """The same code as it should be."""
    in_tests: bool
    """Whether it holds in test files, too. These make odd results, to compare with."""

    @property
    def category(self) -> str:
        """The part before the slash."""
        return self.id.partition("/")[0]


def _by_hand(module: Module) -> Iterator[Hit]:
    """Find results that no helper made."""
    for made in module.results:
        if made.way is Way.HAND:
            message = "a result is built by hand: ToolResult(…)"
        elif made.way is Way.DICT:
            failed = made.success is False and made.tool is not None and made.tool.executed
            what = "failed result, and will be reported as a success" if failed else "result"
            message = f"a dict stands in for a {what}"
        else:
            continue
        try:
            edit = rewrite(made, module)
        except Refused as exc:
            maker = (made.tool and made.tool.call) or "ToolResult"
            helper = {
                True: "success(…)",
                False: "error(…)",
                None: f"success(…) or {maker}.error(…)",
            }
            advice = f"make it by {maker}.{helper[made.success]} (not by --fix: {exc})"
            yield Hit(made.node, message, advice)
        else:
            yield Hit(made.node, message, f"write {edit.shown}", edit)


def _success_without_output(module: Module) -> Iterator[Hit]:
    """Find successes whose output is missing, None or blank, and tools that return nothing."""
    fix = "write in a sentence what was done or found, also when that is nothing"
    for made in module.results:
        if made.success is True and made.way in _BY_HELPERS and _is_silent(made, "output", module):
            if "content" in made.arguments or {"with_content", "as_written"} & module.chained(made):
                continue
            yield Hit(made.node, "a success without output", fix)
    for tool in module.tools.values():
        if tool.executed:
            values = list(returned(tool.node))
            for value in values:
                if isinstance(value, ast.Constant) and value.value is not None and is_empty(value):
                    yield Hit(value, f"tool {tool.node.name} returns an empty text", fix)
            if not values and _should_return(tool):
                yield Hit(tool.node, f"tool {tool.node.name} returns nothing", fix)


def _should_return(tool: ToolFunction) -> bool:
    """Return whether a tool that returns nothing does something, and does not report it by its call."""
    for node in ast.walk(tool.node):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Raise)):
            return False
        if isinstance(node, ast.Name) and node.id == tool.call:
            return False
    return not all(isinstance(line, ast.Pass) or _is_constant(line) for line in tool.node.body)


def _error_without_message(module: Module) -> Iterator[Hit]:
    """Find failed results and `ToolError`s whose message is missing, None or blank."""
    fix = "write what went wrong, with what it was about, and what would be right"
    for made in module.results:
        if made.success is False and made.way in _BY_HELPERS and _is_silent(made, "error", module):
            yield Hit(made.node, "an error without a message", fix)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc
            func = raised.func if isinstance(raised, ast.Call) else raised
            name = our_name(module.names.dotted(func))
            if name in ERRORS and not (isinstance(raised, ast.Call) and _has_message(raised)):
                yield Hit(node, f"{name} is raised without a message", fix)


def _has_message(raised: ast.Call) -> bool:
    words = {keyword.arg: keyword.value for keyword in raised.keywords}
    message = raised.args[0] if raised.args else words.get("message")
    return None in words if message is None else not is_empty(message)  # **kwargs may hold it


def _is_silent(made: MadeResult, field: str, module: Module) -> bool:
    text = made.arguments.get(field)
    return made.whole if text is None else is_empty(module.names.value(text))


def _missing_call_id(module: Module) -> Iterator[Hit]:
    """Find results whose call id is missing, None, blank, or written into the code."""
    for made in module.results:
        if made.way not in (Way.HELPER, Way.HAND):
            continue
        call_id = made.arguments.get("call_id")
        value = None if call_id is None else module.names.value(call_id)
        if call_id is None and made.whole:
            problem = "a result has no call id"
        elif call_id is not None and is_empty(call_id):
            problem = "a result has an empty call id"
        elif made.tool is not None and isinstance(value, ast.Constant):
            problem = (
                f"the call id {value.value!r} is written into the code: every call gets the same"
            )
        else:
            continue
        call = made.tool and made.tool.call
        if made.tool is None or not made.tool.executed:
            fix = "take the id of the call as a parameter, and pass it on"
        elif call is None:
            fix = (
                "take `call: Call` as the first parameter, and use call.success(…) or call.error(…)"
            )
        else:
            fix = f"use {call}.success(…) or {call}.error(…): these know the call"
        yield Hit(made.node, problem, fix)


def _swallowed(module: Module) -> Iterator[Hit]:
    """Find `except: pass` and `suppress(Exception)` in tools."""
    fix = "name the error that is expected; let the others out: the executor reports them"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and all(map(_does_nothing, node.body)):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            how = f"except {ast.unparse(node.type)}" if node.type else "a bare except"
        elif isinstance(node, ast.Call) and module.names.dotted(node.func) == "contextlib.suppress":
            caught, how = node.args, ast.unparse(node)
        else:
            continue
        is_broad = any(one is None or module.names.dotted(one) in _BROAD for one in caught)
        if is_broad and module.tool_of(node) is not None:
            yield Hit(node, f"{how} swallows every failure: it will look like a success", fix)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return is_empty(statement.value)
    return isinstance(statement, (ast.Pass, ast.Continue, ast.Break)) or _is_constant(statement)


def _is_constant(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


_CHECKS = {
    "result/by-hand": _by_hand,
    "result/success-without-output": _success_without_output,
    "result/error-without-message": _error_without_message,
    "result/missing-call-id": _missing_call_id,
    "result/swallowed": _swallowed,
}
_TABLE = tomllib.loads(files("callsheet.lint").joinpath("rules.toml").read_text(encoding="utf-8"))

RULES: tuple[LintRule, ...] = tuple(
    LintRule(id=name, check=check, **_TABLE[name]) for name, check in _CHECKS.items()
)


def select(chosen: frozenset[str], ignored: frozenset[str]) -> tuple[LintRule, ...]:
    """Return the rules that are chosen (none means all) and not ignored, by ids or categories."""
    return tuple(
        rule
        for rule in RULES
        if (not chosen or {rule.id, rule.category} & chosen)
        and not {rule.id, rule.category} & ignored
    )


def names() -> list[str]:
    """Return all ids, then all categories."""
    return [*(rule.id for rule in RULES), *dict.fromkeys(rule.category for rule in RULES)]
