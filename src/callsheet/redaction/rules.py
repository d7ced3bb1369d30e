"""The rules as data: what one looks like, how the shipped table is read, and how users add theirs.

`rules.toml` is the table. It is read once, when it is first asked for; this is the only place
in this package that touches a file, and only one inside the package. Users' rules come as a mapping that
somebody else has parsed. This file only reads and judges rules; `scanner.py` uses them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
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
    text = files("callsheet.redaction").joinpath("rules.toml").read_text(encoding="utf-8")
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
        _check_repeats(rule)
    unknown = sorted(set(found.off) - {rule.id for rule in (*default_rules(), *found.rules)})
    if unknown:
        raise InvalidRule(f"redact settings: off names unknown rules: {', '.join(unknown)}")
    return found


def _check_repeats(rule: Rule) -> None:
    """Refuse an endless repeat inside of another: a failing match could take forever."""
    if re.search(r"(?<!\\)\{,\d", rule.pattern):
        raise InvalidRule(f"rule {rule.id!r}: {{,n}} means something else in re2; write {{0,n}}")
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
                raise InvalidRule(
                    f"rule {rule.id!r}: a repeat inside of a repeat could take for ever; "
                    "limit it, such as {1,64}"
                )
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
    where = f"rule {rule.id!r}"
    if not ID.fullmatch(rule.id):
        raise InvalidRule(f"{where}: an id is 1 to 64 letters, digits, '-', '_' or '.'")
    if _BACKWARD.search(rule.pattern):
        raise InvalidRule(f"{where}: look-around and back-references don't work in re2")
    if any(token[0] in ("^", "$") for token in TOKEN.finditer(rule.pattern)):
        raise InvalidRule(
            f"{where}: ^ and $ have no meaning here: secrets stand anywhere in a text"
        )
    try:
        found = re.compile(rule.pattern.encode())
    except re.error as error:
        raise InvalidRule(f"{where}: the pattern is not a regular expression: {error}") from None
    if found.groups > 1:
        raise InvalidRule(f"{where}: {found.groups} groups; at most one may mark what is secret")
    if found.match(b""):
        raise InvalidRule(
            f"{where}: the pattern matches nothing at all, so it would match everywhere"
        )
    _check_literals(rule, found)


def _check_literals(rule: Rule, pattern: re.Pattern[bytes]) -> None:
    where = f"rule {rule.id!r}"
    if rule.open in ("line", "block") and not rule.literals:
        raise InvalidRule(
            f"{where}: open={rule.open!r} needs literals, or all of a stream would wait"
        )
    if not all(rule.literals):
        raise InvalidRule(f"{where}: an empty literal gates nothing; leave literals out instead")
    for example in map(fill, rule.examples):
        match = pattern.search(example.encode())
        if match is None:
            raise InvalidRule(f"{where}: the pattern does not find the example {example!r}")
        begin = match.group().decode(errors="replace")
        if rule.ignore_case:
            begin = begin.lower()
        if not OPEN[rule.open].fullmatch(match.group(pattern.groups)):
            raise InvalidRule(
                f"{where}: {example!r} has characters that open={rule.open!r} has not; "
                "use open='line' or 'block'"
            )
        if rule.literals and not begin.startswith(_lower(rule)):
            raise InvalidRule(f"{where}: {begin[:40]!r} begins with none of its literals")


def _lower(rule: Rule) -> tuple[str, ...]:
    return tuple(map(str.lower, rule.literals)) if rule.ignore_case else rule.literals


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
    kind, count = match[1], int(match[2])
    if kind not in _FILLS:
        raise InvalidRule(f"an example has {match[0]!r}; use one of {', '.join(_FILLS)}")
    if kind == "b64lines":
        return "\n".join(_cycled(_FILLS[kind], 32) for _ in range(count))
    return _cycled(_FILLS[kind], count)


def _cycled(letters: str, count: int) -> str:
    return (letters * (count // len(letters) + 1))[:count]
