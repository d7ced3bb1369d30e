"""The sessions of one tap: which there are, in which of them something is due, and when they are let go."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from callsheet.observe.model import ObservedSession

from .session import TappedSession

FEW = 64
"""Sessions beyond which each new one makes room: the reader of the traffic forgets the oldest, as we do."""


class TappedSessions:
    """The sessions of one tap. `is_known` tells whether a session is still the one of its id."""

    def __init__(self, is_known: Callable[[ObservedSession], bool]) -> None:
        self._is_known: Callable[[ObservedSession], bool] = is_known
        self._by_id: dict[str, TappedSession] = {}
        # Those in which something may be due: few of them, however many there are.
        self._busy: dict[str, TappedSession] = {}

    def __iter__(self) -> Iterator[TappedSession]:
        return iter(list(self._by_id.values()))

    def get(self, key: str) -> TappedSession | None:
        """Return the session of an id, to do something with it."""
        found = self._by_id.get(key)
        if found is not None:
            self._busy[key] = found
        return found

    def put(self, session: TappedSession, now: float) -> None:
        """Take in a session. What is open in one that had its id before is over."""
        key = session.session.id
        self.drop(key, now)
        self._by_id[key] = self._busy[key] = session
        if len(self._by_id) > FEW:
            for other in self:
                if not self._is_known(other.session):
                    self.drop(other.session.id, now)

    def drop(self, key: str, now: float, why: str = "abandoned") -> None:
        """Let a session go. What is open in it is over."""
        self._busy.pop(key, None)
        found = self._by_id.pop(key, None)
        if found is not None:
            found.gone(now, why)

    def clear(self, now: float) -> None:
        """Let all of them go: the agent was started again."""
        for key in list(self._by_id):
            self.drop(key, now, "interrupted")

    @property
    def busy(self) -> list[TappedSession]:
        """Those in which something may wait."""
        return list(self._busy.values())

    @property
    def due(self) -> float | None:
        """When there is something to do, if at all. Only here is it looked at where that is."""
        for key, session in list(self._busy.items()):
            if session.is_idle:
                del self._busy[key]
        times = [due for session in self.busy if (due := session.due) is not None]
        return min(times, default=None)

    def release(self, now: float) -> None:
        """Send all that waits."""
        for session in self.busy:
            session.release(now)
