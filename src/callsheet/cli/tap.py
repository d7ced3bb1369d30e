"""`callsheet tap`: run any agent behind a proxy that makes its reports complete, slim and safe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce, wraps
from typing import Any

import click

from callsheet.cli.options import history_option, locale_option, usage_errors
from callsheet.cli.settings import use_rules
from callsheet.cli.start import StartedAgent, history_factory
from callsheet.tap.context import TapSettings
from callsheet.tap.live import tap, warn
from callsheet.tap.stats import Account, table


def repair_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for what is changed, which `repair` has as well. The command gets `settings`."""

    @wraps(command)
    def with_settings(
        *args: Any,
        locale: str | None,
        no_repair: bool,
        no_redact: bool,
        no_bound: bool,
        **others: Any,
    ) -> int:
        settings = TapSettings(
            repair=not no_repair, redact=not no_redact, bound=not no_bound, locale=locale
        )
        return command(*args, settings=settings, **others)

    options = (
        locale_option,
        click.option(
            "--no-repair",
            is_flag=True,
            help="Show calls as the agent reports them: nothing is filled in or corrected.",
        ),
        click.option("--no-redact", is_flag=True, help="Show secrets in the clear."),
        click.option("--no-bound", is_flag=True, help="Let messages be as long as they are."),
    )
    return reduce(lambda made, option: option(made), reversed(options), with_settings)


@click.command("tap", context_settings={"allow_interspersed_args": False})
@history_option
@click.option(
    "--record",
    metavar="FILE",
    help="Record what the editor sees, without secrets. In a directory, each run gets a file.",
)
@click.option(
    "--report", metavar="FILE", help="Where to report at the end what was done. Default: stderr."
)
@repair_options
@click.argument("agent", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.pass_obj
def command(
    started: StartedAgent | None,
    history: str | None,
    record: str | None,
    report: str | None,
    settings: TapSettings,
    agent: tuple[str, ...],
) -> int:
    """Stand in front of any ACP agent, and make its reports of tool calls complete, slim and safe.

    Put it in front of the agent's command in an editor's settings:

    \b
      callsheet tap -- my-agent --acp

    Exits as the agent does.
    """
    if record == "-" or report == "-":
        raise click.UsageError("stdout is the client's: name a file, such as traffic.jsonl")
    refuse_same_file(record, report)
    with usage_errors():
        use_rules()
        factory = history_factory(history)
    between = started.claim(agent) if started is not None else None
    code, account = tap(agent, settings, history=factory, record=record, between=between)
    if account is not None:
        write_report(account, report)
    return code


def refuse_same_file(record: str | None, report: str | None) -> None:
    """Refuse to write a recording and a report to one file, unless it is special, such as /dev/null."""
    if record is None or report is None:
        return
    place = os.path.realpath(record)
    is_special = os.path.exists(place) and not os.path.isfile(place)  # noqa: PTH110, PTH113
    if place == os.path.realpath(report) and not is_special:
        raise click.UsageError(
            f"{report} would be both the recording and report: name another file"
        )


def write_report(account: Account, path: str | None) -> None:
    """Write the report of what was changed to stderr, or to a file."""
    text = table(account, "tap")
    if path is None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
        return
    try:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
            file.write(text or "callsheet tap: no calls\n")
    except OSError as exc:
        warn(f"{os.fspath(path)}: {exc.strerror}; the report is not written")
