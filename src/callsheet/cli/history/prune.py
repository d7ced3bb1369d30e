"""Make a history smaller: remove the oldest calls or a session, and release the space."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator

import click
from msgspec.structs import replace

from callsheet.cli.history.lookup import chosen, find_session, opened, session_line
from callsheet.cli.options import age, history_option, size
from callsheet.cli.output import visible
from callsheet.history import Pruned, Query, Retention, Store
from callsheet.history.rows import limits
from callsheet.history.url import is_postgres
from callsheet.report.humanize import bytes_text, duration_text, plural
from callsheet.runtime.spill_store import SpillStore, default_directory

LEAST = 100_000
"""Bytes that an empty history takes, more or less."""

_yes_option = click.option("--yes", "-y", is_flag=True, help="Don't ask.")


# Pruning


@click.command("prune", short_help="Remove the oldest calls.")
@click.option(
    "--older-than", "max_age", callback=age, metavar="AGE", help="Remove calls of such an age: 30d."
)
@click.option(
    "--keep-calls", "max_calls", type=click.IntRange(0), metavar="N", help="Keep the newest N."
)
@click.option(
    "--max-size",
    "max_bytes",
    callback=size,
    metavar="SIZE",
    help="Keep what takes that much: 500MB.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@_yes_option
@history_option
def prune(dry_run: bool, yes: bool, history: str | None, **wanted: float | None) -> int:
    """Remove the oldest calls, with their spill files, and release the space.

    Without a limit, those of the settings hold. Calls that run stay.
    """
    is_asked = any(value is not None for value in wanted.values())
    keep = Retention(**wanted) if is_asked else _usual(history)  # pyright: ignore[reportArgumentType]
    with opened(history) as store:
        plan = list(_plan(store, keep))
    for line in plan or ["Nothing is beyond the limits."]:
        click.echo(line, err=True)
    if not plan or dry_run:
        return 0
    if not (yes or _agrees("Remove them?")):
        return 1
    with opened(history, change=True) as store:
        before, removed = _size(store), Counter(call=0)
        for some in store.prune(keep, now=time.time()):
            _add(removed, some)
        click.echo(f"Removed {_counts(removed)}. {_released(store, before)}", err=True)
    return 0


def _usual(history: str | None) -> Retention:
    url, keep = chosen(history)
    return limits(keep, is_shared=is_postgres(url))


def _plan(store: Store, keep: Retention) -> Iterator[str]:
    """Yield a line for each limit that is exceeded."""
    if keep.max_age is not None:
        old = store.stats(Query(until=time.time() - keep.max_age))
        if old.calls > old.open:
            days = f"{keep.max_age / 86400:g} days"
            over = duration_text(keep.max_age * 1000) if keep.max_age < 86400 else days
            yield f"{plural(old.calls - old.open, 'call')} older than {over}"
    stats = store.stats(Query())
    calls, running = stats.calls, stats.open
    if keep.max_calls is not None and (over := min(calls - keep.max_calls, calls - running)) > 0:
        yield f"{plural(over, 'call')} besides the newest {keep.max_calls:,}"
    if keep.max_bytes is not None:
        if keep.max_bytes < LEAST:  # all calls would go, and it would not hold even then
            raise click.UsageError(
                f"--max-size: an empty history takes about {bytes_text(LEAST)} already; "
                "--keep-calls 0 removes all calls"
            )
        found = store.fill(keep.max_bytes)
        if about := min(found.surplus, calls - running):
            yield (
                f"about {plural(about, 'call')}, for the store takes {bytes_text(found.used)}, "
                f"and {bytes_text(keep.max_bytes)} are allowed"
            )


# Sessions


@click.command("forget", short_help="Remove a session.")
@click.argument("session", metavar="SESSION")
@_yes_option
@history_option
def forget(session: str, yes: bool, history: str | None) -> int:
    """Remove a session, with all its messages and calls, and its spill files.

    SESSION is its id, its beginning or its end, if no other has the same, or last. You are asked before,
    unless --yes is passed.
    """
    with opened(history) as store:
        found = find_session(store, session)
    click.echo(session_line(found), err=True)
    if not (yes or _agrees("Remove it?")):
        return 1
    with opened(history, change=True) as store:
        before, removed = _size(store), Counter(call=0)
        _add(removed, replace(store.forget(found.session_id), sessions=0))
        list(store.prune(Retention()))  # removes nothing, and releases the space
        text = f"Removed session {visible(found.session_id)} with {_counts(removed)}."
        click.echo(f"{text} {_released(store, before)}", err=True)
    return 0


# Space


@click.command("vacuum")
@history_option
def vacuum(history: str | None) -> None:
    """Make the store as small as it can be."""
    with opened(history, change=True) as store:
        before = _size(store)
        store.vacuum()
        sizes = f"{bytes_text(before)} before, {bytes_text(_size(store))} now"
        click.echo(f"{visible(store.url)}: {sizes}", err=True)


def _size(store: Store) -> int:
    # A query that matches no call: figures of the store as a whole come all the same.
    return store.stats(Query(call_id="")).file_bytes


def _released(store: Store, before: int) -> str:
    return f"{bytes_text(max(0, before - _size(store)))} were released."


def _add(removed: Counter[str], more: Pruned) -> None:
    """Add up what was removed. The spill files go now, so that none stays if it ends before all is done."""
    files = SpillStore(default_directory()).forget(more.spills) if more.spills else 0
    counts = {"call": more.calls, "message": more.messages, "session": more.sessions}
    removed.update({**counts, "spill file": files})


def _counts(removed: Counter[str]) -> str:
    return ", ".join(plural(n, noun) for noun, n in removed.items() if n or noun == "call")


def _agrees(question: str) -> bool:
    """Ask the user, while no store is open: Ctrl-C ends it at once."""
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: pass --yes")
    try:
        agrees = click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was removed.", err=True)
        raise
    if not agrees:
        click.echo("Nothing was removed.", err=True)
    return agrees
