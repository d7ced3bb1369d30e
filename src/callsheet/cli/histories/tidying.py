"""Making a history smaller: removing the oldest calls or a session, giving space back."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import click
from msgspec.structs import asdict

from callsheet.cli.cards.words import bytes_text, duration_text, visible
from callsheet.history import Pruned, Query, Retention, Store
from callsheet.runtime.spill import SpillStore, default_directory

from .finding import LAST, all_sessions, calls_text, session_meant, session_told
from .opening import chosen, run

_NONE = Query(call_id="")
"""Asks for no call: what is told of the store as a whole is told all the same."""


# Pruning


def prune(given: dict[str, Any]) -> int:
    """Remove what is beyond the limits, and give the exit code."""
    keep = _kept(given)

    async def work(store: Store) -> int:
        plan = [line async for line in _plan(store, keep)]
        if not plan:
            click.echo("Nothing is beyond the limits.", err=True)
            return 0
        for line in plan:
            click.echo(line, err=True)
        if given["dry_run"]:
            return 0
        if not _is_sure("Remove them?", is_sure=given["yes"]):
            return 1
        before, total = await _size(store), Pruned()
        while True:
            some = await store.prune(keep, now=time.time())
            if not (some.calls or some.messages or some.sessions):
                break
            total = _sum(total, some)
        await _say_what_went(store, total, before)
        return 0

    return run(given["url"], work, change=not given["dry_run"])


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


async def _plan(store: Store, keep: Retention) -> AsyncIterator[str]:
    """Say for each limit how much is beyond it."""
    if keep.max_age is not None:
        old = await store.stats(Query(until=time.time() - keep.max_age))
        if old.calls > old.open:
            age = duration_text(keep.max_age * 1000) if keep.max_age < 86400 else ""
            age = age or f"{keep.max_age / 86400:g} days"
            yield f"{calls_text(old.calls - old.open)} older than {age}"
    if keep.max_calls is not None or keep.max_bytes is not None:
        found = await store.stats(Query())
        for line in _beyond(keep, found.calls, found.open, found.file_bytes):
            yield line
    if keep.session_max_calls is not None or keep.session_max_bytes is not None:
        async for line in _plan_sessions(store, keep):
            yield line


def _beyond(keep: Retention, calls: int, running: int, size: int) -> Iterator[str]:
    if keep.max_calls is not None and (over := min(calls - keep.max_calls, calls - running)) > 0:
        yield f"{calls_text(over)} besides the newest {keep.max_calls:,}"
    if keep.max_bytes is not None and size > keep.max_bytes and calls > running:
        about = max(1, round(calls * (1 - keep.max_bytes / size)))
        yield (
            f"about {calls_text(about)}, for the store takes {bytes_text(size)}, "
            f"and {bytes_text(keep.max_bytes)} are allowed"
        )


async def _plan_sessions(store: Store, keep: Retention) -> AsyncIterator[str]:
    calls = sessions = large = 0
    async for session in all_sessions(store):
        if keep.session_max_calls is not None and session.calls > keep.session_max_calls:
            calls += session.calls - keep.session_max_calls
            sessions += 1
        if keep.session_max_bytes is not None:
            found = await store.stats(Query(session_id=session.session_id))
            large += min(found.stored, found.size) > keep.session_max_bytes
    if calls:
        most = f"{keep.session_max_calls:,}"
        yield f"{calls_text(calls)} of {_sessions(sessions)} that have more than {most}"
    if large:
        yield f"calls of {_sessions(large)} larger than {bytes_text(keep.session_max_bytes or 0)}"


# Forgetting


def forget(url: str | None, text: str, *, is_sure: bool) -> int:
    """Remove a session, and give the exit code."""

    async def work(store: Store) -> int:
        session = await session_meant(store, text)
        if text == LAST or text != session.session_id:
            click.echo(session_told(session), err=True)
            if not _is_sure("Remove it?", is_sure=is_sure):
                return 1
        before = await _size(store)
        gone = await store.forget(session.session_id)
        await store.prune(Retention(), now=time.time())  # removes nothing, and gives the space back
        await _say_what_went(store, gone, before)
        return 0

    return run(url, work, change=True)


# Space


def vacuum(url: str | None) -> int:
    """Make the store small, and give the exit code."""

    async def work(store: Store) -> int:
        done = await store.vacuum()
        saved = done.before - done.after
        more = f", {bytes_text(saved)} less" if saved > 0 else ""
        learned = "" if done.dictionary is None else "; new calls are compressed better from now on"
        click.echo(
            f"{visible(store.url)}: {bytes_text(done.before)} before, "
            f"{bytes_text(done.after)} now{more}{learned}",
            err=True,
        )
        return 0

    return run(url, work, change=True)


async def _size(store: Store) -> int:
    return (await store.stats(_NONE)).file_bytes


async def _say_what_went(store: Store, gone: Pruned, before: int) -> None:
    files = _forget_spills(gone.spills)
    said = [calls_text(gone.calls)]
    said += [f"{gone.messages:,} message{_s(gone.messages)}"] if gone.messages else []
    said += [_sessions(gone.sessions)] if gone.sessions else []
    said += [f"{files:,} spill file{_s(files)}"] if files else []
    back = max(0, before - await _size(store))
    given = f"{bytes_text(back)} were given back."
    click.echo(f"Removed {', '.join(said)}. {given}", err=True)


def _forget_spills(paths: Sequence[str]) -> int:
    return SpillStore(default_directory()).forget(paths) if paths else 0


def _sum(one: Pruned, other: Pruned) -> Pruned:
    return Pruned(
        one.calls + other.calls,
        one.sessions + other.sessions,
        one.messages + other.messages,
        one.bytes + other.bytes,
        [*one.spills, *other.spills],
    )


def _is_sure(question: str, *, is_sure: bool) -> bool:
    """Ask, unless that was said already. Where nobody can be asked, it must have been."""
    if is_sure:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: say --yes")
    return click.confirm(question, err=True)


def _sessions(count: int) -> str:
    return f"{count:,} session{_s(count)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
