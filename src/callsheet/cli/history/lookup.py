"""Open the history for one command, read it page by page, and find the call or session that is meant.

Users name a call or a session by its id, by the beginning or the end of the id, or by `last`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from callsheet.cli.output import visible, write
from callsheet.cli.settings import BadSettings, history_settings
from callsheet.history import (
    BadUrl,
    Head,
    HistoryError,
    NotKept,
    Query,
    Retention,
    store_at,
)
from callsheet.history.amounts import ago
from callsheet.history.url import default_file, without_password
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import plural

if TYPE_CHECKING:
    from callsheet.history import Store, StoredCall, StoredSession
    from callsheet.history.rows import Origin

LAST = "last"
PAGE = 500
PAGE_WHOLE = 50
"""Calls that are read at once; whole ones may be large."""

_FEW = 10
"""Candidates that are listed where an id is ambiguous."""

_T = TypeVar("_T")
_Cursor = TypeVar("_Cursor")


class Trouble(click.ClickException):
    """A command failed. It reports the error in one line, and exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the error to stderr."""
        click.echo(f"callsheet: {self.message}", file=file, err=file is None)


class NoHistory(Trouble):
    """There is no history. A list then prints `empty`, if that is known, and is no failure."""

    def __init__(self, message: str, empty: str | None) -> None:
        super().__init__(message)
        self.exit_code = 1 if empty is None else 0  # pyright: ignore[reportAttributeAccessIssue]
        self._empty: str | None = empty

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message to stderr, and the empty list to stdout."""
        super().show(file)
        if self._empty:
            write(self._empty)


# Opening


def chosen(flag: str | None, empty: str | None = None) -> tuple[str, Retention]:
    """Return the URL that a flag, the environment or a file names, and the limits of what is stored there."""
    try:
        url, keep = history_settings(flag)
    except (BadUrl, BadSettings) as exc:
        raise click.UsageError(str(exc)) from None
    if url is None:
        off = "no history is stored: it is off, by CALLSHEET_HISTORY, --history or a settings file"
        raise NoHistory(off, empty)
    return url, keep


@contextmanager
def opened(
    flag: str | None, *, change: bool = False, create: bool = False, empty: str | None = None
) -> Generator[Store]:
    """Open a store that exists. Calls that a crash has left open are closed first.

    Args:
        flag: The value of `--history`; else the environment and the settings files decide.
        change: Whether it is opened for writing.
        create: Whether one is made if there is none.
        empty: What a list without calls prints; then no history is no failure, but an empty list.
    """
    url, _ = chosen(flag, empty)
    store: Store | None = None
    try:
        store = store_at(url)
        try:
            _open(store, url, change)
        except NotKept:
            if not create:
                raise
            store.open()
        yield store
    except NotKept as exc:
        hint = " `callsheet tap`, `agent`, `call` and `history import` create it."
        is_default = url == f"sqlite:///{default_file()}"
        raise NoHistory(_line(exc) + (hint if is_default else ""), empty) from None
    except CallsheetError as exc:
        raise Trouble(_line(exc)) from None
    except ImportError as exc:
        package = (exc.name or "a package").partition(".")[0]
        need = f"needs {package}: pip install 'callsheet[postgres]'"
        raise Trouble(f"history {without_password(url)}: {need}") from None
    finally:
        if store is not None:
            with suppress(HistoryError):
                store.close()


def _open(store: Store, url: str, change: bool) -> None:
    from callsheet.history.spool import is_waiting

    if is_waiting(store.url):
        # Processes that are gone have spooled calls: write these first, so that they are found.
        import asyncio

        with suppress(HistoryError):
            asyncio.run(_write_spooled(url))
    store.open(write=False)  # reports a damaged one, where writers would begin anew
    if change:
        store.close()
        for news in store.open():
            _warn(news)
        return
    with suppress(HistoryError):  # whoever may only read, reads
        if store.heads(Query(status="open", limit=1)):
            store.recover()


async def _write_spooled(url: str) -> None:
    from callsheet.history import History

    async with History(url, notify=_warn) as history:
        await history.ask(lambda store: store.recover())


def _warn(text: str) -> None:
    click.echo(f"callsheet: history: {text}", err=True)


def _line(exc: Exception) -> str:
    return " ".join(str(exc).split())


# Reading page by page: however many calls there are, a few are held at once


