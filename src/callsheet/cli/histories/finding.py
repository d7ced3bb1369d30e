"""The call or the session that is meant: by its id, by a part of it, or by `last`."""

from __future__ import annotations

import difflib
import time
from collections.abc import AsyncIterator, Sequence

from callsheet.cli.cards.words import visible
from callsheet.history import Head, Query, Store, StoredCall, StoredSession

from . import pages
from .opening import Trouble
from .words import ago

LAST = "last"
SHORT = 8
"""Characters of an id that a table shows: its last ones, for ids begin with the time."""

_FEW = 10
_MANY = 100
_PAGE = 500


async def call_meant(store: Store, text: str, session: str | None) -> StoredCall:
    """Return the call that is meant, whole."""
    chosen = None if session is None else (await session_meant(store, session)).session_id
    found = await _heads_meant(store, text, chosen)
    if not found:
        raise Trouble(await _no_call(store, text, chosen))
    if len(found) > 1:
        some = "\n".join(f"  {_told(head)}" for head in found[:_FEW])
        same = len({head.call_id for head in found}) == 1
        hint = "say which with --session" if same else "give more of its id"
        more = f"\n  and {len(found) - _FEW} more" if len(found) > _FEW else ""
        more = "\n  and many more" if len(found) > _MANY else more
        raise Trouble(f"{visible(text)} may be any of these; {hint}:\n{some}{more}")
    (head,) = found
    calls = await store.calls(Query(session_id=head.session_id, call_id=head.call_id, limit=1))
    if not calls:
        raise Trouble(f"{head.call_id} was removed just now")
    return calls[0]


async def _heads_meant(store: Store, text: str, session: str | None) -> Sequence[Head]:
    if text == LAST:
        return await store.heads(Query(session_id=session, limit=1))
    exact = await store.heads(Query(session_id=session, call_id=text, limit=100))
    if exact or not text:
        return exact
    found: list[Head] = []
    for part in dict.fromkeys((text, _as_ours(text))):
        async for page in pages.heads(store, Query(session_id=session, id_part=part), None):
            found += [head for head in page if is_part(part, head.call_id)]
            if len(found) > _MANY:
                break
        if found:
            break
    return found


def is_part(text: str, key: str) -> bool:
    """Whether an id begins or ends like this."""
    return bool(text) and (key.startswith(text) or key.endswith(text))


def _as_ours(text: str) -> str:
    """Return an id as we write ours: what comes after `call_` or `sess_` is in capitals."""
    for begin in ("call_", "sess_"):
        if text.lower().startswith(begin):
            return begin + text[len(begin) :].upper()
    return text.upper()


async def _no_call(store: Store, text: str, session: str | None) -> str:
    newest = await store.heads(Query(session_id=session, limit=200))
    if not newest:
        return (
            f"there is no call in {store.url} yet" if session is None else f"{session} has no call"
        )
    near = difflib.get_close_matches(text, [head.call_id for head in newest], n=3, cutoff=0.75)
    hint = f"near to it: {', '.join(near)}" if near else "`callsheet history` lists the calls"
    return f"there is no call {visible(text)!r} in {store.url}; {hint}"


def _told(head: Head) -> str:
    when = ago(head.at, time.time())
    return f"{visible(head.call_id)}  {visible(head.title)}  {when}, in {visible(head.session_id)}"


# Sessions


async def session_meant(store: Store, text: str) -> StoredSession:
    """Return the session that is meant."""
    found = await store.session(text) if text and text != LAST else None
    if found is not None:
        return found
    some: list[StoredSession] = []
    alike: list[StoredSession] = []
    async for session in all_sessions(store):
        if text == LAST:
            return session
        if is_part(text, session.session_id):
            some.append(session)
        elif is_part(text.lower(), session.session_id.lower()):
            alike.append(session)
    some = some or alike
    if len(some) == 1:
        return some[0]
    if some:
        listed = "\n".join(f"  {session_told(one)}" for one in some[:_FEW])
        more = f"\n  and {len(some) - _FEW} more" if len(some) > _FEW else ""
        raise Trouble(f"{visible(text)} may be any of these; give more of its id:\n{listed}{more}")
    raise Trouble(await _no_session(store, text))


async def all_sessions(store: Store, limit: int | None = None) -> AsyncIterator[StoredSession]:
    """Return the sessions, the one that was used last first."""
    before: tuple[float, str] | None = None
    left = limit
    while left is None or left > 0:
        page = await store.sessions(before=before, limit=min(_PAGE, left or _PAGE))
        for session in page:
            yield session
        if not page:
            return
        before = page[-1].updated_at, page[-1].session_id
        left = None if left is None else left - len(page)


async def _no_session(store: Store, text: str) -> str:
    newest = await store.sessions(limit=3)
    if not newest:
        return f"there is no session in {store.url} yet"
    listed = "\n".join(f"  {session_told(one)}" for one in newest)
    return f"there is no session {visible(text)!r} in {store.url}; the newest are:\n{listed}"


def session_told(session: StoredSession) -> str:
    """Return a session in a line."""
    title = visible(session.title) or "(without a name)"
    when = ago(session.updated_at, time.time())
    return f"{visible(session.session_id)}  {title}  {calls_text(session.calls)}, {when}"


def calls_text(count: int) -> str:
    """Return a number of calls."""
    return f"{count:,} call{'' if count == 1 else 's'}"
