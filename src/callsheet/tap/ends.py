"""How calls end that their agents don't end in time, and those that are done and have shown nothing.

Some agents tell a call's result after its end. So an end with nothing to show waits: until the call's next
update, until something new is to be shown, or a moment. Calls that run together may all be done before their
results are told, so an update of another call ends no wait. A history may tell all its calls first, and then
their results: there it waits until that is told.
"""

from __future__ import annotations

from callsheet.observe.events import UpdateArrived
from callsheet.observe.evidence import shows_something
from callsheet.observe.model import FINAL, Json, ObservedCall, ObservedSession, obj
from callsheet.report.status import Reason, ToolCallStatus

from .calls import Tapped
from .post import HOLD
from .repair import Draft

DENIED, CANCELLED = 2.0, 5.0
"""Seconds that an agent has to end a call itself that was denied, and one that was cancelled."""

ENDS = {
    Reason.DENIED: (ToolCallStatus.FAILED, "denied"),
    Reason.CANCELLED: (ToolCallStatus.CANCELLED, "cancelled"),
    Reason.ABANDONED: (ToolCallStatus.FAILED, "abandoned"),
}
"""The status of a call that ended so, and the phrase that says it."""

OF_RESULTS = frozenset(("status", "content", "rawOutput"))
"""Fields that tell what came of a call."""

_NEVER = float("inf")


class Waiting:
    """The calls of a session that are done, and whose ends wait; by our ids."""

    def __init__(self, session: ObservedSession) -> None:
        self._session: ObservedSession = session
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def __contains__(self, key: str) -> bool:
        return key in self._until

    def hold(self, mine: Tapped, now: float) -> None:
        """Let a call wait that is done now."""
        session, turn = self._session, mine.call.turn
        is_of_old = turn is None or turn.begun < (session.asked or 0)
        mine.done, mine.is_history = now, session.is_replaying and is_of_old
        self._until[mine.id] = _NEVER if mine.is_history else now + HOLD

    def drop(self, key: str) -> None:
        """Let a call wait no longer."""
        self._until.pop(key, None)

    @property
    def due(self) -> float | None:
        """When the first of them has waited for long enough, if that is known."""
        return min((until for until in self._until.values() if until != _NEVER), default=None)

    def late(self, now: float) -> list[str]:
        """Return those that have waited for long enough."""
        return [key for key, until in self._until.items() if until <= now]

    def all(self) -> list[str]:
        """Return all of them."""
        return list(self._until)

    def overtaken(self) -> list[str]:
        """Return those that must not be overtaken: all, but for those of a history that is being told."""
        tells = self._session.is_replaying
        return [key for key, until in self._until.items() if not tells or until != _NEVER]


def may_show_more(mine: Tapped, draft: Draft, update: Json, *, is_history: bool) -> bool:
    """Whether a call is done, and nothing was told of what came of it; by other agents than ours.

    A history may tell a call as done, and then more of it, such as that it failed.
    """
    is_done = draft.status == "completed" or draft.reason == Reason.EXIT_CODE.value
    if not is_done or mine.call.status == "failed" or "callsheet" in obj(update.get("_meta")):
        return False
    if is_history and mine.report is None:
        return True
    shows = draft.raw_output is not None or mine.call.output_bytes
    return not shows and not shows_something(mine.call.fields.get("content"))


def is_late(told: UpdateArrived) -> bool:
    """Whether an update is of a call that is long over, or announces one whose turn is over as it is."""
    session, call = told.session, told.call
    if session.is_replaying:
        return False
    if told.kind != "tool_call":
        return call is None and told.known_before
    if call is None or call.ended is None or call.announced is not None or told.connection.is_v2:
        return False
    if session.turn is not None or session.last_turn is None or session.is_loaded:
        return False
    return call.turn is session.last_turn and not _tells_otherwise(told.update, call)


def _tells_otherwise(update: Json, call: ObservedCall) -> bool:
    """Whether an announcement tells something else than is known of a call, or what came of it."""
    known = call.fields
    if update.get("rawOutput") or update.get("status") in FINAL:
        return True
    told = {name: update.get(name) for name in ("title", "rawInput", "content")}
    return any(value and known.get(name) not in (None, value) for name, value in told.items())


def why_denied(call: ObservedCall) -> Reason:
    """Return why a call ends whose question was answered with no, or not at all."""
    turn, denied = call.turn, call.denied
    rejected = denied is not None and denied.outcome == "rejected"
    if not rejected and turn is not None and turn.cancelled is not None:
        return Reason.CANCELLED
    return Reason.DENIED


def was_only_allowed(call: ObservedCall) -> bool:
    """Whether people were asked for a yes and gave it, and nothing else is known of what they gave it to."""
    if not call.questions or not call.is_asked_first or call.updates:
        return False
    question = call.questions[-1]
    return question.outcome == "allowed" and not question.tool_call.get("rawInput")


def was_never_allowed(call: ObservedCall) -> bool:
    """Whether people were asked about a call and never said yes: it has not run."""
    return call.denied is not None and all(one.outcome != "allowed" for one in call.questions)
