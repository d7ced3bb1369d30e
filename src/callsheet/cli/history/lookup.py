"""Open the history for one command, read it page by page, and find the call or session that is meant.

Users name a call or a session by its id, by the beginning or the end of the id, or by `last`.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import IO, Any

import click
from msgspec.structs import replace

from callsheet.cli.amounts import ago
from callsheet.cli.output import visible, write
from callsheet.cli.settings import BadSettings, history_settings
from callsheet.history import (
    BadUrl,
    Head,
    History,
    HistoryError,
    NotKept,
    Query,
    Retention,
    Store,
    StoredCall,
    StoredSession,
    store_at,
)
from callsheet.history.spool import is_waiting
from callsheet.history.url import default_file, without_password
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import plural

LAST = "last"
PAGE = 500
PAGE_WHOLE = 50
"""Calls that are read at once; whole ones may be large."""

_FEW = 10
_MANY = 100
"""Candidates that are listed, and that are counted, where an id is ambiguous."""


class Trouble(click.ClickException):
    """A command failed. It reports the error in one line, and exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the error to stderr."""
        click.echo(f"callsheet: {self.message}", file=file, err=file is None)


class NoHistory(Trouble):
    """There is no history."""


# Opening


def run(
    flag: str | None,
    work: Callable[[Store], Awaitable[int]],
    *,
    change: bool = False,
    empty: str | None = None,
) -> int:
    """Open the history that a flag, the environment or a file names, work with it, and return the exit code.

    Args:
        flag: The value of `--history`.
        work: What is done with the store. It returns the exit code.
        change: Whether the work writes to it.
        empty: What a list without calls prints; then no history is no failure, but an empty list.
    """
    try:
        return asyncio.run(_run(chosen(flag)[0], work, change=change))
    except NoHistory as exc:
        if empty is None:
            raise
        exc.show()
        if empty:
            write(empty)
        return 0


def chosen(flag: str | None) -> tuple[str, Retention]:
    """Return the URL that holds, and the limits of what is stored there."""
    try:
        url, keep = history_settings(flag)
    except (BadUrl, BadSettings) as exc:
        raise click.UsageError(str(exc)) from None
    if url is None:
        raise NoHistory(
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
        raise Trouble(" ".join(str(exc).split())) from None


@asynccontextmanager
async def opened(url: str, *, change: bool = False) -> AsyncGenerator[Store]:
    """Open a store that exists; none is made. Calls that a crash has left open are closed first."""
    store: Store | None = None
    try:
        store = store_at(url)
        if is_waiting(
            store.url
        ):  # write what processes that are gone have spooled, so that it is found
            async with History(url, notify=_warn) as history:
                with suppress(HistoryError):
                    await history.ask(lambda store: store.recover())
        await store.open(write=False)  # reports a damaged one, where writers would begin anew
        if change:
            await store.close()
            for news in await store.open():
                _warn(news)
        else:
            with suppress(HistoryError):  # whoever may only read, reads
                if await store.heads(Query(status="open", limit=1)):
                    await store.recover()
        yield store
    except NotKept as exc:
        hint = " `callsheet call` and `callsheet agent` begin one."
        is_default = url == f"sqlite:///{default_file()}"
        raise NoHistory(" ".join(str(exc).split()) + (hint if is_default else "")) from None
    except ImportError as exc:
        package = (exc.name or "a package").partition(".")[0]
        need = f"needs {package}: pip install 'callsheet[postgres]'"
        raise Trouble(f"history {without_password(url)}: {need}") from None
    finally:
        if store is not None:
            with suppress(HistoryError):
                await store.close()


def _warn(text: str) -> None:
    click.echo(f"callsheet: history: {text}", err=True)


# Reading page by page: however many calls there are, a few are held at once


async def head_pages(store: Store, query: Query, limit: int | None) -> AsyncIterator[list[Head]]:
    """Yield pages of calls, the newest first; `limit` in all, or all of them."""
    async for wanted in _page_sizes(limit, PAGE):
        page = await store.heads(replace(query, limit=wanted))
        if page:
            yield page
        if len(page) < wanted:
            return
        query = replace(query, before=_place(page[-1]))


async def whole_calls(store: Store, query: Query, limit: int | None) -> AsyncIterator[StoredCall]:
    """Yield whole calls, the newest first."""
    async for wanted in _page_sizes(limit, PAGE_WHOLE):
        page = await store.calls(replace(query, limit=wanted))
        for call in page:
            yield call
        if len(page) < wanted:
            return
        query = replace(query, before=_place(page[-1].head))


async def _page_sizes(limit: int | None, most: int) -> AsyncIterator[int]:
    for done in count(step=most):
        wanted = most if limit is None else min(most, limit - done)
        if wanted <= 0:
            return
        await asyncio.sleep(0)  # where Ctrl-C can end it: reading a file does not wait
        yield wanted


def _place(head: Head) -> tuple[float, str, str]:
    return head.at, head.session_id, head.call_id


async def all_sessions(store: Store, limit: int | None = None) -> AsyncIterator[StoredSession]:
    """Yield the sessions, the one that was used last first."""
    before: tuple[float, str] | None = None
    left = limit
    while left is None or left > 0:
        page = await store.sessions(before=before, limit=min(PAGE, left or PAGE))
        for session in page:
            yield session
        if not page:
            return
        before = page[-1].updated_at, page[-1].session_id
        left = None if left is None else left - len(page)


# Looking up a call


async def find_call(store: Store, text: str, session: str | None) -> StoredCall:
    """Return the call that is meant, whole. Raise `Trouble` if there is none, or several."""
    chosen_session = None if session is None else (await find_session(store, session)).session_id
    found = await _find_heads(store, text, chosen_session)
    if not found:
        raise Trouble(await _no_call(store, text, chosen_session))
    if len(found) > 1:
        same = len({head.call_id for head in found}) == 1
        hint = "say which with --session" if same else "give more of its id"
        raise _ambiguous(text, hint, [_call_line(head) for head in found])
    (head,) = found
    calls = await store.calls(Query(session_id=head.session_id, call_id=head.call_id, limit=1))
    if not calls:
        raise Trouble(f"{head.call_id} was removed just now")
    return calls[0]


async def _find_heads(store: Store, text: str, session: str | None) -> Sequence[Head]:
    if text == LAST:
        return await store.heads(Query(session_id=session, limit=1))
    exact = await store.heads(Query(session_id=session, call_id=text, limit=100))
    if exact or not text:
        return exact
    found: list[Head] = []
    for part in dict.fromkeys((text, _with_capitals(text))):
        async for page in head_pages(store, Query(session_id=session, id_part=part), None):
            found += [head for head in page if is_part(part, head.call_id)]
            if len(found) > _MANY:
                break
        if found:
            break
    return found


def is_part(text: str, key: str) -> bool:
    """Return whether an id begins or ends like this."""
    return bool(text) and (key.startswith(text) or key.endswith(text))


def _with_capitals(text: str) -> str:
    """Return an id as we write ours: what comes after `call_` or `sess_` is in capitals."""
    for begin in ("call_", "sess_"):
        if text.lower().startswith(begin):
            return begin + text[len(begin) :].upper()
    return text.upper()


async def _no_call(store: Store, text: str, session: str | None) -> str:
    newest = await store.heads(Query(session_id=session, limit=200))
    if not newest:
        return f"{session} has no call" if session else f"there is no call in {store.url} yet"
    near = difflib.get_close_matches(text, [head.call_id for head in newest], n=3, cutoff=0.75)
    hint = f"near to it: {', '.join(near)}" if near else "`callsheet history` lists the calls"
    return f"there is no call {visible(text)!r} in {store.url}; {hint}"


def _call_line(head: Head) -> str:
    when = ago(head.at, time.time())
    return f"{visible(head.call_id)}  {visible(head.title)}  {when}, in {visible(head.session_id)}"


def _ambiguous(text: str, hint: str, lines: Sequence[str]) -> Trouble:
    more = f"\n  and {len(lines) - _FEW} more" if len(lines) > _FEW else ""
    more = "\n  and many more" if len(lines) > _MANY else more
    return Trouble(f"{visible(text)} may be any of these; {hint}:\n{_listed(lines[:_FEW])}{more}")


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


# Looking up a session


async def with_session(store: Store, query: Query, session: str | None) -> Query:
    """Return a query with the session that is meant, if one is named."""
    if session is None:
        return query
    return replace(query, session_id=(await find_session(store, session)).session_id)


async def find_session(store: Store, text: str) -> StoredSession:
    """Return the session that is meant. Raise `Trouble` if there is none, or several."""
    found = await store.session(text) if text and text != LAST else None
    if found is not None:
        return found
    exact: list[StoredSession] = []
    alike: list[StoredSession] = []
    async for session in all_sessions(store):
        if text == LAST:
            return session
        if is_part(text, session.session_id):
            exact.append(session)
        elif is_part(text.lower(), session.session_id.lower()):
            alike.append(session)
    some = exact or alike
    if len(some) > 1:
        raise _ambiguous(text, "give more of its id", list(map(session_line, some)))
    if some:
        return some[0]
    newest = await store.sessions(limit=3)
    if not newest:
        raise Trouble(f"there is no session in {store.url} yet")
    listed = _listed(map(session_line, newest))
    raise Trouble(
        f"there is no session {visible(text)!r} in {store.url}; the newest are:\n{listed}"
    )


def session_line(session: StoredSession) -> str:
    """Return a session in a line."""
    title = visible(session.title) or "(without a name)"
    when = ago(session.updated_at, time.time())
    return f"{visible(session.session_id)}  {title}  {plural(session.calls, 'call')}, {when}"
