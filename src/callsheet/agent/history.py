"""The agent's side of the history: sessions are stored in it, found, listed, replayed and deleted.

Without a history, nothing is stored, and nothing is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from os.path import isabs
from typing import TYPE_CHECKING, TypeAlias

from callsheet.acp.jsonrpc import InvalidParams
from callsheet.report.json import JsonObject, is_list

if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.history.rows import StoredCall, StoredMessage, StoredSession
    from callsheet.history.sink import SessionLog

    Entry: TypeAlias = StoredCall | StoredMessage

PAGE = 50
"""Entries of a session, or sessions, that are read at once."""

MANY, MOST_PAGES = 200, 20
"""Sessions that are read at once to find conversations among them, and how often, for one answer."""

LAST = 4.0
"""Seconds that the history has at the end of the agent."""


class AgentHistory:
    """Stored sessions, and the logs of those that run. The history is opened when it is first needed."""

    def __init__(self, history: Callable[[], History] | History | None) -> None:
        self._make: Callable[[], History] | None = history if callable(history) else None
        self._made: History | None = None
        if history is not None and not callable(history):
            self._make, self._made = (lambda: history), history

    @property
    def is_on(self) -> bool:
        """Whether there is a history."""
        return self._make is not None

    @property
    def _history(self) -> History:
        if self._made is None:
            assert self._make is not None
            self._made = self._make()
        return self._made

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of a session that is stored. By it, a tap before the agent does not store it again."""
        if self._make is None:
            return {}
        return {"_meta": {"callsheet": {"history": self._history.fingerprint}}}

    def log(
        self, session_id: str, cwd: str, info: JsonObject, who: JsonObject, position: int = 0
    ) -> SessionLog | None:
        """Return the log of a session, whose timeline goes on at a position; `who` is of an `Origin`."""
        if self._make is None:
            return None
        from callsheet.history.origin import hidden
        from callsheet.history.rows import Origin

        more = [hidden(one) for one in info.get("additionalDirectories") or ()]
        origin = Origin(**{name: str(one or "") for name, one in who.items()}, source="agent")
        return self._history.session(
            session_id,
            cwd=cwd,
            info={**info, "additionalDirectories": more},
            origin=origin,
            position=position,
        )

    async def settle(self) -> None:
        """Wait until everything so far is durable, or can't be for now."""
        if self._made is not None:
            await self._made.flush()

    async def close(self) -> None:
        """Write what waits, and close the history."""
        if self._made is not None:
            await self._made.close(LAST)

    async def find(self, session_id: str) -> StoredSession | None:
        """Return a stored session, or None."""
        if self._make is None:
            return None
        return await self._history.ask(lambda store: store.session(session_id))

    async def end_of(self, session_id: str) -> int:
        """Return the position where a session's timeline goes on."""
        return 1 + await self._history.ask(lambda store: store.last_position(session_id))

    async def entries(self, session_id: str, before: int | None = None) -> AsyncIterator[Entry]:
        """Return the messages and calls of a session in order, up to the position `before`."""
        if self._make is None:
            return
        after = -1
        while True:
            page: Sequence[Entry] = await self._history.ask(
                lambda store, after=after: store.timeline(session_id, after=after, limit=PAGE)
            )
            for entry in page:
                after = entry.position
                if before is not None and after >= before:
                    return
                yield entry
            if len(page) < PAGE:
                return
            await asyncio.sleep(0)  # others have their turn

    async def sessions(
        self, cwd: str | None, cursor: str | None
    ) -> tuple[list[StoredSession], str | None]:
        """Return a page of sessions, the one that was used last first, and the cursor of the next page.

        Those of `callsheet call` are no conversations. A session whose directory nobody knows, as a tap may
        have stored, can't be listed: ACP wants an absolute path.
        """
        before = None if cursor is None else _read_cursor(cursor)
        if self._make is None:
            return [], None
        from callsheet.history.origin import hidden, revealed

        cwd = None if cwd is None else hidden(cwd)
        conversations: list[StoredSession] = []
        for _ in range(MOST_PAGES):
            found = await self._history.ask(
                lambda store, before=before: store.sessions(cwd=cwd, before=before, limit=MANY)
            )
            for one in found:
                before = one.updated_at, one.session_id
                if one.origin.source != "call" and isabs(one.cwd):  # noqa: PTH117 - as text
                    one.cwd = revealed(one.cwd)
                    if is_list(more := one.info.get("additionalDirectories")):
                        one.info["additionalDirectories"] = [revealed(str(d)) for d in more]
                    conversations.append(one)
                    if len(conversations) == PAGE:
                        return conversations, _cursor(*before)
            if len(found) < MANY:
                return conversations, None
        return conversations, before and _cursor(*before)

    async def forget(self, session_id: str) -> None:
        """Delete all that is stored of a session."""
        if self._make is not None:
            await self._history.forget(session_id)


def _cursor(at: float, key: str) -> str:
    return f"{at!r} {key}"


def _read_cursor(cursor: str) -> tuple[float, str]:
    at, _, key = cursor.partition(" ")
    try:
        return float(at), key
    except ValueError:
        raise InvalidParams(
            f"cursor: expected the nextCursor of an earlier answer, got {cursor[:80]!r}"
        ) from None
