"""`callsheet history import`: recordings of any agent, stored as if the tap had stood in front of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from callsheet.check.runner import STDIN, RecordingSource, find
from callsheet.cli.history.lookup import opened
from callsheet.cli.options import history_option, locale_option, usage_errors
from callsheet.cli.output import visible
from callsheet.cli.settings import use_rules
from callsheet.history import HistoryError, Store
from callsheet.observe.lines import EMPTY_RECORDING, NO_RECORDING
from callsheet.report.humanize import plural
from callsheet.runtime.spill_store import SpillStore, default_directory
from callsheet.tap.context import TapSettings
from callsheet.tap.history_import import Imported, import_recording


@click.command("import")
@click.argument("recordings", nargs=-1, required=True, metavar="RECORDING…")
@click.option(
    "--no-repair",
    is_flag=True,
    help="Store calls as the agent reported them. Only open calls are closed.",
)
@locale_option
@history_option
def import_(
    recordings: tuple[str, ...], no_repair: bool, locale: str | None, history: str | None
) -> int:
    """Store recordings of any agent, without secrets. Of a directory, those below it; `-` is stdin.

    Calls are completed as `callsheet tap` does, and have the recording's times, counted back from when the
    file was last changed. To import a recording again changes nothing.

    \b
      callsheet history import session.jsonl
      callsheet history import recordings/

    \b
    Exit codes: 0 ok, 1 nothing to import, 2 something can't be read.
    """
    with usage_errors():
        use_rules()
    settings = TapSettings(repair=not no_repair, locale=locale)
    total, is_bad = Imported(), False
    with opened(history, change=True, create=True) as store:
        for path, done in _imported(store, recordings, settings):
            is_bad = is_bad or done is None
            if done is None:
                continue
            if not done.messages:
                _say(path, f"{EMPTY_RECORDING if done.is_empty else NO_RECORDING}{_why(done)}")
                is_bad = is_bad or path in recordings
            elif done.unreadable:
                _say(path, f"{plural(done.unreadable, 'line')} not read{_why(done)}")
            elif done.first_problem:
                _say(path, done.first_problem)
            total.sessions += done.sessions
            total.calls += done.calls
            total.known += done.known
    news = f"{plural(total.sessions, 'session')}, {plural(total.calls, 'call')} imported"
    known = f"; {plural(total.known, 'session')} there already" if total.known else ""
    click.echo(news + known)
    return 2 if is_bad else 0 if total.sessions or total.known else 1


def _imported(
    store: Store, recordings: tuple[str, ...], settings: TapSettings
) -> Iterator[tuple[str, Imported | None]]:
    """Import each recording. Yield what became of it; None if it can't be read, which was said."""
    spill = SpillStore(default_directory(), by_content=True)
    for found in find(list(recordings), sys.stdin.buffer):
        if not isinstance(found, RecordingSource):
            _say(found.path, found.message)
            yield found.path, None
            continue
        try:
            path, is_stdin = Path(found.path), found.path == STDIN
            modified = time.time() if is_stdin else path.stat().st_mtime
            data = sys.stdin.buffer.read() if is_stdin else path.read_bytes()
            name = "stdin" if is_stdin else path.name
            yield found.path, import_recording(store, data, name, modified, settings, spill)
        except OSError as exc:
            _say(found.path, exc.strerror or str(exc))
            yield found.path, None
        except HistoryError as exc:
            _say(found.path, f"it can't be stored: {exc}")
            yield found.path, None


def _why(done: Imported) -> str:
    return f" ({done.first_problem})" if done.first_problem else ""


def _say(path: str, text: str) -> None:
    click.echo(f"callsheet: {visible(path)}: {visible(text)}", err=True)
