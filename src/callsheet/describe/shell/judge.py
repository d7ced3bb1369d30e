"""What kind of call a shell command is, and which files it names.

A command is `read`, `search` or `fetch` only if every part of it is certain to do no more. Everything
else is `execute`: a wrong "read" could be approved without a look, a wrong "execute" costs a look.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import cast

from msgspec import Struct

from callsheet.describe.shell.parser import Deed, Simple, Unsure, Word, split
from callsheet.describe.shell.programs import (
    ALWAYS_HARMLESS,
    RULES,
    is_assignment,
    is_harmless_assignment,
    sed_script,
)
from callsheet.report.fields import ToolKind

MAX_FILES = 8
_MAX_DEPTH = 4

_EXECUTE, _READ, _SEARCH, _FETCH = ToolKind.EXECUTE, ToolKind.READ, ToolKind.SEARCH, ToolKind.FETCH

_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
"""Shells whose language is understood. That of cmd and PowerShell is another."""
_SHELL_FLAG = re.compile(r"-[eilux]*c")
_SHELL_OPTION = re.compile(r"-[lei]+|--login|--norc|--noprofile")
_SYSTEM = re.compile(
    r"(?:/bin|/usr/bin|/usr/local/bin|/sbin|/usr/sbin|/opt/homebrew/bin)/([^/\\]+)"
).fullmatch
_WRAPPERS = frozenset(("env", "time", "timeout", "nice", "command", "stdbuf", "xargs", "!"))
_KNOWN = RULES.keys() | _SHELLS | _WRAPPERS
_FIRST = re.compile(r"\s*([^\s;|&<>()'\"\\$`=]+)(?=[\s;|&]|$)").match
_WRAPPER_OPTIONS: dict[str, re.Pattern[str]] = {
    "env": re.compile(r"-i|-u\w+|-"),
    "time": re.compile(r"-p"),
    "timeout": re.compile(r"-[ks]\w+|--\w+(?:-\w+)*(?:=\w+)?|[\d.]+[smhd]?"),
    "nice": re.compile(r"-n|-?\d+|-n-?\d+|--adjustment=-?\d+"),
    "stdbuf": re.compile(r"-[ioe][L0]?|L"),
    "xargs": re.compile(r"-[0rt]+|-[nPL]\d*|\d+|-I|-I?\{\}|\{\}"),
    "command": re.compile(r"(?!)"),
    "!": re.compile(r"(?!)"),
}


class File(Struct, frozen=True, gc=False):
    """A file that a command names: the word, the line, and the directory that `cd` went to."""

    path: str
    line: int | None = None
    directory: str = ""


class Verdict(Struct, frozen=True, gc=False):
    """What a command was found to be."""

    kind: ToolKind
    why: str
    files: tuple[File, ...] = ()


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


def classify(command: str) -> Verdict:
    """Say what kind of call a command is."""
    begin = _FIRST(command)
    if begin is not None and _program(begin[1]) not in _KNOWN:  # nearly always
        return Verdict(_EXECUTE, f"{begin[1][:40]} may do anything")
    try:
        deeds, files = _judge(command, 0)
    except Unsure:
        return Verdict(_EXECUTE, "it can't be told what else the command does")
    for deed, kind, does in (
        (Deed.FETCH, _FETCH, "fetches"),
        (Deed.SEARCH, _SEARCH, "searches"),
        (Deed.READ, _READ, "reads"),
    ):
        if deed in deeds:
            return Verdict(kind, f"the command only {does}", tuple(files[:MAX_FILES]))
    return Verdict(_EXECUTE, "the command is for its effects")


def is_harmless(command: str) -> bool:
    """Whether a command is certain to change nothing, even if it is for nothing else either."""
    try:
        _judge(command, 0)
    except Unsure:
        return False
    return True


def _program(word: str) -> str:
    """Return a program's name, without a system directory. Anywhere else a name says nothing."""
    if "/" not in word and "\\" not in word:
        return word
    match = _SYSTEM(word)
    return match[1] if match else ""


def _judge(command: str, depth: int) -> tuple[set[Deed], list[File]]:
    if depth > _MAX_DEPTH:
        raise Unsure
    deeds: set[Deed] = set()
    files: list[File] = []
    directory = ""
    for words in split(command):
        rest = _without_assignments(words)
        if not rest:
            deeds.add(Deed.NOTHING)
            continue
        if _program(rest[0].text) in ("cd", "pushd"):
            directory = _changed(directory, rest)
        more, found = _judge_simple(rest, depth)
        deeds |= more
        files += [File(file.path, file.line, _inside(directory, file.directory)) for file in found]
    return deeds, files


