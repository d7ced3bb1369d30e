"""Lock paths: calls that write a path exclude each other, calls that only read it run concurrently.

A claim covers a path and everything below it. All paths of a call are claimed at once, in the order in which
calls ask, so no two calls can wait for each other.

A nested call does not wait for the claims of its outer calls, nor for calls that queue for them. If it would
have to wait for a call that in turn waits for the outer one, it is refused, because that is a deadlock.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from callsheet.tools.errors import ExecutionFailed

_holding: ContextVar[tuple[PathClaim, ...]] = ContextVar("holding", default=())


class PathClaim:
    """The paths of one call. `outer` are the claims of the calls that it is nested in."""

    __slots__ = ("granted", "is_held", "outer", "reads", "table", "writes")

    def __init__(self, table: PathLocks, reads: Iterable[Path], writes: Iterable[Path]) -> None:
        self.table: PathLocks = table
        self.writes: frozenset[str] = frozenset(map(str, writes))
        self.reads: frozenset[str] = frozenset(map(str, reads)) - self.writes
        # A background task still has the context of a call that has ended; its claims count no more.
        self.outer: tuple[PathClaim, ...] = tuple(
            claim for claim in _holding.get() if claim.is_held and claim.table is table
        )
        self.granted: asyncio.Future[None] | None = None
        self.is_held: bool = False

    def meets(self, other: PathClaim) -> bool:
        """Return whether one of the two claims must wait for the other."""
        return any(
            _meet(path, at) for path in self.writes for at in other.writes | other.reads
        ) or any(_meet(path, at) for path in self.reads for at in other.writes)


class _Held:
    """How many claims there are on each path, and on what is below it."""

    def __init__(self) -> None:
        self.here: Counter[str] = Counter()
        self.below: Counter[str] = Counter()

    def change(self, paths: Iterable[str], by: int) -> None:
        for path in paths:
            self.here[path] += by
            if not self.here[path]:
                del self.here[path]
            for parent in _parents(path):
                self.below[parent] += by
                if not self.below[parent]:
                    del self.below[parent]

    def touches(self, path: str) -> bool:
        """Return whether the path, something below it, or a directory above it is held."""
        if path in self.here or path in self.below:
            return True
        return any(parent in self.here for parent in _parents(path))


class PathLocks:
    """All claims of a session. Used on the session's event loop only."""

    def __init__(self) -> None:
        self._reading: _Held = _Held()
        self._writing: _Held = _Held()
        self._held: dict[PathClaim, None] = {}
        self._waiting: deque[PathClaim] = deque()

    @asynccontextmanager
    async def hold(self, reads: Iterable[Path], writes: Iterable[Path]) -> AsyncGenerator[None]:
        """Wait until the paths are free, and hold them during the context.

        Raises:
            ExecutionFailed: Waiting would be a deadlock with an outer call.
        """
        claim = PathClaim(self, reads, writes)
        if not claim.reads and not claim.writes:
            yield
            return
        await self._take(claim)
        token = _holding.set((*_holding.get(), claim))
        try:
            yield
        finally:
            _holding.reset(token)
            self._release(claim)

    async def _take(self, claim: PathClaim) -> None:
        if (claim.outer or not self._waiting) and self._is_free(claim):
            self._change(claim, 1)
            return
        if claim.outer and self._is_circular(claim):
            paths = ", ".join(sorted(claim.writes | claim.reads))
            raise ExecutionFailed(
                f"{paths}: held by a call that waits for the call which this one is made in; "
                "do one after the other"
            )
        claim.granted = asyncio.get_running_loop().create_future()
        self._waiting.append(claim)
        self._grant()
        try:
            await claim.granted
        except asyncio.CancelledError:
            if claim in self._waiting:
                self._waiting.remove(claim)
                self._grant()
            else:  # it was granted just before the cancellation
                self._release(claim)
            raise

    def _release(self, claim: PathClaim) -> None:
        self._change(claim, -1)
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        """Grant what can be granted, in order. A waiting claim blocks later ones on its paths."""
        ahead_reading, ahead_writing = _Held(), _Held()
        still: deque[PathClaim] = deque()
        for claim in self._waiting:
            may_pass = bool(claim.outer) or _is_free(claim, ahead_reading, ahead_writing)
            if may_pass and self._is_free(claim):
                self._change(claim, 1)
                assert claim.granted is not None
                if not claim.granted.done():
                    claim.granted.set_result(None)
            else:
                still.append(claim)
                ahead_reading.change(claim.reads, 1)
                ahead_writing.change(claim.writes, 1)
        self._waiting = still

    def _is_free(self, claim: PathClaim) -> bool:
        # Leave out the claims of the outer calls for the moment: they must not block a call nested in them.
        own = [outer for outer in claim.outer if outer.is_held]
        for outer in own:
            self._count(outer, -1)
        try:
            return _is_free(claim, self._reading, self._writing)
        finally:
            for outer in own:
                self._count(outer, 1)

    def _is_circular(self, claim: PathClaim) -> bool:
        """Return whether a claim would wait for one that can't be released before it: a deadlock."""
        seen, todo = {claim}, [claim]
        while todo:
            one = todo.pop()
            holders = [held for held in self._held if held not in one.outer and one.meets(held)]
            if any(held in claim.outer for held in holders):
                return True
            for waiting in self._waiting:
                is_ahead = not one.outer and one is not waiting and one.meets(waiting)
                if waiting not in seen and (is_ahead or any(h in waiting.outer for h in holders)):
                    seen.add(waiting)
                    todo.append(waiting)
        return False

    def _change(self, claim: PathClaim, by: int) -> None:
        claim.is_held = by > 0
        if claim.is_held:
            self._held[claim] = None
        else:
            del self._held[claim]
        self._count(claim, by)

    def _count(self, claim: PathClaim, by: int) -> None:
        self._reading.change(claim.reads, by)
        self._writing.change(claim.writes, by)


def _is_free(claim: PathClaim, reading: _Held, writing: _Held) -> bool:
    if any(writing.touches(path) for path in claim.reads):
        return False
    return not any(writing.touches(path) or reading.touches(path) for path in claim.writes)


def _meet(one: str, other: str) -> bool:
    return one == other or one in _parents(other) or other in _parents(one)


def _parents(path: str) -> list[str]:
    found: list[str] = []
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        found.append(path)
    return [*found, "/"]
