"""`callsheet repair`: what `callsheet tap` would have shown, of a recording."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import click

from callsheet.runtime.spill import SpillStore, default_directory
from callsheet.tap.offline import Repairs
from callsheet.tap.settings import TapSettings

from .taps import told


@click.command("repair", context_settings={"max_content_width": 100})
@click.argument("recording", metavar="RECORDING")
@click.option("-o", "--output", metavar="OUT", help="Where to write to; else stdout.")
@click.option("--report", metavar="FILE", help="Where to tell what was done. Else stderr.")
@click.option("--locale", metavar="xx", help="The language of titles, such as de or pt_BR.")
@click.option("--no-repair", is_flag=True, help="Leave the agent's reports as they are.")
@click.option("--no-redact", is_flag=True, help="Show secrets in the clear.")
@click.option("--no-bound", is_flag=True, help="Let messages be as long as they are.")
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

    Times are the recording's; the same recording gives the same result. Exits with 2 if it can't be read.
    """
    settings = TapSettings(
        repair=not no_repair, redact=not no_redact, bound=not no_bound, locale=locale
    )
    spill = SpillStore(default_directory(), by_content=True)
    repairs = Repairs(settings, spill)
    try:
        with _opened(recording) as stream:
            _write(repairs, stream, output)
    except OSError as exc:
        if isinstance(exc, BrokenPipeError):
            raise
        click.echo(f"callsheet repair: {exc.filename or recording}: {exc.strerror}", err=True)
        return 2
    told(repairs.account, report, lambda text: click.echo(f"callsheet repair: {text}", err=True))
    return 0


def _opened(recording: str) -> BinaryIO:
    return os.fdopen(os.dup(0), "rb") if recording == "-" else Path(recording).open("rb")


def _write(repairs: Repairs, stream: BinaryIO, output: str | None) -> None:
    if output is None:
        out = sys.stdout.buffer
        for line in repairs.repaired(stream):
            out.write(line)
        out.flush()
        return
    path = Path(output)
    half = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with half.open("xb") as out:
            for line in repairs.repaired(stream):
                out.write(line)
        half.replace(path)
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)
