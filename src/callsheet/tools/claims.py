"""Who may touch which path now: those who write a path wait for each other, readers run together.

A claim holds for a path and everything below it. All paths of a call are claimed at once, in the order in
which calls ask, so no two calls can wait for each other. A call that is made inside another one shares
that one's claims.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

_holding: ContextVar[tuple[Claim, ...]] = ContextVar("holding", default=())


class Claim:
    """The paths of one call."""

    __slots__ = ("granted", "reads", "writes")

    def __init__(self, reads: Iterable[Path], writes: Iterable[Path]) -> None:
        self.writes: frozenset[str] = frozenset(map(str, writes))
        self.reads: frozenset[str] = frozenset(map(str, reads)) - self.writes
        self.granted: asyncio.Future[None] | None = None


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
        """Whether somebody holds the path, something below it, or a directory that it is in."""
        if path in self.here or path in self.below:
            return True
        return any(parent in self.here for parent in _parents(path))


class Claims:
    """All claims of a session. Used on the session's event loop only."""

    def __init__(self) -> None:
        self._reading: _Held = _Held()
        self._writing: _Held = _Held()
        self._waiting: deque[Claim] = deque()

    @asynccontextmanager
    async def hold(self, reads: Iterable[Path], writes: Iterable[Path]) -> AsyncGenerator[None]:
        """Hold paths, when nobody else does who must not."""
        mine = _holding.get()
        claim = Claim(
            [path for path in reads if not _is_shared(str(path), mine)],
            [path for path in writes if not _is_shared(str(path), mine)],
        )
        if not claim.reads and not claim.writes:
            yield
            return
        await self._take(claim)
        token = _holding.set((*mine, claim))
        try:
            yield
        finally:
            _holding.reset(token)
            self._give_back(claim)

    async def _take(self, claim: Claim) -> None:
        if not self._waiting and self._is_free(claim):
            self._change(claim, 1)
            return
        claim.granted = asyncio.get_running_loop().create_future()
        self._waiting.append(claim)
        self._grant()
        try:
            await claim.granted
        except asyncio.CancelledError:
            if claim in self._waiting:
                self._waiting.remove(claim)
                self._grant()
            else:
                self._give_back(claim)
            raise

    def _give_back(self, claim: Claim) -> None:
        self._change(claim, -1)
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        """Let in, in order, who may go. Whoever waits keeps those behind from the same paths."""
        ahead_reading, ahead_writing = _Held(), _Held()
        still: deque[Claim] = deque()
        for claim in self._waiting:
            if self._is_free(claim) and _is_free(claim, ahead_reading, ahead_writing):
                self._change(claim, 1)
                assert claim.granted is not None
                if not claim.granted.done():
                    claim.granted.set_result(None)
            else:
                still.append(claim)
                ahead_reading.change(claim.reads, 1)
                ahead_writing.change(claim.writes, 1)
        self._waiting = still

    def _is_free(self, claim: Claim) -> bool:
        return _is_free(claim, self._reading, self._writing)

    def _change(self, claim: Claim, by: int) -> None:
        self._reading.change(claim.reads, by)
        self._writing.change(claim.writes, by)


def _is_free(claim: Claim, reading: _Held, writing: _Held) -> bool:
    if any(writing.touches(path) for path in claim.reads):
        return False
    return not any(writing.touches(path) or reading.touches(path) for path in claim.writes)


def _is_shared(path: str, mine: tuple[Claim, ...]) -> bool:
    """Whether an outer call holds the path, or something above or below it. Waiting would never end."""
    parents = _parents(path)
    for claim in mine:
        for held in (*claim.writes, *claim.reads):
            if held == path or held in parents or path in _parents(held):
                return True
    return False


def _parents(path: str) -> list[str]:
    found: list[str] = []
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        found.append(path)
    return [*found, "/"]
