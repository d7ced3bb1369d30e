"""Turns one result that was built by hand into the helpers, as edits of the text.

What was given stays as it is written, to the character, with its comments. What can't be moved
without a decision (fields that come from `**kwargs`, a failure without a message) is refused with
the reason, for a person to do. `said.py` decides what the new code says, `layout.py` how it looks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.lint.finding import Edit
from callsheet.lint.layout import Choice, Piece, lay_out
from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way
from callsheet.lint.said import Either, Link, Refused, links_of
from callsheet.lint.source import Source
from callsheet.lint.tools import Tool, is_a, own_nodes
from callsheet.lint.vocabulary import RESULT, meaning

LONGEST = 100
"""New code that is longer is shown by its names alone."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a result is left as it is."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The edits that mend a result, and the new code in one line."""

    edits: tuple[Edit, ...]
    shown: str


def rewrite(made: Made, module: Module) -> Rewritten | Refusal:
    """Return the edits that make a result by the helpers, or why they can't be given."""
    try:
        node, extra = _target(made, module)
        links = links_of(made, module)
    except Refused as exc:
        return Refusal(str(exc))
    pieces = [_piece(link, number > 0, node, module) for number, link in enumerate(links)]
    shown = "".join(piece.text for piece in pieces)
    if len(shown) > LONGEST or "\n" in shown:
        shown = "".join(piece.short for piece in pieces)
    node, chained = _chained(made, node, module)
    text = lay_out(module.source, node, [*pieces, *chained])
    return Rewritten((Edit(*module.source.span(node), text), *extra), shown)


# What is replaced


def _target(made: Made, module: Module) -> tuple[ast.expr, tuple[Edit, ...]]:
    """Return what is replaced, and what else has to be; or refuse."""
    if made.way is Way.TRICK:
        raise Refused("what the result is made of is not to be seen")
    if not made.is_ours:
        raise Refused("this ToolResult isn't callsheet's; import that one first")
    if any(isinstance(parent, ast.JoinedStr) for parent in module.ancestors(made.node)):
        raise Refused("it stands inside of an f-string")
    if not made.whole:
        raise Refused("some of its fields are not to be seen, or are no fields of a result")
    return _dict_target(made, module) if made.way is Way.DICT else (made.node, ())


def _dict_target(made: Made, module: Module) -> tuple[ast.expr, tuple[Edit, ...]]:
    tool = made.tool
    if tool is None or tool.call is None:
        raise Refused("there is no call to make it with; take `call: Call` as the first parameter")
    node: ast.AST | None = made.node
    parent = module.names.parents.get(made.node)
    if isinstance(parent, ast.Call) and module.names.dotted(parent.func) == "json.dumps":
        node, parent = parent, module.names.parents.get(parent)
    if not isinstance(parent, (ast.Return, ast.Yield)) or not isinstance(node, ast.expr):
        raise Refused("it's kept in a variable before it's returned")
    return node, _annotation(tool, module)


def _annotation(tool: Tool, module: Module) -> tuple[Edit, ...]:
    """Return the edit that makes the annotation of a tool true, once its dicts are results."""
    returns = tool.node.returns
    if returns is None or is_a(returns, RESULT, module.names):
        return ()
    made = {result.node for result in module.results_of(tool) if result.success is not None}
    for node in own_nodes(tool.node):
        if isinstance(node, ast.Return) and not made & set(ast.walk(node)):
            raise Refused(f"{tool.name} returns other things, too, and says so in its annotation")
    name = next(_names_of_result(module), None)
    if name is None:
        raise Refused(f"{tool.name} says that it returns something else; import ToolResult first")
    return (Edit(*module.source.span(returns), name),)


def _names_of_result(module: Module) -> Iterator[str]:
    for name in module.names.module.bound:
        if meaning(module.names.dotted(ast.Name(name, ast.Load()))) == RESULT:
            yield name


# What stands there instead


def _piece(link: Link | Either, is_chained: bool, node: ast.expr, module: Module) -> Piece | Choice:
    if isinstance(link, Either):
        start, end = module.source.whole(link.test, _inside(node, module.source))
        sides = [_written(side, "", node, module.source) for side in (link.success, link.failure)]
        test = module.source.text[start:end]
        if isinstance(link.test, (ast.IfExp, ast.Lambda)) and not test.startswith("("):
            test = f"({test})"
        return Choice(sides[0], test, (start, end), sides[1])
    return _written(link, "." if is_chained else "", node, module.source)


def _written(link: Link, dot: str, node: ast.expr, source: Source) -> Piece:
    written: list[str] = []
    spans: list[tuple[int, int]] = []
    for word, argument in link.arguments:
        text = argument
        if isinstance(argument, ast.expr):
            spans.append(source.whole(argument, _inside(node, source)))
            text = source.text[slice(*spans[-1])]
        written.append(f"{word}={text}" if word else str(text))
    return Piece(dot + link.name, tuple(written), tuple(spans), _is_bracketed(link, spans, source))


def _inside(node: ast.expr, source: Source) -> tuple[int, int]:
    """Return the span that the brackets of arguments must be in: those of the call are not theirs."""
    start, end = source.span(node)
    return (source.span(node.func)[1] if isinstance(node, ast.Call) else start), end


def _is_bracketed(link: Link, spans: list[tuple[int, int]], source: Source) -> bool:
    """Whether the only argument of a link has brackets around it that can become the call's."""
    word, argument = link.arguments[0]
    if len(link.arguments) != 1 or word or not isinstance(argument, ast.expr):
        return False
    is_yield = isinstance(argument, (ast.Yield, ast.YieldFrom))
    return spans[0] != source.span(argument) and not is_yield


def _chained(made: Made, node: ast.expr, module: Module) -> tuple[ast.expr, list[Piece]]:
    """Return the whole chain that a result already begins, and its links as they are written."""
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
