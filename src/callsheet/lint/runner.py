"""Lint the paths of a command line: files are found, read in their own encoding, and written back."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.lint.linter import CannotLint, LintFinding, fix_text, lint_text
from callsheet.lint.rules import RULES, LintRule

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", "node_modules"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}
)
"""Directories that hold no code of the project's own."""


@dataclass(slots=True)
class Outcome:
    """What linting some paths came to."""

    files: int = 0
    findings: list[LintFinding] = field(default_factory=list[LintFinding])
    """What is left."""
    fixed: list[LintFinding] = field(default_factory=list[LintFinding])
    """What was fixed, and is written."""
    problems: list[CannotLint] = field(default_factory=list[CannotLint])

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings are left, 2 something could not be linted."""
        return 2 if self.problems else 1 if self.findings else 0


def lint_paths(
    paths: Iterable[Path],
    *,
    rules: Sequence[LintRule] = RULES,
    fix: bool = False,
) -> Outcome:
    """Lint files and all Python files below directories.

    Args:
        paths: Files and directories.
        rules: The rules to check.
        fix: Whether to fix what can be fixed, in the files.

    Returns:
        All findings, and the problems of paths that could not be linted.
    """
    outcome = Outcome()
    files = (file for path in paths for file in _python_files(path, outcome))
    for path in dict.fromkeys(files):
        outcome.files += 1
        try:
            _lint(path, outcome, rules, fix)
        except CannotLint as exc:
            outcome.problems.append(exc)
    return outcome


def _lint(path: Path, outcome: Outcome, rules: Sequence[LintRule], fix: bool) -> None:
    name, shown = path.name, str(path)
    is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    text, encoding = read(path)
    if not fix:
        outcome.findings += lint_text(text, shown, rules=rules, is_test=is_test)
        return
    fixed = fix_text(text, shown, rules=rules, is_test=is_test)
    outcome.findings += fixed.left
    if fixed.done:
        try:
            path.write_bytes(fixed.text.encode(encoding))
        except (OSError, UnicodeEncodeError) as exc:
            outcome.findings += fixed.done
            raise CannotLint(str(path), f"{_cause(exc)}: {path}") from exc
        outcome.fixed += fixed.done


# Files


def _python_files(path: Path, outcome: Outcome) -> Iterator[Path]:
    """Yield a file itself, or the Python files below a directory, sorted."""

    def report(exc: OSError) -> None:
        outcome.problems.append(CannotLint(str(path), f"{exc.strerror}: {exc.filename}"))

    if not path.is_dir():
        yield path
        return
    for directory, inside, names in os.walk(path, onerror=report):
        inside[:] = sorted(
            name
            for name in inside
            if name not in _SKIPPED and not Path(directory, name, "pyvenv.cfg").exists()
        )
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(".py"))


def read(path: Path) -> tuple[str, str]:
    """Return the text of a file, with the newlines it has, and its encoding. Raises `CannotLint`."""
    try:
        if path.exists() and not path.is_file():
            raise CannotLint(str(path), f"not a regular file: {path}")
        raw = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding), encoding
    except (OSError, SyntaxError, UnicodeDecodeError) as exc:
        raise CannotLint(str(path), f"{_cause(exc)}: {path}") from exc


def _cause(exc: Exception) -> str:
    return exc.strerror or "" if isinstance(exc, OSError) else f"not text in its encoding ({exc})"
