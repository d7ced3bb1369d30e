"""Options that several commands have, and what they mean to a store."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from callsheet.cli.amounts import BadAmount, age_of, moment_of, size_of
from callsheet.history.rows import Query
from callsheet.report.status import Reason, ToolCallStatus

_C = TypeVar("_C", bound=Callable[..., Any])

STATUSES = list(dict.fromkeys(["open", *map(str, ToolCallStatus), *map(str, Reason)]))
"""What `--status` takes."""

FILTERS = ("session", "tool", "status", "since", "until", "search")


def _reading(read: Callable[[str], Any]) -> Callable[..., Any]:
    """Make what click asks to read a value."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else read(value)
        except BadAmount as exc:
            raise click.BadParameter(str(exc), ctx, param) from None

    return callback


_SHOWN = {"running": "in_progress", "timed_out": "timeout"}
"""Words that a list says otherwise."""


def _status(text: str) -> str:
    word = text.strip().lower().replace("-", "_").replace(" ", "_")
    word = _SHOWN.get(word, word)
    if word.startswith("exit_") and word.removeprefix("exit_").isdecimal():
        raise BadAmount(f"{text!r}: expected exit_code, which finds calls with any exit code but 0")
    if word not in STATUSES:
        raise BadAmount(f"{text!r}: expected one of {', '.join(STATUSES)}")
    return word


moment = _reading(lambda text: moment_of(text, time.time()))
age = _reading(age_of)
size = _reading(size_of)

_FILTERS = (
    click.option(
        "--session", metavar="S", help="Of this session: its id, how that begins or ends, or last."
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

history_option = click.option(
    "--history", "url", metavar="URL", help="The store: sqlite:///PATH, a file, or postgresql://…"
)


def filters(command: _C) -> _C:
    """Return a command the options that say which calls are meant."""
    return reduce(lambda made, option: option(made), reversed(_FILTERS), command)


def query_of(given: dict[str, Any]) -> Query:
    """Return what a store is asked, without the session: which one is meant must be found first."""
    since, until = given.get("since"), given.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until, so no call can be meant")
    search = given.get("search")
    if search is not None and not any(sign.isalnum() for sign in search):
        raise click.UsageError(f"--search {search!r}: there is no word in it")
    return Query(
        tool=given.get("tool"), status=given.get("status"), since=since, until=until, search=search
    )


def merged(ctx: click.Context, own: dict[str, Any]) -> dict[str, Any]:
    """Return a subcommand's options; what it was not given itself, it has from before its name.

    What stands there and means nothing to it is refused.
    """
    parent = ctx.parent
    if parent is None:
        return own
    for name, value in parent.params.items():
        source = parent.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            continue
        if name not in own:
            option = next(one.opts[0] for one in parent.command.params if one.name == name)
            raise click.UsageError(f"{option} means nothing to {ctx.info_name}", ctx)
        if own[name] is None:
            own[name] = value
    return own
