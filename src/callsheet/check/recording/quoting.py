"""Values of a recording, as findings may show them: without secrets, on one line, short."""

from __future__ import annotations

from functools import cache

from callsheet.describe.text import fit
from callsheet.guard.redact import Redactor

_WIDTH = 60
_LOOKED_AT = 2000


def quoted(value: str) -> str:
    """Give a text in quotes. Of a very long one, what can't be looked through isn't shown."""
    return f'"{fit(_redactor().text(value[:_LOOKED_AT])[0], _WIDTH)}"'


@cache
def _redactor() -> Redactor:
    return Redactor()
