"""Lint and fix one text. Pure: nothing is read or written."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.lint.fix import Edit, comments_in
from callsheet.lint.module import Module
from callsheet.lint.names import PACKAGE, RESULT
from callsheet.lint.rules import RULES, Hit, LintRule

_WORTH_A_LOOK = (RESULT, PACKAGE, "call_id", "@tool")
"""Words of which a file has one, or no rule can be broken in it."""

_VERSION = ".".join(map(str, sys.version_info[:2]))
_TOO_DEEP = "nested too deeply to be linted"
_IGNORE = re.compile(r"#\s*callsheet:\s*ignore(?P<file>-file)?(?:\[(?P<rules>[^\]]*)\])?(?![\w-])")
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(slots=True)
class CannotLint(Exception):
    """A text that isn't Python, or a file that can't be read or written, and why."""

    path: str
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One breach of a rule in one file. Lines and columns are counted from 1, in characters."""

    rule: str
    path: str
    line: int
    column: int
    message: str
    why: str
    fix: str
    edit: Edit | None = None

    @property
    def fixable(self) -> bool:
        """Whether `--fix` can fix it."""
        return self.edit is not None

    def to_dict(self) -> dict[str, object]:
        """Return the finding as JSON."""
        names = ("rule", "path", "line", "column", "message", "why", "fix", "fixable")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after fixing, what was fixed, and what is left."""

    text: str
    done: list[LintFinding]
    left: list[LintFinding]


def lint_text(
    text: str,
    path: str = "<text>",
    *,
    rules: Sequence[LintRule] = RULES,
    is_test: bool = False,
) -> list[LintFinding]:
    """Return what breaks the rules in a text, in order.

    Args:
        text: The code.
        path: Where it stands, for the findings.
        rules: The rules to check.
        is_test: Whether it is a test, in which some rules don't hold.

    Raises:
        CannotLint: the text isn't Python.
    """
    tree = _parse(text, path)
    if not any(word in text for word in _WORTH_A_LOOK):
        return []
    try:
        module = Module(text, tree)
        ignored = _ignored(text)
        found = {
            _finding(rule, hit, path, text): None
            for rule in rules
            if rule.in_tests or not is_test
            for hit in rule.check(module)
            if not {rule.id, rule.category, "*"} & _ignored_at(hit.node, module, ignored)
        }
    except RecursionError as exc:
        raise CannotLint(path, _TOO_DEEP) from exc
    return sorted(found, key=lambda finding: (finding.line, finding.column, finding.rule))


def _finding(rule: LintRule, hit: Hit, path: str, text: str) -> LintFinding:
    line = _NEWLINE.split(text)[hit.node.lineno - 1]
    before = line.encode("utf-8", "surrogatepass")[: hit.node.col_offset]  # ast counts bytes
    column = len(before.decode("utf-8", "replace")) + 1
    return LintFinding(
        rule.id, path, hit.node.lineno, column, hit.message, rule.why, hit.fix, hit.edit
    )


def _parse(text: str, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a bad escape in somebody's text isn't ours to report
            return ast.parse(text)
    except SyntaxError as exc:
        message = f"{exc.msg} (as Python {_VERSION} reads it)"
        raise CannotLint(path, message, exc.lineno or 1, exc.offset or 1) from exc
    except ValueError as exc:
        raise CannotLint(path, str(exc)) from exc
    except (RecursionError, MemoryError) as exc:
        raise CannotLint(path, _TOO_DEEP) from exc


# Comments that silence rules: `# callsheet: ignore[rule]` in a statement, `ignore-file[rule]` for all.


def _ignored(text: str) -> dict[int, set[str]]:
    """Return the rules that comments silence, by line; line 0 stands for the whole file."""
    found: dict[int, set[str]] = {}
    for line, comment in comments_in(text) if "callsheet:" in text else ():
        for mark in _IGNORE.finditer(comment):
            rules = re.split(r"[,\s]+", mark["rules"].strip()) if mark["rules"] else ["*"]
            found.setdefault(0 if mark["file"] else line, set()).update(rules)
    return found


def _ignored_at(node: ast.AST, module: Module, ignored: dict[int, set[str]]) -> set[str]:
    """Return the rules that are silenced for a node: in its statement, or in the head of that."""
    statements = (ast.stmt, ast.ExceptHandler)
    place = next(
        (one for one in (node, *module.ancestors(node)) if isinstance(one, statements)), None
    )
    if place is None or not ignored:
        return ignored.get(0, set())
    last = place.end_lineno or place.lineno
    body: list[ast.stmt] = getattr(place, "body", [])
    if body and not isinstance(place, ast.ExceptHandler):
        last = max(place.lineno, body[0].lineno - 1)
    lines = (0, *range(place.lineno, last + 1))
    return {rule for line in lines for rule in ignored.get(line, ())}


# Fixing


def fix_text(
    text: str,
    path: str = "<text>",
    *,
    rules: Sequence[LintRule] = RULES,
    is_test: bool = False,
) -> Fixed:
    """Fix what can be fixed; takes what `lint_text` takes. Fixing the outcome again changes nothing.

    Raises:
        CannotLint: the text isn't Python.
    """
    done: list[LintFinding] = []
    while True:
        found = lint_text(text, path, rules=rules, is_test=is_test)
        # The last one first, so that places before it stay what they were.
        finding = next((one for one in reversed(found) if one.edit is not None), None)
        if finding is None:
            return Fixed(text, done[::-1], found)
        text = _applied(text, finding)
        done.append(finding)


def _applied(text: str, finding: LintFinding) -> str:
    """Return the text with the edit of a finding."""
    assert finding.edit is not None
    node = finding.edit.node
    start = _offset(text, node.lineno, node.col_offset)
    end = _offset(text, node.end_lineno or 0, node.end_col_offset or 0)
    return text[:start] + finding.edit.text + text[end:]


def _offset(text: str, line: int, column: int) -> int:
    """Return the offset of a place that `ast` names: line from 1, column in bytes from 0."""
    starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
    rest = text[starts[line - 1] : starts[line - 1] + column]
    return starts[line - 1] + len(
        rest.encode("utf-8", "surrogatepass")[:column].decode(errors="replace")
    )
