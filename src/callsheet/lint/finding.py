"""What a rule is, and what it finds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callsheet.lint.module import Module


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A stretch of the text, by offsets, and what stands there instead."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a rule is broken, as the rule itself sees it."""

    node: ast.AST
    message: str
    fix: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it is called, why it holds, what to do, and who looks for breaches."""

    id: str
    title: str
    why: str
    fix: str
    bad: str
    """Code that breaks the rule: shown by `--explain` and in docs/lint.md, and run by the tests."""
    good: str
    """The same code as it should be."""
    check: Callable[[Module], Iterator[Hit]]
    in_tests: bool = True
    """Whether it holds in files of tests, too. These make odd results, to compare with."""

    @property
    def category(self) -> str:
        """The word before the slash."""
        return self.id.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of a rule in one file. Lines and columns are counted from 1, columns in characters."""

    rule: str
    path: str
    line: int
    column: int
    message: str
    why: str
    fix: str
    edits: tuple[Edit, ...] = ()

    @property
    def fixable(self) -> bool:
        """Whether `--fix` can mend it."""
        return bool(self.edits)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON tells it."""
        return {
            "rule": self.rule,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "why": self.why,
            "fix": self.fix,
            "fixable": self.fixable,
        }
