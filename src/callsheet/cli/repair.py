"""`callsheet repair`: what `callsheet tap` would have shown, of a recording."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from callsheet.cli.output import replacing
from callsheet.cli.settings import use_rules_or_exit
from callsheet.cli.tap import refuse_same_file, repair_options, write_report
from callsheet.runtime.spill_store import SpillStore, default_directory
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs


@click.command("repair")
@click.argument("recording", metavar="RECORDING")
@click.option("-o", "--output", metavar="OUT", help="Where to write to; else stdout.")
@click.option("--report", metavar="FILE", help="Where to report what was done. Default: stderr.")
@repair_options
def command(
    recording: str,
    output: str | None,
    report: str | None,
    locale: str | None,
    no_repair: bool,
    no_redact: bool,
    no_bound: bool,
) -> int:
    """Write a recording as `callsheet tap` would have shown it. `-` reads from stdin.

    Times are the recording's; the same recording gives the same result. Exits with 2 if it can't be read,
    or if there is no message in it, with 1 if nobody reads the result.
    """
    if report == "-":
        raise click.UsageError(
            "the report goes to stderr by itself: name a file, such as report.txt"
        )
    refuse_same_file(recording=recording, report=report)
    refuse_same_file(output=output, report=report)
    settings = TapSettings(
        repair=not no_repair, redact=not no_redact, bound=not no_bound, locale=locale
    )
    use_rules_or_exit()
    spill = SpillStore(default_directory(), by_content=True)
    repairs = Repairs(settings, spill)
    try:
        _write(repairs, recording, None if output == "-" else output)
    except BrokenPipeError:
        raise
    except OSError as exc:
        _report(f"{exc.filename or recording}: {exc.strerror}")
        return 2
    write_report(repairs.account, report, _report, by="repair")
    return 0


def _write(repairs: Repairs, recording: str, output: str | None) -> None:
    """Write a recording, repaired. Where there is no message in it, the output stays as it was."""
    source = 0 if recording == "-" else recording
    with (
        open(source, "rb", closefd=source != 0) as stream,
        nullcontext(sys.stdout.buffer) if output is None else replacing(output) as out,
    ):
        for line in repairs.repaired(stream):
            out.write(line)
        out.flush()
        if not repairs.messages:
            raise OSError(0, "there is no message in it", recording)


def _report(text: str) -> None:
    click.echo(f"callsheet repair: {text}", err=True)
