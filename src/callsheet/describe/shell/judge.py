"""Whether a shell command is certain to do no harm, and which files it reads.

Every part of a command must be listed (`programs.toml`, and for git `scopes.toml`), and nothing may be
hidden in it; else nobody knows what it does. A wrong "harmless" could hide something from the user, a
wrong "unknown" costs a location. Neither decides a kind: whatever runs a shell command is `execute`.
"""

from __future__ import annotations

import re
import shlex
from typing import cast

from msgspec import Struct

from callsheet.describe.shell.parser import Simple, Unsure, split
from callsheet.describe.shell.permission_scope import scope_of_words
from callsheet.describe.shell.programs import (
    is_assignment,
    is_harmless_assignment,
    program_names,
    program_of,
    takes_anything,
    wrapper_of,
)

MAX_FILES = 8
_MAX_DEPTH = 4

_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
"""Shells whose language is understood. That of cmd and PowerShell is another."""
_SHELL_FLAG = re.compile(r"-[eilux]*c")
_SHELL_OPTION = re.compile(r"-[lei]+|--login|--norc|--noprofile")
_SYSTEM = re.compile(
    r"(?:/bin|/usr/bin|/usr/local/bin|/sbin|/usr/sbin|/opt/homebrew/bin)/([^/\\]+)"
).fullmatch
_FIRST = re.compile(r"\s*([^\s;|&<>()'\"\\$`=]+)(?=[\s;|&]|$)").match
_GIT_FLAGS = ("--no-pager", "-P", "--no-optional-locks")


class File(Struct, frozen=True, gc=False):
    """A file that a command names: the word, the line, and the directory that `cd` went to."""

    path: str
    line: int | None = None
    directory: str = ""


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


def files_read(command: str) -> tuple[File, ...]:
    """Return the files that a command reads; none if it may do anything else."""
    begin = _FIRST(command)
    if begin is not None and not _is_listed(_program(begin[1])):  # nearly always
        return ()
    try:
        return tuple(_judge(command, 0)[:MAX_FILES])
    except Unsure:
        return ()


def is_harmless(command: str) -> bool:
    """Whether a command is certain to change nothing."""
    try:
        _judge(command, 0)
    except Unsure:
        return False
    return True


def _is_listed(name: str) -> bool:
    return name == "git" or name in program_names() or name in _SHELLS or bool(wrapper_of(name))


def _program(word: str) -> str:
    """Return a program's name, without a system directory. Anywhere else a name proves nothing."""
    if "/" not in word and "\\" not in word:
        return word
    match = _SYSTEM(word)
    return match[1] if match else ""


def _judge(command: str, depth: int) -> list[File]:
    """Return the files that a command reads, or raise `Unsure` if it may do harm."""
    if depth > _MAX_DEPTH:
        raise Unsure
    files: list[File] = []
    directory = ""
    for words in split(command):
        rest = _without_assignments(words)
        if not rest:
            continue
        if _program(rest[0].text) in ("cd", "pushd"):
            directory = _changed(directory, rest)
        found = _judge_simple(rest, depth)
        files += [File(file.path, file.line, _inside(directory, file.directory)) for file in found]
    return files


def _changed(directory: str, words: Simple) -> str:
    """Return the directory after `cd`; an unknown one is marked by a NUL, which no path has."""
    operands = [word for word in words[1:] if word.text != "--"]
    if len(operands) != 1 or not operands[0].sure or operands[0].text == "-":
        return "\0"
    return _inside(directory, operands[0].text)


def _inside(directory: str, target: str) -> str:
    """Return the directory that `target` is, seen from `directory`."""
    if not target or not directory:
        return target or directory
    absolute = target[:1] in ("/", "~", "\\") or target[1:2] == ":"
    return target if absolute else f"{directory}/{target}"


def _without_assignments(words: Simple) -> Simple:
    count = 0
    while count < len(words) and words[count].assigns:
        if not is_harmless_assignment(words[count].text):
            raise Unsure
        count += 1
    return words[count:]


def _judge_simple(words: Simple, depth: int) -> list[File]:
    head, rest = words[0], words[1:]
    if not head.sure:
        raise Unsure
    name = _program(head.text)
    if name in _SHELLS:
        return _judge(_script(rest), depth + 1)
    if wrapper_of(name) is not None:
        return _judge_wrapped(name, rest, depth)
    if name == "git":
        _check_git(rest)
        return []
    row = program_of(name, rest)
    if row is None:
        raise Unsure
    return [File(path, line) for path, line in row.read_files(rest)]


def _script(words: Simple) -> str:
    """Return the script in `bash -lc SCRIPT`."""
    texts = [word.text for word in words]
    while texts and _SHELL_OPTION.fullmatch(texts[0]) and not _SHELL_FLAG.fullmatch(texts[0]):
        texts.pop(0)
    if len(texts) != 2 or not _SHELL_FLAG.fullmatch(texts[0]) or not words[-1].sure:
        raise Unsure
    return texts[1]


def _judge_wrapped(name: str, words: Simple, depth: int) -> list[File]:
    wrapper = wrapper_of(name)
    assert wrapper is not None
    if name == "command" and words and words[0].text in ("-v", "-V"):
        return []
    rest = list(words)
    while rest and re.fullmatch(wrapper.options or "", rest[0].text):
        rest.pop(0)
    while name == "env" and rest and is_assignment(rest[0].text):
        if not is_harmless_assignment(rest.pop(0).text):
            raise Unsure
    if not rest:
        return []
    if name == "xargs" and not takes_anything(_program(rest[0].text)):
        raise Unsure  # what comes in becomes options, or part of a script
    return _judge_simple(rest, depth + 1)


def _check_git(words: Simple) -> None:
    """Raise `Unsure` unless a git command only shows something, in whatever directory."""
    texts = [word.text for word in words]
    while texts and texts[0] in (*_GIT_FLAGS, "-C"):
        if texts.pop(0) == "-C":
            del texts[:1]
    if not all(word.sure for word in words) or scope_of_words(["git", *texts]) is None:
        raise Unsure
