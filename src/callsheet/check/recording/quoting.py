"""Texts of a recording as findings may show them: in one line, not long, and without their secrets."""

from __future__ import annotations

from functools import cache

from callsheet.describe.text import fit
from callsheet.guard.redact import Redactor

LONGEST = 60
WINDOW = 4096
"""Characters that are looked at, of a text that is cut to far fewer."""


def quoted(value: str, longest: int = LONGEST) -> str:
    """Give a text to be shown, between quotation marks."""
    return f"“{shown(value, longest)}”"


def shown(value: str, longest: int = LONGEST) -> str:
    """Give a text to be shown. Secrets are looked for before it is cut: half of one is not known as one."""
    safe, _ = redactor().text(value[:WINDOW])
    return fit(safe, longest)


@cache
def redactor() -> Redactor:
    """Give what finds secrets, made once."""
    return Redactor(engine="re2")  # the others are slower, or slower to start
