"""Whether a shell command is certain to do no harm, and which files it reads.

Every part of a command must be listed in `programs.toml`, and nothing may be hidden in it; else nobody knows
what it does. A wrong "harmless" could hide something from the user, a wrong "unknown" costs a location.
Neither decides a kind: whatever runs a shell command is `execute`.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple, cast

from callsheet.describe.shell.parser import Unsure, split_commands
from callsheet.describe.shell.programs import find_program, program_names
from callsheet.report.patterns import lazy

MAX_FILES = 8
_MAX_DEPTH = 4

_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
"""Shells whose language is understood. That of cmd and PowerShell is another."""
_SHELL_FLAG = lazy(r"-[eilux]*c")
_SYSTEM = lazy(r"(?:/bin|/usr/bin|/usr/local/bin|/sbin|/usr/sbin|/opt/homebrew/bin)/([^/\\]+)")
_FIRST = lazy(r"\s*([^\s;|&<>()'\"\\$`=/]+)(?=[\s;|&]|$)")


class ReadFile(NamedTuple):
    """A file that a command reads, seen from where the command begins, and the first line that it reads."""

    path: str
    line: int | None = None


def text_of_command(command: object) -> str:
    """Return a command as text. Of the list `["bash", "-lc", "…"]` only the script is of interest."""
    if isinstance(command, str):
        return command
    if not isinstance(command, (list, tuple)):
        return ""
    words = [word for word in cast("list[object]", command) if isinstance(word, str)]
    if len(words) == 3 and _program(words[0]) in _SHELLS and _SHELL_FLAG.fullmatch(words[1]):
        return words[2]
    return shlex.join(words)


def files_read(command: str) -> tuple[ReadFile, ...]:
    """Return the files that a command reads; none if it may do anything else."""
    begin = _FIRST.match(command)
    if begin and begin[1] not in program_names() and begin[1] not in _SHELLS:  # nearly always
        return ()
    try:
        return tuple(_judge(command)[:MAX_FILES])
    except Unsure:
        return ()


def is_harmless(command: str) -> bool:
    """Whether a command is certain to change nothing."""
    try:
        _judge(command)
    except Unsure:
        return False
    return True


def _program(word: str) -> str:
    """Return a program's name, without a system directory. Anywhere else a name proves nothing."""
    match = _SYSTEM.fullmatch(word)
    return match[1] if match else word


def _judge(command: str, directory: str = "", depth: int = 0) -> list[ReadFile]:
    """Return the files that a command reads in a directory, or raise `Unsure` if it may do harm."""
    if depth > _MAX_DEPTH:
        raise Unsure
    files: list[ReadFile] = []
    for words in split_commands(command):
        name = _program(words[0])
        if name == "cd":
            if len(words) != 2 or words[1][:1] in ("", "-"):
                raise Unsure
            directory = _inside(directory, words[1])
        elif name in _SHELLS:
            if len(words) != 3 or not _SHELL_FLAG.fullmatch(words[1]):
                raise Unsure
            files += _judge(words[2], directory, depth + 1)
        else:
            found = _files_of([name, *words[1:]])
            files += [ReadFile(_inside(directory, path), line) for path, line in found]
    return files


def _files_of(words: list[str]) -> list[ReadFile]:
    row, size = find_program(words)
    if row is None or row.runs:
        raise Unsure
    paths = [] if row.anything else row.files_among(words[size:])
    if paths is None:
        raise Unsure
    if words[0] == "git":
        return []  # its arguments may be revisions as well
    lines = [match[1] for word in words if (match := re.fullmatch(row.line, word))]
    return [ReadFile(path, int(lines[0]) or None if lines else None) for path in paths]


def _inside(directory: str, path: str) -> str:
    """Return a path that is written relative to a directory."""
    absolute = path[:1] in ("/", "~", "\\") or path[1:2] == ":"
    return path if absolute or not directory else f"{directory}/{path}"
