"""Secrets that are known beforehand: which values of an environment, and every form they come in.

A known value is found wherever it stands, whatever is around it, also written as JSON or a URL
writes it, and as base64, alone or inside something longer. The environment itself is passed in.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

import msgspec

from callsheet.redaction.rules import InvalidRule
from callsheet.redaction.secret_names import family_of, is_placeholder, scheme_length
from callsheet.report.patterns import lazy

SHORTEST = 4
"""A shorter value can't be registered: it would blank out ordinary words."""

SHORTEST_GUESSED = 8
"""A variable that only looks secret must have this many characters."""

LONGEST = 4096
"""A longer value is looked for in pieces of this size, so that a stream need not hold more."""

_HARMLESS = lazy(r"[\d.,:]*|(?:/|~|\.{1,2}/|[A-Za-z]:\\).*|[a-z]+", re.DOTALL)


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Pick what looks secret from environment variables: by name, and passwords in URLs."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if family_of(name) and _is_guess(value):
            found[name] = value
        elif "://" in value:
            password = _password_in(value)
            if _is_guess(password):
                found[name] = password
    return found


def secrets_of_mcp(servers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the secrets of a session's MCP servers: those in their `env` and their `headers`."""
    found: dict[str, str] = {}
    for server in servers:
        for field in ("env", "headers"):
            for name, value in _pairs(server.get(field)):
                secret = value[scheme_length(value.encode()) :]
                if family_of(name) and _is_guess(secret):
                    found[name] = secret
                elif field == "env":
                    found |= secrets_of({name: value})
    return found


def _pairs(entries: object) -> Iterable[tuple[str, str]]:
    """Read `{"A": "x"}` and `[{"name": "A", "value": "x"}]` alike."""
    try:
        return msgspec.convert(entries, dict[str, str]).items()
    except msgspec.ValidationError:
        pass
    try:
        return [(entry.name, entry.value) for entry in msgspec.convert(entries, list[_NamedValue])]
    except msgspec.ValidationError:
        return ()


class _NamedValue(msgspec.Struct):
    name: str
    value: str


def _is_guess(value: str) -> bool:
    if len(value) < SHORTEST_GUESSED or _HARMLESS.fullmatch(value):
        return False
    return not is_placeholder(value.encode("utf-8", "surrogatepass"))


def _password_in(value: str) -> str:
    try:
        return unquote(urlsplit(value).password or "")
    except ValueError:
        return ""


def forms(known: Mapping[str, str]) -> dict[bytes, tuple[str, bytes]]:
    """Return each form of each value, with the name and the value that it stands for."""
    found: dict[bytes, tuple[str, bytes]] = {}
    for name, value in known.items():
        if len(value) < SHORTEST:
            raise InvalidRule(
                f"the known value {name!r} has {len(value)} characters; with less than {SHORTEST},"
                " ordinary words would be blanked out"
            )
        secret = value.encode("utf-8", "surrogatepass")
        for form in _forms_of(value, secret):
            for start in range(0, len(form), LONGEST):
                piece = form[start : start + LONGEST]
                if len(piece) >= SHORTEST:
                    found.setdefault(piece, (name, secret))
    return found


def _forms_of(value: str, secret: bytes) -> set[bytes]:
    found = {secret}
    for text in _escaped(value):
        found.add(text.encode("utf-8", "surrogatepass"))
    if len(secret) >= SHORTEST_GUESSED:
        found |= set(_in_base64(secret))
    return found


def _escaped(value: str) -> Iterable[str]:
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    try:
        yield from (quote(value, safe=""), quote(value), quote_plus(value))
    except UnicodeEncodeError:  # a lone surrogate: no URL can hold it
        return


def _in_base64(secret: bytes) -> Iterable[bytes]:
    """Return what is the same at each of the three places that a value can have inside base64."""
    for shift in range(3):
        whole = b64encode(b"\0" * shift + secret).rstrip(b"=")
        # The first letters hold bits of what stands before, the last one of what follows.
        first = (0, 2, 3)[shift]
        last = len(whole) if (shift + len(secret)) % 3 == 0 else len(whole) - 1
        core = whole[first:last]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))
