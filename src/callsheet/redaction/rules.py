"""The rules as data: what one looks like, how the shipped table is read, and how users add theirs.

`rules.toml` is the table. It is read once, when it is first asked for; this is the only place
in this package that touches a file, and only one inside the package. Users' rules come as a mapping that
somebody else has parsed. This file only reads and judges rules; `scanner.py` uses them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import get_data  # importlib.resources takes long to import
from threading import Lock
from typing import Any, Literal

import msgspec
from msgspec import Struct

from callsheet.report.errors import CallsheetError
from callsheet.report.patterns import lazy


class InvalidRule(CallsheetError, ValueError):
    """A rule, or a setting of the redactor, can't be used. The message names it and the cause."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One shape of secret. The fields are explained on top of `rules.toml`."""

    id: str
    pattern: str
    literals: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    left: bool = True
    right: bool = True
    mixed: bool = False
    placeholders: bool = False
    ignore_case: bool = False
    open: Literal["word", "line", "block"] = "word"
    end: str = ""


OPEN: Mapping[str, re.Pattern[bytes]] = {
    "word": re.compile(rb"""[^\s"'<>]*"""),
    "line": re.compile(rb"[^\r\n]*"),
    "block": re.compile(rb"[\s\S]*"),
}
"""What a secret is made of, by `Rule.open`."""


class KeyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Which names have secret values. `secret_names.py` judges by it."""

    words: tuple[str, ...]
    joined: dict[str, tuple[str, ...]]
    families: dict[str, tuple[str, ...]]
    second: dict[str, tuple[str, ...]]
    weak: dict[str, str]
    suffixes: tuple[str, ...]
    neutral: frozenset[str]
    harmless: frozenset[str]
    deeds: frozenset[str]


class RuleTable(Struct, frozen=True):
    """All of `rules.toml`."""

    keys: KeyTable
    rule: tuple[Rule, ...]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What a user may set, in `[tool.callsheet.redact]` or a file of its own."""

    rules: tuple[Rule, ...] = ()
    allow: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


_loading = Lock()


def table() -> RuleTable:
    """Return the shipped rules.

    One thread loads them: msgspec crashes if two meet new types at once.
    """
    with _loading:
        return _table()


@cache
def _table() -> RuleTable:
    text = (get_data("callsheet.redaction", "rules.toml") or b"").decode()
    return msgspec.convert(tomllib.loads(text), RuleTable)


def default_rules() -> tuple[Rule, ...]:
    """Return the shipped rules for patterns."""
    return table().rule


def read_settings(settings: Mapping[str, Any]) -> Settings:
    """Read a user's settings, or raise `InvalidRule`."""
    try:
        found = msgspec.convert(dict(settings), Settings)
    except msgspec.ValidationError as error:
        raise InvalidRule(f"redact settings: {error}") from None
    for rule in found.rules:
        check(rule)
        _refuse(rule, _slow_repeats(rule))
    unknown = sorted(set(found.off) - {rule.id for rule in (*default_rules(), *found.rules)})
    if unknown:
        raise InvalidRule(f"redact settings: off names unknown rules: {', '.join(unknown)}")
    return found


def _slow_repeats(rule: Rule) -> Iterator[str]:
    """Yield what could make a match take for ever: an endless repeat inside of another."""
    if re.search(r"(?<!\\)\{,\d", rule.pattern):
        yield "{,n} means something else in re2; write {0,n}"
    opened: list[bool] = [False]  # of each group that is open: whether it has such a repeat
    closed = False
    for token in TOKEN.finditer(rule.pattern):
        before, closed = closed, False
        if token[0].startswith("("):
            opened.append(False)
        elif token[0] == ")":
            closed = opened.pop()
            opened[-1] |= closed
        elif token["repeat"] and (token[0][0] in "*+" or ",}" in token[0]):
            if before:
                yield "a repeat inside of a repeat could take for ever; limit it, such as {1,64}"
            opened[-1] = True


def rules_of(settings: Settings) -> tuple[Rule, ...]:
    """Return the rules that hold: a user's own replace those with the same id, and none is off."""
    rules = {rule.id: rule for rule in default_rules()}
    rules |= {rule.id: rule for rule in settings.rules}
    return tuple(rule for name, rule in rules.items() if name not in settings.off)


