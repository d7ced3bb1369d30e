"""`callsheet repair`: what `callsheet tap` would have shown, of a recording."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import click

from callsheet.cli.output import naming, replacing
from callsheet.cli.settings import use_rules_or_exit
from callsheet.cli.tap import refuse_same_file, repair_options, write_report
from callsheet.runtime.spill_store import SpillStore, default_directory
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs


@click.command("repair", context_settings={"max_content_width": 100})
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
        with _opened(recording) as stream:
            _write(repairs, stream, output)
    except _NoRecording as exc:
        _report(f"{recording}: {exc}")
        return 2
    except OSError as exc:
        if isinstance(exc, BrokenPipeError):
            raise
        is_folder = isinstance(exc, IsADirectoryError) and exc.filename != output
        hint = "; name one recording" if is_folder else ""
        _report(f"{exc.filename or recording}: {exc.strerror}{hint}")
        return 2
    write_report(repairs.account, report, _report, by="repair")
    return 0


class _NoRecording(Exception):
    """A file has no message in it."""


def _report(text: str) -> None:
    click.echo(f"callsheet repair: {text}", err=True)


def _opened(recording: str) -> BinaryIO:
    return os.fdopen(os.dup(0), "rb") if recording == "-" else Path(recording).open("rb")


def _write(repairs: Repairs, stream: BinaryIO, output: str | None) -> None:
    """Write a recording, repaired."""
    to_stdout = output is None or output == "-"
    with nullcontext(sys.stdout.buffer) if to_stdout else replacing(output or "") as out:
        # Only errors of writing name the output: reading the recording fails on its own.
        for line in repairs.repaired(stream):
            with naming(output or "stdout"):
                out.write(line)
        with naming(output or "stdout"):
            out.flush()
        if not repairs.messages:
            raise _NoRecording("there is no message in it")
