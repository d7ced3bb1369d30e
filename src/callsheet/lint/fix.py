"""Rewrites a result that was built by hand into the helpers, as one edit of the text.

The arguments stay as they are written; the new code is one line, for a formatter to break. What
can't be moved without a decision (a dict, fields from `**kwargs`, a failure without a message, a comment
between the fields) is refused with the reason, for a person to do.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.lint.module import FIELDS, MadeResult, Module, dict_items, is_empty

_LONGEST = 100
"""Characters of new code that a message shows."""

_DATA = (ast.List, ast.Dict, ast.Tuple, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_EFFECTS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


class Refused(Exception):
    """A result can't be rewritten. The message is the cause."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A node of the text, and the code that takes its place."""

    node: ast.expr
    text: str

    @property
    def shown(self) -> str:
        """The new code as a message shows it."""
        return textwrap.shorten(self.text, _LONGEST, placeholder=" …")


def rewrite(made: MadeResult, module: Module) -> Edit:
    """Return the edit that makes a result by the helpers.

    Raises:
        Refused: It has to be done by hand; the message is the cause.
    """
    if any(isinstance(parent, ast.JoinedStr) for parent in module.ancestors(made.node)):
        raise Refused("it stands inside of an f-string")
    if not isinstance(made.node, ast.Call):
        raise Refused("which of its keys are metadata is for you to decide")
    if not made.whole:
        raise Refused("some of its fields can't be seen, or are no fields of a result")
    rewriter = _Rewriter(made, made.node.func, module)
    if rewriter.has_comments():
        raise Refused("there are comments between its fields")
    if any(isinstance(part, _EFFECTS) for part in ast.walk(made.node)):
        raise Refused("its parts would run in another order")
    calls = [rewriter.head(), *rewriter.chain()]
    text = ".".join(f"{name}({arguments})" if name else arguments for name, arguments in calls)
    return Edit(made.node, text)


def comments_in(code: str) -> Iterator[tuple[int, str]]:
    """Yield the comments in code that parses, with their lines."""
    lines = (line + "\n" for line in re.split(r"\r\n|\r|\n", code))
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):  # it parsed, so what was found so far is right
        return


class _Rewriter:
    """Writes the new code for one result, or raises `Refused`."""

    def __init__(self, made: MadeResult, maker: ast.expr, module: Module) -> None:
        self._made = made
        self._maker = maker
        self._arguments = made.arguments
        self._module = module

    def has_comments(self) -> bool:
        """Return whether comments stand in the code, which would be lost."""
        return any(comments_in(self._source(self._made.node)))

    def head(self) -> tuple[str, str]:
        """Return the call of the helper, by name and arguments; no name if it's one of two calls."""
        if self._made.success is not None:
            return self._helper(self._made.success)
        test = self._arguments.get("success")
        if test is None:
            raise Refused("whether it's a success can't be seen; write both cases out")
        good, bad = (f"{name}({arguments})" for name, arguments in map(self._helper, (True, False)))
        return "", f"({good} if ({self._source(test)}) else {bad})"

    def _helper(self, success: bool) -> tuple[str, str]:
        """Return the helper for a success or for a failure, and what it is passed."""
        answer = self._answer(success)
        name = "success" if success else "error"
        call = None if self._made.tool is None else self._made.tool.call
        if call is not None and self._is_known_by(call):
            return f"{call}.{name}", answer
        for field, what in (("call_id", "call id"), ("tool_name", "tool name")):
            if is_empty(self._arguments.get(field)):
                raise Refused(f"it has no {what}")
        call_id, tool_name = (self._source(self._arguments[field]) for field in FIELDS[:2])
        return f"{self._source(self._maker)}.{name}", f"{call_id}, {tool_name}, {answer}"

    def _is_known_by(self, call: str) -> bool:
        """Return whether the call itself knows what is passed as id and name."""
        call_id, name = self._arguments.get("call_id"), self._arguments.get("tool_name")
        if name is not None and not isinstance(name, (ast.Constant, ast.Attribute, ast.Name)):
            return False
        while isinstance(call_id, ast.Attribute):
            call_id = call_id.value
        is_call = isinstance(call_id, ast.Name) and call_id.id == call
        return is_call or call_id is None or isinstance(call_id, ast.Constant)

    def _answer(self, success: bool) -> str:
        """Return the text that the helper is passed."""
        output, error = self._text("output"), self._text("error")
        if success:
            if error is not None and self._made.success:
                raise Refused("it's a success with an error")
            if output is None:
                raise Refused("it has no output")
            return output
        error = error or (output if self._made.success is False else None)
        if error is None:
            raise Refused("it has no message for when it fails")
        return error if output in (None, error) else f"{error}, output={output}"

    def _text(self, field: str) -> str | None:
        """Return the source of a field's value, without a fallback to nothing (`x or None`)."""
        value = self._arguments.get(field)
        left_out: list[ast.expr] = []
        while True:
            if value is None or is_empty(value):
                return None
            if isinstance(value, ast.BoolOp) and is_empty(value.values[-1]):
                if len(value.values) > 2 or isinstance(value.op, ast.And):
                    raise Refused("its text may be None")
                value = value.values[0]
            elif isinstance(value, ast.IfExp) and is_empty(value.body):
                left_out.append(value.test)
                value = value.orelse
            elif isinstance(value, ast.IfExp) and is_empty(value.orelse):
                left_out.append(value.test)
                value = value.body
            else:
                break
        if any(isinstance(part, ast.Call) for one in left_out for part in ast.walk(one)):
            raise Refused("a part of it that does something would be left out")
        if isinstance(value, _DATA):
            raise Refused("its text is data")
        handlers = (
            one for one in self._module.ancestors(value) if isinstance(one, ast.ExceptHandler)
        )
        if isinstance(value, ast.Name) and value.id in {handler.name for handler in handlers}:
            return f"str({value.id})"
        return self._source(value)

    def chain(self) -> Iterator[tuple[str, str]]:
        """Yield what is chained to the helper, by name and arguments."""
        for field, value in self._arguments.items():
            if field in FIELDS[:5] or is_empty(value):
                continue
            if field == "metadata":
                yield from self._metadata(value)
            elif field in ("exit_code", "execution_time_ms"):
                parts = ast.walk(value)
                if any(isinstance(part, ast.Constant) and part.value is None for part in parts):
                    raise Refused("its exit code or time may be None; chain it where it's a number")
                yield f"with_{field.removesuffix('_ms')}", self._source(value)
            else:  # its content
                if not isinstance(value, (ast.List, ast.Tuple)):
                    raise Refused("its content is not written out here; chain .with_content(*…)")
                yield "with_content", ", ".join(map(self._source, value.elts))

    def _metadata(self, value: ast.expr) -> Iterator[tuple[str, str]]:
        if isinstance(value, ast.Dict) and len(dict_items(value)) == len(value.keys):
            for key, item in zip(value.keys, value.values, strict=True):
                assert key is not None
                yield "with_metadata", f"{self._source(key)}, {self._source(item)}"
            return
        known = self._module.names.value(value)
        last = known.values[-1] if isinstance(known, ast.BoolOp) else known
        is_dict = isinstance(last, ast.Call) and ast.unparse(last.func) == "dict"
        if not is_dict and not isinstance(last, (ast.Dict, ast.DictComp)):
            raise Refused("its metadata may be None; chain .with_all_metadata(…) where it's a dict")
        yield "with_all_metadata", self._source(value)

    def _source(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._module.text, node) or ast.unparse(node)
