"""One text as lines, offsets and comments. Knows nothing of Python beyond tokens.

Three ways to count meet here: `ast` counts columns in UTF-8 bytes, `tokenize` and people in
characters, edits in characters from the start of the text. Newlines are `\\n` in `text`; what the
file has instead is the business of `files.py`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

_BLANK = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}
)


class Source:
    """A text, and where things stand in it."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.lines: list[str] = text.split("\n")
        self._starts: list[int] = [0, *accumulate(len(line) + 1 for line in self.lines)]

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place that `ast` names: line from 1, column in bytes from 0."""
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))
        return self._starts[line - 1] + column

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1, as people count."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def span(self, node: ast.expr | ast.stmt | ast.excepthandler) -> tuple[int, int]:
        """Return where a node begins and ends."""
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None
        assert end_column is not None
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def indent(self, offset: int) -> str:
        """Return the blank space that the line of an offset begins with."""
        line = self.lines[self.place(offset)[0] - 1]
        return line[: len(line) - len(line.lstrip(" \t"))]

    @cached_property
    def tokens(self) -> list[tuple[int, int, int, str]]:
        """All tokens as (type, start, end, text), those that only make layout left out."""
        found: list[tuple[int, int, int, str]] = []
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type not in _BLANK or token.type == tokenize.COMMENT:
                    start = self._starts[token.start[0] - 1] + token.start[1]
                    end = self._starts[token.end[0] - 1] + token.end[1]
                    found.append((token.type, start, end, token.string))
        except (tokenize.TokenError, SyntaxError):  # it parsed, so what was found so far is right
            pass
        return found

    @cached_property
    def comments(self) -> list[tuple[int, int, str]]:
        """All comments as (start, end, text)."""
        kind = tokenize.COMMENT
        return [(start, end, text) for type_, start, end, text in self.tokens if type_ == kind]

    @cached_property
    def _code(self) -> tuple[list[tuple[int, int, int, str]], list[int]]:
        code = [token for token in self.tokens if token[0] != tokenize.COMMENT]
        return code, [token[1] for token in code]

    def whole(self, node: ast.expr, within: tuple[int, int]) -> tuple[int, int]:
        """Return the span of an expression with the brackets that stand around it, inside of `within`."""
        start, end = self.span(node)
        code, starts = self._code
        left, right = bisect_right(starts, start) - 2, bisect_right(starts, end - 1)
        while left >= 0 and right < len(code):
            opening, closing = code[left], code[right]
            inside = within[0] < opening[1] and closing[2] < within[1]
            if not inside or (opening[3], closing[3]) != ("(", ")"):
                break
            start, end = opening[1], closing[2]
            left, right = left - 1, right + 1
        return start, end
