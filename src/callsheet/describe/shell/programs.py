"""The programs that are known to do no harm: the rows of `programs.toml`.

A row lists the options that are harmless; only where a program can do harm by very few words
(`find -delete`), it lists those. Words that the shell could turn into options are refused. What has no
row is never harmless.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, KeysView
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from callsheet.describe.shell.parser import Simple, Word

_GIVES_PATTERN = re.compile(r"-[A-Za-z]*[ef]|--regexp(?:=.*)?|--file(?:=.*)?|--files")


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """A row: programs, and the words by which they do no harm. `programs.toml` explains the fields."""

    names: str
    begins: str | None = None
    options: str | None = None
    refuse: str | None = None
    files: Literal["operands", "after_pattern", "before_tests"] | None = None
    valued: str = "(?!)"
    harmless: tuple[str, ...] = ()
    harmful: tuple[str, ...] = ()

    @property
    def takes_anything(self) -> bool:
        """Whether it does no harm whatever words it has."""
        return self.begins is self.options is self.refuse is None

    def covers(self, words: Simple) -> bool:
        """Whether the program does no harm with these words."""
        if self.takes_anything:
            return True
        rest = words[self._size :]
        return (
            all(word.sure for word in words)
            and (self.begins is None or self._begin(words) is not None)
            and all(self._allows(word.text) for word in rest)
        )

    def read_files(self, words: Simple) -> Iterator[tuple[str, int | None]]:
        """Return the files among the words, each with its line if the words name one."""
        begin = self._begin(words) if self.begins else None
        line = int(begin["line"]) or None if begin else None
        for word in self._file_words(words[self._size :]):
            if word.sure:
                yield word.text, line

    @property
    def _size(self) -> int:
        """How many words `begins` is about."""
        return 0 if self.begins is None else self.begins.count(" ") + 1

    def _begin(self, words: Simple) -> re.Match[str] | None:
        text = " ".join(word.text for word in words[: self._size])
        return _compiled(self.begins or "").fullmatch(text)

    def _allows(self, text: str) -> bool:
        if self.options is not None and text[:1] == "-" and text not in ("-", "--"):
            return _compiled(self.options).fullmatch(text) is not None
        return self.refuse is None or _compiled(self.refuse).fullmatch(text) is None

    def _file_words(self, words: Simple) -> Iterator[Word]:
        if self.files == "before_tests":
            for word in words:
                if word.text.startswith("-") or word.text in ("(", "!"):
                    return
                yield word
        elif self.files is not None:
            skipped = self.files == "operands" or any(
                _GIVES_PATTERN.fullmatch(word.text) for word in words
            )
            for word in self._operands(words):
                if skipped:
                    yield word
                skipped = True

    def _operands(self, words: Simple) -> Iterator[Word]:
        """Return the words that are neither options nor their values."""
        is_value = False
        for word in words:
            if word.text.startswith("-") and word.text != "-":
                is_value = _compiled(self.valued).fullmatch(word.text) is not None
            else:
                if not is_value:
                    yield word
                is_value = False


class _ProgramTables(NamedTuple):
    programs: dict[str, list[Program]]
    wrappers: dict[str, Program]


@cache
def _tables() -> _ProgramTables:
    text = files("callsheet.describe.shell").joinpath("programs.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    programs: dict[str, list[Program]] = {}
    for row in msgspec.convert(raw["program"], list[Program]):
        for name in row.names.split():
            programs.setdefault(name, []).append(row)
    wrappers = msgspec.convert(raw["wrapper"], list[Program])
    return _ProgramTables(programs, {name: row for row in wrappers for name in row.names.split()})


def program_of(name: str, words: Simple) -> Program | None:
    """Return the row that covers a program with these words; None if it may do harm."""
    return next((row for row in _tables().programs.get(name, ()) if row.covers(words)), None)


def program_names() -> KeysView[str]:
    """Return the names of all programs that have a row."""
    return _tables().programs.keys()


def wrapper_of(name: str) -> Program | None:
    """Return the row of a program that runs the command that follows it."""
    return _tables().wrappers.get(name)


def takes_anything(name: str) -> bool:
    """Whether a program does no harm whatever words it has."""
    rows = _tables().programs.get(name, ())
    return any(row.takes_anything for row in rows)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


# Variables

_HARMLESS_NAMES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|TERM|COLORTERM|COLUMNS"
    r"|LINES|CI"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)


def is_assignment(word: str) -> bool:
    """Whether a word sets a variable, for `env`."""
    return _ASSIGNMENT.match(word) is not None


def is_harmless_assignment(word: str) -> bool:
    """Whether a word sets a variable by which no harmless program does harm (as with PAGER)."""
    match = _ASSIGNMENT.match(word)
    return match is not None and _HARMLESS_NAMES.fullmatch(match[1]) is not None
