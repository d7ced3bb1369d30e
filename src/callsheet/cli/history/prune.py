"""Make a history smaller: remove the oldest calls or a session, and release the space."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

import click
from msgspec.structs import replace

from callsheet.cli.history.lookup import all_sessions, chosen, find_session, run, session_line
from callsheet.cli.options import age, history_option, size
from callsheet.cli.output import visible
from callsheet.history import Pruned, Query, Retention, Store
from callsheet.report.humanize import bytes_text, duration_text, plural
from callsheet.runtime.spill_store import SpillStore, default_directory

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
@click.option(
    "--per-session-calls",
    "session_max_calls",
    type=click.IntRange(0),
    metavar="N",
    help="Keep N of each session.",
)
@click.option(
    "--per-session-size",
    "session_max_bytes",
    callback=size,
    metavar="SIZE",
    help="Keep that much of each session.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@_yes_option
@history_option
def prune(dry_run: bool, yes: bool, url: str | None, **limits: float | None) -> int:
    """Remove the oldest calls, with their spill files, and give the space back.

    Without a limit, those of the settings hold. Calls that run stay.
    """
    is_asked = any(value is not None for value in limits.values())
    keep = Retention(**limits) if is_asked else chosen(url)[1]  # pyright: ignore[reportArgumentType]

    def look(store: Store) -> int:
        plan = list(_plan(store, keep))
        for line in plan or ["Nothing is beyond the limits."]:
            click.echo(line, err=True)
        return len(plan)

    def remove(store: Store) -> int:
        before, removed = _size(store), Counter(call=0)
        while True:
            some = store.prune(keep, now=time.time())
            if not (some.calls or some.messages or some.sessions):
                break
            _add(removed, some)
        click.echo(f"Removed {_counts(removed)}. {_given_back(store, before)}", err=True)
        return 0

    if not run(url, look) or dry_run:
        return 0
    return _remove(url, remove, "Remove them?", is_sure=yes)


def _plan(store: Store, keep: Retention) -> Iterator[str]:
    """Yield a line for each limit that is exceeded."""
    if keep.max_age is not None:
        old = store.stats(Query(until=time.time() - keep.max_age))
        if old.calls > old.open:
            days = f"{keep.max_age / 86400:g} days"
            over = duration_text(keep.max_age * 1000) if keep.max_age < 86400 else days
            yield f"{plural(old.calls - old.open, 'call')} older than {over}"
    calls, running = store.count(Query()), store.count(Query(status="open"))
    if keep.max_calls is not None and (over := min(calls - keep.max_calls, calls - running)) > 0:
        yield f"{plural(over, 'call')} besides the newest {keep.max_calls:,}"
    if keep.max_bytes is not None:
        found = store.fill(keep.max_bytes)
        if keep.max_bytes < found.least:  # all calls would go, and it would not hold even then
            raise click.UsageError(
                f"--max-size: an empty history takes {bytes_text(found.least)} already, so "
                f"{bytes_text(keep.max_bytes)} can't be enough; --keep-calls 0 removes all calls"
            )
        if about := min(found.surplus, calls - running):
            yield (
                f"about {plural(about, 'call')}, for the store takes {bytes_text(found.used)}, "
                f"and {bytes_text(keep.max_bytes)} are allowed"
            )
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        yield from _plan_sessions(store, keep)


def _plan_sessions(store: Store, keep: Retention) -> Iterator[str]:
    surplus: list[int] = []
    for session in all_sessions(store):
        found = store.stats(Query(session_id=session.session_id))
        over = keep.session_surplus(found.calls, found.stored)
        surplus += [min(over, found.calls - found.open)] if over > 0 else []
    if calls := sum(surplus):
        calls_limit, bytes_limit = keep.session_max_calls, keep.session_max_bytes
        limits = [f"with more than {calls_limit:,} calls"] if calls_limit is not None else []
        limits += [f"larger than {bytes_text(bytes_limit)}"] if bytes_limit is not None else []
        those = plural(len(surplus), "session")
        yield f"about {plural(calls, 'call')} of {those} {' or '.join(limits)}"


# Sessions


@click.command("forget", short_help="Remove a session.")
@click.argument("session", metavar="SESSION")
@_yes_option
@history_option
def forget(session: str, yes: bool, url: str | None) -> int:
    """Remove a session, with all its messages and calls, and its spill files.

    SESSION is its id, its beginning or its end, if no other has the same, or last. You are asked before,
    unless --yes is given.
    """
    key = ""

    def look(store: Store) -> int:
        nonlocal key
        found = find_session(store, session)
        click.echo(session_line(found), err=True)
        key = found.session_id
        return 0

    def remove(store: Store) -> int:
        before, removed = _size(store), Counter(call=0)
        _add(removed, replace(store.forget(key), sessions=0))
        store.prune(Retention(), now=time.time())  # removes nothing, and releases the space
        text = f"Removed session {visible(key)} with {_counts(removed)}."
        click.echo(f"{text} {_given_back(store, before)}", err=True)
        return 0

    run(url, look)
    return _remove(url, remove, "Remove it?", is_sure=yes)


# Space


@click.command("vacuum")
@history_option
def vacuum(url: str | None) -> int:
    """Make the store as small as it can be."""

    def work(store: Store) -> int:
        done = store.vacuum()
        saved = done.before - done.after
        more = f", {bytes_text(saved)} less" if saved > 0 else ""
        sizes = f"{bytes_text(done.before)} before, {bytes_text(done.after)} now{more}"
        click.echo(f"{visible(store.url)}: {sizes}", err=True)
        return 0

    return run(url, work, change=True)


def _size(store: Store) -> int:
    nothing = Query(
        call_id=""
    )  # matches no call: figures of the store as a whole come all the same
    return (store.stats(nothing)).file_bytes


def _given_back(store: Store, before: int) -> str:
    return f"{bytes_text(max(0, before - _size(store)))} were given back."


def _add(removed: Counter[str], more: Pruned) -> None:
    """Add up what was removed. The spill files go now, so that none stays if it ends before all is done."""
    files = SpillStore(default_directory()).forget(more.spills) if more.spills else 0
    counts = {"call": more.calls, "message": more.messages, "session": more.sessions}
    removed.update({**counts, "spill file": files})


def _counts(removed: Counter[str]) -> str:
    return ", ".join(plural(n, noun) for noun, n in removed.items() if n or noun == "call")


def _remove(
    url: str | None, remove: Callable[[Store], int], question: str, *, is_sure: bool
) -> int:
    """Remove something if the user agrees, who is asked while no store is open: Ctrl-C ends it at once."""
    if not is_sure and not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: say --yes")
    try:
        agrees = is_sure or click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was removed.", err=True)
        raise
    if not agrees:
        click.echo("Nothing was removed.", err=True)
        return 1
    return run(url, remove, change=True)
