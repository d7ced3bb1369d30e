"""Texts of a recording as findings may show them: in one line, not long, and without their secrets."""

from __future__ import annotations

from functools import lru_cache

from callsheet.describe.text import fit
from callsheet.redaction.redact import Redactor, Settings

LONGEST = 60
WINDOW = 4096
"""Characters that are looked at, of a text that is cut to far fewer."""


def quoted(value: str, longest: int = LONGEST) -> str:
    """Return a text to be shown, between quotation marks."""
    return f"“{shown(value, longest)}”"


def shown(value: str, longest: int = LONGEST) -> str:
    """Return a text to be shown. Secrets are looked for before it is cut: half of one is not known as one."""
    safe, _ = redactor().text(value[:WINDOW])
    return fit(safe, longest)


MOST = 400
"""Characters of an id or a message at most."""


@lru_cache(maxsize=4096)
def safe(value: str) -> str:
    """Return an id or a message as it is, unless it has a secret, steers a terminal, or is very long."""
    if len(value) <= MOST and value.isprintable() and redactor().is_clean(value):
        return value
    return shown(value, MOST)


def redactor() -> Redactor:
    """Return what finds secrets, made once for what the user has set."""
    return _made(Redactor.settings)


@lru_cache(maxsize=1)
def _made(settings: Settings) -> Redactor:  # noqa: ARG001
    return Redactor()
