"""How names of tools are written, and how a person would write them."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|[^\W\d_]+|\d+")
_SEPARATORS = re.compile(r"[\s_./:-]+")


def words_of(name: str) -> list[str]:
    """Cut a name into its words, as they are written: snake_case, kebab-case, camelCase."""
    return _WORD.findall(name)


def humanise(name: str) -> str:
    """Return a name as a person would write it: `create_issue` is "Create issue", `getURL` "Get URL"."""
    words = [word if len(word) > 1 and word.isupper() else word.lower() for word in words_of(name)]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def squash(name: str) -> str:
    """Return a name without case and separators."""
    return _SEPARATORS.sub("", name).lower()
