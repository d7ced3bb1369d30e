"""What a store can do. There are two: SQLite's and PostgreSQL's, chosen by the URL.

All of it is async, so that an engine may wait for a server. SQLite's does not wait: it works in the thread
of whoever calls it, and `History` gives it a thread of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .packing import Packer
from .rows import (
    Batch,
    Fill,
    Head,
    Pruned,
    Query,
    Retention,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    Vacuumed,
)


class Store(Protocol):
    """One history. Errors are `HistoryError`s: `StoreUnavailable` means that it may work later.

    `StoreDamaged` means that it is to be closed and opened anew. A bare `HistoryError`, or a `ValueError` or
    `TypeError`, means that what was given is at fault, and would be again.
    """

    url: str
    """Where it is, without a password."""

    packer: Packer
    """What payloads are made with."""

    async def open(self, *, write: bool = True) -> list[str]:
        """Open it, and make or migrate it. Gives what people should know: what was wrong and was mended.

        With `write`, this process is noted as one that writes, and calls that were left open by processes
        that are gone are closed as abandoned. Without it, what is not there is `NotKept`.
        """
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...

    async def write(self, batch: Batch, writer: str | None = None) -> None:
        """Write all of a batch, or nothing. When this returns, it is durable.

        Calls that are open belong to this process, or to the `writer` that is named.
        The same row again changes nothing. A call that has ended does not open again; one that was closed
        as abandoned by mistake gets its true end.
        """
        ...

    async def recover(self) -> int:
        """Close the calls of processes that are gone. Gives how many there were."""
        ...

    # Reading

    async def heads(self, query: Query) -> list[Head]:
        """Return the calls that are asked for, the newest first, as a list shows them."""
        ...

    async def calls(self, query: Query) -> list[StoredCall]:
        """Return the calls that are asked for, whole."""
        ...

    async def session(self, session_id: str) -> StoredSession | None:
        """Return a session."""
        ...

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[StoredSession]:
        """Return sessions, the one that was used last first.

        `before` is where an earlier page ended: the `updated_at` and id of its last session.
        """
        ...

    async def timeline(
        self, session_id: str, *, after: int = -1, limit: int = 100
    ) -> Sequence[StoredCall | StoredMessage]:
        """Return what a session has said and done after a position, in order."""
        ...

    async def last_position(self, session_id: str) -> int:
        """Return the position of the last thing in a session's timeline, or -1."""
        ...

    async def stats(self, query: Query) -> Stats:
        """Count calls, failures, durations and bytes, of the calls that are asked for.

        `file_bytes`, `indexed` and `dictionaries` are those of the whole store.
        """
        ...

    async def count(self, query: Query) -> int:
        """Return how many calls are asked for."""
        ...

    async def fill(self, limit: int) -> Fill:
        """Return how full it is, and what goes if it may have so many bytes."""
        ...

    # Tidying up

    async def index(self, limit: int = 200) -> int:
        """Index so many calls for the search, at most. Gives how many it were; 0 means that all are."""
        ...

    async def prune(self, keep: Retention, *, now: float | None = None, most: int = 500) -> Pruned:
        """Remove some of what is not to be kept, `most` calls at once. Nothing removed means that it is done.

        Without `now`, how old calls are is judged by the calls themselves, and not by the clock alone.
        The space is given back to the system.
        """
        ...

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, with all that it has said and done."""
        ...

    async def vacuum(self) -> Vacuumed:
        """Make the store as small as it can be, and learn a better dictionary if there is one."""
        ...
