"""Ripgrep's patterns for Python: read as Rust's regex crate does, and written for `re`.

What matters is only where a line's first match begins, so groups needn't capture, and greed makes no
difference. A match never goes beyond a line. What `re` can't do in the same way is refused with
`Unsupported`; what ripgrep would refuse as well, with a plain `PatternError`.
"""

from __future__ import annotations

import re
from functools import cached_property

from . import charsets
from .charsets import Ranges
from .classes import Classes, is_space
from .pattern_errors import PatternError, Unsupported

DEEPEST = 50
"""Groups in groups, at most."""

# What is no word's edge is not told next to bytes that aren't UTF-8, which come as lone surrogates.
_AFTER = "(?<![\\udc80-\\udcff])"
_BEFORE = "(?![\\udc80-\\udcff])"
_EDGES = {"start", "end", "start-half", "end-half"}


class Translated:
    """A pattern for `re`: one for any text, and a faster one for text that is ASCII only."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._given: tuple[str, bool] = pattern, ignore_case
        self.ascii: re.Pattern[str] = self._compiled(ascii_only=True)

    @cached_property
    def unicode(self) -> re.Pattern[str]:
        """The pattern for any text."""
        return self._compiled(ascii_only=False)

    def _compiled(self, *, ascii_only: bool) -> re.Pattern[str]:
        source = _Parser(*self._given, ascii_only).whole()
        try:
            return re.compile(source, re.MULTILINE | (re.ASCII if ascii_only else 0))
        except (re.error, OverflowError, RecursionError) as exc:
            raise Unsupported(f"Python can't take it ({exc})", 0) from exc


def translate(pattern: str, ignore_case: bool) -> Translated:
    """Make Python's patterns from ripgrep's. Raises `PatternError`."""
    return Translated(pattern, ignore_case)


def check(pattern: str) -> None:
    """Raise `PatternError` with the position of what is wrong, if this is not a pattern."""
    try:
        _Parser(pattern, False, True).whole()
    except Unsupported:
        return


class _Parser(Classes):
    """Reads a pattern from left to right, and writes it anew."""

    def __init__(self, text: str, ignore_case: bool, ascii_only: bool) -> None:
        super().__init__(text, ascii_only)
        self.flags["i"] = ignore_case
        self._names: set[str] = set()
        self._depth: int = 0

    def whole(self) -> str:
        source = self._alternatives()
        if not self.at_end():
            raise PatternError("')' closes no group", self.at)
        return source

    # Groups

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        parts: list[str | None] = []  # None stands for what can't be repeated
        self.skip_space()
        while not self.at_end() and self.peek() not in ("|", ")"):
            begin, char = self.at, self.peek()
            if char in ("*", "+", "?", "{"):
                if not parts or parts[-1] is None:
                    raise PatternError(f"{char!r} repeats nothing", begin)
                parts.append(f"(?:{parts.pop()}){self._repetition(char)}")
            elif char == "(":
                parts.append(self._group())
            else:
                parts.append(self._atom(char))
            self.skip_space()
        return "".join(part for part in parts if part is not None)

    def _repetition(self, char: str) -> str:
        begin = self.at
        self.at += 1
        times = char if char != "{" else self._counted(begin)
        if self.peek() == "?":
            self.at += 1
        return times

    def _counted(self, begin: int) -> str:
        low = self._decimal()
        high: int | None = low
        if self.peek() == ",":
            self.at += 1
            high = None if self.peek() == "}" else self._decimal()
        if self.peek() != "}":
            raise PatternError("'{' is never closed; a plain one is written '\\{'", begin)
        self.at += 1
        if high is not None and high < low:
            raise PatternError("the least number of repetitions is above the most", begin)
        return f"{{{low},{'' if high is None else high}}}"

    def _decimal(self) -> int:
        self.skip_blanks()
        begin = self.at
        while self.peek().isascii() and self.peek().isdigit():
            self.at += 1
        digits = self.text[begin : self.at]
        self.skip_blanks()
        if not digits:
            raise PatternError("'{' needs a number after it; a plain one is written '\\{'", begin)
        if int(digits) >= 2**32:
            raise PatternError("the number of repetitions is too large", begin)
        return int(digits)

    def _group(self) -> str | None:
        begin, flags = self.at, self.flags
        self._depth += 1
        if self._depth > DEEPEST:
            raise PatternError("groups are nested too deep", begin)
        self.at += 1
        if self._looks_around():
            raise PatternError("look-around is not supported", begin)
        self.flags = dict(flags)
        if self.take("?P<") or self.take("?<"):
            self._name()
        elif self.peek() == "?":
            self.at += 1
            if self._set_flags(begin):
                self._depth -= 1
                return None
        source = f"(?:{self._alternatives()})"
        if self.peek() != ")":
            raise PatternError("'(' is never closed; a plain one is written '\\('", begin)
        self.at += 1
        self.flags = flags
        self._depth -= 1
        return source

    def _looks_around(self) -> bool:
        return self.text.startswith(("?=", "?!", "?<=", "?<!"), self.at)

    def _name(self) -> None:
        begin, end = self.at, self.text.find(">", self.at)
        name = self.text[begin:end] if end >= 0 else self.text[begin:]
        if end < 0 or not re.fullmatch(r"[^\W\d][\w.\[\]]*", name):
            raise PatternError(f"{name!r} is no name for a group", begin)
        if name in self._names:
            raise PatternError(f"two groups are called {name!r}", begin)
        self._names.add(name)
        self.at = end + 1

    def _set_flags(self, group: int) -> bool:
        """Read flags up to `)` or `:`. Gives whether they stand alone, for the rest of the group around."""
        on, seen, begin = True, set[str](), self.at
        while (char := self.peek()) not in (":", ")"):
            if char == "":
                raise PatternError("'(' is never closed; a plain one is written '\\('", group)
            if char == "-" and on:
                on = False
            elif char not in "imsUuRx" or char == "-":
                raise PatternError(f"{char!r} is no flag", self.at)
            elif char in seen:
                raise PatternError(f"the flag {char!r} is set twice", self.at)
            else:
                seen.add(char)
                self._set_flag(char, on)
            self.at += 1
        alone = char == ")"
        if self.text[self.at - 1] == "-" and not on:
            raise PatternError("'-' turns no flag off", self.at - 1)
        if alone and self.at == begin:
            raise PatternError("'?' repeats nothing", begin - 1)
        self.at += 1
        return alone

    def _set_flag(self, flag: str, on: bool) -> None:
        if (flag, on) in (("m", False), ("u", False), ("R", True)):
            sign = "" if on else "-"
            raise Unsupported(f"the flag (?{sign}{flag}) needs ripgrep", self.at)
        self.flags[flag] = on

    # Single characters

    def _atom(self, char: str) -> str:
        begin = self.at
        if char == "[":
            return self._source(self.char_class(), begin)
        if char == "\\":
            edge = self._edge()
            return edge if edge is not None else self._source(self.escaped(), begin)
        self.at += 1
        if char in "^$":
            return char
        if char == ".":
            return self._source(charsets.ALL, begin)
        return self._source(self.folded(((ord(char), ord(char)),)), begin)

    def _edge(self) -> str | None:
        """Read what asserts something about a place."""
        begin, char = self.at, self.text[self.at + 1 : self.at + 2]
        if char == "" or char not in "AzbB<>":
            return None
        if char in "Az":
            raise Unsupported(f"\\{char} needs ripgrep; use ^ or $", begin)
        self.at += 2
        word = self._source(charsets.word(self.ascii_only), begin)
        sides = {"<": "start", ">": "end"}.get(char, char)
        if char == "b" and self.peek() == "{" and (end := self.text.find("}", self.at)) >= 0:
            name = self.text[self.at + 1 : end]
            if name in _EDGES:
                self.at, sides = end + 1, name
        if sides == "b" and self.ascii_only:
            return r"\b"
        return {
            "b": f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))",
            "B": f"{_AFTER}{_BEFORE}(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
            "start": f"(?<!{word})(?={word})",
            "end": f"(?<={word})(?!{word})",
            "start-half": f"{_AFTER}(?<!{word})",
            "end-half": f"{_BEFORE}(?!{word})",
        }[sides]

    def _source(self, ranges: Ranges, begin: int) -> str:
        """Write a set of characters for `re`."""
        kept = charsets.both(ranges, charsets.IN_A_LINE)
        if not kept and ranges:
            raise PatternError("a match can't go beyond a line", begin)
        if self.ascii_only:
            kept = charsets.both(kept, charsets.ASCII)
        if not kept:
            return "(?!)"
        if len(kept) == 1 and kept[0][0] == kept[0][1]:
            return re.escape(chr(kept[0][0]))
        return f"[{''.join(f'{_point(low)}-{_point(high)}' for low, high in kept)}]"

    def skip_space(self) -> None:
        """Pass what stands for nothing in verbose patterns."""
        while self.flags.get("x") and not self.at_end():
            if self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif not is_space(self.peek()):
                return
            else:
                self.at += 1


def _point(code: int) -> str:
    return f"\\U{code:08x}"
