"""Lock paths: calls that write a path exclude each other, calls that only read it run concurrently.

A claim covers a path and everything below it. All paths of a call are claimed at once, in the order in which
calls ask, so no two calls can wait for each other.

A nested call does not wait for the claims of its outer calls, nor for calls that queue for them. If it would
have to wait for a call that in turn waits for the outer one, it is refused, because that is a deadlock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from callsheet.tools.errors import ExecutionFailed


class PathClaim:
    """The paths of one call. `around` is the claim of the call that it is nested in, if that has one."""

    __slots__ = ("around", "granted", "outer", "reads", "writes")

    def __init__(
        self, reads: Iterable[Path], writes: Iterable[Path], around: PathClaim | None = None
    ) -> None:
        self.writes: frozenset[str] = frozenset(map(str, writes))
        self.reads: frozenset[str] = frozenset(map(str, reads)) - self.writes
        self.around: PathClaim | None = around
        self.outer: tuple[PathClaim, ...] = ()
        self.granted: asyncio.Future[None] | None = None

    def meets(self, other: PathClaim) -> bool:
        """Return whether one of the two claims must wait for the other."""
        return any(
            _meet(path, at) for path in self.writes for at in other.writes | other.reads
        ) or any(_meet(path, at) for path in self.reads for at in other.writes)


class PathLocks:
    """All claims of a session. Used on the session's event loop only."""

    def __init__(self) -> None:
        self._held: dict[PathClaim, None] = {}
        self._writing: dict[PathClaim, None] = {}
        self._waiting: list[PathClaim] = []

    def take_at_once(self, claim: PathClaim) -> bool:
        """Hold the paths of a claim if they are free, and return whether they are."""
        if claim.around is not None:
            claim.outer = self._outer(claim)
        if is_free := self._is_free(claim, self._waiting):
            self._grant(claim)
        return is_free

    def _outer(self, claim: PathClaim) -> tuple[PathClaim, ...]:
        """Return the claims of the calls that a claim is nested in.

        A background task still has the context of a call that has ended; its claims count no more. Nor do
        those of other sessions.
        """
        found: list[PathClaim] = []
        around = claim.around
        while around is not None:
            if around in self._held:
                found.append(around)
            around = around.around
        return tuple(found)

    async def take(self, claim: PathClaim) -> None:
        """Wait until the paths of a claim are free, and hold them.

        Raises:
            ExecutionFailed: Waiting would be a deadlock with an outer call.
        """
        if self.take_at_once(claim):
            return
        if claim.outer and self._is_circular(claim):
            paths = ", ".join(sorted(claim.writes | claim.reads))
            raise ExecutionFailed(
                f"{paths}: held by a call that waits for the call which this one is made in; "
                "do one after the other"
            )
        claim.granted = asyncio.get_running_loop().create_future()
        self._waiting.append(claim)
        try:
            await claim.granted
        except asyncio.CancelledError:
            if claim in self._waiting:
                self._waiting.remove(claim)
                self._grant_waiting(claim)
            else:  # it was granted just before the cancellation
                self.release(claim)
            raise

    def _is_free(self, claim: PathClaim, ahead: Iterable[PathClaim]) -> bool:
        """Return whether a claim meets neither those that are held nor those that wait ahead of it.

        A nested claim does not wait for those of its outer calls, nor for those that queue for them.
        """
        rivals = self._held if claim.writes else self._writing  # thousands may read at once
        if rivals and any(claim.meets(held) for held in rivals if held not in claim.outer):
            return False
        return bool(claim.outer) or not any(map(claim.meets, ahead))

    def _grant(self, claim: PathClaim) -> None:
        self._held[claim] = None
        if claim.writes:
            self._writing[claim] = None
        if claim.granted is not None and not claim.granted.done():
            claim.granted.set_result(None)

    def _grant_waiting(self, gone: PathClaim) -> None:
        """Grant what waited for a claim, in order. A waiting claim blocks later ones on its paths."""
        waiting, self._waiting = self._waiting, []
        for claim in waiting:
            if claim.meets(gone) and self._is_free(claim, self._waiting):
                self._grant(claim)
            else:
                self._waiting.append(claim)

    def release(self, claim: PathClaim) -> None:
        """Free the paths of a claim, if it holds them, and grant what has waited for them."""
        self._held.pop(claim, None)
        self._writing.pop(claim, None)
        if self._waiting:
            self._grant_waiting(claim)

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


def _meet(one: str, other: str) -> bool:
    """Return whether two paths are the same, or one is inside the other."""
    short, long = sorted((one.rstrip("/"), other.rstrip("/")), key=len)
    return long == short or long.startswith(f"{short}/")
