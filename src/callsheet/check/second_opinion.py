"""The checker's second opinion on secrets, independent of the code that it judges.

The tap hides secrets by `callsheet.redaction`. If the checker used only that, whatever it misses would pass
both: "nothing found" behind the tap would be no more than the tap's own opinion. So this module shares
nothing with it, and a test holds that.

It knows little, but what it knows is beyond doubt: forms of secrets that can't be taken for anything else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple


class SecretForm(NamedTuple):
    """A sort of secret. Its pattern is tried only on text that has one of its hints."""

    name: str
    hints: tuple[str, ...]
    find: re.Pattern[str]


FORMS = tuple(
    SecretForm(name, tuple(hints.split()), re.compile(pattern))
    for name, hints, pattern in (
        ("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[opusr]_[A-Za-z0-9]{36,}"),
        ("a GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{60,}"),
        ("a GitLab token", "glpat-", r"\bglpat-[\w-]{20,}"),
        ("an AWS key", "AKIA ASIA", r"\b(?:AKIA|ASIA)(?![A-Z]{16})[A-Z0-9]{16}\b(?!EXAMPLE)"),
        ("a Google key", "AIza", r"\bAIza[\w-]{35}\b"),
        ("a Slack token", "xoxb- xoxp- xoxa- xoxs- xoxe-", r"\bxox[abeps]-\d[\w-]{20,}"),
        ("a Stripe key", "_live_", r"\b[rs]k_live_[A-Za-z0-9]{20,}"),
        ("a key of an AI service", "sk-", r"\bsk-(?:ant-|proj-|svcacct-|or-)[\w-]{30,}"),
        ("a key of an AI service", "sk-", r"\bsk-[A-Za-z0-9]{40,}\b"),
        ("an npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a PyPI token", "pypi-", r"\bpypi-AgE[\w-]{50,}"),
        ("a JSON web token", "eyJ", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{16,}"),
        ("a private key", "PRIVATE KEY", r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.{1,80}?[\w+/]{40}"),
        ("a password in an address", "://", r"://[\w.%+-]*:(?!passw|secret)[^\s:/@'\"`$<>{}\[\]*]{6,}@\w"),
    )
)  # fmt: skip
_HINTS = tuple((hint, form) for form in FORMS for hint in form.hints)

_NAMES = ("password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "access_key")
_GIVEN = r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
_NAMED = re.compile(_GIVEN + r"(?P<value>[A-Za-z0-9+/_=.~-]{20,200})(?![\w$({\[])").match
"""The value of a setting with a telling name. Only one that looks random counts."""
_PASSWORD = re.compile(
    _GIVEN + r"(?=[^\s\"']*\d)(?!password)(?P<value>[A-Za-z][\w+/=.~!#%-]{7,60})(?![\w(\[{$])"
).match
_DRAWN = 3.5
"""Bits of entropy per character from which on a text is taken for random."""


def secrets_in(value: Any, spared: Callable[[str], str] = str) -> set[str]:
    """Return which sorts of secrets stand in a JSON value. `spared` takes out what the user allows."""
    return {name for text in _texts(value) for name in _named_in(spared(text))}


def has_hint(data: bytes) -> bool:
    """Whether `secrets_in` could find anything in a value, by its JSON: none of a hint is ever escaped."""
    return _any_hint().Match(data) is not None


@cache
def _any_hint() -> Any:
    """Return all hints as one automaton, which reads a text once."""
    re2: Any = import_module("re2")
    hints = "|".join(re.escape(hint) for hint, _ in _HINTS)
    found = re2.Set.SearchSet()
    found.Add(f"{hints}|(?i:{'|'.join(map(re.escape, _NAMES))})")
    found.Compile()
    return found


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a value; what stands beside a telling key, together with the key."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            for key, inner in one.items():  # pyright: ignore[reportUnknownVariableType]
                if isinstance(inner, str) and any(name in str(key).lower() for name in _NAMES):  # pyright: ignore[reportUnknownArgumentType]
                    yield f"{key}={inner}"
                else:
                    waiting.append(inner)
        elif isinstance(one, list):
            waiting += one  # pyright: ignore[reportUnknownArgumentType]


def _named_in(text: str) -> Iterator[str]:
    for hint, form in _HINTS:
        if hint in text and form.find.search(text):
            yield form.name
    lower = text.lower()
    if any(_is_set(name, lower, text) for name in _NAMES if name in lower):
        yield "a value under a telling name"


def _is_set(name: str, lower: str, text: str) -> bool:
    """Whether a text assigns a secret value to a telling name."""
    at = lower.find(name)
    while at >= 0:
        at += len(name)
        drawn = _NAMED(text, at)
        if (drawn and _looks_drawn(drawn["value"])) or (name[:4] == "pass" and _PASSWORD(text, at)):
            return True
        at = lower.find(name, at)
    return False


def _looks_drawn(value: str) -> bool:
    """Whether a value is no word, path or number: letters and digits mixed, hardly any twice in a row."""
    kinds = (str.islower, str.isupper, str.isdigit)
    if (
        sum(any(map(kind, value)) for kind in kinds) < 3
        or value.count("/") > 2
        or sum(map(str.isdigit, value)) < 2
    ):
        return False
    counts = Counter(value).values()
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    return entropy >= _DRAWN
