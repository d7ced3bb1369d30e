"""Parsing a shell command, as far as it is certain what it runs.

A command is cut into words and operators by one regular expression. What that does not match is not
understood, and raises `Unsure`: substitutions, variables, subshells, here-documents, the background,
redirections to anywhere but the null device. So a word that is returned is the word that the shell passes
on, but for globs, which may become names of files.
"""

from __future__ import annotations

import re

from callsheet.report.patterns import lazy

MAX_COMMAND = 4000
"""Longer commands are scripts; a guess about them would not be reliable."""


class Unsure(Exception):
    """The command can't be understood well enough."""


_TOKEN = lazy(
    r"""
      (?P<blank> (?: [ \t] | \\\n )+ | \#[^\n]* )
    | (?P<quiet> (?: \d*>>? | &>>? ) [ \t]* /dev/(?:null|stdout|stderr) (?![^ \t\n;|&<>()])
               | \d*>& (?: \d+ | - ) (?![^ \t\n;|&<>()]) )
    | (?P<operator> && | \|\| | \|& | ;(?!;) | [|\n] )
    | (?P<word> (?: [^ \t\n;|&<>()'"\\$`{]+ | '[^']*' | "(?:[^"\\$`]|\\[\s\S])*" | \\[\s\S] )+ )
    """,
    re.VERBOSE,
)
"""A token. A line break after a backslash is nothing, between words and inside them."""

_PIECE = lazy(r"""'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^'"\\]+)""")
_ESCAPED = lazy(r'\\(["\\$`]|\n)')
_GLOB = lazy(r"[*?\[]")


def split_commands(command: str) -> list[list[str]]:
    """Return the words of each simple command of a line, in order, or raise `Unsure`."""
    commands, _ = _parse(command)
    return commands


def sole_command(command: str) -> list[str]:
    """Return the words of a command that is one program with its arguments, or raise `Unsure`."""
    commands, is_compound = _parse(command.strip(" \t\n"))
    if len(commands) != 1 or is_compound:
        raise Unsure
    return commands[0]


def _parse(command: str) -> tuple[list[list[str]], bool]:
    """Return the simple commands, and whether there is an operator or a redirection."""
    if len(command) > MAX_COMMAND or "\0" in command or "\r" in command:
        raise Unsure
    commands: list[list[str]] = [[]]
    at, is_compound = 0, False
    while at < len(command):
        token = _TOKEN.match(command, at)
        if token is None:
            raise Unsure
        at = token.end()
        if token["word"] is not None:
            commands[-1].append(_word(token["word"]))
        elif token["blank"] is None:
            is_compound = True
            if token["operator"] is not None:
                commands.append([])
    return [words for words in commands if words], is_compound


def _word(written: str) -> str:
    """Return a word as the program gets it, or raise `Unsure` if the shell could make an option of it."""
    parts: list[str] = []
    expands = False
    for single, double, escaped, plain in (piece.groups() for piece in _PIECE.finditer(written)):
        if plain is not None:
            expands = expands or _GLOB.search(plain) is not None
            parts.append(plain)
        elif double is not None:
            parts.append(_ESCAPED.sub(lambda match: match[1].strip("\n"), double))
        else:
            parts.append(single if single is not None else escaped.strip("\n"))
    word = "".join(parts)
    if expands and word[:1] in ("*", "?", "[", "-") and word != "[":
        raise Unsure  # a file may have the name of an option
    return word
