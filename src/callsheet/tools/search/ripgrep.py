"""Ripgrep as a child process: where it is, how it is run, what it is asked, and what its errors mean.

The program comes with the `ripgrep` wheel, which this package depends on; without the wheel, any `rg`
on PATH serves. There is no search of our own beside it.

A child gets no stdin and a process group of its own, and is killed with its group when nobody waits for it
any more. It writes to a file, not to a pipe: with a pipe, reader and search would take turns line by line.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from callsheet.processes.process import started
from callsheet.tools.errors import ExecutionFailed

from .globs import expand
from .walk import SearchScope, rules_above

_NAME = "rg"
_MAX_ERROR_BYTES = 1 << 20
_UNUSABLE = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)

_ALWAYS = (
    "--no-config",  # what a user has set for a terminal is not meant for tools
    "--color=never",
    "--no-ignore-global",
    "--no-ignore-messages",
    "--no-mmap",  # a file that shrinks meanwhile would kill a process that has mapped it
    "--null",
    "--with-filename",
    "--no-heading",
)  # fmt: skip

_CARET = re.compile(r"^ {4}( *)\^", re.MULTILINE)
_WRAPPED = len("(?:")
"""Ripgrep puts a pattern into a group before it compiles it, so its carets are that far to the right."""

_GROUPING = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()\\]", re.DOTALL)


class PatternError(ValueError):
    """A pattern that can't be searched for. Positions count characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position: int = position


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
    """Run a child to its end.

    Args:
        command: The program and its arguments.
        cwd: The directory to run it in.
        pass_fds: Descriptors that stay open in the child.

    Raises:
        ExecutionFailed: The program can't be started.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            starting = asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
            process = await started(starting, _kill)
        except OSError as exc:
            if exc.errno in _UNUSABLE and exc.filename != cwd:
                raise ExecutionFailed(
                    f"{command[0]} can't be started ({exc.strerror}); get a ripgrep that runs here "
                    "with: pip install ripgrep"
                ) from exc
            raise
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                await _kill(process)
        output.seek(0)
        errors.seek(0)
        yield Finished(code, output, errors.read(_MAX_ERROR_BYTES).decode(errors="replace"))


async def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


# Commands


def count_tree_command(
    rg: str,
    pattern: str,
    ignore_case: bool,
    scope: SearchScope,
    glob: str | None,
    rules: str | None,
) -> list[str]:
    """Return the command that counts matching lines in each file of a tree.

    Args:
        rg: The program.
        pattern: A regular expression.
        ignore_case: Whether upper and lower case are the same.
        scope: The directory; the command must run in its `top`.
        glob: Narrows the search, loosely: some files that it does not match may be searched too.
        rules: A file with the ignore rules from above the directory, if there are any.
    """
    return [
        rg,
        *_ALWAYS,
        "--count",
        "--no-ignore-parent",
        *(() if scope.in_repository else ("--no-require-git",)),
        "--glob=!.git",
        *([f"--ignore-file={rules}"] if rules else ()),
        *_types(glob),
        *_pattern(pattern, ignore_case),
        "--",
        f"./{scope.below}",
    ]


def count_files_command(rg: str, pattern: str, ignore_case: bool, files: list[str]) -> list[str]:
    """Return the command that counts matching lines in each of these files."""
    return [rg, *_ALWAYS, "--count", *_pattern(pattern, ignore_case), "--", *files]


def lines_command(
    rg: str, pattern: str, ignore_case: bool, files: list[str], limit: int
) -> list[str]:
    """Return the command that reports where matching lines begin, in these files, in this order."""
    return [
        rg,
        *_ALWAYS,
        "--threads=1",
        "--line-number",
        "--column",
        "--byte-offset",
        "--max-columns=1",  # the lines themselves may be of any length, and are read elsewhere
        f"--max-count={limit}",
        *_pattern(pattern, ignore_case),
        "--",
        *files,
    ]


def _pattern(pattern: str, ignore_case: bool) -> list[str]:
    case = "--ignore-case" if ignore_case else "--case-sensitive"
    return [case, f"--regexp={pattern}"]


def _types(glob: str | None) -> list[str]:
    """Return options that narrow a search by names.

    A file type does that and keeps ignore files in force, which ripgrep's own globs override. More may be let
    in than is meant; the caller filters what is found.
    """
    if glob is None or glob.startswith("!"):
        return []
    names = {_loosened(one.rstrip("/").rpartition("/")[2]) for one in expand(glob)}
    if "*" in names:
        return []
    return [*(f"--type-add=wanted:{name}" for name in sorted(names)), "--type=wanted"]


def _loosened(name: str) -> str:
    """Return a simple glob that matches at least what another one does."""
    plain = re.sub(r"\[.*|\\.?|[^\w.+\- ]", "*", name, flags=re.DOTALL | re.ASCII)
    return re.sub(r"\*+", "*", plain) or "*"


def rules_file(scope: SearchScope) -> bytes:
    """Return the ignore rules above a directory as one ignore file at the top, the strongest last."""
    above = sorted(rules_above(scope), key=lambda each: -each[0])
    lines = [rule.below(directory.rstrip("/")) for _, directory, rules in above for rule in rules]
    return "".join(f"{line}\n" for line in lines).encode()


# Errors


def unreadable_count(pattern: str, finished: Finished) -> int:
    """Return how many files and directories a search could not read.

    Raises:
        PatternError: Ripgrep has refused the pattern.
        ChildProcessError: It ended in another way than it should.
    """
    if finished.code in (0, 1):
        return 0
    errors = finished.errors
    if finished.code != 2:
        raise ChildProcessError(f"the search ended with {finished.code}: {errors[:500]}")
    # Errors about files begin with their paths; any other means that nothing was searched.
    if errors.startswith("rg: ") and not errors.startswith(("rg: ./", "rg: /")):
        raise _pattern_error(pattern, errors)
    return sum("(os error" in line for line in errors.splitlines())


def _pattern_error(pattern: str, errors: str) -> PatternError:
    error = re.search(r"^error: (.*)", errors, re.MULTILINE)
    message = error[1] if error else errors.removeprefix("rg: ").strip().partition("\n")[0]
    caret = _CARET.search(errors)
    if caret is None:
        return PatternError(message, 0)
    position = len(caret[1]) - _WRAPPED
    # At the wrapping group itself: something in the pattern has taken its closing bracket.
    return PatternError(message, position if position >= 0 else _unclosed(pattern))


def _unclosed(pattern: str) -> int:
    """Return where the innermost group begins that is never closed, or the escape of nothing."""
    groups = list[int]()
    for token in _GROUPING.finditer(pattern):
        if token[0] == "\\":
            return token.start()
        if token[0] == "(":
            groups.append(token.start())
        elif token[0] == ")" and groups:
            groups.pop()
    return groups[-1] if groups else 0
