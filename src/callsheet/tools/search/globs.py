"""Globs as regular expressions: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, `**` as a whole component, `\\x`.

A glob is matched against a whole path with `/` between its components. `*`, `?` and classes never
match a `/`. The expressions don't backtrack without end, whatever the glob: what stands between
two stars is taken where it is found first, which is as good as anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

MAX_ALTERNATIVES = 256
MAX_COMPONENTS = 64

_DEEP = "**"
_STAR = "*"
_ANY = "[^/]"
_SPECIAL = re.compile(r"[*?\[{\\]")


class GlobError(ValueError):
    """A glob can't be parsed; with the position of the error."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position: int = position


class Glob(NamedTuple):
    """A glob, ready to match paths."""

    path: re.Pattern[str]
    """Matches the whole of a path that is meant."""
    inside: re.Pattern[str]
    """Matches the whole path of a directory that may hold something that is meant."""
    only_directories: bool


def is_literal(glob: str) -> bool:
    """Return whether a glob has no special characters."""
    return not _SPECIAL.search(glob)


@lru_cache(maxsize=64)
def compile_glob(glob: str) -> Glob:
    """Compile a glob. Raise `GlobError` if it is invalid."""
    only_directories = glob.endswith("/")
    each = [_components(one) for one in expand(glob.rstrip("/") if only_directories else glob)]
    paths = "|".join(_path(parts) for parts in each)
    inside = "|".join(_inside(parts) for parts in each)
    return Glob(_compile(paths), _compile(inside), only_directories)


def path_source(glob: str) -> str:
    """Return the source of an expression that matches the whole of a path that the glob matches."""
    return "|".join(f"(?:{_path(_components(one))})" for one in expand(glob))


def path_filter(glob: str) -> Callable[[str], bool]:
    """Return a filter of paths. A glob without a slash matches names; a leading `!` negates it."""
    meant = glob.removeprefix("!")
    whole = meant.lstrip("/") if "/" in meant else f"**/{meant}"
    matches, negated = compile_glob(whole).path.fullmatch, meant is not glob
    return lambda path: (matches(path) is None) is negated


def _compile(source: str) -> re.Pattern[str]:
    return re.compile(source, re.DOTALL)


# Braces


def expand(glob: str) -> list[str]:
    """Write out `{a,b}` as globs without braces."""
    done, rest = [""], 0
    for begin, end, choices in _braces(glob):
        inner = [each for choice in choices for each in expand(choice)]
        done = [head + glob[rest:begin] + choice for head in done for choice in inner]
        if len(done) > MAX_ALTERNATIVES:
            message = f"its braces make more than {MAX_ALTERNATIVES} alternatives"
            raise GlobError(message, begin)
        rest = end
    return [head + glob[rest:] for head in done]


def _braces(glob: str) -> Iterator[tuple[int, int, list[str]]]:
    """Return each outermost brace: where it begins and ends, and what it offers."""
    depth, begin, comma, choices = 0, 0, 0, list[str]()
    for at, char in _plain(glob):
        if char == "{":
            depth += 1
            if depth == 1:
                begin, comma, choices = at, at + 1, []
        elif depth and char in ",}":
            if depth == 1:
                choices.append(glob[comma:at])
                comma = at + 1
            depth -= char == "}"
            if not depth:
                yield begin, at + 1, choices
    if depth:
        raise GlobError("'{' is never closed", begin)


def _plain(glob: str) -> Iterator[tuple[int, str]]:
    """Return the characters that may be special: neither escaped nor in a class."""
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "\\":
            at += 2
            continue
        if char == "[":
            at = _class_end(glob, at)
            continue
        yield at, char
        at += 1


# Components


def _components(glob: str) -> list[str]:
    """Return an expression for each component of a glob, or `**`."""
    parts, begin = list[str](), 0
    for at, char in [*_slashes(glob), (len(glob), "/")]:
        if char == "/":
            text = glob[begin:at]
            parts.append(_DEEP if text == _DEEP else _component(text, begin))
            begin = at + 1
    if len(parts) > MAX_COMPONENTS:
        message = f"it has more than {MAX_COMPONENTS} components"
        raise GlobError(message, 0)
    return parts


def _slashes(glob: str) -> Iterator[tuple[int, str]]:
    return ((at, char) for at, char in _plain(glob) if char == "/")


def _component(text: str, begin: int) -> str:
    """Return an expression for a component: fixed pieces, and stars between them."""
    pieces, at = [""], 0
    while at < len(text):
        char, after = text[at], at + 1
        if char == _STAR:
            pieces.append("")
        elif char == "?":
            pieces[-1] += _ANY
        elif char == "[":
            after = _class_end(text, at, begin)
            pieces[-1] += _class(text[at + 1 : after - 1], begin + at)
        else:
            if char == "\\":
                after = at + 2
                if after > len(text):
                    raise GlobError("'\\' at the end escapes nothing", begin + at)
            pieces[-1] += re.escape(text[after - 1])
        at = after
    first, *others = pieces
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1] if piece)
    return f"{first}{middle}[^/]*{others[-1]}"


def _class_end(glob: str, at: int, begin: int = 0) -> int:
    """Return where a class ends. Its first character may be a `]`."""
    first = at + 1 + (glob[at + 1 : at + 2] in ("!", "^"))
    end = glob.find("]", first + 1)
    if end < 0:
        raise GlobError("'[' is never closed", begin + at)
    return end + 1


def _class(text: str, position: int) -> str:
    """Return an expression for a class. A backslash in it is a plain character, as it is to ripgrep."""
    negated = text[:1] in ("!", "^")
    chars = text[negated:]
    source, at = "", 0
    while at < len(chars):
        low = high = chars[at]
        at += 1
        if chars[at : at + 1] == "-" and at + 1 < len(chars):
            high = chars[at + 1]
            at += 2
            if high < low:
                raise GlobError(f"the range {low}-{high} runs backwards", position)
        source += re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}"
    return f"(?!/)[^{source}]" if negated else f"(?!/)[{source}]"


# Paths


def _path(parts: list[str]) -> str:
    """Join components. What stands between two `**` is taken where it is found first."""
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == _DEEP:
            runs.append([])
        else:
            runs[-1].append(part)
    first, *others = ["/".join(run) for run in runs]
    if not others:
        return first
    head = f"{first}/" if runs[0] else ""
    middle = "".join(f"(?>(?:[^/]+/)*?{run}/)" for run in others[:-1] if run)
    return f"{head}{middle}" + (f"(?:[^/]+/)*{others[-1]}" if runs[-1] else ".+")


def _inside(parts: list[str]) -> str:
    """Return an expression for the directories on the way to what is meant."""
    source = ""
    way = parts if parts[-1] == _DEEP else parts[:-1]
    for depth, part in reversed(list(enumerate(way))):
        if part == _DEEP:
            source = "(?:/.*)?" if depth else ".*"
        else:
            source = f"/{part}{f'(?:{source})?' if source else ''}"
            source = source if depth else source[1:]
    return source or "(?!)"