TOKEN = lazy(
    r"(?P<group>\(\?[a-zA-Z]*:|[()|])|(?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\})\??)"
    r"|(?P<anchor>[$^]|\\[bB])|\[\^?\]?(?:\\.|[^\]\\])*\]|\\x[0-9a-fA-F]{2}|\\?.",
    re.DOTALL,
)
"""The parts of a pattern: groups, repeats, anchors, and what matches one character."""


def before_group(pattern: str) -> str | None:
    """Return what stands before the group that contains the secret; None if the whole match is secret."""
    opened = 0
    for token in TOKEN.finditer(pattern):
        if token[0] == "(":
            return pattern[: token.start()] + ")" * opened
        opened += token[0].startswith("(") - (token[0] == ")")
    return None


ID = lazy(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_BACKWARD = lazy(r"\\[1-9AZz]|\(\?(?:[=!]|<[=!]|P=|\()")


def check(rule: Rule) -> None:
    """Raise `InvalidRule` unless the rule works in RE2 and in `re`, and does what it declares."""
    _refuse(rule, _faults(rule))


def _refuse(rule: Rule, faults: Iterator[str]) -> None:
    for fault in faults:
        raise InvalidRule(f"rule {rule.id!r}: {fault}")


def _faults(rule: Rule) -> Iterator[str]:
    """Yield what is wrong with a rule, the first thing first. What follows may build on it."""
    if not ID.fullmatch(rule.id):
        yield "an id is 1 to 64 letters, digits, '-', '_' or '.'"
    if _BACKWARD.search(rule.pattern):
        yield "look-around and back-references don't work in re2"
    if any(token[0] in ("^", "$") for token in TOKEN.finditer(rule.pattern)):
        yield "^ and $ have no meaning here: secrets stand anywhere in a text"
    try:
        pattern = re.compile(rule.pattern.encode())
    except re.error as error:
        yield f"the pattern is not a regular expression: {error}"
        return
    if pattern.groups > 1:
        yield f"{pattern.groups} groups; at most one may mark what is secret"
    if pattern.match(b""):
        yield "the pattern matches nothing at all, so it would match everywhere"
    if rule.open in ("line", "block") and not rule.literals:
        yield f"open={rule.open!r} needs literals, or all of a stream would wait"
    if not all(rule.literals):
        yield "an empty literal gates nothing; leave literals out instead"
    for example in map(fill, rule.examples):
        yield from _faults_of_example(rule, pattern, example)


def _faults_of_example(rule: Rule, pattern: re.Pattern[bytes], example: str) -> Iterator[str]:
    match = pattern.search(example.encode())
    if match is None:
        yield f"the pattern does not find the example {example!r}"
        return
    if not OPEN[rule.open].fullmatch(match.group(pattern.groups)):
        lacks = f"has characters that open={rule.open!r} has not"
        yield f"{example!r} {lacks}; use open='line' or 'block'"
    fold = str.lower if rule.ignore_case else str
    begin = fold(match.group().decode(errors="replace"))
    if rule.literals and not begin.startswith(tuple(map(fold, rule.literals))):
        yield f"{begin[:40]!r} begins with none of its literals"


_FILLS: Mapping[str, str] = {
    "alnum": "Fake7Dummy3Sample9Never1Real2Made5Up4",
    "alpha": "FakeDummySampleNeverRealMadeUp",
    "lower": "fake7dummy3sample9never1real2made5up4",
    "upper": "FAKE7DUMMY3SAMPLE5NEVER2REAL4MADE6UP",
    "hex": "fa4e0dead1beef2fa5e3c0de4fade5",
    "digit": "1029384756",
    "space": " ",
    "bech": "FAKE7DUMMY3SAMPLE5NEVER2REAL4MADE6UP".translate({66: None, 73: None, 79: None}),
    "b64lines": "Fake7Dummy3Sample9Never1Real2Made5Up4+/",
}
_FILL = lazy(r"\{(\w+):(\d+)\}")


def fill(template: str) -> str:
    """Write an example out.

    The table has templates, so that nothing in it looks like a leaked key.
    """
    return _FILL.sub(_filled, template)


def _filled(match: re.Match[str]) -> str:
    letters, count = _FILLS.get(match[1], ""), int(match[2])
    if not letters:
        raise InvalidRule(f"an example has {match[0]!r}; use one of {', '.join(_FILLS)}")
    if match[1] == "b64lines":
        return "\n".join([letters[:32]] * count)
    return (letters * (count // len(letters) + 1))[:count]
