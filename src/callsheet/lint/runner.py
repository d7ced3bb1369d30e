"""Lint the paths of a command line: files are found, read in their own encoding, and written back."""

from __future__ import annotations

import io
import os
import stat
import tempfile
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from callsheet.lint.linter import LintFinding, Unparsable, fix_text, lint_text
from callsheet.lint.names import follow_import, forget_imports
from callsheet.lint.rules import RULES, LintRule

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", "node_modules"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}
)
"""Directories that hold no code of the project's own."""


class Unreadable(Exception):
    """A path that can't be read or written. The message is the cause."""


class PythonFile(NamedTuple):
    """A file that was read: its text with the newlines it has, and what is needed to write it."""

    path: Path
    text: str
    raw: bytes
    encoding: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that could not be linted or written, and why."""

    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the problem as JSON."""
        return asdict(self)


@dataclass(slots=True)
class Outcome:
    """What linting some paths came to."""

    files: int = 0
    findings: list[LintFinding] = field(default_factory=list[LintFinding])
    """What is left."""
    fixed: list[LintFinding] = field(default_factory=list[LintFinding])
    """What was fixed, and is written."""
    problems: list[Problem] = field(default_factory=list[Problem])

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
    forget_imports()
    files = (file for path in paths for file in _python_files(path, outcome))
    for path in dict.fromkeys(files):
        outcome.files += 1
        try:
            _lint(read(path), outcome, rules, fix)
        except Unreadable as exc:
            outcome.problems.append(Problem(str(path), str(exc)))
        except Unparsable as exc:
            outcome.problems.append(Problem(str(path), exc.message, exc.line, exc.column))
    return outcome


def _lint(file: PythonFile, outcome: Outcome, rules: Sequence[LintRule], fix: bool) -> None:
    name, shown = file.path.name, str(file.path)
    is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    follow = partial(follow_import, file.path.absolute())
    if not fix:
        outcome.findings += lint_text(file.text, shown, rules=rules, follow=follow, is_test=is_test)
        return
    fixed = fix_text(file.text, shown, rules=rules, follow=follow, is_test=is_test)
    outcome.findings += fixed.left
    if fixed.done:
        try:
            write_text(file, fixed.text)
        except Unreadable:
            outcome.findings += fixed.done
            raise
        outcome.fixed += fixed.done


# Files


def _python_files(path: Path, outcome: Outcome) -> Iterator[Path]:
    """Yield a file itself, or the Python files below a directory, sorted."""
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            yield path
            return
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        outcome.problems.append(Problem(str(path), f"{exc.strerror}: {path}"))
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED and not Path(entry, "pyvenv.cfg").exists():
                yield from _python_files(Path(entry), outcome)
        elif entry.name.endswith(".py") and entry.is_file():
            yield Path(entry)


def read(path: Path) -> PythonFile:
    """Read a file of Python code. Raises `Unreadable`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreadable(f"not a regular file: {path}")
        raw = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return PythonFile(path, raw.decode(encoding), raw, encoding)
    except OSError as exc:
        raise Unreadable(f"{exc.strerror}: {path}") from exc
    except (SyntaxError, UnicodeDecodeError) as exc:
        raise Unreadable(f"not text in its encoding: {path}: {exc}") from exc


def write_text(file: PythonFile, text: str) -> None:
    """Replace the text of a file, whole or not at all; its mode stays. Raises `Unreadable`."""
    target = Path(os.path.realpath(file.path))
    try:
        data = text.encode(file.encoding)
        if target.read_bytes() != file.raw:
            raise Unreadable(f"changed while it was linted, so it was left alone: {file.path}")
        if not os.access(target, os.W_OK):
            raise Unreadable(f"read-only: {file.path}")
        # A new file beside the old one takes its place when it is complete.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as part:
                part.write(data)
                part.flush()
                os.fsync(part.fileno())
            Path(name).chmod(stat.S_IMODE(target.stat().st_mode))
            Path(name).replace(target)
        finally:
            Path(name).unlink(missing_ok=True)
    except UnicodeEncodeError as exc:
        raise Unreadable(f"can't be written as {file.encoding}: {file.path}") from exc
    except OSError as exc:
        raise Unreadable(f"{exc.strerror}: {file.path}") from exc
