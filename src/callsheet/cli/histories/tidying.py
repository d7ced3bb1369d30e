"""Making a history smaller: removing the oldest calls or a session, giving space back."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import click
from msgspec.structs import asdict, replace

from callsheet.cli.cards.words import bytes_text, duration_text, visible
from callsheet.history import Pruned, Query, Retention, Store
from callsheet.runtime.spill_store import SpillStore, default_directory

from .finding import all_sessions, calls_text, session_meant, session_told
from .opening import chosen, run

_NONE = Query(call_id="")
"""Asks for no call: what is told of the store as a whole is told all the same."""


# Pruning


def prune(given: dict[str, Any]) -> int:
    """Remove what is beyond the limits, and give the exit code."""
    keep = _kept(given)

    name = "max_bytes" if given["max_size"] is None else "--max-size"

    async def look(store: Store) -> int:
        if keep.max_bytes is not None:
            await _check_size(store, keep.max_bytes, name)
        plan = [line async for line in _plan(store, keep)]
        for line in plan or ["Nothing is beyond the limits."]:
            click.echo(line, err=True)
        return len(plan)

    async def remove(store: Store) -> int:
        before, gone = await _size(store), _Gone()
        while True:
            some = await store.prune(keep, now=time.time())
            if not (some.calls or some.messages or some.sessions):
                break
            gone = gone.plus(some)
            await asyncio.sleep(0)  # where Ctrl-C ends it: a file is not waited for
        click.echo(f"Removed {gone}. {await _given_back(store, before)}", err=True)
        return 0

    if not run(given["url"], look) or given["dry_run"]:
        return 0
    return _removed(given["url"], remove, "Remove them?", is_sure=given["yes"])


def _kept(given: dict[str, Any]) -> Retention:
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
    """Say for each limit how much is beyond it."""
    if keep.max_age is not None:
        old = await store.stats(Query(until=time.time() - keep.max_age))
        if old.calls > old.open:
            age = duration_text(keep.max_age * 1000) if keep.max_age < 86400 else ""
            age = age or f"{keep.max_age / 86400:g} days"
            yield f"{calls_text(old.calls - old.open)} older than {age}"
    calls, running = await store.count(Query()), await store.count(Query(status="open"))
    if keep.max_calls is not None and (over := min(calls - keep.max_calls, calls - running)) > 0:
        yield f"{calls_text(over)} besides the newest {keep.max_calls:,}"
    if keep.max_bytes is not None:
        found = await store.fill(keep.max_bytes)
        if about := min(found.surplus, calls - running):
            yield (
                f"about {calls_text(about)}, for the store takes {bytes_text(found.used)}, "
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
        yield f"{calls_text(calls)} of {_sessions(len(many))} that have more than {most}"
    if calls := sum(large):
        those = _sessions(sum(1 for one in large if one > 0))
        size = bytes_text(keep.session_max_bytes or 0)
        yield f"about {calls_text(calls)} of {those} larger than {size}"


# Forgetting


def forget(url: str | None, text: str, *, is_sure: bool) -> int:
    """Remove a session, and give the exit code."""
    meant: list[str] = []

    async def look(store: Store) -> int:
        session = await session_meant(store, text)
        click.echo(session_told(session), err=True)
        meant.append(session.session_id)
        return 0

    async def remove(store: Store) -> int:
        before, (key,) = await _size(store), meant
        gone = await store.forget(key)
        await store.prune(Retention(), now=time.time())  # removes nothing, and gives the space back
        told = f"Removed session {visible(key)} with {_Gone().plus(replace(gone, sessions=0))}."
        click.echo(f"{told} {await _given_back(store, before)}", err=True)
        return 0

    run(url, look)
    return _removed(url, remove, "Remove it?", is_sure=is_sure)


# Space


def vacuum(url: str | None) -> int:
    """Make the store small, and give the exit code."""

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


class _Gone(NamedTuple):
    """What was removed in all."""

    calls: int = 0
    messages: int = 0
    sessions: int = 0
    files: int = 0

    def plus(self, more: Pruned) -> _Gone:
        """Return the sum. The spill files go now, so that none stays if it ends before all is done."""
        files = SpillStore(default_directory()).forget(more.spills) if more.spills else 0
        return _Gone(
            self.calls + more.calls,
            self.messages + more.messages,
            self.sessions + more.sessions,
            self.files + files,
        )

    def __str__(self) -> str:
        said = [calls_text(self.calls)]
        said += [f"{self.messages:,} message{_s(self.messages)}"] if self.messages else []
        said += [_sessions(self.sessions)] if self.sessions else []
        said += [f"{self.files:,} spill file{_s(self.files)}"] if self.files else []
        return ", ".join(said)


# Asking


def _removed(
    url: str | None, remove: Callable[[Store], Awaitable[int]], question: str, *, is_sure: bool
) -> int:
    """Remove something if that is meant. It is asked while no store is open: Ctrl-C ends it at once."""
    if not is_sure and not _is_meant(question):
        click.echo("Nothing was removed.", err=True)
        return 1
    return run(url, remove, change=True)


def _is_meant(question: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: say --yes")
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo("\nNothing was removed.", err=True)
        raise


def _sessions(count: int) -> str:
    return f"{count:,} session{_s(count)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
