"""Turns one result that was built by hand into the helpers, as edits of the text.

What was given stays as it is written, to the character, with its comments. What can't be moved
without a decision (a success that shows only when it runs, an output beside an error, fields that
come from `**kwargs`) is refused with the reason, for a person to do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .finding import Edit
from .layout import Piece, lay_out
from .module import Module
from .results import Made, Way, dict_items, is_empty
from .source import Source
from .tools import Tool, is_a, own_nodes
from .vocabulary import FIELDS, RESULT, meaning


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a result is left as it is."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The edits that mend a result, and the new code in one line."""

    edits: tuple[Edit, ...]
    shown: str


class _No(Exception):
    """Carries the reason of a refusal out of the steps."""


@dataclass(frozen=True, slots=True)
class _Link:
    """One call of the new code: the head, or a link of the chain."""

    name: str
    arguments: tuple[ast.expr | str, ...]


def rewrite(made: Made, module: Module) -> Rewritten | Refusal:
    """Give the edits that make a result by the helpers, or why they can't be given."""
    try:
        node, extra = _target(made, module)
        links = [_head(made, module), *_links(made)]
        _check_order(made, links)
    except _No as exc:
        return Refusal(str(exc))
    pieces = list(_pieces(links, node, module))
    shown = "".join(piece.text for piece in pieces)
    node, chained = _chained(made, node, module)
    text = lay_out(module.source, node, [*pieces, *chained])
    start, end = module.source.span(node)
    return Rewritten((Edit(start, end, text), *extra), _shortened(shown, links))


def _target(made: Made, module: Module) -> tuple[ast.expr, tuple[Edit, ...]]:
    """Give what is replaced, and what else has to be; or refuse."""
    if made.way is Way.TRICK:
        raise _No("it's not to be seen what the result is made of")
    if not made.is_ours:
        raise _No("this ToolResult isn't callsheet's; import that one first")
    if any(isinstance(parent, ast.JoinedStr) for parent in module.ancestors(made.node)):
        raise _No("it stands inside of an f-string")
    if made.way is Way.DICT:
        return _dict_target(made, module)
    if not made.whole:
        raise _No("some of its fields are not to be seen, or are no fields of a result")
    return made.node, ()


def _dict_target(made: Made, module: Module) -> tuple[ast.expr, tuple[Edit, ...]]:
    tool = made.tool
    if tool is None or not tool.executed or tool.call is None:
        raise _No("there is no call to make it with; take `call: Call` as the first parameter")
    if not made.whole:
        raise _No("some of its keys are not literal text")
    if isinstance(module.names.parents.get(made.node), (ast.Return, ast.Yield)):
        node: ast.expr = made.node
    else:
        parent = module.names.parents.get(made.node)
        if not isinstance(parent, ast.Call) or module.names.dotted(parent.func) != "json.dumps":
            raise _No("it's kept in a variable before it's returned")
        if not isinstance(module.names.parents.get(parent), (ast.Return, ast.Yield)):
            raise _No("it's kept in a variable before it's returned")
        node = parent
    return node, _annotation(tool, module)


def _annotation(tool: Tool, module: Module) -> tuple[Edit, ...]:
    """Give the edit that makes the annotation of a tool true, once its dicts are results."""
    returns = tool.node.returns
    if returns is None or is_a(returns, RESULT, module.names):
        return ()
    made = {result.node for result in module.results_of(tool) if result.success is not None}
    for node in own_nodes(tool.node):
        if isinstance(node, ast.Return) and not made & set(ast.walk(node)):
            raise _No(f"{tool.name} returns other things, too, and says it returns them")
    name = next(_names_of_result(module), None)
    if name is None:
        raise _No(f"{tool.name} is annotated otherwise; import ToolResult and say it returns that")
    return (Edit(*module.source.span(returns), name),)


def _names_of_result(module: Module) -> Iterator[str]:
    for name in module.names.module.bound:
        probe = ast.Name(name, ast.Load())
        if meaning(module.names.dotted(probe)) == RESULT:
            yield name


# What the new code says


def _head(made: Made, module: Module) -> _Link:
    """Give the call that makes the result."""
    if made.success is None:
        raise _No("whether it's a success shows only when it runs; write both cases out")
    said = _said(made)
    helper = "success" if made.success else "error"
    if made.tool is not None and made.tool.call is not None and _knows(made, made.tool.call):
        return _Link(f"{made.tool.call}.{helper}", (said,))
    if made.way is Way.DICT:
        raise _No("its call id is not the one of the call")
    assert isinstance(made.node, ast.Call)
    call_id, name = made.given.get("call_id"), made.given.get("tool_name")
    if call_id is None or is_empty(call_id):
        raise _No("it has no call id")
    if name is None or is_empty(name):
        raise _No("it has no tool name")
    start, end = module.source.span(made.node.func)
    return _Link(f"{module.source.text[start:end]}.{helper}", (call_id, name, said))


def _knows(made: Made, call: str) -> bool:
    """Whether the call itself knows what is given as id and name, so that it may be left out."""
    call_id, name = made.given.get("call_id"), made.given.get("tool_name")
    if name is not None and not isinstance(name, (ast.Constant, ast.Attribute, ast.Name)):
        return False
    if call_id is None or isinstance(call_id, ast.Constant):
        return True
    root = call_id
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id == call


