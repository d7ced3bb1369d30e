"""How new code is laid out: in one line if that fits, else as a chain in brackets, with its comments."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.lint.source import Source

WIDTH = 88
"""The longest line that is written, where the parts allow it: what most formatters agree on."""

Span = tuple[int, int]
Placed = dict[int, list[str]]


@dataclass(frozen=True, slots=True)
class Piece:
    """One call of the new code: its name, what is given, and where that stood."""

    name: str
    arguments: tuple[str, ...]
    spans: tuple[Span, ...]
    is_bracketed: bool = False
    """Whether the one argument stands in brackets that serve for the call."""

    @property
    def text(self) -> str:
        """The call, with its arguments side by side."""
        if self.is_bracketed:
            return self.name + self.arguments[0]
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def short(self) -> str:
        """The call without its arguments."""
        return f"{self.name}(…)"

    def fitted(self, indent: str, step: str, rest: int = 0) -> str:
        """The call in one line, if that fits with what follows it; else one argument in each line."""
        fits = len(indent) + len(self.text) + rest <= WIDTH and "\n" not in self.text
        if fits or self.is_bracketed:
            return self.text
        lines = [f"{indent}{step}{argument}," for argument in self.arguments]
        return "\n".join([f"{self.name}(", *lines, f"{indent})"])


@dataclass(frozen=True, slots=True)
class Choice:
    """A head that is one of two calls."""

    success: Piece
    test: str
    place: Span
    failure: Piece

    @property
    def text(self) -> str:
        """The choice in one line."""
        return f"({self.success.text} if {self.test} else {self.failure.text})"

    @property
    def short(self) -> str:
        """The choice without the arguments."""
        return f"({self.success.short} if … else {self.failure.short})"

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where the parts stood."""
        return (*self.success.spans, self.place, *self.failure.spans)

    def fitted(self, indent: str, step: str, rest: int = 0) -> str:
        """The choice in one line, if that fits with what follows it; else in three."""
        if len(indent) + len(self.text) + rest <= WIDTH and "\n" not in self.text:
            return self.text
        inner = indent + step
        good, bad = self.success.fitted(inner, step), self.failure.fitted(inner, step, len("else "))
        return f"(\n{inner}{good}\n{inner}if {self.test}\n{inner}else {bad}\n{indent})"


def lay_out(source: Source, node: ast.expr, pieces: Sequence[Piece | Choice]) -> str:
    """Write pieces instead of a node."""
    start, end = source.span(node)
    above, beside = _comments(source, (start, end), pieces)
    indent = source.indent(start)
    step = "\t" if "\t" in indent else "    "
    if not above and not beside:
        before = source.place(start)[1] - 1
        after = len(source.lines[source.place(end)[0] - 1]) - source.place(end)[1] + 1
        text = _without_brackets(pieces, indent, step, before, after)
        if text is not None:
            return text
    inner = indent + step
    written: list[str] = []
    for number, piece in enumerate(pieces):
        written += [inner + comment for comment in above.get(number, [])]
        text = inner + piece.fitted(inner, step)
        written.append("  ".join([text, *beside.get(number, [])]))
    written += [inner + comment for comment in above.get(len(pieces), [])]
    return "\n".join(["(", *written, f"{indent})"])


def _without_brackets(
    pieces: Sequence[Piece | Choice], indent: str, step: str, before: int, after: int
) -> str | None:
    """Write pieces in one line, or behind a head that has brackets of its own; None if it's too long."""
    head, *links = pieces
    tail = "".join(link.text for link in links)
    if "\n" in tail:
        return None
    if "\n" not in head.text and before + len(head.text + tail) + after <= WIDTH:
        return head.text + tail
    if not links or (isinstance(head, Choice) and len(indent + tail) + after < WIDTH):
        return head.fitted(indent, step, WIDTH) + tail
    return None


def _comments(
    source: Source, span: Span, pieces: Sequence[Piece | Choice]
) -> tuple[Placed, Placed]:
    """Return the comments that would be lost, by the piece they belong to: above it, and beside it."""
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
