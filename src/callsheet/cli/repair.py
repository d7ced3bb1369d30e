"""`callsheet repair`: what `callsheet tap` would have shown, of a recording."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

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
        _say(f"{recording}: {exc}")
        return 2
    except OSError as exc:
        if isinstance(exc, BrokenPipeError):
            raise
        is_folder = isinstance(exc, IsADirectoryError) and exc.filename != output
        hint = "; name one recording" if is_folder else ""
        _say(f"{exc.filename or recording}: {exc.strerror}{hint}")
        return 2
    write_report(repairs.account, report, _say, by="repair")
    return 0


class _NoRecording(Exception):
    """A file has no message in it. The words say so."""


def _say(text: str) -> None:
    click.echo(f"callsheet repair: {text}", err=True)


def _opened(recording: str) -> BinaryIO:
    return os.fdopen(os.dup(0), "rb") if recording == "-" else Path(recording).open("rb")


def _write(repairs: Repairs, stream: BinaryIO, output: str | None) -> None:
    """Write a recording, repaired. A file takes its name when it is whole; only its owner may read it."""
    if output is None or output == "-":
        _put(repairs, stream, sys.stdout.buffer, "stdout")
        return
    path = Path(output)
    if path.exists() and not path.is_file():  # such as /dev/null, or a named pipe
        with _blaming(output), path.open("wb", buffering=0) as out:
            _put(repairs, stream, out, output)
        return
    path = Path(os.path.realpath(path))
    half = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _blaming(output):
            half.touch(mode=0o600, exist_ok=False)
        with half.open("wb") as out:
            _put(repairs, stream, out, output)
        with _blaming(output):
            half.replace(path)
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)


def _put(repairs: Repairs, stream: BinaryIO, out: BinaryIO, name: str) -> None:
    for line in repairs.repaired(stream):
        with _blaming(name):
            out.write(line)
    with _blaming(name):
        out.flush()
    if not repairs.messages:
        raise _NoRecording("there is no message in it")


@contextmanager
def _blaming(name: str) -> Generator[None]:
    """Let an error be that of a file that people have named."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, name) from exc
