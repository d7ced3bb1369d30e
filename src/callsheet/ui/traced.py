"""What a trace is made of: calls, turns and messages, as the page gets them (in camel case).

Times are seconds since the trace began.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from callsheet.observe.lines import Sender
from callsheet.observe.model import Json


class Who(Struct):
    """Who made calls, as far as it is known. Agent and client are with their versions."""

    user: str = ""
    host: str = ""
    agent: str = ""
    client: str = ""
    source: str = ""
    """How they came into the history; see `history.rows.Origin`."""


class TracedFrame(Struct, rename="camel"):
    """One message about a call."""

    line: int
    time: float
    sender: Sender | None
    message: Json


class Approval(Struct, rename="camel"):
    """How a call was approved, or was not: by a user who was asked, or without asking."""

    asked: float
    answered: float | None = None
    outcome: str | None = None
    option: str | None = None
    has_input: bool = False
    """Whether the user was shown the call's input."""
    by: str | None = None
    """Who decided: `user`, `mode`, `remembered` or `settings`."""
    scope: str | None = None
    """What else the answer applies to."""
    waited: float | None = None
    """Seconds until the answer."""


class TracedCall(Struct, rename="camel"):
    """One call, as its client knew it in the end."""

    id: str
    session: str
    turn: int | None
    announced: float
    started: float | None = None
    first_output: float | None = None
    ended: float | None = None
    title: str = ""
    name: str = ""
    kind: str = ""
    status: str = ""
    reason: str | None = None
    parent: str | None = None
    input: Any = None
    output: Any = None
    content: list[Any] = field(default_factory=list[Any])
    terminals: dict[str, str] = field(default_factory=dict[str, str])
    """What was written to the terminals that it shows, by their ids: the last part of it."""
    locations: list[Any] = field(default_factory=list[Any])
    size: int = 0
    updates: int = 0
    repaired: list[str] = field(default_factory=list[str])
    """What the tap repaired of it, if it is noted."""
    secrets: int = 0
    """How many secrets were hidden in it, if it is noted."""
    usage: Json | None = None
    """The processor time and memory that it took, where that is known."""
    approvals: list[Approval] = field(default_factory=list[Approval])
    findings: list[Json] = field(default_factory=list[Json])
    frames: list[TracedFrame] = field(default_factory=list[TracedFrame])
    left_out: int = 0
    """Frames that are not shown."""
    who: Who | None = None
    """Who made it, where that is not what its trace says."""
    original: int | None = None
    """Behind the tap, the place of the same call among those that the agent sent; set by `page_of`."""

    @property
    def took(self) -> int | None:
        """How many milliseconds it ran; None if it has not ended."""
        if self.ended is None:
            return None
        began = self.announced if self.started is None else self.started
        return max(0, round((self.ended - began) * 1000))


class TracedPlan(Struct, rename="camel"):
    """A plan, as it was at a moment."""

    time: float
    entries: list[Any]


class TracedTurn(Struct, rename="camel"):
    """One turn: a prompt, until its response."""

    session: str
    begun: float
    prompt: str = ""
    ended: float | None = None
    stop: str | None = None
    plans: list[TracedPlan] = field(default_factory=list[TracedPlan])
    usage: Json | None = None


class TracedMessage(Struct, rename="camel"):
    """What the agent wrote or thought, between calls."""

    session: str
    time: float
    kind: str
    text: str = ""


class Trace(Struct, rename="camel"):
    """All of a recording, or of a stored session."""

    source: str
    agent: str = ""
    client: str = ""
    who: Who = field(default_factory=Who)
    protocol: int | None = None
    has_times: bool = True
    epoch: float | None = None
    """The time of day at which it began, in seconds since 1970, where that is known."""
    lines: int = 0
    unreadable: list[str] = field(default_factory=list[str])
    """Which lines could not be read, and why: the first few of them, and how many there were."""
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    """The directories of the sessions."""
    calls: list[TracedCall] = field(default_factory=list[TracedCall])
    turns: list[TracedTurn] = field(default_factory=list[TracedTurn])
    messages: list[TracedMessage] = field(default_factory=list[TracedMessage])
    usage: Json | None = None
    """The last that the agent reported of its tokens and costs."""
    findings: list[Json] = field(default_factory=list[Json])
    """What is wrong with the recording, apart from its calls."""
