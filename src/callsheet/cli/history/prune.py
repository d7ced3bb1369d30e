"""Make a history smaller: remove the oldest calls or a session, and release the space."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import click
from msgspec.structs import asdict, replace

from callsheet.cli.history.lookup import all_sessions, chosen, find_session, run, session_line
from callsheet.cli.output import visible
from callsheet.history import Pruned, Query, Retention, Store
from callsheet.report.humanize import bytes_text, duration_text, plural
from callsheet.runtime.spill_store import SpillStore, default_directory

_NONE = Query(call_id="")
"""Matches no call: figures of the store as a whole come all the same."""


# Pruning


def prune(given: dict[str, Any]) -> int:
    """Remove what is beyond the limits, and return the exit code."""
    keep = _limits(given)

    name = "max_bytes" if given["max_size"] is None else "--max-size"

    async def look(store: Store) -> int:
        if keep.max_bytes is not None:
            await _check_size(store, keep.max_bytes, name)
        plan = [line async for line in _plan(store, keep)]
        for line in plan or ["Nothing is beyond the limits."]:
            click.echo(line, err=True)
        return len(plan)

    async def remove(store: Store) -> int:
        before, removed = await _size(store), Counter(call=0)
        while True:
            some = await store.prune(keep, now=time.time())
            if not (some.calls or some.messages or some.sessions):
                break
            _add(removed, some)
            await asyncio.sleep(0)  # where Ctrl-C can end it: a file does not wait
        click.echo(f"Removed {_counts(removed)}. {await _given_back(store, before)}", err=True)
        return 0

    if not run(given["url"], look) or given["dry_run"]:
        return 0
    return _remove(given["url"], remove, "Remove them?", is_sure=given["yes"])


def _limits(given: dict[str, Any]) -> Retention:
    asked = Retention(
        max_age=given["older_than"],
        max_calls=given["keep_calls"],
        max_bytes=given["max_size"],
        session_max_calls=given["per_session_calls"],
        session_max_bytes=given["per_session_size"],
    )
    settings = chosen(given["url"])[1]
    return asked if any(value is not None for value in asdict(asked).values()) else settings


async def _check_size(store: Store, limit: int, name: str) -> None:
    """Refuse a limit that can't be met: for it, all calls would go, and it would not hold even then."""
    least = (await store.fill(limit)).least
    if limit < least:
        raise click.UsageError(
            f"{name}: an empty history takes {bytes_text(least)} already, so "
            f"{bytes_text(limit)} can't be enough; --keep-calls 0 removes all calls"
        )


async def _plan(store: Store, keep: Retention) -> AsyncIterator[str]:
    """Yield a line for each limit that is exceeded."""
    if keep.max_age is not None:
        old = await store.stats(Query(until=time.time() - keep.max_age))
        if old.calls > old.open:
            age = duration_text(keep.max_age * 1000) if keep.max_age < 86400 else ""
            age = age or f"{keep.max_age / 86400:g} days"
            yield f"{plural(old.calls - old.open, 'call')} older than {age}"
    calls, running = await store.count(Query()), await store.count(Query(status="open"))
    if keep.max_calls is not None and (over := min(calls - keep.max_calls, calls - running)) > 0:
        yield f"{plural(over, 'call')} besides the newest {keep.max_calls:,}"
    if keep.max_bytes is not None:
        found = await store.fill(keep.max_bytes)
        if about := min(found.surplus, calls - running):
            yield (
                f"about {plural(about, 'call')}, for the store takes {bytes_text(found.used)}, "
                f"and {bytes_text(keep.max_bytes)} are allowed"
            )
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        async for line in _plan_sessions(store, keep):
            yield line


async def _plan_sessions(store: Store, keep: Retention) -> AsyncIterator[str]:
    many, large = list[int](), list[int]()
    by_size = replace(keep, session_max_calls=None)
    async for session in all_sessions(store):
        if keep.session_max_calls is not None and session.calls > keep.session_max_calls:
            many.append(session.calls - keep.session_max_calls)
        if keep.session_max_bytes is not None:
            found = await store.stats(Query(session_id=session.session_id))
            surplus = by_size.session_surplus(found.calls, found.stored)
            large.append(min(surplus, found.calls - found.open))
    if calls := sum(many):
        most = f"{keep.session_max_calls:,}"
        yield f"{plural(calls, 'call')} of {plural(len(many), 'session')} that have more than {most}"
    if calls := sum(large):
        those = plural(sum(1 for one in large if one > 0), "session")
        size = bytes_text(keep.session_max_bytes or 0)
        yield f"about {plural(calls, 'call')} of {those} larger than {size}"


# Sessions


def forget(url: str | None, text: str, *, is_sure: bool) -> int:
    """Remove a session, and return the exit code."""
    meant: list[str] = []

    async def look(store: Store) -> int:
        session = await find_session(store, text)
        click.echo(session_line(session), err=True)
        meant.append(session.session_id)
        return 0

    async def remove(store: Store) -> int:
        before, removed, (key,) = await _size(store), Counter(call=0), meant
        _add(removed, replace(await store.forget(key), sessions=0))
        await store.prune(Retention(), now=time.time())  # removes nothing, and releases the space
        text = f"Removed session {visible(key)} with {_counts(removed)}."
        click.echo(f"{text} {await _given_back(store, before)}", err=True)
        return 0

    run(url, look)
    return _remove(url, remove, "Remove it?", is_sure=is_sure)


# Space


def vacuum(url: str | None) -> int:
    """Make the store small, and return the exit code."""

    async def work(store: Store) -> int:
        done = await store.vacuum()
        saved = done.before - done.after
        more = f", {bytes_text(saved)} less" if saved > 0 else ""
        click.echo(
            f"{visible(store.url)}: {bytes_text(done.before)} before, "
            f"{bytes_text(done.after)} now{more}",
            err=True,
        )
        return 0

    return run(url, work, change=True)


async def _size(store: Store) -> int:
    return (await store.stats(_NONE)).file_bytes


async def _given_back(store: Store, before: int) -> str:
    return f"{bytes_text(max(0, before - await _size(store)))} were given back."


def _add(removed: Counter[str], more: Pruned) -> None:
    """Add up what was removed. The spill files go now, so that none stays if it ends before all is done."""
    files = SpillStore(default_directory()).forget(more.spills) if more.spills else 0
    counts = {"call": more.calls, "message": more.messages, "session": more.sessions}
    removed.update({**counts, "spill file": files})


def _counts(removed: Counter[str]) -> str:
    return ", ".join(plural(n, noun) for noun, n in removed.items() if n or noun == "call")


# Consent


def _remove(
    url: str | None, remove: Callable[[Store], Awaitable[int]], question: str, *, is_sure: bool
) -> int:
    """Remove something if the user agrees, who is asked while no store is open: Ctrl-C ends it at once."""
    if not is_sure and not _agrees(question):
        click.echo("Nothing was removed.", err=True)
        return 1
    return run(url, remove, change=True)


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: say --yes")
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was removed.", err=True)
        raise
