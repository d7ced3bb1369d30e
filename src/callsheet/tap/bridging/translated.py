"""What becomes of a message, and what is remembered between messages: requests and sessions, both bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct, field

from callsheet.observe.values import rpc_id
from callsheet.report.json import JsonObject, JsonValue

KEEP = 4096
"""Requests that wait, and sessions, at most. What nobody answers or closes must not be kept for ever."""

Key = str | int | float | None


class Translated(Struct):
    """What is to be sent now, in order, and what could not be said.

    A message that passes is the very object that came in, so whoever has its bytes may send those.
    """

    to_agent: list[JsonObject] = field(default_factory=list[JsonObject])
    to_client: list[JsonObject] = field(default_factory=list[JsonObject])
    lost: dict[str, int] = field(default_factory=dict[str, int])
    """What the other side's version has no words for: how often, by method or kind."""

    def lose(self, what: str, times: int = 1) -> None:
        """Count something that could not be said."""
        self.lost[what] = self.lost.get(what, 0) + times

    def add(self, more: Translated) -> None:
        """Let more be sent after this."""
        self.to_agent += more.to_agent
        self.to_client += more.to_client
        for what, times in more.lost.items():
            self.lose(what, times)


class Asked(Struct):
    """A request that waits for its answer."""

    message: JsonObject
    """As it came."""
    sent: str
    """The method under which it was passed on."""
    session: str = ""


class Requests:
    """The requests of one side that wait, by their ids."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Asked] = {}

    def add(self, message: JsonObject, sent: str = "", session: str = "") -> Asked:
        """Note a request."""
        if len(self._waiting) >= KEEP:
            del self._waiting[next(iter(self._waiting))]
        asked = Asked(message, sent or str(message.get("method")), session)
        self._waiting[rpc_id(message.get("id"))] = asked
        return asked

    def pop(self, key: JsonValue) -> Asked | None:
        """Return the request that is answered now."""
        return self._waiting.pop(rpc_id(key), None)


T = TypeVar("T")


class Sessions(Generic[T]):
    """What is known of each session. The oldest are forgotten when there are too many."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] = make
        self._known: dict[str, T] = {}

    def __getitem__(self, session_id: str) -> T:
        """Return a session; a new one if nothing is known of it."""
        found = self._known.get(session_id)
        if found is None:
            if len(self._known) >= KEEP:
                del self._known[next(iter(self._known))]
            found = self._known[session_id] = self._make()
        return found

    def get(self, session_id: str) -> T | None:
        """Return a session that is known."""
        return self._known.get(session_id)

    def pop(self, session_id: str) -> None:
        """Forget a session."""
        self._known.pop(session_id, None)

    def values(self) -> Iterator[T]:
        """Return what is known of all of them."""
        return iter(list(self._known.values()))

    def items(self) -> Iterator[tuple[str, T]]:
        """Return all of them, with their ids."""
        return iter(list(self._known.items()))
