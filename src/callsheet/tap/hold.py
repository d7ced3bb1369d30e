"""When a tap delays a message, why, and for how long.

A bare pipe waits for nothing, and a tap that only watched would do the same. A tap that repairs has
to wait in a few places, because agents report the better half of something a moment after the
first. Each wait ends as soon as what it waits for arrives, and each has a longest time, so that a
silent agent never holds up the client:

- An *announcement* waits for the input it lacks, so that the card's first title is the right one:
  `ANNOUNCEMENT` seconds while its call may be running, `ARGUMENTS` from the last sign of arguments
  on their way, `LONGEST` in all.
- A *permission request* waits for the input of its call, because no user must approve blind:
  `ANNOUNCEMENT` after the call's first line.
- An *end without a result* waits for the result, which some agents report after it:
  `ANNOUNCEMENT`; in a replay, until the replay is over.
- A *raw input that grows* waits for the rest of it, so that N bytes cost O(N): `STILL` after it
  last grew, then twice as long each time.
- *Any other change* waits for more changes, to be sent together: `PACE` between two sends.
- *Text and output* wait for the next piece where they may end in the middle of a secret: `TEXT_PAUSE`,
  `OUTPUT_PAUSE`.

What waits must not be overtaken by what depends on it. Cards stand in the order of their calls, so an
announcement that waits is sent before any later one. Responses and visible updates release everything
that waits before them. What the client does not show among the cards, such as a list of commands or
a request to read a file, overtakes: an agent may be blocked on the response, and would never report
what the tap waits for.

Nothing here reads a clock. Times are passed in, in seconds, so a recording is repaired exactly as
it would have been live. Every class that holds something has the same interface: `due` is the time at
which to call it again, and `tick(now)` or `late(now)` releases what has waited long enough.

The tap also ends calls that their agents never end (`ENDS`): an agent has `DENIED` or `CANCELLED`
seconds to do so itself, and the end of the turn is the last moment for all others.
"""

from __future__ import annotations

from msgspec.json import encode
from msgspec.structs import replace

from callsheet.observe.events import UpdateArrived
from callsheet.observe.evidence import shows_something
from callsheet.observe.model import FINAL, Json, ObservedCall, ObservedSession, obj
from callsheet.observe.repetition import grew
from callsheet.report.json import JsonValue
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.tap.calls import Tapped
from callsheet.tap.repair import CallDraft

ANNOUNCEMENT = 0.15
"""Seconds that an announcement, a request or an end waits for what it lacks."""

ARGUMENTS = 1.0
"""Seconds that an announcement waits for arguments that are on their way, from the last sign of them.

In ACP, `pending` without an input means just that. Agents were seen to need up to 0.9 s.
"""

LONGEST = 5.0
"""Seconds that an announcement waits in all: by then, an agent that streams a long file has a card."""

PACE = 0.08
"""Seconds between two sends of changes that are not status changes."""

RETRY = 0.16
"""Seconds after which a view is asked again for what its resend budget held back."""

TEXT_PAUSE, OUTPUT_PAUSE = 0.1, 0.16
"""Seconds without another piece of a message's text, or of a terminal's output, after which nothing waits."""

SMALL = 1024
"""Bytes of a raw input that may be sent again each time it grows: they cost little."""

STILL = 1.0
"""Seconds after which a raw input that has stopped growing is sent. It doubles each time."""

DENIED, CANCELLED = 2.0, 5.0
"""Seconds that an agent has to end a call itself that was denied, and one that was cancelled."""

ENDS = {
    Reason.DENIED: (ToolCallStatus.FAILED, "denied"),
    Reason.CANCELLED: (ToolCallStatus.CANCELLED, "cancelled"),
    Reason.ABANDONED: (ToolCallStatus.FAILED, "abandoned"),
}
"""The status of a call that the tap ends, and the phrase shown for it, by reason."""

RESULT_FIELDS = frozenset(("status", "content", "rawOutput"))
"""Fields of an update that report a result."""

_NEVER = float("inf")


# Ends that wait for a result


class HeldEnds:
    """The calls of a session that are done and have shown no result yet, by our ids.

    Calls that run in parallel may all be done before the first result is reported, so an update of
    another call ends no wait. A replay may report all its calls first and then their results:
    there, they wait until it is over.
    """

    def __init__(self, session: ObservedSession) -> None:
        self._session: ObservedSession = session
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def __contains__(self, key: str) -> bool:
        return key in self._until

    def hold(self, mine: Tapped, now: float) -> None:
        """Hold the end of a call that is done now."""
        session, turn = self._session, mine.call.turn
        is_of_old = turn is None or turn.begun < (session.asked or 0)
        mine.done, mine.is_history = now, session.is_replaying and is_of_old
        self._until[mine.id] = _NEVER if mine.is_history else now + ANNOUNCEMENT

    def drop(self, key: str) -> None:
        """Forget a call: it has ended, or goes on."""
        self._until.pop(key, None)

    @property
    def due(self) -> float | None:
        """When the first of them has waited long enough, if that is known."""
        return min((until for until in self._until.values() if until != _NEVER), default=None)

    def late(self, now: float) -> list[str]:
        """Return those that have waited long enough."""
        return [key for key, until in self._until.items() if until <= now]

    def all(self) -> list[str]:
        """Return all of them."""
        return list(self._until)

    def overtaken(self) -> list[str]:
        """Return those that nothing may overtake: all, except those of a replay that is going on."""
        replays = self._session.is_replaying
        return [key for key, until in self._until.items() if not replays or until != _NEVER]


