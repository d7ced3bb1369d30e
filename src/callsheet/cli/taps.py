"""What `callsheet tap` and `callsheet repair` share: how they take a language, and tell what they did."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

import click

from callsheet.tap.account import Account
from callsheet.tap.telling import table


def known(locale: str | None) -> str | None:
    """Give a language that was asked for, if there is such a one."""
    if locale is None:
        return None
    from callsheet.describe.locales import LOCALES, has_locale  # the agent need not wait for it

    if not has_locale(locale):
        raise click.BadParameter(
            f"{locale!r}: expected one of {', '.join(LOCALES)}", param_hint="'--locale'"
        )
    return locale


def told(
    account: Account, path: str | None, say: Callable[[str], None], *, by: str = "tap"
) -> None:
    """Tell what was done: to stderr, or in a file. `by` is the command that did it."""
    text = table(account, by)
    if path is None:
        if text:
            with suppress(OSError, ValueError):
                sys.stderr.write(text)
                sys.stderr.flush()
        return
    try:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
            file.write(text or f"callsheet {by}: no calls\n")
    except OSError as exc:
        say(f"{os.fspath(path)}: {exc.strerror}; the report is not written")
