"""What the new code says for a result that was built by hand: which helper, and what is chained to it.

Here is decided what may be moved where. All refusals that are about the fields of a result are made
here, with words for the person who has to do it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way, dict_items, is_empty
from callsheet.lint.vocabulary import FIELDS

Arguments = tuple[tuple[str, "ast.expr | str"], ...]
"""What is given to a call: (keyword or "", the expression or new code)."""

_DATA = (ast.List, ast.Dict, ast.Tuple, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_SPOKEN = frozenset({"call_id", "tool_name", "success", "output", "error"})


class Refused(Exception):
    """Says why a result can't be rewritten."""


@dataclass(frozen=True, slots=True)
class Link:
    """One call of the new code: the head, or a link of the chain."""

    name: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Either:
    """A head that shows only when it runs whether it's a success."""

    success: Link
    test: ast.expr
    failure: Link


def links_of(made: Made, module: Module) -> list[Link | Either]:
    """Return the head and the links of the new code, or raise `Refused`."""
    links = [_head(made, module), *_chain(made, module)]
    _check_order(made, links)
    return links


# The head


def _head(made: Made, module: Module) -> Link | Either:
    test = made.given.get("success")
    if made.success is not None:
        return _link(made, made.success, module)
    if test is None or made.way is Way.DICT:
        raise Refused("whether it's a success is not to be seen; write both cases out")
    return Either(_link(made, True, module), test, _link(made, False, module))


def _link(made: Made, success: bool, module: Module) -> Link:
    """Return the call of the helper for a success or for a failure."""
    said = _said(made, success, module)
    helper = "success" if success else "error"
    if made.tool is not None and made.tool.call is not None and _knows(made, made.tool.call):
        return Link(f"{made.tool.call}.{helper}", said)
    if made.way is Way.DICT:
        raise Refused("its call id is not that of the call")
    call_id, name = made.given.get("call_id"), made.given.get("tool_name")
    if call_id is None or is_empty(call_id):
        raise Refused("it has no call id")
    if name is None or is_empty(name):
        raise Refused("it has no tool name")
    assert isinstance(made.node, ast.Call)
    func = module.source.text[slice(*module.source.span(made.node.func))]
    return Link(f"{func}.{helper}", (("", call_id), ("", name), *said))


def _knows(made: Made, call: str) -> bool:
    """Whether the call itself knows what is given as id and name, so that it may be left out."""
    call_id, name = made.given.get("call_id"), made.given.get("tool_name")
    if name is not None and not isinstance(name, (ast.Constant, ast.Attribute, ast.Name)):
        return False
    while isinstance(call_id, ast.Attribute):
        call_id = call_id.value
    is_call = isinstance(call_id, ast.Name) and call_id.id == call
    return is_call or call_id is None or isinstance(call_id, ast.Constant)


def _said(made: Made, success: bool, module: Module) -> Arguments:
    """Return what the helper is given to say, or raise `Refused`."""
    output, error = (_text(made.given.get(field), module) for field in ("output", "error"))
    if made.way is Way.DICT:
        if output and "message" in made.given:
            raise Refused("it has an output and a message")
        message = _text(made.given.get("message"), module)
        output, error = (output or message, error) if success else (output, error or message)
    if success and error is not None and made.success:
        raise Refused("it's a success with an error")
    if success:
        if output is None:
            raise Refused("it has no output")
        return (("", output),)
    if error is None:
        if output is None or made.success is None:
            raise Refused("it has no message for when it fails")
        return (("", output),)
    if output is None or _same(output, error):
        return (("", error),)
    return (("", error), ("output", output))


def _text(value: ast.expr | None, module: Module) -> ast.expr | str | None:
    """Return what is said, without the ways to say nothing (`x or None`, `None if … else x`)."""
    if value is None or is_empty(value):
        return None
    if (
        isinstance(value, ast.BoolOp)
        and isinstance(value.op, ast.Or)
        and is_empty(value.values[-1])
    ):
        if len(value.values) > 2:
            raise Refused("what it says may be None")
        return _text(value.values[0], module)
    if isinstance(value, ast.IfExp) and is_empty(value.body):
        return _text(value.orelse, module)
    if isinstance(value, ast.IfExp) and is_empty(value.orelse):
        return _text(value.body, module)
    if isinstance(value, _DATA):
        raise Refused("what it says is data, not text")
    if isinstance(value, ast.Name) and _is_exception(value, module):
        return f"str({value.id})"
    return value


