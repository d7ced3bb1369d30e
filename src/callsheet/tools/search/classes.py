"""Reads the parts of ripgrep's patterns that stand for one character: `[a-z]`, `\\d`, `\\x41`, `\\p{Lu}`."""

from __future__ import annotations

from collections.abc import Callable

from . import charsets
from .charsets import Ranges, both, minus, negate, union
from .pattern_errors import PatternError, Unsupported

_META = frozenset(r"\.+*?()|[]{}^$#&-~")
_NAMED = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_DEEPEST = 50

_OPERATORS: dict[str, Callable[[Ranges, Ranges], Ranges]] = {
    "&&": both,
    "--": minus,
    "~~": lambda one, other: union(minus(one, other), minus(other, one)),
}


def is_space(char: str) -> bool:
    """Return whether verbose patterns pass by a character."""
    return any(low <= ord(char) <= high for low, high in charsets.SPACE)


class Classes:
    """A place in a pattern, and how sets of characters are read from there."""

    def __init__(self, text: str, ascii_only: bool) -> None:
        self.text: str = text
        self.ascii_only: bool = ascii_only
        self.at: int = 0
        self.flags: dict[str, bool] = {}

    def at_end(self) -> bool:
        """Whether nothing is left to read."""
        return self.at >= len(self.text)

    def peek(self, ahead: int = 0) -> str:
        """Return a character to come, or nothing at the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self, text: str) -> bool:
        """Pass a text, if it comes next."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def skip_blanks(self) -> None:
        """Pass white space."""
        while self.peek() and is_space(self.peek()):
            self.at += 1

    def _skip(self) -> None:
        if self.flags.get("x"):
            self.skip_blanks()

    def folded(self, ranges: Ranges) -> Ranges:
        """Add other cases, if case is ignored."""
        return charsets.fold(ranges, self.ascii_only) if self.flags.get("i") else ranges

    # Escapes

    def escaped(self) -> Ranges:
        """Read an escape that stands for characters."""
        begin, char = self.at, self.peek(1)
        self.at += 2
        if char == "":
            raise PatternError("'\\' at the end escapes nothing", begin)
        if char in "dDsSwW":
            return self._perl(char)
        if char in "pP":
            return self._property(begin, negated=char == "P")
        return self.folded((self._literal(begin, char),))

    def _literal(self, begin: int, char: str) -> tuple[int, int]:
        if char in _HEX_DIGITS:
            point = self._hexadecimal(char)
        elif char in _NAMED:
            point = _NAMED[char]
        elif char in _META or (char.isascii() and not char.isalnum() and char not in "<>"):
            point = ord(char)
        elif char.isascii() and char.isdigit():
            raise PatternError("backreferences are not supported", begin)
        else:
            raise PatternError(f"'\\{char}' means nothing", begin)
        return point, point

    def _hexadecimal(self, kind: str) -> int:
        begin = self.at
        if self.peek() == "{":
            end = self.text.find("}", begin)
            digits = self.text[begin + 1 : end] if end >= 0 else ""
            self.at = end + 1
        else:
            digits = self.text[begin : begin + _HEX_DIGITS[kind]]
            self.at = begin + _HEX_DIGITS[kind]
            if len(digits) < _HEX_DIGITS[kind]:
                digits = ""
        if not digits or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise PatternError(f"'\\{kind}' needs hexadecimal digits", begin)
        point = int(digits, 16)
        if point > charsets.LAST or 0xD800 <= point <= 0xDFFF:
            raise PatternError(f"there is no character {digits}", begin)
        return point

    def _perl(self, char: str) -> Ranges:
        if char in "sS":
            found = charsets.SPACE
        else:
            found = (charsets.digit if char in "dD" else charsets.word)(self.ascii_only)
        return negate(found) if char.isupper() else found

    def _property(self, begin: int, *, negated: bool) -> Ranges:
        if self.peek() == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise PatternError("'{' is never closed", self.at)
            name = self.text[self.at + 1 : end]
            self.at = end + 1
        else:
            name = self.peek()
            self.at += 1
        if not name:
            raise PatternError("'\\p' needs the name of a property", begin)
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = charsets.unicode_property(name)
        if found is None:
            raise Unsupported(f"\\p{{{name}}} needs ripgrep", begin)
        found = self.folded(found)
        return negate(found) if negated else found

    # Classes

    def char_class(self, depth: int = 0) -> Ranges:
        """Read `[…]`, with all that may be in it."""
        begin = self.at
        if depth > _DEEPEST:
            raise PatternError("classes are nested too deep", begin)
        self.at += 1
        self._skip()
        negated = self.take("^")
        items = self._first_items()
        left: Ranges = ()
        operator: str | None = None
        while True:
            self._skip()
            if self.at_end():
                raise PatternError("'[' is never closed; a plain one is written '\\['", begin)
            pair = self.text[self.at : self.at + 2]
            if pair in _OPERATORS or self.peek() == "]":
                left = _OPERATORS[operator](left, items) if operator else items
                if pair not in _OPERATORS:
                    break
                self.at += 2
                operator, items = pair, ()
            else:
                items = union(items, self._item(depth))
        self.at += 1
        return negate(left) if negated else left

    def _first_items(self) -> Ranges:
        """Read what is plain only at the beginning: hyphens, and a bracket."""
        items: Ranges = ()
        self._skip()
        while self.peek() == "-":
            items = ((45, 45),)
            self.at += 1
            self._skip()
        if not items and self.peek() == "]":
            items = ((93, 93),)
            self.at += 1
        return items

    def _item(self, depth: int) -> Ranges:
        if self.peek() == "[":
            return self._posix() or self.char_class(depth + 1)
        begin = self.at
        low = self._member()
        self._skip()
        if self.peek() != "-" or self._after_hyphen() in ("]", "-", ""):
            return self.folded(low) if isinstance(low, tuple) else self.folded(((low, low),))
        self.at += 1
        self._skip()
        second = self.at
        high = self._member()
        for end, at in ((low, begin), (high, second)):
            if isinstance(end, tuple):
                raise PatternError("a range ends in single characters", at)
        assert isinstance(low, int)
        assert isinstance(high, int)
        if high < low:
            raise PatternError("the range runs backwards", begin)
        return self.folded(both(((low, high),), charsets.ALL))

    def _after_hyphen(self) -> str:
        ahead = 1
        while self.flags.get("x") and self.peek(ahead) and is_space(self.peek(ahead)):
            ahead += 1
        return self.peek(ahead)

    def _member(self) -> int | Ranges:
        """Read one character, or a set that an escape stands for."""
        begin, char = self.at, self.peek()
        if char != "\\":
            self.at += 1
            return ord(char) if char else _unclosed(begin)
        named = self.peek(1)
        if named in "dDsSwWpP" and named:
            return self.escaped()
        self.at += 2
        if named == "":
            raise PatternError("'\\' at the end escapes nothing", begin)
        if named in "AzbB<>":
            raise PatternError(f"'\\{named}' means nothing in a class", begin)
        return self._literal(begin, named)[0]

    def _posix(self) -> Ranges | None:
        """Read `[:name:]`. Anything else is a class in a class."""
        if self.peek(1) != ":" or (end := self.text.find(":]", self.at + 2)) < 0:
            return None
        name = self.text[self.at + 2 : end]
        found = charsets.posix(name.removeprefix("^"))
        if found is None:
            return None
        self.at = end + 2
        found = self.folded(found)
        return negate(found) if name.startswith("^") else found


def _unclosed(begin: int) -> int:
    raise PatternError("'[' is never closed; a plain one is written '\\['", begin)