def all_heads(store: Store, query: Query) -> Iterator[Head]:
    """Yield calls, the newest first."""
    return _paged(lambda before: store.heads(replace(query, before=before, limit=PAGE)), _place)


def whole_calls(store: Store, query: Query) -> Iterator[StoredCall]:
    """Yield whole calls, the newest first."""
    return _paged(
        lambda before: store.calls(replace(query, before=before, limit=PAGE_WHOLE)),
        lambda call: _place(call.head),
    )


def with_origins(
    store: Store, found: Iterator[_T], head_of: Callable[[_T], Head], size: int | None = None
) -> Iterator[tuple[_T, Origin, str]]:
    """Yield calls with who made them, and in which directory. `size` calls are looked up at once."""
    while page := list(islice(found, size or PAGE)):
        heads = [head_of(one) for one in page]
        origins = store.origins(head.origin for head in heads)
        directories = store.directories(head.session_id for head in heads)
        for one, head in zip(page, heads, strict=True):
            yield one, origins[head.origin], directories[head.session_id]


def all_sessions(store: Store) -> Iterator[StoredSession]:
    """Yield the sessions, the one that was used last first."""
    return _paged(
        lambda before: store.sessions(before=before, limit=PAGE),
        lambda session: (session.updated_at, session.session_id),
    )


def _place(head: Head) -> tuple[float, str, str]:
    return head.at, head.session_id, head.call_id


def _paged(
    read: Callable[[_Cursor | None], list[_T]], cursor_of: Callable[[_T], _Cursor]
) -> Iterator[_T]:
    cursor = last = None
    while page := read(cursor):
        yield from page
        last, cursor = cursor, cursor_of(page[-1])
        if cursor == last:  # a damaged file may have a time that is none, and is shown as another
            return


# Looking up


def find_call(store: Store, text: str, session: str | None) -> StoredCall:
    """Return the call that is meant, whole. Raise `Trouble` if there is none, or several."""
    its_session = None if session is None else find_session(store, session).session_id
    any_call = Query(session_id=its_session, limit=PAGE)
    found = store.heads(
        replace(any_call, limit=1) if text == LAST else replace(any_call, call_id=text)
    )
    if not found and text:
        found = store.heads(replace(any_call, id_part=text))
    same = len({head.call_id for head in found}) == 1
    hint = "choose by --session" if same else "type more of its id"
    head = _the_one(f"call {visible(text)!r}", found, call_line, hint, store)
    calls = store.calls(Query(session_id=head.session_id, call_id=head.call_id, limit=1))
    if not calls:
        raise Trouble(f"{head.call_id} was removed just now")
    return calls[0]


def find_session(store: Store, text: str) -> StoredSession:
    """Return the session that is meant. Raise `Trouble` if there is none, or several."""
    if text == LAST:
        found = store.sessions(limit=1)
    elif exact := store.session(text):
        return exact
    else:
        found = [
            session
            for session in all_sessions(store)
            if text and (session.session_id.startswith(text) or session.session_id.endswith(text))
        ]
    name = f"session {visible(text)!r}"
    return _the_one(name, found, session_line, "type more of its id", store)


def with_session(store: Store, query: Query, session: str | None) -> Query:
    """Return a query with the session that is meant, if one is named."""
    if session is None:
        return query
    return replace(query, session_id=find_session(store, session).session_id)


def session_line(session: StoredSession) -> str:
    """Return a session in a line."""
    title = visible(session.title) or "(without a name)"
    when = ago(session.updated_at, time.time())
    return f"{visible(session.session_id)}  {title}  {plural(session.calls, 'call')}, {when}"


def call_line(head: Head) -> str:
    """Return a call in a line."""
    when = ago(head.at, time.time())
    return f"{visible(head.call_id)}  {visible(head.title)}  {when}, in {visible(head.session_id)}"


def _the_one(
    name: str, found: Sequence[_T], line_of: Callable[[_T], str], hint: str, store: Store
) -> _T:
    """Return what was found, or list it if it is several."""
    if not found:
        listing = "`callsheet history` lists the calls, `callsheet history sessions` the sessions"
        raise Trouble(f"there is no {name} in {store.url}; {listing}")
    if len(found) > 1:
        lines = [f"\n  {line_of(one)}" for one in islice(found, _FEW)]
        more = f"\n  and {len(found) - _FEW} more" if len(found) > _FEW else ""
        raise Trouble(f"{name} may be any of these; {hint}:{''.join(lines)}{more}")
    return found[0]
