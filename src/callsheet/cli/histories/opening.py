"""A history opened for one command, and what is said when that can't be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import IO, Any

import click

from callsheet.cli.settings import BadSettings, history_settings
from callsheet.history import (
    BadUrl,
    History,
    HistoryError,
    NotKept,
    Query,
    Retention,
    Store,
    store_at,
)
from callsheet.history.spool import is_waiting
from callsheet.history.url import default_file, without_password
from callsheet.report.errors import CallsheetError


class Trouble(click.ClickException):
    """A command can't do what it was asked for. It is said in a line, and the command exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it."""
        click.echo(f"callsheet: {self.message}", file=file, err=file is None)


class Nothing(Trouble):
    """There is no history. Who lists gives an empty list; who looks for something has not found it."""


def run(flag: str | None, work: Callable[[Store], Awaitable[int]], *, change: bool = False) -> int:
    """Open the history that a flag, the environment or a file names, work with it, and give the exit code.

    With `change`, the work writes to it.
    """
    return asyncio.run(_run(chosen(flag)[0], work, change=change))


def chosen(flag: str | None) -> tuple[str, Retention]:
    """Return the URL that holds, and how much is kept there."""
    try:
        url, keep = history_settings(flag)
    except (BadUrl, BadSettings) as exc:
        raise click.UsageError(str(exc)) from None
    if url is None:
        raise Nothing(
            "no history is kept: it is off, by CALLSHEET_HISTORY, --history or a settings file"
        )
    return url, keep


async def _run(url: str, work: Callable[[Store], Awaitable[int]], *, change: bool) -> int:
    try:
        async with opened(url, change=change) as store:
            return await work(store)
    except click.ClickException:
        raise
    except CallsheetError as exc:
        raise Trouble(_line(exc)) from None


@asynccontextmanager
async def opened(url: str, *, change: bool = False) -> AsyncGenerator[Store]:
    """Open a store that is there; none is made. Calls that a crash has left open are closed first."""
    store = _store(url)
    try:
        await _take_over(url, store.url)
        await store.open(write=False)  # says so if it is damaged, where writers would begin anew
        if change:
            await store.close()
            for news in await store.open():
                _news(news)
        else:
            await _close_abandoned(store)
        yield store
    except NotKept as exc:
        raise Nothing(_no_store(url, exc)) from None
    except ImportError as exc:
        raise _needs(url, exc) from None
    finally:
        with suppress(HistoryError):
            await store.close()


def _store(url: str) -> Store:
    try:
        return store_at(url)
    except ImportError as exc:
        raise _needs(url, exc) from None


def _needs(url: str, exc: ImportError) -> Trouble:
    package = (exc.name or "a package").partition(".")[0]
    need = f"needs {package}: pip install 'callsheet[postgres]'"
    return Trouble(f"history {without_password(url)}: {need}")


async def _take_over(url: str, shown: str) -> None:
    """Write what processes that are gone have spooled for the store, so that it is found."""
    if is_waiting(shown):
        async with History(url, tell=_news) as history:
            with suppress(HistoryError):
                await history.ask(lambda store: store.recover())


def _news(text: str) -> None:
    click.echo(f"callsheet: history: {text}", err=True)


async def _close_abandoned(store: Store) -> None:
    with suppress(HistoryError):  # whoever may only read, reads
        if await store.heads(Query(status="open", limit=1)):
            await store.recover()


def _no_store(url: str, exc: NotKept) -> str:
    said = _line(exc)
    if url == f"sqlite:///{default_file()}":
        said += " `callsheet call` and `callsheet agent` begin one."
    return said


def _line(exc: CallsheetError) -> str:
    return " ".join(str(exc).split())
