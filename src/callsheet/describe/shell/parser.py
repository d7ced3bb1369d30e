"""Parsing a shell command, as far as it can be understood without running it.

`split` returns the simple commands of a line: pipes, lists, quotes, redirections and comments are
understood. What hides other commands (substitutions, subshells, here-documents), runs in the
background or writes to a file is not analysed: it raises `Unsure`, and then the command must not be
classified as one that only reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_COMMAND = 4000
"""Longer commands are scripts; a guess about them would not be reliable."""


class Unsure(Exception):
    """The command can't be understood well enough."""


class Word(NamedTuple):
    """A word of a command. It is sure if the shell will pass it on just as it stands."""

    text: str
    sure: bool = True
    assigns: bool = False
    """Whether it sets a variable, if it stands before the program: `A=1`, but not `"A=1"`."""


Simple = list[Word]

_BREAKS = frozenset(" \t\n;|&<>()")
_DIGITS = frozenset("0123456789")
_MAY_BE_OPTION = frozenset("*?[-")
_PLAIN = re.compile(r"[^ \t\n;|&<>()'\"\\$`{]+").match
_QUOTED = re.compile(r"[^\"\\$`]+").match
_ASSIGNS = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=", re.ASCII).match
_VARIABLE = re.compile(
    r"(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|[0-9?$#@*!-])(?!\[)|(?=[\s\"/:.,%]|$)", re.A
).match
_STREAM = re.compile(r"(?:[0-9]+|-)(?=[ \t\n;|&<>()]|$)").match
_GLOB = re.compile(r"[*?\[]").search
_HARMLESS_TARGETS = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr"))


def split(command: str, lexer: _Lexer | None = None) -> list[Simple]:
    """Return the simple commands of a line, in order, or raise `Unsure`."""
    if len(command) > MAX_COMMAND or "\0" in command or "\r" in command:
        raise Unsure
    return list((lexer or _Lexer(command)).commands())


def sole(command: str) -> Simple:
    """Return the words of a command that is one program with its arguments, or raise `Unsure`."""
    lexer = _Lexer(command.strip())
    found = split(command.strip(), lexer)
    if len(found) != 1 or lexer.operators:
        raise Unsure
    return found[0]


class _Lexer:
    """One pass over the text. `at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.at: int = 0
        self.operators: int = 0
        """How many operators and redirections were met."""

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def commands(self) -> Iterator[Simple]:
        words: Simple = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif self.continues():
                pass
            elif char == "#":
                self.comment()
            elif char in ";\n|&":
                if not self.redirects_both():
                    self.operator()
                    if words:
                        yield words
                    words = []
            elif char in "<>":
                self.redirection(words)
            elif char in "()":
                raise Unsure
            else:
                words.append(self.word())
        if words:
            yield words

    def continues(self) -> bool:
        """Step over a line break that a backslash takes away. There is none in a comment."""
        if self.peek(2) != "\\\n":
            return False
        self.at += 2
        return True

    def comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def operator(self) -> None:
        """Step over `;`, `|`, `||`, `&&` or a line break. A single `&` goes to the background."""
        self.operators += 1
        two = self.peek(2)
        if two in ("&&", "||", "|&"):
            self.at += 2
        elif two[0] == "&" or two == ";;":
            raise Unsure
        else:
            self.at += 1

    def redirects_both(self) -> bool:
        """Step over `&>/dev/null`."""
        if self.peek(2) != "&>":
            return False
        self.at += 1
        self.redirection([])
        return True

    def redirection(self, words: Simple) -> None:
        self.operators += 1
        if self.peek(2) in ("<(", ">(", "<>") or (self.peek(2) == "<<" and self.peek(3) != "<<<"):
            raise Unsure
        writes = self.text[self.at] == ">"
        if words and self.text[self.at - 1] in _DIGITS and words[-1].text.isdigit():
            words.pop()  # the number of the stream, as in 2>
        while self.peek() and self.peek() in "<>|":
            self.at += 1
        if self.peek() == "&":
            stream = _STREAM(self.text, self.at + 1)
            if stream is None:
                raise Unsure
            self.at = stream.end()
            return
        while self.peek() in (" ", "\t"):
            self.at += 1
        target = self.word()
        if not target.text or target.text.startswith(("/dev/tcp", "/dev/udp")):
            raise Unsure
        if writes and not (target.sure and target.text in _HARMLESS_TARGETS):
            raise Unsure

    def word(self) -> Word:
        parts: list[str] = []
        sure, expands, begin = True, False, self.at
        while self.at < len(self.text) and (char := self.text[self.at]) not in _BREAKS:
            if plain := _PLAIN(self.text, self.at):
                parts.append(plain[0])
                expands = expands or _GLOB(plain[0]) is not None
                self.at = plain.end()
                continue
            if self.continues():
                continue
            self.at += 1
            if char == "'":
                parts.append(self.until_single_quote())
            elif char == '"':
                text, plain = self.until_double_quote()
                parts.append(text)
                sure = sure and plain
            elif char == "\\":
                parts.append(self.peek())
                self.at += 1
            else:
                sure = sure and self.is_literal(char)
                parts.append(char)
        text = "".join(parts)
        if expands and text[:1] in _MAY_BE_OPTION and text != "[":
            sure = False  # a file may have the name of an option
        return Word(text, sure, _ASSIGNS(self.text, begin) is not None)

    def is_literal(self, char: str) -> bool:
        """Whether an unquoted character stands for itself. What runs a command raises `Unsure`."""
        if char == "`" or (char == "$" and self.peek() == '"'):
            raise Unsure
        if char == "$":
            self.variable()
        return char not in "${"

    def variable(self) -> None:
        """Check what follows a `$`. Only plain variables are known to do nothing else."""
        if _VARIABLE(self.text, self.at) is None:
            raise Unsure

    def until_single_quote(self) -> str:
        end = self.text.find("'", self.at)
        if end < 0:
            raise Unsure
        begin, self.at = self.at, end + 1
        return self.text[begin:end]

    def until_double_quote(self) -> tuple[str, bool]:
        parts: list[str] = []
        sure = True
        while (char := self.peek()) != '"':
            if plain := _QUOTED(self.text, self.at):
                parts.append(plain[0])
                self.at = plain.end()
                continue
            self.at += 1
            if char == "\\" and self.peek() in ('"', "\\", "$", "`"):
                char = self.peek()
                self.at += 1
            elif char == "\\" and self.peek() == "\n":
                self.at += 1
                continue
            elif char == "`" or not char:
                raise Unsure
            elif char == "$":
                self.variable()
                sure = False
            parts.append(char)
        self.at += 1
        return "".join(parts), sure
