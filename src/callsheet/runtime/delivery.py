"""The order in which consumers are notified of changes, also when a signal's handler reports.

The session's lock is re-entrant: a signal's handler, or a finaliser, may change a call while its thread
is in the midst of changing one. What it changes must not overtake what it interrupts: the views would send
an older state after a newer one, even after a final one. So changes are queued here in the order in which
they were stored, and whoever is notifying consumers already goes on with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from callsheet.report.report import ToolCallReport

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

Change: TypeAlias = tuple[ToolCallReport, bool, ToolCallReport | None, Collection[str]]
"""A call's new state, whether its status has changed, the state before, and the fields that differ."""


class Delivery:
    """Notifies the consumers of a session, under its lock.

    Whoever stores a new state appends it to `changes` right after that, without calling anything in
    between: Python runs no handler there, so changes stand in the order in which they were stored.
    """

    def __init__(self, session: RuntimeSession) -> None:
        self.changes: deque[Change] = deque()
        self._session: RuntimeSession = session
        self._is_busy: bool = False

    def run(self) -> None:
        """Notify all consumers of the changes that wait, unless that is just being done."""
        if self._is_busy:
            return
        self._is_busy = True
        change: Change | None = None
        consumers = self._session.consumers
        try:
            while self.changes:
                change = self.changes.popleft()
                for consumer in consumers:
                    consumer.put(*change)
        except BaseException:  # raised by a handler: nobody knows how far the notification has come
            if change is not None:
                for consumer in consumers:
                    consumer.put_again(change[0], change[2])
            raise
        finally:
            self._is_busy = False

    @contextmanager
    def encoding(self) -> Generator[None]:
        """Hold the session's lock while lines are made. Changes of handlers come after these lines."""
        with self._session.lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                yield
            finally:
                self._is_busy = was_busy
                self.run()
