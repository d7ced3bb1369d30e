"""Requests for permission, made whole and passed on.

Some agents ask before they tell what they ask about, and even before what they have said until then. Nobody
should allow what is told a moment later, so such a request waits for it, no longer than an announcement does.
Those of other calls may overtake it meanwhile, and texts; answers, and what else the agent asks for, may not.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from callsheet.observe.events import PermissionAsked
from callsheet.observe.model import Json

from .calls import Tapped
from .post import HOLD
from .session import TappedSession

MOST = 64
"""Requests that wait at once."""


class _Held(Struct, eq=False):
    """A request that waits. `line` is as it came."""

    session: TappedSession
    mine: Tapped
    asked: PermissionAsked
    message: Json
    line: bytes
    until: float


class Questions:
    """The requests of one tap.

    `send` passes on a request that was made whole; `give_up` one that can't be, as it came.
    """

    def __init__(
        self,
        send: Callable[[PermissionAsked, Json, float], None],
        give_up: Callable[[bytes, Json, Exception | None], None],
    ) -> None:
        self._send: Callable[[PermissionAsked, Json, float], None] = send
        self._give_up: Callable[[bytes, Json, Exception | None], None] = give_up
        self._held: list[_Held] = []

    def take(
        self, session: TappedSession, asked: PermissionAsked, message: Json, line: bytes, now: float
    ) -> bool:
        """Take in a request, and pass it on unless it is to wait. False if it is to pass as it came."""
        call = asked.question.twin or asked.question.call
        self._pass_on_those(now, lambda held: held.mine.call is call)
        mine = session.asked(asked.question, now)
        if mine is None:
            return False
        until = mine.since + HOLD
        if now < until and session.is_blind(mine, asked.question):
            self._held.append(_Held(session, mine, asked, message, line, until))
            if len(self._held) > MOST:
                self._pass_on(self._held.pop(0), now)
            return True
        made = session.request(mine, asked.question, message, now)
        if made is not None:
            self._send(asked, made, now)
        return made is not None

    @property
    def due(self) -> float | None:
        """When the first of those that wait has waited for long enough."""
        return min((held.until for held in self._held), default=None)

    def tick(self, now: float) -> None:
        """Pass on what has waited for long enough."""
        self._pass_on_those(now, lambda held: held.until <= now)

    def told(self, now: float) -> None:
        """Pass on what is known by now, for a call was told of."""
        self._pass_on_those(
            now, lambda held: not held.session.is_blind(held.mine, held.asked.question)
        )

    def release(self, now: float, about: Tapped | None = None) -> None:
        """Pass on what waits, or only that about a call: what comes now must not overtake it."""
        self._pass_on_those(now, lambda held: about in (None, held.mine))

    def _pass_on_those(self, now: float, which: Callable[[_Held], bool]) -> None:
        if not self._held:
            return
        ready: list[_Held] = []
        others: list[_Held] = []
        for held in self._held:
            (ready if which(held) else others).append(held)
        self._held = others
        for held in ready:
            self._pass_on(held, now)

    def _pass_on(self, held: _Held, now: float) -> None:
        failed: Exception | None = None
        try:
            made = held.session.request(held.mine, held.asked.question, held.message, now)
            if made is not None:
                self._send(held.asked, made, now)
                return
        except Exception as exc:  # noqa: BLE001 - whatever it is, the agent waits for an answer
            failed = exc
        self._give_up(held.line, held.message, failed)
