"""Ripgrep: where it is, how it is asked, and what its complaints mean."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from .dialect import check
from .globs import expand
from .pattern_errors import PatternError
from .walk import Scope, rules_above

_NAME = "rg.exe" if os.name == "nt" else "rg"

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


@cache
def find() -> str | None:
    """Find the program: that of the wheel, else any."""
    user = sysconfig.get_preferred_scheme("user")
    scripts = (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", user))
    for directory in (Path(sys.executable).parent, *map(Path, scripts)):
        if os.access(directory / _NAME, os.X_OK):
            return str(directory / _NAME)
    return shutil.which(_NAME)


def count_command(
    rg: str, pattern: str, ignore_case: bool, scope: Scope, glob: str | None, rules: str | None
) -> list[str]:
    """Ask how many lines match in each file of a tree. `rules` is the file with those from above."""
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
    """Ask how many lines match in each of these files."""
    return [rg, *_ALWAYS, "--count", *_pattern(pattern, ignore_case), "--", *files]


def lines_command(
    rg: str, pattern: str, ignore_case: bool, files: list[str], most: int
) -> list[str]:
    """Ask where lines begin that match, in these files, in this order."""
    return [
        rg,
        *_ALWAYS,
        "--threads=1",
        "--line-number",
        "--column",
        "--byte-offset",
        "--max-columns=1",  # the lines themselves may be of any length, and are read elsewhere
        f"--max-count={most}",
        *_pattern(pattern, ignore_case),
        "--",
        *files,
    ]


def _pattern(pattern: str, ignore_case: bool) -> list[str]:
    case = "--ignore-case" if ignore_case else "--case-sensitive"
    return [case, f"--regexp={pattern}"]


def _types(glob: str | None) -> list[str]:
    """Narrow a search by names. Unlike ripgrep's own globs, that keeps ignore files in force.

    More may be let in than is meant; what is found is looked at again.
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


def rules_file(scope: Scope) -> bytes:
    """Write the rules above a directory for one ignore file at the top, the strongest last."""
    above = sorted(rules_above(scope), key=lambda each: -each[0])
    lines = [rule.below(directory.rstrip("/")) for _, directory, rules in above for rule in rules]
    return "".join(f"{line}\n" for line in lines).encode()


def is_refusal(said: str) -> bool:
    """Return whether ripgrep did not search at all. Its other complaints are about paths."""
    return said.startswith("rg: ") and not said.startswith(("rg: ./", "rg: /"))


def complaint(pattern: str, said: str) -> PatternError:
    """Say what is wrong with a pattern that ripgrep has refused."""
    try:
        check(pattern)
    except PatternError as exc:
        return exc
    error = re.search(r"^error: (.*)", said, re.MULTILINE)
    message = error[1] if error else said.removeprefix("rg: ").strip().partition("\n")[0]
    caret = _CARET.search(said)
    return PatternError(message, max(0, len(caret[1]) - _WRAPPED) if caret else 0)
