"""Lint the paths of a command line: files one by one, problems told and not raised."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.lint import files
from callsheet.lint.engine import Fixed, Unparsable, fix_text, lint_text
from callsheet.lint.finding import Finding, Rule
from callsheet.lint.imports import Project
from callsheet.lint.rules import RULES

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that could not be linted or written, and why."""

    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON tells it."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
        }


@dataclass(slots=True)
class Outcome:
    """What linting some paths gave."""

    files: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])
    """What is left."""
    fixed: list[Finding] = field(default_factory=list[Finding])
    """What was mended, and is written."""
    diffs: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings are left, 2 something could not be linted."""
        if self.problems:
            return 2
        return 1 if self.findings else 0


def lint_paths(
    paths: Iterable[Path], *, rules: Sequence[Rule] = RULES, fix: bool = False, write: bool = True
) -> Outcome:
    """Lint files and all Python files below directories; with `fix`, mend what can be mended.

    With `write=False` nothing is written: what mending would change stands in `diffs`, and all
    findings are left.
    """
    outcome = Outcome()
    project = Project(files.read_text)
    for path in _all_files(paths, outcome):
        outcome.files += 1
        try:
            _lint(path, outcome, project, rules, fix, write)
        except files.Unreadable as exc:
            outcome.problems.append(Problem(str(path), str(exc)))
        except Unparsable as exc:
            problem = Problem(str(path), exc.message, exc.line, exc.column)
            outcome.problems.append(problem)
    return outcome


def _all_files(paths: Iterable[Path], outcome: Outcome) -> Iterator[Path]:
    def tell(path: Path, message: str) -> None:
        outcome.problems.append(Problem(str(path), message))

    seen: set[Path] = set()
    for path in paths:
        for file in files.python_files(path, tell):
            if file not in seen:
                seen.add(file)
                yield file


def _lint(
    path: Path, outcome: Outcome, project: Project, rules: Sequence[Rule], fix: bool, write: bool
) -> None:
    file = files.read(path)
    absolute = path.absolute()
    shown = str(path)

    def follow(module: str, level: int, name: str) -> str:
        return project.follow(absolute, module, level, name)

    is_test = _is_test(path.name)
    if not fix:
        found = lint_text(file.text, shown, rules=rules, follow=follow, is_test=is_test)
        outcome.findings += found
        return
    fixed = fix_text(file.text, shown, rules=rules, follow=follow, is_test=is_test)
    outcome.findings += fixed.left
    if fixed.done and write:
        _write(file, fixed, outcome)
    elif fixed.done:
        outcome.diffs.append(_diff(shown, file.text, fixed.text))
        outcome.findings += fixed.done


def _write(file: files.TextFile, fixed: Fixed, outcome: Outcome) -> None:
    try:
        files.write(file, fixed.text)
    except files.Unreadable:
        outcome.findings += fixed.done
        raise
    outcome.fixed += fixed.done


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"


def _diff(path: str, old: str, new: str) -> str:
    name = path.lstrip("/")
    lines = difflib.unified_diff(_lines(old), _lines(new), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else line + _NO_NEWLINE for line in lines)


def _lines(text: str) -> list[str]:
    return _LINE.findall(text)