def _changed(directory: str, words: Simple) -> str:
    """Return the directory after `cd`; one that nobody can know is marked by a NUL, which no path has."""
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


def _judge_simple(words: Simple, depth: int) -> tuple[set[Deed], list[File]]:
    head, rest = words[0], words[1:]
    if not head.sure:
        raise Unsure
    name = _program(head.text)
    if name in _SHELLS:
        return _judge(_script(rest), depth + 1)
    if name in _WRAPPERS:
        return _judge_wrapped(name, rest, depth)
    rule = RULES.get(name)
    deed = rule(rest) if rule else None
    if deed is None:
        raise Unsure
    return {deed}, list(_files(name, rest))


def _script(words: Simple) -> str:
    """Return the script in `bash -lc SCRIPT`."""
    texts = [word.text for word in words]
    while texts and _SHELL_OPTION.fullmatch(texts[0]) and not _SHELL_FLAG.fullmatch(texts[0]):
        texts.pop(0)
    if len(texts) != 2 or not _SHELL_FLAG.fullmatch(texts[0]) or not words[-1].sure:
        raise Unsure
    return texts[1]


def _judge_wrapped(name: str, words: Simple, depth: int) -> tuple[set[Deed], list[File]]:
    options = _WRAPPER_OPTIONS[name]
    if name == "command" and words and words[0].text in ("-v", "-V"):
        return {Deed.READ}, []
    rest = list(words)
    while rest and options.fullmatch(rest[0].text):
        rest.pop(0)
    while name == "env" and rest and is_assignment(rest[0].text):
        if not is_harmless_assignment(rest.pop(0).text):
            raise Unsure
    if not rest:
        return {Deed.READ if name == "env" else Deed.NOTHING}, []
    if name == "xargs" and _program(rest[0].text) not in ALWAYS_HARMLESS:
        raise Unsure  # what comes in becomes options, or part of a script
    return _judge_simple(rest, depth + 1)


# Files

_FILE_READERS = frozenset(
    [
        "cat",
        "head",
        "tail",
        "nl",
        "wc",
        "less",
        "more",
        "bat",
        "batcat",
        "tac",
        "stat",
        "file",
        "ls",
        "tree",
        "od",
        "hexdump",
    ]
)
_SEARCHERS = frozenset(["find", "fd", "fdfind", "grep", "egrep", "fgrep", "rg", "ag", "ack"])
_COUNTED = re.compile(r"-[nc]|--lines|--bytes|--line-range|-r")
_VALUED = re.compile(
    r"-[A-Za-z]*[ABCmegtTf]|--(?:include|exclude|glob|type|max-count|context|regexp)"
)
_GIVES_PATTERN = re.compile(r"-[A-Za-z]*[ef]|--regexp(?:=.*)?|--file(?:=.*)?|--files")
_FROM_LINE = re.compile(r"\+(\d{1,9})")


def _files(name: str, words: Simple) -> Iterator[File]:
    if name == "sed":
        yield from _sed_files(words)
    elif name in _SEARCHERS:
        yield from _searched(name, words)
    elif name in _FILE_READERS:
        line = None
        for word, option in _operands(words, _COUNTED):
            match = _FROM_LINE.fullmatch(word.text) if option and name == "tail" else None
            line = int(match[1]) if match else line
            if not option and word.sure:
                yield File(word.text, line or None)


def _operands(words: Simple, valued_flags: re.Pattern[str]) -> Iterator[tuple[Word, bool]]:
    """Return the words that are no flags, and whether each is the value of the flag before it."""
    valued = False
    for word in words:
        if word.text.startswith("-") and word.text != "-":
            valued = valued_flags.fullmatch(word.text) is not None
        else:
            yield word, valued
            valued = False


def _sed_files(words: Simple) -> Iterator[File]:
    scripts = sed_script(words) or []
    begin = re.match(r"(\d{1,9})(?:,\d+)?p", scripts[0]) if scripts else None
    for word in words:
        if word.sure and word.text not in scripts and not word.text.startswith("-"):
            yield File(word.text, int(begin[1]) or None if begin else None)


def _searched(name: str, words: Simple) -> Iterator[File]:
    if name == "find":
        yield from _starting_points(words)
        return
    has_pattern = not any(_GIVES_PATTERN.fullmatch(word.text) for word in words)
    for word, option in _operands(words, _VALUED):
        if option:
            continue
        if has_pattern:
            has_pattern = False
        elif word.sure:
            yield File(word.text)


def _starting_points(words: Simple) -> Iterator[File]:
    """Return the directories that `find` begins in: all before its first test."""
    for word in words:
        if word.text.startswith("-") or word.text in ("(", "!"):
            return
        if word.sure:
            yield File(word.text)
