"""`callsheet tap`, `record` and `repair`: any agent with complete, compact and safe reports, or recorded.

`tap` and `record` run an agent, which `start` may have started already; `repair` does over a recording what
`tap` does live. Each imports what it needs when it is run, because an editor waits for the first two.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click

from callsheet.cli.options import budget_option, history_option, locale_option, usage_errors
from callsheet.cli.output import replacing
from callsheet.cli.settings import tap_settings, use_rules
from callsheet.cli.start import HOW, StartedAgent, explain, history_factory, list_as_running

if TYPE_CHECKING:
    from callsheet.tap.context import TapSettings
    from callsheet.tap.offline import Repairs
    from callsheet.tap.stats import Account
    from callsheet.tap.stdio import Between
    from callsheet.telemetry.budget import CostBudget


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
        from callsheet.tap.context import TapSettings

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
        click.option("--no-bound", is_flag=True, help="Don't limit the length of messages."),
    )
    return reduce(lambda made, option: option(made), reversed(options), with_settings)


# Live


@click.command("tap", context_settings={"allow_interspersed_args": False})
@history_option
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Record what the editor sees, without secrets. In a directory, each run gets a file.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Where to write the summary at the end. Default: stderr.",
)
@click.option(
    "--notice/--no-notice",
    default=None,
    help="Show a line in an agent's first session that it is tapped. Default: [tap] notice, or yes.",
)
@budget_option
@repair_options
@click.argument("agent", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.pass_obj
def tap(
    started: StartedAgent | None,
    history: str | None,
    record: str | None,
    report: str | None,
    notice: bool | None,
    budget: CostBudget | None,
    settings: TapSettings,
    agent: tuple[str, ...],
) -> int:
    """Run any ACP agent, and make its reports of tool calls complete, compact and safe.

    Put it in front of the agent's command in an editor's settings:

    \b
      callsheet tap -- my-agent --acp

    Exits with the agent's exit code.
    """
    from callsheet.tap.live import tap as run_tap

    if record == "-" or report == "-":
        raise click.UsageError("stdout is the client's: name a file, such as traffic.jsonl")
    refuse_same_file(record, report)
    with usage_errors():
        use_rules()
        factory = history_factory(history)
        says = tap_settings().notice if notice is None else notice
    between = _claimed(started, agent, "tap")
    code, account = run_tap(
        agent,
        settings,
        history=factory,
        record=record,
        between=between,
        notice=says,
        budget=budget,
        started=lambda: list_as_running("tap", agent, factory),
    )
    if account is not None:
        write_report(account, report)
    return code


def _claimed(started: StartedAgent | None, agent: tuple[str, ...], name: str) -> Between | None:
    """Return the agent that was started ahead. Without a command, say what would be right."""
    if not agent:
        options = " -o FILE" if name == "record" else ""
        raise click.UsageError(
            f"name the agent's command: callsheet {name}{options} -- AGENT…\n"
            f"An editor starts this, not you: {HOW[name]}."
        )
    if started is not None:
        return started.claim(agent)
    explain(name)
    return None


def refuse_same_file(record: str | None, report: str | None) -> None:
    """Refuse to write a recording and a report to one file, unless it is special, such as /dev/null."""
    if record is None or report is None:
        return
    place = os.path.realpath(record)
    is_special = os.path.exists(place) and not os.path.isfile(place)  # noqa: PTH110, PTH113
    if place == os.path.realpath(report) and not is_special:
        raise click.UsageError(
            f"{report} would be both the recording and the report: name another file"
        )


def write_report(account: Account, path: str | None) -> None:
    """Write the report of what was changed to stderr, or to a file."""
    from callsheet.tap.live import warn
    from callsheet.tap.stats import table

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


@click.command("record", context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="A file, which the next run replaces, or a directory, in which each run gets a file.",
)
@click.argument("agent", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.pass_obj
def record(started: StartedAgent | None, output: str, agent: tuple[str, ...]) -> int:
    """Run any ACP agent and record its traffic, passing on every byte unchanged.

    Put it in front of the agent's command in an editor's settings:

    \b
      callsheet record -o recordings/ -- my-agent --acp

    A recording contains everything that was sent, including secrets. Only you can read the file; review
    it before you share it. Exits with the agent's exit code.
    """
    if output == "-":
        raise click.UsageError("stdout is the client's: name a file, such as -o traffic.jsonl")
    from callsheet.tap.recording import record as run_record

    between = _claimed(started, agent, "record")
    return run_record(agent, output, between=between)


# Over a recording


@click.command("repair")
@click.argument("recording", metavar="RECORDING", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(),
    help="Where to write. Default: stdout.",
)
@repair_options
def repair(recording: str, output: str | None, settings: TapSettings) -> int:
    """Write a recording as `callsheet tap` would have shown it. `-` reads from stdin.

    A summary is written to stderr. Times are the recording's, so the same recording gives the same
    result. Exits with 2 if it can't be read or has no messages, with 1 if the output is closed.
    """
    with usage_errors():
        use_rules()
    from callsheet.runtime.spill_store import SpillStore, default_directory
    from callsheet.tap.offline import Repairs
    from callsheet.tap.stats import table

    repairs = Repairs(settings, SpillStore(default_directory(), by_content=True))
    output = None if output == "-" else output
    try:
        if is_same_file(recording, output):
            raise click.UsageError(
                f"the result would replace the recording, {output or recording}; name another file, "
                "such as -o repaired.jsonl"
            )
        _write(repairs, recording, output)
    except BrokenPipeError:
        raise
    except OSError as exc:
        problem = f"{exc.filename or recording}: {exc.strerror}"
        if isinstance(exc, IsADirectoryError) and exc.filename == recording:
            problem = f"{recording} is a directory: name one of its recordings"
        click.echo(f"callsheet repair: {problem}", err=True)
        return 2
    if repairs.cut_at is not None:
        click.echo(
            f"callsheet repair: {recording}: line {repairs.cut_at}, the last one, is cut off: "
            "the rest is missing",
            err=True,
        )
    click.echo(
        table(repairs.account, "repair") or "callsheet repair: no calls\n", err=True, nl=False
    )
    return 0


def is_same_file(recording: str, output: str | None) -> bool:
    """Return whether a recording and what is written are one file, by whatever names."""
    try:
        source = os.stat(0 if recording == "-" else recording)  # noqa: PTH116 - it may be a descriptor
        target = os.stat(sys.stdout.fileno() if output is None else output)  # noqa: PTH116
    except (OSError, ValueError):
        return False  # one of them is not there
    return stat.S_ISREG(source.st_mode) and os.path.samestat(source, target)


def _write(repairs: Repairs, recording: str, output: str | None) -> None:
    """Write a recording, repaired. Of what is no recording nothing is written."""
    from callsheet.observe.lines import EMPTY_RECORDING, NO_RECORDING

    source = 0 if recording == "-" else recording
    with (
        open(source, "rb", closefd=source != 0) as stream,
        nullcontext(sys.stdout.buffer) if output is None else replacing(output) as out,
    ):
        waiting: list[bytes] = []  # until there is a message
        for line in repairs.repaired(stream):
            waiting.append(line)
            if repairs.messages:
                out.writelines(waiting)
                waiting.clear()
        if not repairs.messages:
            why = NO_RECORDING if waiting else EMPTY_RECORDING
            raise OSError(0, why, recording)
        out.flush()