def may_show_more(mine: Tapped, draft: CallDraft, update: Json, *, is_history: bool) -> bool:
    """Whether a call is done without any result so far. Callsheet's own agents report both at once.

    A replay may report a call as done, and then more of it, such as that it failed.
    """
    is_done = draft.status == "completed" or draft.reason == Reason.EXIT_CODE.value
    if not is_done or mine.call.status == "failed" or "callsheet" in obj(update.get("_meta")):
        return False
    if is_history and mine.report is None:
        return True
    shows = draft.raw_output is not None or mine.call.output_bytes
    return not shows and not shows_something(mine.call.fields.get("content"))


def is_late(told: UpdateArrived) -> bool:
    """Whether an update is of a call that ended long ago, or announces one whose turn is over as it is."""
    session, call = told.session, told.call
    if session.is_replaying:
        return False
    if told.kind != "tool_call":
        return call is None and told.known_before
    if call is None or call.ended is None or call.announced is not None or told.connection.is_v2:
        return False
    if session.turn is not None or session.last_turn is None or session.is_loaded:
        return False
    return call.turn is session.last_turn and not _differs(told.update, call)


def _differs(update: Json, call: ObservedCall) -> bool:
    """Whether an announcement contradicts what is known of a call, or reports its result."""
    known = call.fields
    if update.get("rawOutput") or update.get("status") in FINAL:
        return True
    fields = {name: update.get(name) for name in ("title", "rawInput", "content")}
    return any(value and known.get(name) not in (None, value) for name, value in fields.items())


# Why a call ends that its agent does not end


def why_denied(call: ObservedCall) -> Reason:
    """Return why a call ends whose permission request was rejected or cancelled."""
    turn, denied = call.turn, call.denied
    rejected = denied is not None and denied.outcome == "rejected"
    if not rejected and turn is not None and turn.cancelled is not None:
        return Reason.CANCELLED
    return Reason.DENIED


def was_only_allowed(call: ObservedCall) -> bool:
    """Whether the user approved something, and nothing else is known of what that was."""
    if not call.questions or not call.is_asked_first or call.updates:
        return False
    question = call.questions[-1]
    return question.outcome == "allowed" and not question.tool_call.get("rawInput")


def was_never_allowed(call: ObservedCall) -> bool:
    """Whether the user was asked about a call and never approved it: it has not run."""
    return call.denied is not None and all(one.outcome != "allowed" for one in call.questions)


# Raw fields that grow


class GrowingFields:
    """The raw inputs and outputs of running calls: what was sent of them, and which inputs wait.

    Arguments arrive in pieces as a model writes them, and output as a command prints it. The user
    sees both in the title and in the content, so the raw fields are sent only when the call's
    status changes. An input that has stopped growing is sent without that, because the call may run
    for long.
    """

    def __init__(self) -> None:
        self._sent: dict[str, ToolCallReport] = {}
        self._waits: dict[str, tuple[float, ToolCallReport]] = {}
        self._patience: dict[str, float] = {}

    def whole(self, report: ToolCallReport) -> ToolCallReport:
        """Note that all of a call is sent now."""
        key = report.tool_call_id
        self._waits.pop(key, None)
        if report.is_final:
            self._sent.pop(key, None)
            self._patience.pop(key, None)
        else:
            self._sent[key] = report
        return report

    def without(self, report: ToolCallReport, now: float) -> ToolCallReport:
        """Return a call with the raw output that was sent, and the raw input, where that only grows."""
        key = report.tool_call_id
        sent = self._sent.get(key)
        if sent is None:
            return self.whole(report)
        shown = report
        if report.raw_output is not sent.raw_output:
            shown = replace(report, raw_output=sent.raw_output)
        self._waits.pop(key, None)
        if _grows(sent.raw_input, report.raw_input):
            self._waits[key] = (now + self._patience.get(key, STILL), report)
            shown = replace(shown, raw_input=sent.raw_input)
        self._sent[key] = shown
        return shown

    @property
    def due(self) -> float | None:
        """When an input has waited long enough, if one waits."""
        return min((until for until, _ in self._waits.values()), default=None)

    def late(self, now: float) -> list[ToolCallReport]:
        """Return the calls whose inputs have waited long enough, with these."""
        found = [report for until, report in self._waits.values() if until <= now]
        for report in found:
            key = report.tool_call_id
            self._patience[key] = 2 * self._patience.get(key, STILL)
        return [self.whole(report) for report in found]


def _grows(sent: JsonValue, now: JsonValue) -> bool:
    if not sent or now is sent or now == sent:
        return False
    return grew(sent, now) and len(encode(now)) > SMALL
