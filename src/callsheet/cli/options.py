"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from callsheet.cli.amounts import BadAmount, parse_age, parse_moment, parse_size

_C = TypeVar("_C", bound=Callable[..., Any])


def _reading(read: Callable[[str], Any]) -> Callable[..., Any]:
    """Return a click callback that reads a value, and reports one that is wrong as bad usage."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else read(value)
        except BadAmount as exc:
            raise click.BadParameter(str(exc), ctx, param) from None

    return callback


def _locale(text: str) -> str:
    from callsheet.describe.i18n import LOCALES, has_locale

    if not has_locale(text):
        raise BadAmount(f"{text!r}: expected one of {', '.join(LOCALES)}")
    return text


def _status(text: str) -> str:
    from callsheet.report.status import Reason, ToolCallStatus

    known = list(dict.fromkeys(["open", *map(str, ToolCallStatus), *map(str, Reason)]))
    name = text.strip().lower().replace("-", "_").replace(" ", "_")
    # A list shows these two under other names.
    name = {"running": "in_progress", "timed_out": "timeout"}.get(name, name)
    if name.startswith("exit_") and name.removeprefix("exit_").isdecimal():
        raise BadAmount(f"{text!r}: expected exit_code, which finds calls with any exit code but 0")
    if name not in known:
        raise BadAmount(f"{text!r}: expected one of {', '.join(known)}")
    return name


age = _reading(parse_age)
size = _reading(parse_size)
moment = _reading(lambda text: parse_moment(text, time.time()))

locale_option = click.option(
    "--locale",
    metavar="xx",
    callback=_reading(_locale),
    help="The language of titles, such as de or pt_BR.",
)
tools_option = click.option(
    "--tools", "tools_file", metavar="FILE.py", help="A Python file with tools of your own."
)
history_option = click.option(
    "--history", "url", metavar="URL", help="The store: sqlite:///PATH, a file, or postgresql://…"
)
record_history_option = click.option(
    "--history",
    metavar="URL",
    help="Where calls are stored: sqlite:///PATH, postgresql://…, or off. Default: CALLSHEET_HISTORY.",
)


def protocol_option(help: str) -> Callable[[_C], _C]:  # noqa: A002 - click's own name for it
    """Return the option that chooses the version of ACP."""
    return click.option(
        "--protocol", type=click.Choice(["1", "2"]), default="1", show_default=True, help=help
    )


def format_option(names: str, help: str, default: str | None = None) -> Callable[[_C], _C]:  # noqa: A002
    """Return the option that chooses the output format. `names` are separated by spaces."""
    return click.option(
        "--format",
        "format_",
        type=click.Choice(names.split()),
        default=default,
        show_default=default is not None,
        help=help,
    )


_FILTERS = (
    click.option(
        "--session", metavar="S", help="Of this session: its id, its beginning or end, or last."
    ),
    click.option("--tool", metavar="T", help="Of this tool."),
    click.option(
        "--status",
        callback=_reading(_status),
        metavar="S",
        help="In this status, open, or ended for a reason.",
    ),
    click.option(
        "--since", callback=moment, metavar="WHEN", help="Not before: 2h, 3d, 2026-11-01, a time."
    ),
    click.option("--until", callback=moment, metavar="WHEN", help="Only before."),
    click.option(
        "--search", metavar="TEXT", help='With these words, or "in this order", anywhere.'
    ),
)


def filters(command: _C) -> _C:
    """Add the options that choose calls of the history."""
    return reduce(lambda made, option: option(made), reversed(_FILTERS), command)
