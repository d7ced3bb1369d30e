"""Writes to one store, whatever becomes of it: opens it, packs, writes in batches, tidies up.

A store that can't be written is no reason to stop. It is said once; what is to be written waits, packed, and
the store is tried again and again. What waits is bounded: if it becomes too much, the oldest goes, and that
is said, too. All of this happens in the thread of a `History`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from . import leftovers
from .errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
    counted,
    sentence,
)
from .log import Waiting
from .packing import Packer
from .places import store_at, without_password
from .rows import Pruned, Retention, SessionRow
from .shelf import Key, Shelf
from .store import Store

MOST_WAITING = 64 << 20
"""Bytes that may wait for a store that can't be written."""

TIDY_EVERY = 3600.0
SELDOM = 50
"""Of so many processes that never had time to tidy up, one does at its end."""

_OF_THE_STORE = (BadUrl, StoreTooNew, NotKept, StoreDamaged, StoreUnavailable)
"""Errors that say nothing of what was to be written."""


_GOES_ON = "The work goes on; what is to be kept waits, and is written when it can be."


class HistoryHealth(Struct):
    """How well it goes. `problem` is what keeps the store from being written now."""

    written: int = 0
    lost: int = 0
    problem: str | None = None


class Scribe:
    """Writes to one store. `tell` hears of what people should know."""

    def __init__(
        self,
        url: str,
        keep: Retention,
        tell: Callable[[str], None],
        forget_spills: Callable[[list[str]], object] | None,
    ) -> None:
        self.health: HistoryHealth = HistoryHealth()
        self.store: Store = store_at(url)
        self._shown: str = without_password(url)
        self._keep: Retention = keep
        self._tell: Callable[[str], None] = tell
        self._forget_spills: Callable[[list[str]], object] | None = forget_spills
        self._shelf: Shelf = Shelf()
        self._opening: asyncio.Lock = asyncio.Lock()
        self._is_open: bool = False
        self._is_hopeless: bool = False
        self._said_lost: bool = False
        self._said_refused: bool = False
        self._was_set_by: bool = False
        self._tidied: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether something waits for a store that can't be written now."""
        return bool(self._shelf) and self.health.problem is not None

    # Taking and writing

    def take(self, given: dict[Key, Waiting]) -> None:
        """Pack what was given. What waits too long is let go."""
        self._shelf.put(given, self.store.packer, self._refused)
        if self.health.problem is not None:
            self._drop(0 if self._is_hopeless else MOST_WAITING)

    async def write(self, sessions: dict[str, SessionRow]) -> bool:
        """Write what waits, and these sessions. Gives whether it is written. What is not, stays."""
        try:
            await self.open()
            while self._shelf or sessions:
                await self._write_some(sessions)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the work goes on
            await self._failed(exc)
            return False
        self._succeeded()
        return True

    async def _write_some(self, sessions: dict[str, SessionRow]) -> None:
        """Write as much as is written at once. What can't be written is found, and let go."""
        batch, keys = self._shelf.batch(sessions.values())
        try:
            await self.store.write(batch)
        except (HistoryError, ValueError, TypeError, OverflowError) as exc:
            self._shelf.smaller(keys)
            if type(exc) in _OF_THE_STORE:  # which may have had no time for so many
                raise
            if len(keys) <= 1 and sessions:
                sessions.clear()
            elif len(keys) <= 1:
                self._shelf.wrote(keys)
                self._refused(exc)
            return
        self._shelf.wrote(keys)
        sessions.clear()
        self.health.written += len(keys)

    async def open(self) -> None:
        """Open the store, if it is not open."""
        async with self._opening:
            if self._is_open:
                return
            if self._is_hopeless:
                raise StoreUnavailable(self.health.problem or "The history can't be used.")
            for news in await self.store.open():
                self._say(news)
            self._is_open = True
            await self._take_leftovers()

    async def _take_leftovers(self) -> None:
        """Write what earlier processes could not."""
        for file, batch in leftovers.take(self.store.url):
            try:
                await self.store.write(batch)
            except (HistoryError, ValueError, TypeError, OverflowError) as exc:
                if type(exc) in _OF_THE_STORE:
                    leftovers.put_back(file)
                    raise
                why = f"{type(exc).__name__}: {exc}"
                self._say(sentence(f"What waited in {file} can't be kept: {why}"))
                continue
            except BaseException:
                leftovers.put_back(file)
                raise
            leftovers.done(file)
            entries = len(batch.calls) + len(batch.messages)
            told = counted(entries, "entry that", "entries that")
            verb = "is" if entries == 1 else "are"
            self._say(f"{told} could not be written earlier {verb} kept now.")

    async def end(self, sessions: dict[str, SessionRow]) -> None:
        """Let go of the store. What could not be written is put into a file, for the next process."""
        if not self._was_set_by:
            self._set_by(self._shelf, sessions)
        self._shelf.drop(-1)
        if self._tidied is None and random.randrange(SELDOM) == 0:
            await self.tidy()
        with suppress(Exception):
            await self.store.close()

    def set_by(self, given: dict[Key, Waiting], sessions: dict[str, SessionRow]) -> None:
        """Put what waits into a file, and this. Called by whoever can't wait for our thread any longer."""
        self._was_set_by = True
        shelf = self._shelf.copy()
        shelf.put(given, Packer(), self._refused)
        self._set_by(shelf, sessions)

    def _set_by(self, shelf: Shelf, sessions: dict[str, SessionRow]) -> None:
        left = len(shelf)
        if not left or self._is_hopeless:
            return
        try:
            file = leftovers.set_by(self.store.url, shelf.all(sessions.values()))
        except (OSError, RuntimeError) as exc:
            self.health.lost += left
            told = counted(left, "entry", "entries")
            are = "is" if left == 1 else "are"
            said = f"{told} could not be written to {self._shown}, and {are} lost: {exc}"
            self._say(sentence(said))
        else:
            wait, are = ("waits", "is") if left == 1 else ("wait", "are")
            told = f"{counted(left, 'entry', 'entries')} for {self._shown}"
            self._say(f"{told} {wait} in {file}, and {are} written the next time.")

    # How it goes

    def _succeeded(self) -> None:
        problem, self.health.problem = self.health.problem, None
        if problem is not None:
            told = counted(self.health.lost, "entry was", "entries were")
            lost = f"; {told} lost" if self._said_lost else ""
            self._say(f"{self._shown} is written again, with all that has waited{lost}.")
            self._said_lost = False

    async def _failed(self, exc: Exception) -> None:
        """Say once what is wrong, and hold what waits within its bounds."""
        if not isinstance(exc, HistoryError):
            exc = HistoryError(f"{type(exc).__name__}: {exc}")
        first, self.health.problem = self.health.problem is None, str(exc)
        self._is_hopeless |= isinstance(exc, (BadUrl, StoreTooNew, NotKept))
        if first:
            self._say(f"{sentence(exc)} {'Nothing is kept.' if self._is_hopeless else _GOES_ON}")
        if isinstance(exc, StoreDamaged):  # it is opened anew, and set aside
            with suppress(Exception):
                await self.store.close()
            self._is_open = False
        self._drop(0 if self._is_hopeless else MOST_WAITING)

    def stuck(self, why: str) -> None:
        """Note that nothing can be written for now."""
        if self.health.problem is None:
            self.health.problem = why
            self._say(f"{sentence(why)} {_GOES_ON}")

    def _refused(self, exc: Exception) -> None:
        """Note that something can't be kept, whatever the store does."""
        self.health.lost += 1
        if not self._said_refused:
            self._said_refused = True
            self._say(sentence(f"An entry can't be kept: {type(exc).__name__}: {exc}"))

    def _drop(self, limit: int) -> None:
        """Let go of the oldest, until what waits is small enough."""
        lost = self._shelf.drop(limit)
        self.health.lost += lost
        if lost and not self._said_lost and not self._is_hopeless:
            self._said_lost = True
            much = f"More than {limit >> 20} MB wait for {self._shown}"
            self._say(f"{much}: the oldest calls are let go.")

    def _say(self, text: str) -> None:
        with suppress(Exception):  # whoever is told must not keep us from writing
            self._tell(text)

    # Tidying up

    async def tidy(self) -> bool:
        """Do a little of what can be done when there is time. Gives whether there is more."""
        if not self._is_open:
            return False
        try:
            if await self.store.index():
                return True
            if self._tidied is None or time.monotonic() - self._tidied > TIDY_EVERY:
                pruned = await self.store.prune(self._keep, now=time.time())
                self._let_go(pruned)
                if pruned.calls or pruned.messages:
                    return True
                self._tidied = time.monotonic()
        except Exception:  # noqa: BLE001 - whatever it is, the next write will say so
            return False
        return False

    async def forget(self, session_id: str) -> Pruned:
        """Remove a session, and its spill files."""
        pruned = await self.store.forget(session_id)
        self._let_go(pruned)
        return pruned

    def _let_go(self, pruned: Pruned) -> None:
        if pruned.spills and self._forget_spills is not None:
            self._forget_spills(list(pruned.spills))
