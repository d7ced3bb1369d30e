"""When a tap delays a message, why, and for how long: `Waits` holds all that waits, by its reason.

A bare pipe waits for nothing. A tap that repairs has to wait in a few places, because agents report
the better half of something a moment after the first. Each wait ends as soon as what it waits for
arrives, and each has a longest time, so that a silent agent never holds up the client:

- An *announcement* waits for the input it lacks, so that the card's first title is the right one:
  `ANNOUNCEMENT` seconds while its call may be running, `ARGUMENTS` from the last sign of arguments
  on their way, `LONGEST` in all.
- A *permission request* waits for the input of its call, because no user must approve blind:
  `ANNOUNCEMENT` after the call's first line.
- An *end without a result* waits for the result, which some agents report after it:
  `ANNOUNCEMENT`; in a replay, until the replay is over.
- A *raw input that grows* waits for the rest of it, which agents send again from the beginning with each
  piece: `STILL` after it last grew.
- *Any other change* waits for more changes, to be sent together: `PACE` between two sends.
- *Text and output* wait for the next piece where they may end in the middle of a secret: `TEXT_PAUSE`,
  `OUTPUT_PAUSE`.

What waits must not be overtaken by what depends on it. Cards stand in the order of their calls, so an
announcement that waits is sent before any later one. Responses and visible updates release everything
that waits before them. What the client does not show among the cards, such as a list of commands or
a request to read a file, overtakes: an agent may be blocked on the response, and would never report
what the tap waits for.

Nothing here reads a clock. Times are passed in, in seconds, so a recording is repaired exactly as
it would have been live.

The tap also ends calls that their agents never end (`ENDS`): an agent has `DENIED` or `CANCELLED`
seconds to do so itself, and the end of the turn is the last moment for all others. A turn that has spent
its budget has `CANCELLED` seconds, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import IntEnum

from callsheet.observe.events import UpdateArrived
from callsheet.observe.evidence import shows_something
from callsheet.observe.model import Json, obj
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.tap.context import TappedCall
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

STILL = 1.0
"""Seconds after which a raw input that has stopped growing is sent."""

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


class Why(IntEnum):
    """What something waits for. Of waits that are over at the same time, the first here ends first."""

    TEXT = 0
    """A piece of text, for the next one."""
    REQUEST = 1
    """A permission request, for the input of its call."""
    RESULT = 2
    """The end of a call, for a result."""
    END = 3
    """A call that should end, for its agent to end it."""
    OUTPUT = 4
    """A terminal's output, for the next piece."""
    ANNOUNCEMENT = 5
    """An announcement, for its input."""
    CHANGE = 6
    """Changes, for more changes."""
    RESEND = 7
    """What a view's resend budget held back."""
    INPUT = 8
    """A raw input that grows, for the rest of it."""
    BUDGET = 9
    """A turn that is stopped because of its cost, for its agent to end it."""


Act = Callable[[float], object]


class Waits:
    """What waits, by reason and key, until when, and what to do then with the time of that moment."""

    def __init__(self) -> None:
        self._held: dict[tuple[Why, Hashable], tuple[float, Act]] = {}

    def hold(self, why: Why, key: Hashable, until: float, act: Act) -> None:
        """Let something wait, in place of what waits for this reason under this key."""
        self._held[why, key] = until, act

    def drop(self, why: Why, key: Hashable) -> None:
        """Forget something: it need not wait any longer."""
        self._held.pop((why, key), None)

    @property
    def due(self) -> float | None:
        """When the first of them has waited long enough."""
        return min([until for until, _ in self._held.values()]) if self._held else None

    def tick(self, now: float, failed: Callable[[Exception], None]) -> None:
        """Act on what has waited long enough. `failed` receives exceptions; the others go on."""
        late = [(until, *name) for name, (until, _) in self._held.items() if until <= now]
        for _, why, key in sorted(late, key=lambda one: one[:2]):
            until, act = self._held.get((why, key), (now, None))
            if act is None or until > now:
                continue  # another wait that ended has changed this one
            del self._held[why, key]
            try:
                act(now)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the session goes on
                failed(exc)


# What may still come of a call


def may_show_more(mine: TappedCall, draft: CallDraft, update: Json, *, is_history: bool) -> bool:
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


def is_late(event: UpdateArrived) -> bool:
    """Whether an update is of a call that ended long ago."""
    is_forgotten = event.call is None and event.known_before
    return is_forgotten and event.kind != "tool_call" and not event.session.is_replaying
