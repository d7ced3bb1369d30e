"""The language in which people choose calls: `tool:bash status:failed dur>2s path:src/ text:"timed out"`.

All terms must hold. A word without a name is looked for as text, and a minus sign turns a term around. What
is not understood is reported, and the rest holds. The web page speaks the same language over the calls that
it has (`ui/src/filter.js`); `tests/data/filters.json` has examples that both are tested with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from callsheet.history.amounts import BadAmount, parse_moment, parse_size
from callsheet.history.rows import STATUSES, Term
from callsheet.history.search_text import words
from callsheet.report.fields import ToolKind
from callsheet.report.patterns import lazy

MARKS = ("open", "repaired", "asked", "child")
"""What `is:` takes."""

LONGEST = 4000
"""Characters of a filter, and of its terms together."""

MOST_WORDS = 100
"""Terms of a filter, and words that it looks for: a database refuses a condition of many more."""

_TERM = lazy(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
_PARTS = lazy(r"(-?)(?:(\w+)([:<>]))?(.*)", re.DOTALL)
_DURATION = lazy(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)", re.ASCII | re.IGNORECASE)
_MILLISECONDS = {"ms": 1.0, "s": 1e3, "m": 60e3, "min": 60e3, "h": 3600e3}


def parse_filter(text: str, now: float) -> tuple[tuple[Term, ...], list[str]]:
    """Return the terms of a filter, for `Query.terms`, and what is wrong with those that are not understood.

    Args:
        text: The filter.
        now: Seconds since 1970, from which `since:2h` counts.
    """
    if len(text) > LONGEST:
        return (), [f"{text[:20]}…: a filter has at most {LONGEST} characters"]
    terms: list[Term] = []
    wrong: list[str] = []
    for whole in _TERM.findall(text):
        try:
            terms.append(_term(whole, now))
        except BadAmount as exc:
            wrong.append(f"{whole}: {exc}")
    if sum(map(_weight, terms)) + len(wrong) > MOST_WORDS:
        return (), [f"{text[:20]}…: a filter has at most {MOST_WORDS} words"]
    return tuple(terms), wrong


def _weight(term: Term) -> int:
    return len(words(str(term.value))) if term.field in ("text", "path") else 1


def _term(whole: str, now: float) -> Term:
    found = _PARTS.fullmatch(whole)
    assert found is not None
    minus, name, sign, raw = found.groups()
    value = _unquoted(raw)
    field = name.lower() if name else "text"
    if field in ("dur", "size"):
        if sign == ":":
            raise BadAmount(f"{field} is compared: {field}>… or {field}<…")
        amount = _duration(value) if field == "dur" else _plain(parse_size, value)
        return Term(field, float(amount), sign, bool(minus))
    if sign not in (":", None):
        raise BadAmount(f"only dur and size are compared; expected {field}:…")
    if field in ("since", "until"):
        moment = _plain(lambda text: parse_moment(text, now), value)
        return Term("at", moment, ">=" if field == "since" else "<", bool(minus))
    if field not in _CHECKS:
        names = ", ".join([*_CHECKS, "since", "until", "dur", "size"])
        raise BadAmount(f'there is no {field}; expected one of {names}, or the text in quotes: "…"')
    return Term(field, _CHECKS[field](value), ":", bool(minus))


def _unquoted(raw: str) -> str:
    if not raw.startswith('"'):
        return raw
    end = -1 if len(raw) > 1 and raw.endswith('"') else None
    return re.sub(r"\\(.)", r"\1", raw[1:end])


def _plain(parse: Callable[[str], float], value: str) -> float:
    """Return an amount. The term stands before the message already, so the value is not repeated in it."""
    try:
        return parse(value)
    except BadAmount as exc:
        raise BadAmount(str(exc).removeprefix(f"{value!r}: ")) from None


def _duration(value: str) -> float:
    found = _DURATION.fullmatch(value)
    if found is None:
        raise BadAmount("expected a number and a unit: 100ms, 2s, 5min or 1h")
    return float(found[1]) * _MILLISECONDS[found[2].lower()]


def _part(value: str) -> str:
    if not value:
        raise BadAmount("expected something after the colon")
    return value


def _searched(value: str) -> str:
    if not words(value):
        raise BadAmount("there is no word in it")
    return value


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value.lower() not in known:
            raise BadAmount(f"expected one of {', '.join(known)}")
        return value.lower()

    return check


def _kind(value: str) -> str:
    return value if value.startswith("_") else _one_of([str(kind) for kind in ToolKind])(value)


_CHECKS: dict[str, Callable[[str], str]] = {
    "tool": _part,
    "status": _one_of(STATUSES),
    "kind": _kind,
    "session": _part,
    "workspace": _part,
    "user": _part,
    "host": _part,
    "agent": _part,
    "client": _part,
    "source": _part,
    "id": _part,
    "path": _searched,
    "text": _searched,
    "is": _one_of(MARKS),
}
