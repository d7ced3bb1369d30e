"""Lint and fix texts, files, and all Python files below directories. Code is parsed, never imported."""

from __future__ import annotations

import ast
import io
import os
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from callsheet.lint.module import PACKAGE, RESULT, Module
from callsheet.lint.rules import RULES, Hit, LintRule, silenced

_WORTH_A_LOOK = (RESULT, PACKAGE, "call_id", "@tool")
"""Words of which a file has one, or no rule can be broken in it."""

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", "node_modules"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}
)
"""Directories that hold no code of the project's own."""

_VERSION = ".".join(map(str, sys.version_info[:2]))
_TOO_DEEP = "nested too deeply to be linted"


@dataclass(slots=True)
class CannotLint(Exception):
    """A text that isn't Python, or a file that can't be read or written, and why."""

    path: str
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One breach of a rule in one file. Lines and columns are counted from 1, in characters.

    `fix` says what to do; where `--fix` can, `new` is the code that takes the place of the text from offset
    `start` to `end`.
    """

    rule: str
    path: str
    line: int
    column: int
    message: str
    why: str
    fix: str
    new: str | None = None
    start: int = 0
    end: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the finding as JSON."""
        names = ("rule", "path", "line", "column", "message", "why", "fix")
        return {**{name: getattr(self, name) for name in names}, "fixable": self.new is not None}


# Texts


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
        CannotLint: The text isn't Python.
    """
    tree = _parse(text, path)
    if not any(word in text for word in _WORTH_A_LOOK):
        return []
    try:
        module = Module(text, tree)
        found = {
            _finding(rule, hit, path, module): None
            for rule in rules
            if rule.in_tests or not is_test
            for hit in rule.check(module)
            if not {rule.id, rule.category, "*"} & _ignored(hit.node, module)
        }
    except RecursionError as exc:
        raise CannotLint(path, _TOO_DEEP) from exc
    return sorted(found, key=lambda finding: (finding.line, finding.column, finding.rule))


def _finding(rule: LintRule, hit: Hit, path: str, module: Module) -> LintFinding:
    node = hit.node
    start = module.offset(node.lineno, node.col_offset)
    end = module.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
    column = start - module.offset(node.lineno, 0) + 1
    facts = (path, node.lineno, column, hit.message, rule.why, hit.fix)
    return LintFinding(rule.id, *facts, hit.new, start, end)


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


def _ignored(node: ast.expr | ast.stmt | ast.arg | ast.excepthandler, module: Module) -> set[str]:
    """Return the rules that comments silence for a node.

    These are `# callsheet: ignore[rule]` in its own lines, of a function in those before its body, and
    `# callsheet: ignore-file[rule]` anywhere.
    """
    last = node.end_lineno or node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        last = max(node.lineno, node.body[0].lineno - 1)
    found: set[str] = set()
    for line, comment in module.comments.items() if "callsheet:" in module.text else ():
        for whole_file, names in silenced(comment):
            if whole_file or node.lineno <= line <= last:
                found |= names
    return found


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after fixing, what was fixed, and what is left."""

    text: str
    done: list[LintFinding]
    left: list[LintFinding]


def fix_text(
    text: str,
    path: str = "<text>",
    *,
    rules: Sequence[LintRule] = RULES,
    is_test: bool = False,
) -> Fixed:
    """Fix what can be fixed; takes what `lint_text` takes. Fixing the outcome again changes nothing.

    Raises:
        CannotLint: The text isn't Python.
    """
    done: list[LintFinding] = []
    while True:
        found = lint_text(text, path, rules=rules, is_test=is_test)
        # The last one first, so that places before it stay what they were.
        finding = next((one for one in reversed(found) if one.new is not None), None)
        if finding is None:
            return Fixed(text, done[::-1], found)
        text = f"{text[: finding.start]}{finding.new}{text[finding.end :]}"
        done.append(finding)


# Files


@dataclass(slots=True)
class Outcome:
    """What linting some paths came to."""

    files: int = 0
    """How many were linted."""
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
    exclude: Sequence[str] = (),
    base: Path = Path(),
) -> Outcome:
    """Lint files and all Python files below directories.

    Args:
        paths: Files and directories. A file that is named is linted, also if it is excluded.
        rules: The rules to check.
        fix: Whether to fix what can be fixed, in the files.
        exclude: Globs of files and directories to leave out: by name, or, with a slash, by path from `base`.
        base: The directory that these paths are relative to.

    Returns:
        All findings, and the problems of paths that could not be linted.
    """
    outcome = Outcome()
    root = Path(os.path.abspath(base))  # noqa: PTH100 - links stay as they are named

    def is_left_out(path: Path) -> bool:
        full = os.path.abspath(path)  # noqa: PTH100
        inside = os.path.relpath(full, root).replace(os.sep, "/")
        return any(fnmatchcase(inside if "/" in one else path.name, one) for one in globs)

    globs = [one.rstrip("/") for one in exclude]
    files = (file for path in paths for file in _python_files(path, is_left_out, outcome))
    for path in dict.fromkeys(files):
        try:
            _lint(path, outcome, rules, fix)
            outcome.files += 1
        except CannotLint as exc:
            outcome.problems.append(exc)
        except (OSError, SyntaxError, UnicodeError) as exc:
            why = getattr(exc, "strerror", None) or f"not valid text ({exc})"
            outcome.problems.append(CannotLint(str(path), why))
    return outcome


def _lint(path: Path, outcome: Outcome, rules: Sequence[LintRule], fix: bool) -> None:
    """Lint a file, and write it back with the newlines and in the encoding that it has."""
    if path.exists() and not path.is_file():
        raise CannotLint(str(path), "not a regular file")
    name, shown = path.name, str(path)
    is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    raw = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    text = raw.decode(encoding)
    if not fix:
        outcome.findings += lint_text(text, shown, rules=rules, is_test=is_test)
        return
    fixed = fix_text(text, shown, rules=rules, is_test=is_test)
    outcome.findings += fixed.left + fixed.done
    if fixed.done:
        path.write_bytes(fixed.text.encode(encoding))
        del outcome.findings[-len(fixed.done) :]
        outcome.fixed += fixed.done


def _python_files(
    path: Path, is_left_out: Callable[[Path], bool], outcome: Outcome
) -> Iterator[Path]:
    """Yield a file itself, or the Python files below a directory, sorted."""

    def report(exc: OSError) -> None:
        outcome.problems.append(CannotLint(exc.filename, str(exc.strerror)))

    if not path.is_dir():
        yield path
        return
    for directory, inside, names in os.walk(path, onerror=report):
        inside[:] = sorted(
            name
            for name in inside
            if name not in _SKIPPED
            and not Path(directory, name, "pyvenv.cfg").exists()
            and not is_left_out(Path(directory, name))
        )
        found = (Path(directory, name) for name in sorted(names) if name.endswith(".py"))
        yield from (file for file in found if not is_left_out(file))
