"""Lint and mend one text. Pure: what other files say comes in as a function."""

from __future__ import annotations

import ast
import gc
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from callsheet.lint.finding import Edit, Finding, Rule
from callsheet.lint.ignores import Ignores
from callsheet.lint.module import Module
from callsheet.lint.names import Follow
from callsheet.lint.rules import RULES
from callsheet.lint.source import Source
from callsheet.lint.vocabulary import WORTH_A_LOOK

MOST_PASSES = 20
"""How often a text is mended: what stands inside of what was mended comes in the next pass."""

_VERSION = ".".join(map(str, sys.version_info[:2]))
_TOO_DEEP = "nested too deeply to be linted"


class Unparsable(Exception):
    """A text that isn't Python. Says where and why."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message: str = message
        self.line: int = line
        self.column: int = column


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after mending, what was mended, and what is left."""

    text: str
    done: list[Finding]
    left: list[Finding]


def lint_text(
    text: str,
    path: str = "<text>",
    *,
    rules: Sequence[Rule] = RULES,
    follow: Follow | None = None,
    is_test: bool = False,
) -> list[Finding]:
    """Return what breaks the rules in a text, in order. Raises `Unparsable`."""
    tree = parse(text)
    if not any(word in text for word in WORTH_A_LOOK):
        return []
    try:
        return _lint(text, tree, path, rules, follow or _as_written, is_test)
    except RecursionError as exc:
        raise Unparsable(_TOO_DEEP) from exc


def _lint(
    text: str, tree: ast.Module, path: str, rules: Sequence[Rule], follow: Follow, is_test: bool
) -> list[Finding]:
    source = Source(text)
    module = Module(source, tree, follow)
    ignores = Ignores(source)
    rules = [rule for rule in rules if rule.in_tests or not is_test]
    found = {finding: None for rule in rules for finding in _run(rule, module, ignores, path)}
    return sorted(found, key=lambda finding: (finding.line, finding.column, finding.rule))


def _run(rule: Rule, module: Module, ignores: Ignores, path: str) -> Iterator[Finding]:
    for hit in rule.check(module):
        if not ignores.silence(rule.id, hit.node, module):
            node = hit.node
            assert isinstance(node, (ast.expr, ast.stmt, ast.excepthandler))
            line, column = module.source.place(module.source.offset(node.lineno, node.col_offset))
            yield Finding(rule.id, path, line, column, hit.message, rule.why, hit.fix, hit.edits)


def _as_written(module: str, level: int, name: str) -> str:
    return f"{'.' * level}{module}.{name}"


def parse(text: str) -> ast.Module:
    """Parse a text, or raise `Unparsable`."""
    collects = gc.isenabled()
    gc.disable()  # a tree is many objects and no garbage: collecting doubles the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a bad escape in somebody's text isn't ours to report
            return ast.parse(text)
    except SyntaxError as exc:
        message = f"{exc.msg} (as Python {_VERSION} reads it)"
        raise Unparsable(message, exc.lineno or 1, exc.offset or 1) from exc
    except ValueError as exc:
        raise Unparsable(str(exc)) from exc
    except (RecursionError, MemoryError) as exc:
        raise Unparsable(_TOO_DEEP) from exc
    finally:
        if collects:
            gc.enable()


def fix_text(
    text: str,
    path: str = "<text>",
    *,
    rules: Sequence[Rule] = RULES,
    follow: Follow | None = None,
    is_test: bool = False,
) -> Fixed:
    """Mend what can be mended. Mending the outcome again changes nothing. Raises `Unparsable`."""
    done: list[Finding] = []
    for _ in range(MOST_PASSES):
        found = lint_text(text, path, rules=rules, follow=follow, is_test=is_test)
        text, mended = _mend(text, [finding for finding in found if finding.fixable])
        if not mended:
            return Fixed(text, done, found)
        done += mended
    return Fixed(text, done, lint_text(text, path, rules=rules, follow=follow, is_test=is_test))


def _mend(text: str, findings: list[Finding]) -> tuple[str, list[Finding]]:
    """Apply the edits of findings, as far as the text still parses."""
    mended = _apart(findings)
    outcome = _apply(text, {edit for finding in mended for edit in finding.edits})
    if _parses(outcome):
        return outcome, mended
    for finding in mended:
        outcome = _apply(text, finding.edits)
        if _parses(outcome):
            return outcome, [finding]
    return text, []


def _apart(findings: list[Finding]) -> list[Finding]:
    """Return findings whose edits don't overlap, the outer ones first."""
    kept: list[Finding] = []
    taken: set[Edit] = set()
    for finding in findings:
        if not any(_overlap(edit, other) for edit in finding.edits for other in taken):
            kept.append(finding)
            taken.update(finding.edits)
    return kept


def _overlap(one: Edit, other: Edit) -> bool:
    return one != other and one.start < other.end and other.start < one.end


def _apply(text: str, edits: Iterable[Edit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _parses(text: str) -> bool:
    try:
        parse(text)
    except Unparsable:
        return False
    return True
