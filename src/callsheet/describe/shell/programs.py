"""What is known of programs: what "always allow" may mean of a command, and what does no harm.

`programs.toml` lists the programs and, for each, every option and the form of the arguments that it may have:
those by which it runs no other program, and writes nothing. `git status -s` and `git status` are both `git
status`; a command with anything that is not listed there is only what it is itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import chain, repeat
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from callsheet.describe.shell.parser import Unsure, sole_command
from callsheet.describe.tables import read_table
from callsheet.report.patterns import lazy

Form: TypeAlias = Literal["number", "name", "path", "text", "lines"]

_FORMS = {
    "number": re.compile(r"[+-]?\d{1,9}").fullmatch,
    "name": re.compile(r"[A-Za-z0-9_][\w.:@/-]*", re.ASCII).fullmatch,
    "path": re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))[\w.][\w./:,@^~+ -]*").fullmatch,
    "text": re.compile(r"[^-~\0][^\0]*", re.DOTALL).fullmatch,
    "lines": re.compile(r"\d{1,9}(?:,(?:\d{1,9}|\$))?p").fullmatch,
}
"""What arguments may be. A path does not lead outside, as far as its text shows, and is no option."""

_ANYWHERE = re.compile(r"[^-(!\0][^\0]*").fullmatch
"""A path wherever it leads, for reading does no harm; but no sign of find's own language."""

_COUNT = lazy(r"-\d{1,9}")
_ANY = "*"


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """A row: programs, each with its subcommand, and the words that may follow. The table explains it."""

    commands: tuple[str, ...]
    examples: tuple[str, ...]
    flags: frozenset[str] = frozenset()
    clusters: bool = False
    counts: bool = False
    values: dict[str, Form] = {}
    arguments: tuple[Form, ...] = ()
    repeats: bool = False
    line: str = "(?!)"
    anything: bool = False
    always: bool = True
    runs: bool = False

    def files_among(self, words: list[str], anywhere: bool = True) -> list[str] | None:
        """Return the words that are paths; None if not all words that follow the command are listed.

        Args:
            words: The words that follow the command.
            anywhere: Whether paths may lead out of the directory.
        """
        paths: list[str] = []
        more: Iterable[Form] = repeat(self.arguments[-1]) if self.repeats else ()
        forms = chain[Form](self.arguments, more)
        rest = iter(words)
        for word in rest:
            if word[:1] != "-":
                form = next(forms, None)
                if form == "path":
                    paths.append(word)
                if form is None or not _has_form(form, word, anywhere):
                    return None
            elif word in self.values:
                if not _has_form(self.values[word], next(rest, ""), anywhere):
                    return None
            elif not self._is_option(word):
                return None
        return paths

    def _is_option(self, word: str) -> bool:
        if word in self.flags or (self.counts and _COUNT.fullmatch(word)):
            return True
        name, equals, value = word.partition("=")
        if equals and name in self.values:
            return _has_form(self.values[name], value)
        if self.values.get(word[:2]) == "number":
            return _has_form("number", word[2:])
        return (
            self.clusters and len(word) > 2 and all(f"-{sign}" in self.flags for sign in word[1:])
        )


def _has_form(form: Form, word: str, anywhere: bool = False) -> bool:
    return (_ANYWHERE if anywhere and form == "path" else _FORMS[form])(word) is not None


@cache
def programs() -> dict[str, list[tuple[list[str], Program]]]:
    """Return the commands by program, those with most words first, each with its row."""
    listed = msgspec.convert(read_table("shell/programs.toml")["program"], list[Program])
    commands = [(command.split(), row) for row in listed for command in row.commands]
    commands.sort(key=lambda one: -len(one[0]))
    by_program: dict[str, list[tuple[list[str], Program]]] = {}
    for words, row in commands:
        by_program.setdefault(words[0], []).append((words, row))
    return by_program


@cache
def program_names() -> frozenset[str]:
    """Return the names of the programs that may do no harm."""
    rows = programs().items()
    return frozenset(name for name, listed in rows if not all(row.runs for _, row in listed))


def find_program(words: list[str]) -> tuple[Program | None, int]:
    """Return the row of a command, if there is one, and how many words name it."""
    for command, row in programs().get(words[0], ()):
        *fixed, last = command
        begin, named = words[: len(fixed)], words[len(fixed) : len(command)]
        if (
            begin == fixed
            and named
            and (named[0] == last or (last == _ANY and _has_form("name", named[0])))
        ):
            return row, len(command)
    return None, 0


def scope_of_command(command: str) -> str | None:
    """Return what all commands that are like this one have in common; None if it is one of its own."""
    try:
        words = sole_command(command)
    except Unsure:
        return None
    row, size = find_program(words)
    if row is None or not row.always or row.files_among(words[size:], anywhere=False) is None:
        return None
    return " ".join(words[:size])
