"""`callsheet tap`: run any agent behind a proxy that makes its reports complete, slim and safe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from typing import Any, TypeVar

import click

from callsheet.cli.options import history_option, locale_option
from callsheet.cli.settings import use_rules_or_exit
from callsheet.cli.start import StartedAgent, history_factory
from callsheet.report.errors import CallsheetError
from callsheet.tap.context import TapSettings
from callsheet.tap.live import tap, warn
from callsheet.tap.stats import Account, table

_C = TypeVar("_C", bound=Callable[..., Any])


def repair_options(command: _C) -> _C:
    """Add the options for what is changed, which `repair` has as well."""
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
    return reduce(lambda made, option: option(made), reversed(options), command)


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
    locale: str | None,
    no_repair: bool,
    no_redact: bool,
    no_bound: bool,
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
    refuse_same_file(recording=record, report=report)
    settings = TapSettings(
        repair=not no_repair,
        redact=not no_redact,
        bound=not no_bound,
        locale=locale,
    )
    use_rules_or_exit()
    try:
        factory = history_factory(history)
    except CallsheetError as exc:
        raise click.UsageError(str(exc)) from None
    between = started.claim(agent) if started is not None else None
    code, account = tap(agent, settings, history=factory, record=record, between=between)
    if account is not None:
        write_report(account, report, warn)
    return code


def refuse_same_file(**paths: str | None) -> None:
    """Refuse to write two things to one file, or over what is read. Keys name them in the message."""
    seen: dict[str, str] = {}
    for name, path in paths.items():
        if path is None or path == "-":
            continue
        place = os.path.realpath(path)
        if place in seen and not (os.path.exists(place) and not os.path.isfile(place)):  # noqa: PTH110, PTH113
            raise click.UsageError(
                f"{path} would be both {seen[place]} and {name}: name another file"
            )
        seen[place] = f"the {name}"


def write_report(
    account: Account, path: str | None, report: Callable[[str], None], *, by: str = "tap"
) -> None:
    """Write the report of what was changed to stderr, or to a file. `by` is the name of the command."""
    text = table(account, by)
    if path is None and not text and by == "repair":
        report("no calls")
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
        report(f"{os.fspath(path)}: {exc.strerror}; the report is not written")
