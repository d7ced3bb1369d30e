"""How new code is laid out: in one line if that fits, else as a chain in brackets, with its comments."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .source import Source

WIDTH = 88
"""The longest line that is written, where the parts allow it: what most formatters agree on."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One call of the new code: its name, what is given, and where that stood."""

    name: str
    arguments: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    is_bracketed: bool = False
    """Whether the one argument stands in brackets that serve for the call."""

    @property
    def text(self) -> str:
        """The call, with its arguments side by side."""
        if self.is_bracketed:
            return self.name + self.arguments[0]
        return f"{self.name}({', '.join(self.arguments)})"


def lay_out(source: Source, node: ast.expr, pieces: list[Piece]) -> str:
    """Write pieces instead of a node."""
    start, end = source.span(node)
    above, beside = _comments(source, (start, end), pieces)
    line = "".join(piece.text for piece in pieces)
    column = source.place(start)[1] - 1
    rest = len(source.lines[source.place(end)[0] - 1]) - source.place(end)[1] + 1
    if not above and not beside and "\n" not in line and column + len(line) + rest <= WIDTH:
        return line
    indent = source.indent(start)
    step = "\t" if "\t" in indent else "    "
    if len(pieces) == 1 and not above and not beside:
        return _spread(pieces[0], indent, step)
    inner = indent + step
    written: list[str] = []
    for number, piece in enumerate(pieces):
        written += [inner + comment for comment in above.get(number, [])]
        text = inner + piece.text
        if len(text) > WIDTH or "\n" in text:
            text = inner + _spread(piece, inner, step)
        written.append("  ".join([text, *beside.get(number, [])]))
    written += [inner + comment for comment in above.get(len(pieces), [])]
    return "\n".join(["(", *written, f"{indent})"])


def _spread(piece: Piece, indent: str, step: str) -> str:
    """Write a call with one argument in each line."""
    if piece.is_bracketed:
        return piece.text
    lines = [f"{indent}{step}{argument}," for argument in piece.arguments]
    return "\n".join([f"{piece.name}(", *lines, f"{indent})"])


Placed = dict[int, list[str]]


def _comments(source: Source, span: tuple[int, int], pieces: list[Piece]) -> tuple[Placed, Placed]:
    """Give the comments that would be lost, by the piece that they belong to: above it and beside it."""
    above: Placed = {}
    beside: Placed = {}
    owned = sorted(
        (start, end, number) for number, piece in enumerate(pieces) for start, end in piece.spans
    )
    for start, end, text in source.comments:
        if not span[0] <= start < span[1] or any(a <= start and end <= b for a, b, _ in owned):
            continue
        line = source.place(start)[0]
        before = [number for _, b, number in owned if b <= start and source.place(b)[0] == line]
        after = [number for a, _, number in owned if a >= end]
        if before:
            beside.setdefault(before[-1], []).append(text)
        else:
            above.setdefault(after[0] if after else len(pieces), []).append(text)
    return above, beside
