"""What "always" may mean of a command: a program with known harmless options, and nothing else.

`git status -s` and `git status` are both `git status`. `scopes.toml` lists the programs and, for each, every
option and the form of the arguments that it may have: those by which it runs no other program, and writes
nothing. A command with anything that is not listed there is only what it is itself.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from callsheet.describe.shell.parser import Unsure, sole

Form: TypeAlias = Literal["number", "name", "path", "text"]

_FORMS = {
    "number": re.compile(r"[+-]?\d{1,9}").fullmatch,
    "name": re.compile(r"[A-Za-z0-9_][\w.:@/-]*", re.ASCII).fullmatch,
    "path": re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))[\w.][\w./:,@^~+ -]*").fullmatch,
    "text": re.compile(r"[^-~\0][^\0]*", re.DOTALL).fullmatch,
}
"""What arguments may be. A path does not lead outside, as far as its text shows, and is no option."""

_COUNT = re.compile(r"-\d{1,9}").fullmatch
_ANY = "*"


class Allowed(Struct, frozen=True, forbid_unknown_fields=True):
    """A row: programs, each with its subcommand, and the words that may follow."""

    commands: tuple[str, ...]
    """Where the last word is `*`, any name: the actual name becomes part of the scope."""
    examples: tuple[str, ...]
    flags: frozenset[str] = frozenset()
    """Options without a value, each exactly as it is written."""
    clusters: bool = False
    """Whether options of one letter may be written as one word: `-la`."""
    counts: bool = False
    """Whether a number may be an option: `-5`."""
    values: dict[str, Form] = {}
    """Options with a value, as `-n 5`, `-n5` (numbers only), `--lines 5` and `--lines=5`."""
    arguments: tuple[Form, ...] = ()
    """The forms of the arguments, in order."""
    repeats: bool = False
    """Whether there may be more arguments, of the last form."""

    def covers(self, words: list[str]) -> bool:
        """Whether all words that follow the command are listed."""
        rest, count = iter(words), 0
        for word in rest:
            if word[:1] != "-":
                if not self._takes(word, count):
                    return False
                count += 1
            elif word in self.values:
                if not _has_form(self.values[word], next(rest, "")):
                    return False
            elif not self._is_option(word):
                return False
        return True

    def _takes(self, word: str, count: int) -> bool:
        if count < len(self.arguments):
            return _has_form(self.arguments[count], word)
        return self.repeats and _has_form(self.arguments[-1], word)

    def _is_option(self, word: str) -> bool:
        if word in self.flags or (self.counts and _COUNT(word)):
            return True
        name, equals, value = word.partition("=")
        if equals and name in self.values:
            return _has_form(self.values[name], value)
        if self.values.get(word[:2]) == "number":
            return _has_form("number", word[2:])
        return (
            self.clusters and len(word) > 2 and all(f"-{sign}" in self.flags for sign in word[1:])
        )


def _has_form(form: Form, word: str) -> bool:
    return _FORMS[form](word) is not None


def scope_of_command(command: str) -> str | None:
    """Return what all commands that are like this one have in common; None if it is one of its own."""
    try:
        words = sole(command)
    except Unsure:
        return None
    if words[0].assigns or not all(word.sure for word in words):
        return None
    return scope_of_words([word.text for word in words])


def scope_of_words(texts: list[str]) -> str | None:
    """Return the scope of one program's words, which the shell passes on as they are."""
    for called, row in rows().get(texts[0], ()):
        size = len(called)
        if _is_called(called, texts):
            return " ".join(texts[:size]) if row.covers(texts[size:]) else None
    return None


def _is_called(command: list[str], texts: list[str]) -> bool:
    *fixed, last = command
    begin, named = texts[: len(fixed)], texts[len(fixed) : len(command)]
    is_last = named == [last] or (last == _ANY and named and _has_form("name", named[0]))
    return begin == fixed and bool(is_last)


@cache
def rows() -> dict[str, list[tuple[list[str], Allowed]]]:
    """Return the commands by program, those with most words first, each with its row."""
    text = files("callsheet.describe.shell").joinpath("scopes.toml").read_text(encoding="utf-8")
    listed = msgspec.convert(tomllib.loads(text)["scope"], list[Allowed])
    commands = [(command.split(), row) for row in listed for command in row.commands]
    commands.sort(key=lambda one: -len(one[0]))
    by_program: dict[str, list[tuple[list[str], Allowed]]] = {}
    for words, row in commands:
        by_program.setdefault(words[0], []).append((words, row))
    return by_program
