"""`callsheet collect`: write what a fleet publishes into one store."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import AbstractEventLoop
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from threading import Thread

import click

from callsheet.cli.history.lookup import Trouble, chosen
from callsheet.cli.options import usage_errors
from callsheet.cli.signals import StopSignals
from callsheet.history.collector import Collector, CollectorHealth
from callsheet.history.rows import Retention, limits
from callsheet.history.store_errors import HistoryError
from callsheet.history.url import is_fleet, store_at, without_password
from callsheet.report.humanize import plural

SHOWN = Retention(max_age=6 * 3600.0, max_calls=100_000, max_bytes=1 << 30)
"""What the inspector shows of a fleet: the last hours, and no more than this machine bears."""

PATIENCE = 10.0


@click.command("collect")
@click.option(
    "--from",
    "source",
    metavar="URL",
    required=True,
    help="The fleet's servers: nats://HOST:4222/TEAM; without a team, all teams.",
)
@click.option(
    "--to",
    "target",
    metavar="URL",
    required=True,
    help="The store: postgresql://…, or sqlite:///PATH for a small team.",
)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="Collectors of the same name share the work.  [default: those of the same store]",
)
@click.option(
    "--verbose", is_flag=True, help="Say every minute what was done, off a terminal, too."
)
def command(source: str, target: str, name: str, verbose: bool) -> int:
    """Write what a fleet's histories publish into one store, until Ctrl-C.

    Any number may run: they share the work, and one that ends, or is killed, loses nothing.
    """
    url, keep = chosen(target)
    keep = limits(keep, is_shared=True)
    if is_fleet(url):
        raise click.UsageError(
            f"--to {without_password(url)}: expected a store: postgresql://… or sqlite:///PATH"
        )
    if not is_fleet(source):
        raise click.UsageError(
            f"--from {without_password(source)}: expected a fleet's servers: nats://HOST:4222/TEAM"
        )
    begun = time.monotonic()
    before = CollectorHealth()

    def report(done: CollectorHealth) -> None:
        if verbose or sys.stderr.isatty():
            rate = (done.rows - before.rows) / 60
            before.rows = done.rows
            _say(f"{_figures(done)}; {rate:,.0f} a second in the last minute")

    with usage_errors("--from: "):
        collector = Collector(
            source, store_at(url), name=name, keep=keep, notify=_say, report=report
        )
    _say(f"from {without_password(source)} to {without_password(url)}; Ctrl-C ends it")
    try:
        done = asyncio.run(_run(collector))
    except HistoryError as exc:
        raise Trouble(" ".join(str(exc).split())) from None
    _say(f"ended after {time.monotonic() - begun:,.0f} s: {_figures(done)}")
    return 0


@contextmanager
def collected(source: str) -> Generator[str]:
    """Collect what a fleet does now into a store of our own, which is gone afterwards. Yield its URL."""
    with TemporaryDirectory(prefix="callsheet-") as place:  # its mode is 0700
        url = f"sqlite:///{Path(place) / 'fleet.sqlite'}"
        collector = Collector(
            source, store_at(url), keep=SHOWN, last=SHOWN.max_age, upkeep=60.0, notify=_say
        )
        loops: Queue[AbstractEventLoop] = Queue()

        async def run() -> None:
            loops.put(asyncio.get_running_loop())
            try:
                await collector.run()
            except HistoryError as exc:
                _say(" ".join(str(exc).split()))

        thread = Thread(target=lambda: asyncio.run(run()), name="callsheet-collect", daemon=True)
        thread.start()
        try:
            yield url
        finally:
            with suppress(RuntimeError):  # it has ended by itself
                loops.get().call_soon_threadsafe(collector.stop)
            thread.join(PATIENCE)


async def _run(collector: Collector) -> CollectorHealth:
    with StopSignals() as signals:
        signals.on_first(collector.stop)
        return await collector.run()


def _figures(done: CollectorHealth) -> str:
    aside = f", {done.aside:,} put aside" if done.aside else ""
    return (
        f"{plural(done.rows, 'entry', 'entries')} collected{aside}, {done.waiting:,} messages wait"
    )


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        click.echo(f"callsheet: collect: {text}", err=True)
