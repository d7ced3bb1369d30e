"""Calls that a mind runs itself: a client can cancel these one by one, too."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any

from callsheet.tools.errors import Cancelled
from callsheet.tools.session import Call


class OwnCalls:
    """Those of a session that are open."""

    def __init__(self) -> None:
        self._open: dict[str, OwnCall] = {}

    def scope(self, call: Call) -> OwnCall:
        """Return the scope in which a call is run."""
        return OwnCall(call, self._open)

    def cancel(self, key: str) -> bool:
        """Stop what runs in a call's scope. Gives whether anything did."""
        scope = self._open.get(key)
        if scope is not None:
            scope.cancel()
        return scope is not None


class OwnCall:
    """The scope of a call. If the client cancels it, `Cancelled` is raised at its end; the turn goes on."""

    def __init__(self, call: Call, open_calls: dict[str, OwnCall]) -> None:
        self._call: Call = call
        self._open: dict[str, OwnCall] = open_calls
        self._task: asyncio.Task[Any] | None = None
        self._before: int = 0
        self._is_cancelled: bool = False

    async def __aenter__(self) -> Call:
        """Announce the call."""
        call = await self._call.__aenter__()
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0
        self._open[call.id] = self
        return call

    def cancel(self) -> None:
        """Stop what runs in it."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """End the call, if it has not ended."""
        self._open.pop(self._call.id, None)
        if self._task is None or not self._is_cancelled:
            return await self._call.__aexit__(kind, exc, trace)
        if not isinstance(
            exc, asyncio.CancelledError
        ):  # it came too late, and must not hit the next
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        is_ours = self._task.uncancel() <= self._before
        done = await self._call.__aexit__(kind, exc, trace)
        if is_ours and isinstance(exc, asyncio.CancelledError):
            raise Cancelled(self._call.session.desk.phrase("cancelled")) from exc
        return done
