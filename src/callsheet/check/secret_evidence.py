"""The checker's second opinion on secrets, written apart from `callsheet.redaction`.

The tap hides secrets by `callsheet.redaction`. If the checker asked only that, a secret that it does not know
would pass both. This one knows few forms: those that nobody could take for anything else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Form(NamedTuple):
    """A sort of secret. Its pattern is tried only on text that has one of its hints."""

    name: str
    hints: tuple[str, ...]
    find: re.Pattern[str]


FORMS = tuple(
    Form(name, tuple(hints.split()), re.compile(pattern))
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

_NAMES = ("password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "access_key")
_GIVEN = r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
_NAMED = re.compile(_GIVEN + r"(?P<value>[A-Za-z0-9+/_=.~-]{20,200})(?![\w$({\[])").match
"""The value of a setting whose name tells what it is. Only one that looks drawn by lot counts."""
_PASSWORD = re.compile(
    _GIVEN + r"(?=[^\s\"']*\d)(?!password)(?P<value>[A-Za-z][\w+/=.~!#%-]{7,60})(?![\w(\[{$])"
).match
_DRAWN = 3.5
"""Bits for each character, from which a text is not taken for words."""


def secrets_in(value: Any, spared: Callable[[str], str] = str) -> set[str]:
    """Return which sorts of secrets stand in a JSON value. `spared` takes out what the user allows."""
    return {name for text in _texts(value) for name in _named_in(spared(text))}


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a value; what stands beside a telling key, together with that."""
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
    for form in FORMS:
        if any(hint in text for hint in form.hints) and form.find.search(text):
            yield form.name
    lower = text.lower()
    if any(_is_set(name, lower, text) for name in _NAMES):
        yield "a value under a telling name"


def _is_set(name: str, lower: str, text: str) -> bool:
    """Whether a text gives a secret value to what has a telling name."""
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
