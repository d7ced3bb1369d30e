"""Globs as regular expressions: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, `**` as a whole component, `\\x`.

A glob is matched against a whole path with `/` between its components. `*`, `?` and classes never
match a `/`. The expressions don't backtrack without end, whatever the glob: what stands between
two stars is taken where it is found first, which is as good as anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

MAX_ALTERNATIVES = 256
MAX_COMPONENTS = 64

_DEEP = "**"
# An escaped character, a class (whose first character may be a `]`), or any other character.
_TOKEN = re.compile(r"\\.|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_WRONG = {"[": "'[' is never closed", "\\": "'\\' at the end escapes nothing"}


class GlobError(ValueError):
    """A glob can't be parsed."""


class Glob(NamedTuple):
    """A glob, ready to match paths."""

    path: re.Pattern[str]
    """Matches the whole of a path that is meant."""
    inside: re.Pattern[str]
    """Matches the whole path of a directory that may hold something that is meant."""
    only_directories: bool


@lru_cache(maxsize=64)
def compile_glob(glob: str) -> Glob:
    """Compile a glob. Raise `GlobError` if it is invalid."""
    only_directories = glob.endswith("/")
    each = _alternatives(glob.rstrip("/") if only_directories else glob)
    return Glob(_compile(map(_path, each)), _compile(map(_inside, each)), only_directories)


def path_source(glob: str) -> str:
    """Return the source of an expression that matches the whole of a path that the glob matches."""
    return _compile(map(_path, _alternatives(glob))).pattern


def path_filter(glob: str) -> Callable[[str], bool]:
    """Return a filter of paths. A glob without a slash matches names; a leading `!` negates it."""
    meant = glob.removeprefix("!")
    whole = meant.lstrip("/") if "/" in meant else f"**/{meant}"
    matches, negated = compile_glob(whole).path.fullmatch, meant is not glob
    return lambda path: (matches(path) is None) is negated


def expand(glob: str) -> list[str]:
    """Write out `{a,b}` as globs without braces."""
    return ["".join(tokens) for tokens in _expand(_TOKEN.findall(glob))]


def _compile(sources: map[str]) -> re.Pattern[str]:
    try:
        return re.compile("|".join(f"(?:{source})" for source in sources), re.DOTALL)
    except re.error as exc:  # a range that runs backwards
        raise GlobError(exc.msg) from None


def _alternatives(glob: str) -> list[list[str]]:
    """Return for each alternative an expression for each of its components, or `**`."""
    return [_components(tokens) for tokens in _expand(_TOKEN.findall(glob))]


def _expand(tokens: list[str]) -> list[list[str]]:
    if "{" not in tokens:
        return [tokens]
    begin, depth, choices = tokens.index("{"), 0, list[list[str]]([[]])
    end = begin
    for end, token in enumerate(tokens[begin:], begin):
        depth += (token == "{") - (token == "}")
        if not depth:
            break
        if depth == 1 and token == ",":
            choices.append([])
        elif end > begin:
            choices[-1].append(token)
    if depth:
        raise GlobError("'{' is never closed")
    expanded: list[list[str]] = []
    for choice in choices:
        expanded += _expand([*tokens[:begin], *choice, *tokens[end + 1 :]])
        if len(expanded) > MAX_ALTERNATIVES:
            raise GlobError(f"its braces make more than {MAX_ALTERNATIVES} alternatives")
    return expanded


def _components(tokens: list[str]) -> list[str]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == "/":
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) > MAX_COMPONENTS:
        raise GlobError(f"it has more than {MAX_COMPONENTS} components")
    return [_DEEP if part == ["*", "*"] else _component(part) for part in parts]


def _component(tokens: list[str]) -> str:
    """Return an expression for a component: fixed pieces, and stars between them."""
    pieces = [""]
    for token in tokens:
        if token in _WRONG:
            raise GlobError(_WRONG[token])
        if token == "*":
            pieces.append("")
        elif token == "?":
            pieces[-1] += "[^/]"
        elif token[0] == "[":
            pieces[-1] += _class(token[1:-1])
        else:
            pieces[-1] += re.escape(token[-1])
    first, *others = pieces
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1] if piece)
    return f"{first}{middle}[^/]*{others[-1]}"


def _class(text: str) -> str:
    """Return an expression for a class. A backslash in it is a plain character, as it is to ripgrep."""
    negated = text[:1] in ("!", "^")
    chars = re.sub(r"([\\\[\]^&|~]|-(?=-))", r"\\\1", text[negated:])
    return f"(?!/)[^{chars}]" if negated else f"(?!/)[{chars}]"


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
