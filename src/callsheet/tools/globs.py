"""Globs as regular expressions: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, `**` as a whole component, `\\x`.

A glob is matched against a whole path with `/` between its components. `*`, `?` and classes never
match a `/`. The expressions are RE2's, which takes linear time, whatever the glob.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from callsheet.report.patterns import lazy
from callsheet.tools.errors import InvalidArguments

_TOKEN = lazy(
    r"(?P<deep>(?<![^/{,])\*\*/)|(?P<all>(?<![^/{,])\*\*(?=[,}]|$))|(?P<star>\*+)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<inside>\]?[^\]]*)\]|\\(?P<escaped>.)|(?P<char>.)",
    re.DOTALL,
)
_SIMPLE = {"deep": "(?:[^/]+/)*", "all": ".+", "star": "[^/]*", "one": "[^/]"}
_WRONG = {"[": "'[' is never closed", "\\": "'\\' at the end escapes nothing"}


_CONTROL = lazy(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class GlobError(ValueError):
    """A glob can't be parsed."""


def compile_glob(glob: str, argument: str = "glob") -> Callable[[str], bool]:
    """Return a function that tells whether a glob matches the whole of a path.

    Raises:
        InvalidArguments: It can't be parsed. The message names the argument that it is.
    """
    try:
        return _compiled(glob)
    except GlobError as exc:
        raise InvalidArguments(f"{argument}: {glob!r}: {exc}") from None


@lru_cache(maxsize=64)
def _compiled(glob: str) -> Callable[[str], bool]:
    source, depth = "", 0
    for token in _TOKEN.finditer(glob):
        kind, char = token.lastgroup or "", token["char"]
        around = glob[max(0, token.start() - 1) : token.end() + (kind == "all")].split("*")
        if kind in ("deep", "all") and not depth and set("".join(around)) - {"/"}:
            source += (
                "[^/]*/" if kind == "deep" else "[^/]*"
            )  # a comma outside of braces is a character
        elif kind in _SIMPLE:
            source += _SIMPLE[kind]
        elif kind == "inside":
            source += _class(token["inside"], negated=bool(token["negated"]))
        elif kind == "escaped":
            source += re.escape(token["escaped"])
        elif char in _WRONG:
            raise GlobError(_WRONG[char])
        elif char == "{":
            source, depth = f"{source}(?:", depth + 1
        elif depth and char in ",}":
            source, depth = source + ("|" if char == "," else ")"), depth - (char == "}")
        else:
            source += re.escape(char)
    if depth:
        raise GlobError("'{' is never closed")
    return _matcher(source)


def _class(inside: str, *, negated: bool) -> str:
    """Return the expression for a class. A backslash in it is a plain character, as it is to ripgrep."""
    ranges = list[str]()
    for first, last, single in re.findall(r"(.)-(.)|(.)", inside, re.DOTALL):
        low, high = first or single, last or single
        if low > high:
            raise GlobError(f"bad character range {low}-{high}")
        # Never a slash, also not within a range.
        for begin, end in ((low, min(high, ".")), (max(low, "0"), high)):
            if begin <= end:
                ranges.append(f"{re.escape(begin)}-{re.escape(end)}")
    if negated:
        return f"[^/{''.join(ranges)}]"
    return f"[{''.join(ranges)}]" if ranges else "[^\\x00-\\x{10FFFF}]"


def _matcher(source: str) -> Callable[[str], bool]:
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    try:
        pattern = re2.compile(source, options)
    except (re2.error, UnicodeEncodeError) as exc:
        raise GlobError(f"it is too complicated, or no text ({exc})") from None
    # Of names that are no text, the bytes that are none stand for some character.
    return lambda path: pattern.fullmatch(path.encode("utf-8", "replace").decode()) is not None


def path_filter(glob: str) -> Callable[[str], bool]:
    """Return a filter of paths. A glob without a slash matches names; a leading `!` negates it."""
    meant = glob.removeprefix("!")
    matches = compile_glob(meant.lstrip("/") if "/" in meant else f"**/{meant}")
    return matches if meant is glob else lambda path: not matches(path)


def escape_name(path: str) -> str:
    """Return a path that takes one line, whatever characters are in it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        path = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], path)
