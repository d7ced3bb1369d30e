"""What `callsheet tap` and `callsheet repair` share: how they take a language, and tell what they did."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from callsheet.tap.stats import Account, table


def known(locale: str | None) -> str | None:
    """Return a language that was asked for, if there is such a one."""
    if locale is None:
        return None
    from click import BadParameter  # the agent need not wait for these

    from callsheet.describe.locales import LOCALES, has_locale

    if not has_locale(locale):
        raise BadParameter(
            f"{locale!r}: expected one of {', '.join(LOCALES)}", param_hint="'--locale'"
        )
    return locale


def apart(**paths: str | None) -> None:
    """Refuse to write two things to one file, or over what is read. Names are those that people have used."""
    from click import UsageError

    seen: dict[str, str] = {}
    for name, path in paths.items():
        if path is None or path == "-":
            continue
        place = os.path.realpath(path)
        if place in seen and not (os.path.exists(place) and not os.path.isfile(place)):  # noqa: PTH110, PTH113
            raise UsageError(f"{path} would be both {seen[place]} and {name}: name another file")
        seen[place] = f"the {name}"


def told(
    account: Account, path: str | None, say: Callable[[str], None], *, by: str = "tap"
) -> None:
    """Tell what was done: to stderr, or in a file. `by` is the command that did it."""
    text = table(account, by)
    if path is None and not text and by == "repair":
        say("no calls")
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
