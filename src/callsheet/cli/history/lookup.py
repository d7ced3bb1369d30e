"""Open the history for one command, read it page by page, and find the call or session that is meant.

Users name a call or a session by its id, by the beginning or the end of the id, or by `last`.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeVar

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
"""Candidates that are listed where an id is ambiguous."""

_T = TypeVar("_T")


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
    work: Callable[[Store], int],
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
        with opened(chosen(flag)[0], change=change) as store:
            return work(store)
    except NoHistory as exc:
        if empty is None:
            raise
        exc.show()
        if empty:
            write(empty)
        return 0
    except CallsheetError as exc:
        raise Trouble(" ".join(str(exc).split())) from None


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


@contextmanager
def opened(url: str, *, change: bool = False) -> Generator[Store]:
    """Open a store that exists; none is made. Calls that a crash has left open are closed first."""
    store: Store | None = None
    try:
        store = store_at(url)
        if is_waiting(store.url):
            # Processes that are gone have spooled calls: write these first, so that they are found.
            with suppress(HistoryError):
                asyncio.run(_write_spooled(url))
        store.open(write=False)  # reports a damaged one, where writers would begin anew
        if change:
            store.close()
            for news in store.open():
                _warn(news)
        else:
            with suppress(HistoryError):  # whoever may only read, reads
                if store.heads(Query(status="open", limit=1)):
                    store.recover()
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
                store.close()


async def _write_spooled(url: str) -> None:
    async with History(url, notify=_warn) as history:
        await history.ask(lambda store: store.recover())


def _warn(text: str) -> None:
    click.echo(f"callsheet: history: {text}", err=True)


# Reading page by page: however many calls there are, a few are held at once


def head_pages(store: Store, query: Query, limit: int | None) -> Iterator[list[Head]]:
    """Yield pages of calls, the newest first; `limit` in all, or all of them."""
    yield from _pages(store.heads, query, limit, PAGE, lambda head: head)


def whole_calls(store: Store, query: Query, limit: int | None) -> Iterator[StoredCall]:
    """Yield whole calls, the newest first."""
    for page in _pages(store.calls, query, limit, PAGE_WHOLE, lambda call: call.head):
        yield from page


def _pages(
    read: Callable[[Query], list[_T]],
    query: Query,
    limit: int | None,
    most: int,
    head_of: Callable[[_T], Head],
) -> Iterator[list[_T]]:
    while limit is None or limit > 0:
        wanted = most if limit is None else min(most, limit)
        page = read(replace(query, limit=wanted))
        if page:
            yield page
        if len(page) < wanted:
            return
        last = head_of(page[-1])
        query = replace(query, before=(last.at, last.session_id, last.call_id))
        limit = None if limit is None else limit - wanted


def all_sessions(store: Store, limit: int | None = None) -> Iterator[StoredSession]:
    """Yield the sessions, the one that was used last first."""
    before: tuple[float, str] | None = None
    while limit is None or limit > 0:
        page = store.sessions(before=before, limit=min(PAGE, limit or PAGE))
        yield from page
        if not page:
            return
        before = page[-1].updated_at, page[-1].session_id
        limit = None if limit is None else limit - len(page)


# Looking up


def find_call(store: Store, text: str, session: str | None) -> StoredCall:
    """Return the call that is meant, whole. Raise `Trouble` if there is none, or several."""
    its_session = None if session is None else (find_session(store, session)).session_id
    found = _find_heads(store, text, its_session)
    if not found:
        raise Trouble(_no_call(store, text, its_session))
    same = len({head.call_id for head in found}) == 1
    head = _the_one(
        text, found, _call_line, "say which with --session" if same else "give more of its id"
    )
    calls = store.calls(Query(session_id=head.session_id, call_id=head.call_id, limit=1))
    if not calls:
        raise Trouble(f"{head.call_id} was removed just now")
    return calls[0]


def _find_heads(store: Store, text: str, session: str | None) -> Sequence[Head]:
    if text == LAST:
        return store.heads(Query(session_id=session, limit=1))
    found = store.heads(Query(session_id=session, call_id=text, limit=100))
    # What comes after `call_` in our ids is in capitals.
    capitals = "call_" + text[5:].upper() if text.lower().startswith("call_") else text.upper()
    for part in (text, capitals) if text else ():
        if not found:
            query = Query(session_id=session, id_part=part, limit=PAGE)
            found = [head for head in store.heads(query) if is_part(part, head.call_id)]
    return found


def find_session(store: Store, text: str) -> StoredSession:
    """Return the session that is meant. Raise `Trouble` if there is none, or several."""
    found = store.session(text) if text and text != LAST else None
    if found is not None:
        return found
    exact: list[StoredSession] = []
    alike: list[StoredSession] = []
    for session in all_sessions(store):
        if text == LAST:
            return session
        if is_part(text, session.session_id):
            exact.append(session)
        elif is_part(text.lower(), session.session_id.lower()):
            alike.append(session)
    if exact or alike:
        return _the_one(text, exact or alike, session_line, "give more of its id")
    newest = store.sessions(limit=3)
    if not newest:
        raise Trouble(f"there is no session in {store.url} yet")
    listed = _listed(map(session_line, newest))
    raise Trouble(
        f"there is no session {visible(text)!r} in {store.url}; the newest are:\n{listed}"
    )


def with_session(store: Store, query: Query, session: str | None) -> Query:
    """Return a query with the session that is meant, if one is named."""
    if session is None:
        return query
    return replace(query, session_id=(find_session(store, session)).session_id)


def is_part(text: str, key: str) -> bool:
    """Return whether an id begins or ends like this."""
    return bool(text) and (key.startswith(text) or key.endswith(text))


def session_line(session: StoredSession) -> str:
    """Return a session in a line."""
    title = visible(session.title) or "(without a name)"
    when = ago(session.updated_at, time.time())
    return f"{visible(session.session_id)}  {title}  {plural(session.calls, 'call')}, {when}"


def _call_line(head: Head) -> str:
    when = ago(head.at, time.time())
    return f"{visible(head.call_id)}  {visible(head.title)}  {when}, in {visible(head.session_id)}"


def _the_one(text: str, found: Sequence[_T], line_of: Callable[[_T], str], hint: str) -> _T:
    """Return what was found, or list it if it is several."""
    if len(found) == 1:
        return found[0]
    more = f"\n  and {len(found) - _FEW} more" if len(found) > _FEW else ""
    listed = _listed(map(line_of, found[:_FEW]))
    raise Trouble(f"{visible(text)} may be any of these; {hint}:\n{listed}{more}")


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _no_call(store: Store, text: str, session: str | None) -> str:
    newest = store.heads(Query(session_id=session, limit=200))
    if not newest:
        return f"{session} has no call" if session else f"there is no call in {store.url} yet"
    near = difflib.get_close_matches(text, [head.call_id for head in newest], n=3, cutoff=0.75)
    hint = f"near to it: {', '.join(near)}" if near else "`callsheet history` lists the calls"
    return f"there is no call {visible(text)!r} in {store.url}; {hint}"
