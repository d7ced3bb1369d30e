"""Where results are made in a file, and of what: by a helper, by the call, by hand, or as a dict."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from callsheet.lint.names import Names
from callsheet.lint.tools import Tool
from callsheet.lint.vocabulary import FIELDS, HELPERS, RESULT, meaning

_ENVELOPES = ("call_id", "tool_name")
_BESIDES: dict[str, tuple[str, ...]] = {"success": (), "error": ("output",)}
_CONVERTERS = frozenset(
    {"msgspec.convert", "msgspec.json.decode", "msgspec.msgpack.decode", "functools.partial"}
)


class Way(Enum):
    """How a result is made."""

    HELPER = auto()
    """`ToolResult.success(…)`, `ToolResult.error(…)`"""
    CALL = auto()
    """`call.success(…)`, `call.error(…)`"""
    HAND = auto()
    """`ToolResult(…)`"""
    TRICK = auto()
    """`ToolResult.__new__(…)`, `msgspec.convert(…, ToolResult)`: by hand on a detour"""
    DICT = auto()
    """`{"success": True, "output": …}`, returned from a tool"""


@dataclass(frozen=True, slots=True)
class Made:
    """One place where a result is made."""

    node: ast.Call | ast.Dict
    way: Way
    success: bool | None
    """What is told of success; None if that shows only when it runs."""
    given: Mapping[str, ast.expr]
    """What is given, by field."""
    whole: bool
    """Whether `given` is all: no `*args`, no `**kwargs`, no surplus, no name that isn't a field."""
    tool: Tool | None
    is_ours: bool = True
    """Whether it's surely our `ToolResult`, not only one that looks like it."""


def made_by(node: ast.AST, names: Names, tool: Tool | None) -> Made | None:
    """Return the result that an expression makes; None if it makes none."""
    if not isinstance(node, ast.Call):
        return None
    func = node.func
    word = meaning(names.dotted(func))
    if word == RESULT:
        return _by_hand(node, tool, True)
    if isinstance(func, ast.Attribute):
        owner = meaning(names.dotted(func.value))
        if owner == RESULT and func.attr in HELPERS:
            return _helped(node, func.attr, (*_ENVELOPES, HELPERS[func.attr]), Way.HELPER, tool)
        if owner == RESULT and func.attr == "__new__":
            return Made(node, Way.TRICK, None, {}, False, tool)
        if tool is not None and func.attr in HELPERS and _is_call(func.value, tool):
            return _helped(node, func.attr, (HELPERS[func.attr],), Way.CALL, tool)
    if _is_detour(node, names, tool):
        return Made(node, Way.TRICK, None, {}, False, tool)
    if word is None and _last(func) == RESULT and _is_shaped(node):
        return _by_hand(node, tool, False)
    return None


def _helped(
    node: ast.Call, helper: str, order: tuple[str, ...], way: Way, tool: Tool | None
) -> Made:
    given, whole = _arguments(node, order, _BESIDES[helper])
    return Made(node, way, helper == "success", given, whole, tool)


def _by_hand(node: ast.Call, tool: Tool | None, is_ours: bool) -> Made:
    given, whole = _arguments(node, FIELDS)
    return Made(node, Way.HAND, truth(given.get("success")), given, whole, tool, is_ours)


def _arguments(
    node: ast.Call, order: tuple[str, ...], besides: tuple[str, ...] = ()
) -> tuple[dict[str, ast.expr], bool]:
    """Return the arguments by their names, and whether these are all. `besides` go by name only."""
    given = dict(zip(order, node.args, strict=False))
    whole = len(node.args) <= len(order)
    for argument in node.args:
        whole = whole and not isinstance(argument, ast.Starred)
    for keyword in node.keywords:
        if keyword.arg in (*order, *besides) and keyword.arg not in given:
            given[keyword.arg] = keyword.value
        else:
            whole = False
    return given, whole


def _is_call(node: ast.expr, tool: Tool) -> bool:
    return isinstance(node, ast.Name) and node.id == tool.call


def _is_detour(node: ast.Call, names: Names, tool: Tool | None) -> bool:
    """Whether a call makes a `ToolResult` without calling it."""
    dotted = names.dotted(node.func)
    if dotted == "builtins.object.__new__":
        return any(meaning(names.dotted(argument)) == RESULT for argument in node.args[:1])
    if dotted not in _CONVERTERS or tool is None:
        return False
    types = (*node.args[:2], *(word.value for word in node.keywords if word.arg == "type"))
    return any(meaning(names.dotted(type_)) == RESULT for type_ in types)


def _last(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _is_shaped(node: ast.Call) -> bool:
    """Whether somebody else's `ToolResult(…)` is given our fields: it's the standard, made by hand."""
    words = {keyword.arg for keyword in node.keywords}
    return {*_ENVELOPES, "success"} <= words <= set(FIELDS)


# Dicts

_TELLS = frozenset({"output", "error", "message"})


def shaped_dict(value: ast.expr, names: Names) -> ast.Dict | None:
    """Return the dict that a returned value is, if that's shaped like a result."""
    if isinstance(value, ast.Call) and names.dotted(value.func) == "json.dumps" and value.args:
        value = value.args[0]
    if not isinstance(value, ast.Dict):
        return None
    given = dict_items(value)
    if "success" in given and _TELLS & given.keys():
        return value
    return value if given.keys() == {"error"} and len(value.keys) == 1 else None


def is_unmistakable(value: ast.Dict) -> bool:
    """Whether a dict is a result even outside of a tool: it names call, tool and a literal success."""
    given = dict_items(value)
    return given.keys() >= set(_ENVELOPES) and truth(given.get("success")) is not None


def made_of_dict(value: ast.Dict, tool: Tool | None) -> Made:
    """Return the result that a dict stands for."""
    given = dict_items(value)
    success = truth(given.get("success"))
    if given.keys() == {"error"}:
        success = False
    return Made(value, Way.DICT, success, given, len(given) == len(value.keys), tool)


def dict_items(node: ast.Dict) -> dict[str, ast.expr]:
    """Return the items of a dict whose keys are literal text."""
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def truth(node: ast.expr | None) -> bool | None:
    """Return a literal `True` or `False`; None for all else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def is_empty(node: ast.expr | None) -> bool:
    """Whether nothing is given, or None, or text with nothing in it."""
    if node is None:
        return True
    if isinstance(node, ast.JoinedStr):
        return not node.values
    if not isinstance(node, ast.Constant):
        return False
    return node.value is None or (isinstance(node.value, str) and not node.value.strip())


def returned(nodes: Iterator[ast.AST]) -> Iterator[ast.expr]:
    """Return the values that `return` and `yield` give out."""
    for node in nodes:
        if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
            yield node.value
