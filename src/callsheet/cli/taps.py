"""How `callsheet tap` and `callsheet repair` tell what they did."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from callsheet.tap.account import Account
from callsheet.tap.telling import table


def told(account: Account, path: str | None, say: Callable[[str], None]) -> None:
    """Tell what was done: to stderr, or in a file."""
    text = table(account)
    if path is None:
        if text:
            with suppress(OSError, ValueError):
                sys.stderr.write(text)
                sys.stderr.flush()
        return
    try:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
            file.write(text or "callsheet tap: no calls\n")
    except OSError as exc:
        say(f"{os.fspath(path)}: {exc.strerror}; the report is not written")
