"""`callsheet repair`: what `callsheet tap` would have shown, of a recording."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from callsheet.cli.options import usage_errors
from callsheet.cli.output import replacing
from callsheet.cli.settings import use_rules
from callsheet.cli.tap import repair_options
from callsheet.runtime.spill_store import SpillStore, default_directory
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from callsheet.tap.stats import table


@click.command("repair")
@click.argument("recording", metavar="RECORDING")
@click.option("-o", "--output", metavar="OUT", help="Where to write to; else stdout.")
@repair_options
def command(
    recording: str,
    output: str | None,
    settings: TapSettings,
) -> int:
    """Write a recording as `callsheet tap` would have shown it. `-` reads from stdin.

    What was done is reported on stderr. Times are the recording's, so the same recording gives the same
    result. Exits with 2 if it can't be read,
    or if there is no message in it, with 1 if nobody reads the result.
    """
    with usage_errors():
        use_rules()
    spill = SpillStore(default_directory(), by_content=True)
    repairs = Repairs(settings, spill)
    try:
        _write(repairs, recording, None if output == "-" else output)
    except BrokenPipeError:
        raise
    except OSError as exc:
        _report(f"{exc.filename or recording}: {exc.strerror}")
        return 2
    click.echo(
        table(repairs.account, "repair") or "callsheet repair: no calls\n", err=True, nl=False
    )
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