def _said(made: Made) -> ast.expr:
    """Give what the result says: the output of a success, the message of an error."""
    output, error = made.given.get("output"), made.given.get("error")
    if made.way is Way.DICT:
        return _said_by_dict(made)
    if made.success:
        if not is_empty(error):
            raise _No("it's a success with an error")
        if output is None or is_empty(output):
            raise _No("it has no output")
        return output
    if error is None or is_empty(error):
        if output is None or is_empty(output):
            raise _No("it has no message")
        return output
    if not is_empty(output) and output is not None and ast.dump(output) != ast.dump(error):
        raise _No(
            "an error's output is made of its message; move this output, or raise a ToolError with it"
        )
    return error


def _said_by_dict(made: Made) -> ast.expr:
    words = ("output", "message") if made.success else ("error", "message", "output")
    said = [made.given[word] for word in words if not is_empty(made.given.get(word))]
    if len(said) != 1 or (made.success and not is_empty(made.given.get("error"))):
        raise _No("it has no text, or more than one")
    if isinstance(said[0], (ast.List, ast.Dict, ast.Tuple, ast.Set, ast.ListComp, ast.DictComp)):
        raise _No("its output is data, not text")
    return said[0]


_SPOKEN = frozenset({"call_id", "tool_name", "success", "output", "error"})


def _links(made: Made) -> Iterator[_Link]:
    """Give what is chained to the result."""
    for field, value in made.given.items():
        if field in _SPOKEN or (made.way is Way.DICT and field == "message"):
            continue
        if field in FIELDS and is_empty(value):
            continue
        if field == "metadata":
            yield from _metadata(value)
        elif field == "exit_code":
            yield _Link("with_exit_code", (value,))
        elif field == "execution_time_ms":
            yield _Link("with_execution_time", (value,))
        elif field == "content" and made.way is not Way.DICT:
            yield _content(value)
        else:
            yield _Link("with_metadata", (f'"{field}"' if '"' not in field else repr(field), value))


def _metadata(value: ast.expr) -> Iterator[_Link]:
    if not isinstance(value, ast.Dict) or None in value.keys:
        raise _No("its metadata is not a dict that is written out here")
    if len(dict_items(value)) != len(value.keys):
        raise _No("the keys of its metadata are not all different, literal texts")
    for key, item in zip(value.keys, value.values, strict=True):
        assert key is not None
        yield _Link("with_metadata", (key, item))


def _content(value: ast.expr) -> _Link:
    if not isinstance(value, (ast.List, ast.Tuple)):
        raise _No("its content is not written out here")
    return _Link("with_content", tuple(value.elts))


def _check_order(made: Made, links: list[_Link]) -> None:
    """Refuse where moving things would make them happen in another order, and that may matter."""
    moved = [part for link in links for part in link.arguments if isinstance(part, ast.expr)]
    risky = [part for part in moved if any(map(_happens, ast.walk(part)))]
    places = [(part.lineno, part.col_offset) for part in risky]
    if places != sorted(places):
        raise _No("its parts would run in another order")
    kept = {id(part) for part in moved}
    for value in made.given.values():
        inside = any(id(part) in kept for part in ast.walk(value))
        if not inside and any(
            isinstance(part, ast.Call) or _happens(part) for part in ast.walk(value)
        ):
            raise _No("a part of it that does something would be left out")


def _happens(node: ast.AST) -> bool:
    return isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))


# How it is written


def _pieces(links: list[_Link], node: ast.expr, module: Module) -> Iterator[Piece]:
    source = module.source
    within = source.span(node)
    if isinstance(node, ast.Call):
        within = (source.span(node.func)[1], within[1])
    for number, link in enumerate(links):
        written: list[str] = []
        spans: list[tuple[int, int]] = []
        for argument in link.arguments:
            if isinstance(argument, str):
                written.append(argument)
            else:
                spans.append(source.whole(argument, within))
                written.append(source.text[slice(*spans[-1])])
        name = link.name if number == 0 else f".{link.name}"
        yield Piece(name, tuple(written), tuple(spans), _is_bracketed(link, spans, source))


def _is_bracketed(link: _Link, spans: list[tuple[int, int]], source: Source) -> bool:
    """Whether the only argument of a link has brackets around it that can become the call's."""
    argument = link.arguments[0]
    if len(link.arguments) != 1 or not isinstance(argument, ast.expr):
        return False
    return spans[0] != source.span(argument) and not isinstance(
        argument, (ast.Yield, ast.YieldFrom)
    )


def _chained(made: Made, node: ast.expr, module: Module) -> tuple[ast.expr, list[Piece]]:
    """Give the whole chain that a result already begins, and its links as they are written."""
    links, top = module.chain(made)
    if node is not made.node or not isinstance(top, ast.Call):
        return node, []
    start, end = module.source.span(node)[1], module.source.span(top)[1]
    tail = module.source.text[start:end]
    is_plain = tail.startswith(".") and "\n" not in tail and "#" not in tail
    if not is_plain or not all(link.startswith("with_") for link in links):
        return node, []
    name, _, arguments = tail.partition("(")
    return top, [Piece(name, (arguments[:-1],), ((start, end),))]


def _shortened(shown: str, links: list[_Link]) -> str:
    if len(shown) <= 100 and "\n" not in shown:
        return shown
    return "".join(f"{'.' if number else ''}{link.name}(…)" for number, link in enumerate(links))
