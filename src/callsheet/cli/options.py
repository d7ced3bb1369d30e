"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import reduce, wraps
from typing import Any, TypeVar

import click

from callsheet.cli.amounts import BadAmount, parse_age, parse_moment, parse_size
from callsheet.report.errors import CallsheetError
from callsheet.report.status import Reason, ToolCallStatus

STATUSES = list(dict.fromkeys(("open", *map(str, ToolCallStatus), *map(str, Reason))))
"""What `--status` takes: ACP's statuses, `open` for those that are not final, and reasons."""

_C = TypeVar("_C", bound=Callable[..., Any])


@contextmanager
def usage_errors(before: str = "") -> Generator[None]:
    """Report an error of ours as bad usage of the command; `before` is put before the message."""
    try:
        yield
    except CallsheetError as exc:
        raise click.UsageError(f"{before}{exc}") from None


def _reading(read: Callable[[str], Any]) -> Callable[..., Any]:
    """Return a click callback that reads a value, and reports one that is wrong as bad usage."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else read(value)
        except (BadAmount, CallsheetError) as exc:
            raise click.BadParameter(str(exc), ctx, param) from None

    return callback


def _locale(text: str) -> str:
    from callsheet.describe.i18n import LOCALES, has_locale

    if not has_locale(text):
        raise BadAmount(f"{text!r}: expected one of {', '.join(LOCALES)}")
    return text


def _url(text: str) -> str:
    from callsheet.history.url import chosen_url

    chosen_url(text)  # raises `BadUrl`
    return text


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
    "--history",
    metavar="URL",
    callback=_reading(_url),
    help="Where calls are stored: sqlite:///PATH, a file, postgresql://…, or off. "
    "Default: CALLSHEET_HISTORY, or a settings file.",
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
        type=click.Choice(STATUSES, case_sensitive=False),
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


def filters(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose calls of the history. The command gets a `query`, and the `session`.

    The session that is named must be looked up in the store first, so it is not in the query yet.
    """

    @wraps(command)
    def with_query(
        *args: Any,
        tool: str | None,
        status: str | None,
        since: float | None,
        until: float | None,
        search: str | None,
        **others: Any,
    ) -> None:
        from callsheet.history import Query

        if since is not None and until is not None and since >= until:
            raise click.UsageError("--since is not before --until, so no call can be meant")
        if search is not None and not any(sign.isalnum() for sign in search):
            raise click.UsageError(f"--search {search!r}: there is no word in it")
        query = Query(tool=tool, status=status, since=since, until=until, search=search)
        command(*args, query=query, **others)

    return reduce(lambda made, option: option(made), reversed(_FILTERS), with_query)


def limit_option(default: str, noun: str = "How many") -> Callable[[_C], _C]:
    """Return the option for the length of a list."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="N",
        help=f"{noun}; 0 means all.  [default: {default}]",
    )
