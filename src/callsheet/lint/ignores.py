"""Comments that silence rules: `# callsheet: ignore[rule]` in a statement, `ignore-file[rule]` for all."""

from __future__ import annotations

import ast
import re

from callsheet.lint.module import Module
from callsheet.lint.source import Source

_MARK = re.compile(r"#\s*callsheet:\s*ignore(?P<file>-file)?(?:\[(?P<rules>[^\]]*)\])?(?![\w-])")

ALL = frozenset({"*"})


class Ignores:
    """The comments of a file that silence rules."""

    def __init__(self, source: Source) -> None:
        self._lines: dict[int, frozenset[str]] = {}
        self._file: frozenset[str] = frozenset()
        if "callsheet:" in source.text:
            for start, _, text in source.comments:
                self._note(text, source.place(start)[0])

    def _note(self, comment: str, line: int) -> None:
        for mark in _MARK.finditer(comment):
            words = frozenset(re.split(r"[,\s]+", mark["rules"].strip())) if mark["rules"] else ALL
            if mark["file"]:
                self._file |= words
            else:
                self._lines[line] = self._lines.get(line, frozenset()) | words

    def silence(self, rule: str, node: ast.AST, module: Module) -> bool:
        """Whether a rule is silenced where a node stands."""
        if not self._lines and not self._file:
            return False
        names = {rule, rule.partition("/")[0], *ALL}
        if names & self._file:
            return True
        first, last = _lines_of(node, module)
        return any(names & self._lines.get(line, frozenset()) for line in range(first, last + 1))


def _lines_of(node: ast.AST, module: Module) -> tuple[int, int]:
    """Return the lines in which a comment is about a node: those of its statement, or of its head."""
    place: ast.AST | None = node
    if not isinstance(node, (ast.stmt, ast.ExceptHandler)):
        place = module.statement_of(node)
    if not isinstance(place, (ast.stmt, ast.ExceptHandler)):
        return (0, -1)
    last = place.end_lineno or place.lineno
    body: list[ast.stmt] = getattr(place, "body", [])
    if body and not isinstance(place, ast.ExceptHandler):
        last = body[0].lineno - 1
    return place.lineno, max(last, place.lineno)
