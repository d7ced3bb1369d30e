"""Ignore files: what their lines mean, and which line decides about a path.

The rules are git's, in the way ripgrep reads them, and so are the files: `.rgignore` beats
`.ignore` beats `.gitignore` beats `.git/info/exclude`; within a kind the nearest directory decides,
and within a file the last line that matches. Names are compared as bytes, so paths come here as
text that has one character for each byte (`as_bytes`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from typing import NamedTuple

from .globs import GlobError, is_literal, path_source

KINDS = (".rgignore", ".ignore", ".gitignore", ".git")
"""Names of what holds rules, the strongest first. The last holds `info/exclude`."""
GIT_KINDS = (2, 3)

_MOST = 4 << 20
"""Bytes of an ignore file that are read at most."""


def as_bytes(path: str) -> str:
    """Return text with one character for each byte of a path."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def from_bytes(path: str) -> str:
    """Return a path as Python writes it from text that has one character for each byte."""
    return path if path.isascii() else os.fsdecode(path.encode("latin-1"))


class Rule(NamedTuple):
    """One line of an ignore file."""

    glob: str
    """Matched against a whole path below the file's directory."""
    ignores: bool
    only_directories: bool

    def below(self, directory: str) -> str:
        """Write the rule for a file further up, from where this one's directory is `directory`."""
        head = re.sub(r"([\\*?\[\]{}!# ])", r"\\\1", f"{directory}/") if directory else ""
        head = re.sub("[\n\r\udc80-\udcff]", "?", head)  # what can't be written
        tail = "/" if self.only_directories else ""
        return f"{'' if self.ignores else '!'}/{head}{from_bytes(self.glob)}{tail}"


def parse_line(line: str) -> Rule | None:
    """Read a line of an ignore file."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    ignores = not line.startswith("!")
    if not ignores or line[:2] in ("\\!", "\\#"):
        line = line[1:]
    anchored = line.startswith("/")
    line = line[1:] if anchored else line
    only_directories = line.endswith("/")
    if only_directories:
        line = line[:-1].removesuffix("\\")
    if not line:
        return None
    if not anchored and "/" not in line and line != "**":
        line = f"**/{line}"
    if line.endswith("/**"):
        line += "/*"  # all that is inside, but not the directory itself
    return Rule(as_bytes(line), ignores, only_directories)


def parse(data: bytes) -> list[Rule]:
    """Read an ignore file, up to the first line that isn't UTF-8."""
    rules = list[Rule]()
    *lines, last = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in [*(line.removesuffix(b"\r") for line in lines), last]:
        try:
            rule = parse_line(line.decode())
        except UnicodeDecodeError:
            break
        if rule is not None:
            rules.append(rule)
    return rules


class Rules:
    """The rules of one file. Most of them are looked up rather than tried."""

    __slots__ = ("_any", "_names", "_paths", "_rules", "_sources", "_suffixes")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: list[Rule] = list(rules)
        self._names: dict[str, list[int]] = {}
        self._suffixes: dict[str, list[int]] = {}
        self._paths: dict[str, list[int]] = {}
        self._sources: list[tuple[int, re.Pattern[str]]] = []
        for number, rule in enumerate(self._rules):
            self._add(number, rule.glob)
        sources = "|".join(pattern.pattern for _, pattern in self._sources)
        self._any: re.Pattern[str] | None = re.compile(sources, re.DOTALL) if sources else None

    def _add(self, number: int, glob: str) -> None:
        name = glob.removeprefix("**/")
        if is_literal(name):
            if "/" not in name and name is not glob:
                self._names.setdefault(name, []).append(number)
                return
            if name is glob:
                self._paths.setdefault(name, []).append(number)
                return
        if name is not glob and name.startswith("*.") and is_literal(name[1:]) and "/" not in name:
            self._suffixes.setdefault(name[1:], []).append(number)
            return
        try:
            pattern = re.compile(path_source(glob), re.DOTALL)
        except GlobError:
            return  # as ripgrep does with a line that it can't read
        self._sources.append((number, pattern))

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return whether a path below the file's directory is ignored. None if no rule is about it."""
        name = path[path.rfind("/") + 1 :]
        found = [*self._names.get(name, ()), *self._paths.get(path, ())]
        if self._suffixes:
            dot = name.find(".")
            while dot >= 0:
                found += self._suffixes.get(name[dot:], ())
                dot = name.find(".", dot + 1)
        if self._any is not None and self._any.fullmatch(path):
            found += [number for number, pattern in self._sources if pattern.fullmatch(path)]
        if not found:
            return None
        rules = self._rules
        for number in sorted(found, reverse=True):
            if is_directory or not rules[number].only_directories:
                return rules[number].ignores
        return None


# Files


def read_rules(directory: int, kind: int) -> list[Rule]:
    """Read the ignore file of a kind in an open directory. One that can't be read holds no rules."""
    path = KINDS[kind]
    if kind == len(KINDS) - 1:
        path = f"{_git_directory(directory)}/info/exclude"
    return parse(_read(directory, path))


def _git_directory(directory: int) -> str:
    """Return where the rules of a repository are: those of a linked worktree are in the main one."""
    line = _read(directory, ".git", most=4096).partition(b"\n")[0]
    if not line.startswith(b"gitdir: "):
        return ".git"
    linked = os.fsdecode(line[8:])
    common = _read(directory, f"{linked}/commondir", most=4096).partition(b"\n")[0]
    return os.path.join(linked, os.fsdecode(common)) if common else ".git"  # noqa: PTH118


def _read(directory: int, path: str, most: int = _MOST) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0), dir_fd=directory)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
