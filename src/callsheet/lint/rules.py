"""The rules: what breaks a tool, or the result standard. Their words and examples are in `rules.toml`.

To add a rule: a function here that yields a `Hit` for each breach, and a table there by its id. For results
that were built by hand, `rewrite` writes the code that makes them by the helpers.
"""

from __future__ import annotations

import ast
import difflib
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callsheet.lint.module import (
    ERRORS,
    FIELDS,
    HELPERS,
    MadeResult,
    Module,
    ToolFunction,
    dict_items,
    is_empty,
    returned,
    unquoted,
)

_EFFECTS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_PATH = re.compile(
    r"(?:\w+_)?(?:file_?)?(?:paths?|files?|(?:file_?|path)names?|dirs?|director(?:y|ies)|folders?)"
)
_NO_PATH = re.compile(r"(?:api|dotted|import|json|key|module|name|remote|request|url|xml)_")
"""Parameters that hold a path of a file, by their names, but for paths of other things."""
_HOLDERS = frozenset(
    {"Optional", "Annotated", "list", "List", "Sequence", "Iterable", "tuple", "set"}
)
"""Hints whose first part is what they hold."""
_KNOWN = frozenset({"Call", "ToolResult", "Path"})
"""Hints that `@tool` finds, however they are imported."""

IGNORE = re.compile(r"#\s*callsheet:\s*ignore(?P<file>-file)?(?:\[(?P<rules>[^\]]*)\])?(?![\w-])")
"""A comment that silences rules: `# callsheet: ignore[rule]` or `ignore-file[rule]`, without a rule all."""
_DATA = (ast.List, ast.Dict, ast.Tuple, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a rule is broken. `new` is the code that fixes it, where `--fix` can."""

    node: ast.expr | ast.stmt | ast.arg | ast.excepthandler
    message: str
    fix: str
    new: str | None = None


@dataclass(frozen=True, slots=True)
class LintRule:
    """One rule: what it is called, why it holds, what to do, and the check for breaches."""

    id: str
    check: Callable[[Module], Iterator[Hit]]
    title: str
    why: str
    fix: str
    bad: str
    """Code that breaks the rule: shown by `--explain`, and run by the tests."""
    good: str
    """The same code as it should be."""
    in_tests: bool
    """Whether it holds in test files, too. These make odd results, to compare with."""

    @property
    def category(self) -> str:
        """The part before the slash."""
        return self.id.partition("/")[0]


# Results built by hand


def _by_hand(module: Module) -> Iterator[Hit]:
    """Find results that no helper made."""
    for made in module.results:
        if made.way == "hand":
            message = "a result is built by hand: ToolResult(…)"
        elif made.way == "dict":
            failed = made.success is False and made.tool is not None and made.tool.executed
            what = "failed result, and will be reported as a success" if failed else "result"
            message = f"a dict stands in for a {what}"
        else:
            continue
        try:
            new = rewrite(made, module)
        except Refused as exc:
            maker = (made.tool and made.tool.call) or "ToolResult"
            advice = f"make it by {maker}.success(…) or {maker}.error(…) (not by --fix: {exc})"
            yield Hit(made.node, message, advice)
        else:
            yield Hit(made.node, message, f"write {' '.join(new.split())}", new)


class Refused(Exception):
    """A result can't be rewritten. The message is the cause."""


def rewrite(made: MadeResult, module: Module) -> str:
    """Return the code that makes a result by the helpers. The arguments stay as they are written.

    Raises:
        Refused: It needs a decision, which is for a person to make; the message is the cause.
    """
    node, arguments = made.node, made.arguments
    if not isinstance(node, ast.Call):
        raise Refused("which of its keys are metadata is for you to decide")
    in_text = any(isinstance(parent, ast.JoinedStr) for parent in module.ancestors(node))
    comments = any(node.lineno <= line < (node.end_lineno or 0) for line in module.comments)
    for is_so, cause in (
        (in_text, "it is inside an f-string"),
        (not made.whole, "some of its fields can't be seen, or are not fields of a result"),
        (made.success is None, "whether it's a success can't be seen; write both cases out"),
        (comments, "there are comments between its fields"),
        (_has(node, *_EFFECTS), "its parts would run in another order"),
    ):
        if is_so:
            raise Refused(cause)
    helper = f"{'success' if made.success else 'error'}({_answer(made, module)})"
    call, call_id = made.tool and made.tool.call, arguments.get("call_id")
    if call and (call_id is None or module.source(call_id) in ("None", f"{call}.id")):
        new = f"{call}.{helper}"  # it knows its id, and the tool's name
    else:
        names = [arguments.get(field) for field in FIELDS[:2]]
        if any(map(is_empty, names)):
            raise Refused("it has no call id, or no tool name")
        passed = ", ".join(module.source(name) for name in names if name is not None)
        new = f"{module.source(node.func)}.{helper.replace('(', f'({passed}, ', 1)}"
    more = [(field, value) for field, value in arguments.items() if field in FIELDS[5:]]
    return new + "".join(_chained(*one, module) for one in more if not is_empty(one[1]))


def _answer(made: MadeResult, module: Module) -> str:
    """Return what the helper is passed: the output, or the error and what there is besides."""
    found: dict[str, str] = {}
    for field in HELPERS.values():
        value = made.arguments.get(field)
        if value is None or is_empty(value):
            continue
        if isinstance(value, _DATA) or _may_be_none(value):
            raise Refused(f"its {field} is data, or may be None")
        caught = [one.name for one in module.ancestors(value) if isinstance(one, ast.ExceptHandler)]
        text = module.source(value)
        found[field] = f"str({text})" if text in caught else text
    output, error = found.get("output"), found.get("error")
    if made.success and error is not None:
        raise Refused("it's a success with an error")
    answer = output if made.success else error or output
    if answer is None:
        raise Refused("it has no output" if made.success else "it has no message")
    return answer if output in (None, answer) else f"{answer}, output={output}"


def _chained(field: str, value: ast.expr, module: Module) -> str:
    """Return the calls that add a field to a result."""
    source = module.source
    if field == "metadata":
        if not isinstance(value, ast.Dict):
            raise Refused("its metadata is not written out here; chain .with_all_metadata(…)")
        if len(dict_items(value)) < len(value.keys):
            return f".with_all_metadata({source(value)})"
        items = zip(filter(None, value.keys), value.values, strict=True)
        return "".join(f".with_metadata({source(key)}, {source(item)})" for key, item in items)
    if field == "content":
        if not isinstance(value, (ast.List, ast.Tuple)):
            raise Refused("its content is not written out here; chain .with_content(*…)")
        return f".with_content({', '.join(map(source, value.elts))})"
    if _may_be_none(value):
        raise Refused("its exit code or time may be None; chain it where it's a number")
    return f".with_{field.removesuffix('_ms')}({source(value)})"


def _has(node: ast.expr, *kinds: type[ast.expr]) -> bool:
    return any(isinstance(part, kinds) for part in ast.walk(node))


def _may_be_none(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and part.value is None for part in ast.walk(value))


# Results that say nothing


def _success_without_output(module: Module) -> Iterator[Hit]:
    """Find successes whose output is missing, None or blank, and tools that return nothing."""
    fix = "say in a sentence what was done or found, even if that is nothing"
    for made in module.results:
        if made.success is True and _is_silent(made, "output"):
            statement = next(
                one for one in module.ancestors(made.node) if isinstance(one, ast.stmt)
            )
            # Content may be chained to it, or what was written is its output.
            if "content" not in made.arguments and not any(
                isinstance(part, ast.Attribute) and part.attr in ("with_content", "as_written")
                for part in ast.walk(statement)
            ):
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
    fix = "say what went wrong, with what, and what would be right"
    for made in module.results:
        if made.success is False and _is_silent(made, "error"):
            yield Hit(made.node, "an error without a message", fix)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc
            name = module.our_name(raised.func if isinstance(raised, ast.Call) else raised)
            if name in ERRORS and not (isinstance(raised, ast.Call) and _has_message(raised)):
                yield Hit(node, f"{name} is raised without a message", fix)


def _has_message(raised: ast.Call) -> bool:
    words = {keyword.arg: keyword.value for keyword in raised.keywords}
    message = raised.args[0] if raised.args else words.get("message")
    return None in words if message is None else not is_empty(message)  # **kwargs may hold it


def _is_silent(made: MadeResult, field: str) -> bool:
    text = made.arguments.get(field)
    if made.way == "dict":
        return False
    return made.whole if text is None else is_empty(text)


def _missing_call_id(module: Module) -> Iterator[Hit]:
    """Find results whose call id is missing, None, blank, or written into the code."""
    for made in module.results:
        if made.way not in ("helper", "hand"):
            continue
        call_id = made.arguments.get("call_id")
        if call_id is None and made.whole:
            problem = "a result has no call id"
        elif call_id is not None and is_empty(call_id):
            problem = "a result has an empty call id"
        elif made.tool and call_id and isinstance(call_id, ast.Constant):
            problem = "the call id is hard-coded: every call gets the same one"
        else:
            continue
        if made.tool is None or not made.tool.executed:
            fix = "take the id of the call as a parameter, and pass it on"
        else:
            fix = (
                "take `call: Call` as the first parameter, and use call.success(…) or call.error(…)"
            )
        yield Hit(made.node, problem, fix)


# Failures that nobody learns of


def _swallowed(module: Module) -> Iterator[Hit]:
    """Find `except: pass` and `suppress(Exception)` in tools."""
    fix = "name the expected error, and let the others through: the executor reports them"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and all(map(_does_nothing, node.body)):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            how = f"except {ast.unparse(node.type)}" if node.type else "a bare except"
        elif isinstance(node, ast.Call) and module.dotted(node.func) == "contextlib.suppress":
            caught, how = node.args, ast.unparse(node)
        else:
            continue
        if any(map(_is_broad, caught)) and module.tool_of(node) is not None:
            yield Hit(node, f"{how} swallows every failure, which will look like a success", fix)


def _is_broad(caught: ast.expr | None) -> bool:
    return caught is None or ast.unparse(caught) in ("Exception", "BaseException")


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return is_empty(statement.value)
    return isinstance(statement, (ast.Pass, ast.Continue, ast.Break)) or _is_constant(statement)


def _is_constant(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


# What a tool is made from


def _decorated(module: Module) -> Iterator[tuple[ToolFunction, dict[str | None, ast.expr]]]:
    """Yield the functions that are decorated with our `tool`, and the options that it is given."""
    for tool in module.tools.values():
        words = tool.decorator.keywords if isinstance(tool.decorator, ast.Call) else ()
        if tool.decorator is not None:
            yield tool, {word.arg: word.value for word in words}


def _missing_hint(module: Module) -> Iterator[Hit]:
    """Find parameters without a type hint, and hints that are not there when the module runs."""
    for tool, _ in _decorated(module):
        name, spec = tool.node.name, tool.node.args
        for one in tool.parameters:
            if one.annotation is None and one not in (spec.vararg, spec.kwarg):
                is_method = one.arg in ("self", "cls")
                fix = f"write {one.arg}: str, or its real type"
                fix = "make the tool a function, outside the class" if is_method else fix
                yield Hit(one, f"tool {name}: {one.arg} has no type hint", fix)
        hints = [tool.node.returns, *(one.annotation for one in tool.parameters)]
        for part in (part for hint in map(unquoted, hints) if hint for part in ast.walk(hint)):
            if isinstance(part, ast.Name) and part.id in module.for_checkers - _KNOWN:
                message = f"tool {name}: the hint {part.id} is imported only for type checkers"
                yield Hit(part, message, f"import {part.id} at run time, too")


def _unnamed_parameter(module: Module) -> Iterator[Hit]:
    """Find `*args`, `**kwargs` and positional-only parameters."""
    for tool, _ in _decorated(module):
        spec = tool.node.args
        for one in tool.parameters:
            if one in (spec.vararg, spec.kwarg):
                stars = "*" if one is spec.vararg else "**"
                message, fix = (
                    f"{stars}{one.arg} has no schema",
                    "write a parameter for each argument",
                )
            elif one in spec.posonlyargs:
                message, fix = f"{one.arg} is positional only", "remove the / behind it"
            else:
                continue
            yield Hit(one, f"tool {tool.node.name}: {message}", fix)


def _missing_docstring(module: Module) -> Iterator[Hit]:
    """Find tools that a model is told nothing about."""
    for tool, options in _decorated(module):
        text = options.get("description")
        is_described = None in options or not is_empty(text) or bool(ast.get_docstring(tool.node))
        if not is_described:
            fix = "write as its docstring, for a model, what it does and when to use it"
            yield Hit(tool.node, f"tool {tool.node.name} has no docstring", fix)


def _path_as_text(module: Module) -> Iterator[Hit]:
    """Find parameters that are called like paths, and are text."""
    for tool, _ in _decorated(module):
        for one in tool.parameters:
            if (
                _PATH.fullmatch(one.arg)
                and not _NO_PATH.match(one.arg)
                and _is_text(one.annotation)
            ):
                hint = re.sub(r"\bstr\b", "Path", ast.unparse(one.annotation or one))
                fix = f"write {one.arg}: {hint}, and import Path from pathlib"
                yield Hit(one, f"tool {tool.node.name}: {one.arg} is text, not a Path", fix)


def _is_text(hint: ast.expr | None) -> bool:
    """Return whether a hint is `str`, perhaps optional, annotated, or a list of it."""
    hint = unquoted(hint)
    if isinstance(hint, ast.BinOp):
        return _is_text(hint.left) or _is_text(hint.right)
    if isinstance(hint, ast.Subscript):
        base = hint.value.attr if isinstance(hint.value, ast.Attribute) else ast.unparse(hint.value)
        held = hint.slice.elts[0] if isinstance(hint.slice, ast.Tuple) else hint.slice
        return base in _HOLDERS and _is_text(held)
    return isinstance(hint, ast.Name) and hint.id == "str"


# Comments


def silenced(comment: str) -> Iterator[tuple[bool, set[str]]]:
    """Yield for each mark in a comment whether it holds for the file, and the rules; `*` is all."""
    for mark in IGNORE.finditer(comment):
        yield bool(mark["file"]), set(re.split(r"[,\s]+", (mark["rules"] or "*").strip()))


def _unknown_rule(module: Module) -> Iterator[Hit]:
    """Find comments that silence a rule that is none."""
    known = {"*", "", *_CHECKS, *(name.partition("/")[0] for name in _CHECKS)}
    for line, comment in module.comments.items():
        for word in sorted({word for _, words in silenced(comment) for word in words} - known):
            start = module.offset(line, 0)
            column = len(module.text[start : module.text.find(comment, start)].encode())
            place = ast.Constant(None, lineno=line, col_offset=column)
            near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
            fix = (
                f"write {near[0]}" if near else "name one that `callsheet lint --explain all` lists"
            )
            yield Hit(place, f"there is no rule {word}, so nothing is silenced", fix)


_CHECKS = {
    "tool/missing-hint": _missing_hint,
    "tool/unnamed-parameter": _unnamed_parameter,
    "tool/missing-docstring": _missing_docstring,
    "tool/path-as-text": _path_as_text,
    "result/by-hand": _by_hand,
    "result/success-without-output": _success_without_output,
    "result/error-without-message": _error_without_message,
    "result/missing-call-id": _missing_call_id,
    "result/swallowed": _swallowed,
    "comment/unknown-rule": _unknown_rule,
}
_TABLE = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))

RULES: tuple[LintRule, ...] = tuple(
    LintRule(id=name, check=check, **_TABLE[name]) for name, check in _CHECKS.items()
)
