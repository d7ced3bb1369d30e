"""Requests for permission, made whole and passed on.

Some agents ask before they tell what they ask about, and even before what they have said until then. Nobody
should allow what is told a moment later, so such a request waits: until that is told, until something else is
asked or answered, or for as long as announcements do.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from callsheet.check.recording.moments import Asked, Call, Json, Session

from .calls import Tapped
from .post import HOLD
from .session import TappedSession


class _Held(Struct, eq=False):
    """A request that waits."""

    session: TappedSession
    mine: Tapped
    asked: Asked
    message: Json
    until: float


class Questions:
    """The requests of one tap.

    `send` passes on a request that was made whole; `fail` is told of one that could not be, and passes it on
    as far as it can.
    """

    def __init__(
        self,
        send: Callable[[Asked, Json, float], None],
        fail: Callable[[Json, Exception | None], None],
    ) -> None:
        self._send: Callable[[Asked, Json, float], None] = send
        self._fail: Callable[[Json, Exception | None], None] = fail
        self._held: list[_Held] = []

    def asked(self, session: TappedSession, asked: Asked, message: Json, now: float) -> bool:
        """Take in a request, and pass it on unless it is to wait. False if it is to pass as it came."""
        mine = session.asked(asked.question, now)
        if mine is None:
            return False
        if session.is_blind(mine, asked.question):
            self._held.append(_Held(session, mine, asked, message, now + HOLD))
            return True
        made = session.request(mine, asked.question, message, now)
        if made is not None:
            self._send(asked, made, now)
        return made is not None

    @property
    def due(self) -> float | None:
        """When the first of those that wait has waited for long enough."""
        return self._held[0].until if self._held else None

    def tick(self, now: float) -> None:
        """Pass on what has waited for long enough."""
        self._pass_on(now, lambda held: held.until <= now)

    def told(self, now: float) -> None:
        """Pass on what is known by now, for a call was told of."""
        self._pass_on(now, lambda held: not held.session.is_blind(held.mine, held.asked.question))

    def release(self, now: float, about: Session | Call | None = None) -> None:
        """Pass on what waits, or only that about a session or a call: what comes now must not overtake it."""
        self._pass_on(now, lambda held: about in (None, held.session.session, held.mine.call))

    def _pass_on(self, now: float, which: Callable[[_Held], bool]) -> None:
        ready = [held for held in self._held if which(held)]
        self._held = [held for held in self._held if held not in ready]
        for held in ready:
            try:
                question = held.asked.question
                made = held.session.request(held.mine, question, held.message, now)
                if made is not None:
                    self._send(held.asked, made, now)
                else:
                    self._fail(held.message, None)
            except Exception as exc:  # noqa: BLE001 - the agent waits for an answer
                self._fail(held.message, exc)
