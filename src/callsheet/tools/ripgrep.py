"""Ripgrep as a child process: where it is, how it is run, what it is asked, and what its errors mean.

It searches for `grep`, and lists files for `glob`, so what ignore files leave out is the same for both. They
count from the root of the repository down; where there is none, from the directory that is searched down.

The program comes with the `ripgrep` wheel, which this package depends on; without the wheel, any `rg`
on PATH serves. There is no search of our own beside it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from callsheet.processes.process import run_program
from callsheet.report.patterns import lazy
from callsheet.tools.errors import ExecutionFailed, InvalidArguments

_NAME = "rg"
_MAX_ERROR_BYTES = 1 << 20
_UNUSABLE = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)

_ALWAYS = (
    "--no-config",  # what a user has set for a terminal is not meant for tools
    "--color=never",
    "--no-ignore-global",
    "--no-mmap",  # a file that shrinks meanwhile would kill a process that has mapped it
    "--null",
    "--with-filename",
    "--no-heading",
)  # fmt: skip
_IN_TREES = ("--glob=!.git", "--no-ignore-messages")
_WITHOUT_REPOSITORY = ("--no-require-git", "--no-ignore-parent")

_SIMPLE = lazy(r"[\w.*?-]*(\{[\w.*?-]+(,[\w.*?-]+)*\})?[\w.*?-]*", re.ASCII)
"""A glob for names that ripgrep reads as we do."""

MAX_WIDTH = 300
"""Characters of a line that are shown."""


# The program


@cache
def find() -> str | None:
    """Return the path of the program: that of the wheel, else the one on PATH; None if there is none."""
    user = sysconfig.get_preferred_scheme("user")
    scripts = (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user))
    for directory in (Path(sys.executable).parent, *map(Path, scripts)):
        if os.access(directory / _NAME, os.X_OK):
            return str(directory / _NAME)
    return shutil.which(_NAME)


def program() -> str:
    """Return the path of the program.

    Raises:
        ExecutionFailed: There is none; the message explains how to install it.
    """
    found = find()
    if found is None:
        raise ExecutionFailed(
            "grep needs ripgrep, which is not installed here; get it with: pip install ripgrep"
        )
    return found


class Finished(NamedTuple):
    """A child that has ended: its exit code, and what it wrote to stdout and to stderr."""

    code: int
    output: BinaryIO
    errors: str


@asynccontextmanager
async def run(
    command: Sequence[str], cwd: str, pass_fds: Sequence[int] = ()
) -> AsyncGenerator[Finished, None]:
    """Run ripgrep to its end.

    Args:
        command: The program and its arguments.
        cwd: The directory to run it in.
        pass_fds: Descriptors that stay open in the child.

    Raises:
        ExecutionFailed: The program can't be started.
    """
    # To files, not to pipes: with a pipe, reader and search would take turns line by line.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            code = await run_program(
                command, cwd=cwd, stdout=output, stderr=errors, pass_fds=pass_fds
            )
        except OSError as exc:
            if exc.errno in _UNUSABLE and exc.filename != cwd:
                raise ExecutionFailed(
                    f"{command[0]} can't be started ({exc.strerror}); get a ripgrep that runs here "
                    "with: pip install ripgrep"
                ) from exc
            raise
        output.seek(0)
        errors.seek(0)
        yield Finished(code, output, errors.read(_MAX_ERROR_BYTES).decode(errors="replace"))


# Commands


class LineQuery(NamedTuple):
    """What is searched for."""

    pattern: str
    ignore_case: bool = False
    glob: str | None = None

    def count_tree(self, base: Path) -> list[str]:
        """Return the command that counts matching lines in each file below `base`, where it has to run.

        A glob narrows the search loosely: some files that it does not match may be searched too.
        """
        return [*self._command("--count", *_in_tree(base), *_types(self.glob)), "./"]

    def count_files(self, files: list[str]) -> list[str]:
        """Return the command that counts matching lines in each of these files."""
        return [*self._command("--count"), *files]

    def show_lines(self, files: list[str], limit: int, context: int) -> list[str]:
        """Return the command that shows matching lines in these files, in this order, and lines around."""
        options = (
            "--threads=1",
            "--line-number",
            "--column",
            f"--max-columns={MAX_WIDTH}",
            "--max-columns-preview",
            "--no-context-separator",
            f"--context={context}",
            f"--max-count={limit}",
        )
        return [*self._command(*options), *files]

    def _command(self, *options: str) -> list[str]:
        case = "--ignore-case" if self.ignore_case else "--case-sensitive"
        return [program(), *_ALWAYS, *options, case, f"--regexp={self.pattern}", "--"]


def list_files(base: Path) -> list[str]:
    """Return the command that lists the files below `base`, hidden ones as well, where it has to run."""
    return [program(), *_ALWAYS, "--files", "--hidden", *_in_tree(base), "--", "./"]


def _in_tree(base: Path) -> tuple[str, ...]:
    is_repository = any((above / ".git").exists() for above in (base, *base.parents))
    return _IN_TREES if is_repository else _IN_TREES + _WITHOUT_REPOSITORY


def _types(glob: str | None) -> list[str]:
    """Return options that narrow a search by names, if these are simple.

    A file type does that and keeps ignore files in force, which ripgrep's own globs override.
    """
    name = (glob or "!").rpartition("/")[2]
    is_simple = _SIMPLE.fullmatch(name) and not (glob or "").startswith("!")
    return [f"--type-add=wanted:{name}", "--type=wanted"] if is_simple else []


# Errors


def unreadable_count(finished: Finished) -> int:
    """Return how many files and directories a search could not read.

    Raises:
        InvalidArguments: Ripgrep has refused the pattern.
        ChildProcessError: It ended in another way than it should.
    """
    if finished.code in (0, 1):
        return 0
    errors = finished.errors
    if finished.code != 2:
        raise ChildProcessError(f"the search ended with {finished.code}: {errors[:500]}")
    # Errors about files begin with their paths; any other means that nothing was searched.
    if errors.startswith("rg: ") and not errors.startswith(("rg: ./", "rg: /")):
        error = re.search(r"^error: (.*)", errors, re.MULTILINE)
        why = error[1] if error else errors[4:].strip().partition("\n")[0]
        raise InvalidArguments(f"pattern: {why}")
    return sum("(os error" in line for line in errors.splitlines())