def _is_exception(name: ast.Name, module: Module) -> bool:
    return any(
        isinstance(parent, ast.ExceptHandler) and parent.name == name.id
        for parent in module.ancestors(name)
    )


def _same(one: ast.expr | str, other: ast.expr | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return ast.dump(one) == ast.dump(other)


# The chain


def _chain(made: Made, module: Module) -> Iterator[Link]:
    """Return what is chained to the result."""
    for field, value in made.given.items():
        if field in _SPOKEN or (made.way is Way.DICT and field == "message"):
            continue
        if field in FIELDS and is_empty(value):
            continue
        if field == "metadata":
            yield from _metadata(value, module)
        elif field == "exit_code":
            yield Link("with_exit_code", (("", _number(value)),))
        elif field == "execution_time_ms":
            yield Link("with_execution_time", (("", _number(value)),))
        elif field == "content" and made.way is not Way.DICT:
            yield _content(value)
        else:
            key = f'"{field}"' if field.isidentifier() else repr(field)
            yield Link("with_metadata", (("", key), ("", value)))


def _number(value: ast.expr) -> ast.expr:
    if any(isinstance(part, ast.Constant) and part.value is None for part in ast.walk(value)):
        raise Refused("its exit code or time may be None; chain it where it's a number")
    return value


def _metadata(value: ast.expr, module: Module) -> Iterator[Link]:
    if isinstance(value, ast.Dict) and len(dict_items(value)) == len(value.keys):
        for key, item in zip(value.keys, value.values, strict=True):
            assert key is not None
            yield Link("with_metadata", (("", key), ("", item)))
        return
    known = module.names.value(value)
    if not isinstance(known, (ast.Dict, ast.DictComp)) and not _is_dict_or(known):
        raise Refused("its metadata may be None; chain .with_all_metadata(…) where it's a dict")
    yield Link("with_all_metadata", (("", value),))


def _is_dict_or(value: ast.expr) -> bool:
    """Whether an expression ends in a dict: `x or {}`, `x | {…}`, `dict(…)`."""
    if isinstance(value, ast.BoolOp):
        return isinstance(value.values[-1], ast.Dict)
    if isinstance(value, ast.BinOp):
        return isinstance(value.left, ast.Dict) or isinstance(value.right, ast.Dict)
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "dict"


def _content(value: ast.expr) -> Link:
    if not isinstance(value, (ast.List, ast.Tuple)):
        raise Refused("its content is not written out here; chain .with_content(*…)")
    return Link("with_content", tuple(("", item) for item in value.elts))


# The order


def _check_order(made: Made, links: list[Link | Either]) -> None:
    """Refuse where moving things would make them happen in another order, and that may matter."""
    moved = [part for link in links for part in _parts(link)]
    risky = [part for part in moved if any(map(_happens, ast.walk(part)))]
    places = [(part.lineno, part.col_offset) for part in risky]
    is_either = any(isinstance(link, Either) for link in links)
    if places != sorted(places) or (risky and is_either):
        raise Refused("its parts would run in another order")
    kept = {id(part) for part in moved}
    for value in made.given.values():
        parts = list(ast.walk(value))
        if not any(id(part) in kept for part in parts) and any(map(_does, parts)):
            raise Refused("a part of it that does something would be left out")


def _parts(link: Link | Either) -> list[ast.expr]:
    if isinstance(link, Either):
        return [link.test, *_parts(link.success), *_parts(link.failure)]
    return [part for _, part in link.arguments if isinstance(part, ast.expr)]


def _happens(node: ast.AST) -> bool:
    return isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))


def _does(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) or _happens(node)
