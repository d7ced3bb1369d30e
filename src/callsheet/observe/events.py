"""The events that the tracker emits, in the order in which they happen.

Each rule of the checker is a function of one of these types; the tap reacts to some of them. An
update of a call is emitted twice: as `UpdateArrived` with what was known before it, and as
`UpdateApplied` with what is known after it.
"""

from __future__ import annotations

from msgspec import Struct, field

from callsheet.observe.lines import RecordedLine, Sender
from callsheet.observe.model import (
    ApprovalRequest,
    Json,
    ObservedCall,
    ObservedConnection,
    ObservedSession,
    ObservedTurn,
)

LARGE = 64 * 1024
"""Bytes from which on a message is large."""


class MessageSeen(Struct):
    """Any message. `sender` is None if that is not certain."""

    line: RecordedLine
    message: Json
    sender: Sender | None
    connection: ObservedConnection
    session: str | None = None
    method: str | None = None
    answers: str | None = None
    """Of a response, the requested method; empty if no request has its id."""
    same_id: int | None = None
    """Of a request, the line of another pending request of its sender that has its id."""
    before: float | None = None
    """The time of the message before it."""


class LargeMessage(Struct):
    """A message of more than 64 KB."""

    line: RecordedLine
    sender: Sender | None
    session: str | None
    method: str | None = None


class UnreadableLine(Struct):
    """A line that is not exactly one message. It may hold one that can be made out all the same."""

    line: RecordedLine


class SessionEvent(Struct):
    """Anything that is about a session."""

    line: RecordedLine
    session: ObservedSession

    @property
    def connection(self) -> ObservedConnection:
        """What both sides agreed on."""
        return self.session.connection


class CallEvent(Struct):
    """The end of a call, or of the time that it had for that."""

    line: int
    call: ObservedCall

    @property
    def connection(self) -> ObservedConnection:
        """What both sides agreed on."""
        return self.call.session.connection


class UpdateArrived(SessionEvent):
    """An update of a call, before it is applied: `call` is what was known before, None if it is new.

    `kind` is the update's `sessionUpdate`: `tool_call`, `tool_call_update` or `tool_call_content_chunk`.
    """

    call_id: str
    call: ObservedCall | None
    kind: str
    update: Json
    known_before: bool
    """Whether the id was ever used in the session, also by a call that was let go since."""
    elsewhere: str | None = None
    """The other session in which a call of this id is open, if nothing announces it in this one."""


class CallBegan(SessionEvent):
    """A call is mentioned for the first time, by an update or by an approval request."""

    call: ObservedCall


class UpdateApplied(SessionEvent):
    """The same update after it was applied: `call` is what is known now."""

    call: ObservedCall
    kind: str
    update: Json
    is_first: bool
    """Whether it is the call's first update, and no approval request has announced it, as in v2."""


class UnopenedSession(SessionEvent):
    """The first update or approval request of a session that nobody has opened."""

    opening: int | None
    """The line of a request for a session that is still pending."""


class SessionUpdated(SessionEvent):
    """An update of a session that is not about calls or terminals."""

    update: Json


class TerminalUpdated(SessionEvent):
    """An update that is about a terminal."""

    terminal_id: str
    update: Json
    is_known: bool


class PermissionEvent(Struct):
    """Anything that is about an approval request."""

    line: RecordedLine
    connection: ObservedConnection
    question: ApprovalRequest


class PermissionAsked(PermissionEvent):
    """The agent asks for permission."""


class PermissionDecided(PermissionEvent):
    """The client has answered an approval request."""


class TurnBegan(SessionEvent):
    """A turn has begun."""

    turn: ObservedTurn


class UsageChanged(SessionEvent):
    """More is known of what a turn has used. It may have ended already."""

    turn: ObservedTurn


class TurnEnded(Struct):
    """A turn has ended."""

    line: RecordedLine
    connection: ObservedConnection
    turn: ObservedTurn


class CallLeftOpen(CallEvent):
    """A call is open where it should have ended: its turn has ended, or its history was replayed."""

    turn: ObservedTurn | None


class CallClosed(CallEvent):
    """Nothing more is expected of a call: it has ended and its turn has, or the recording has.

    `line` is the last that was about it.
    """

    at_the_end: bool
    """Whether it is closed only because the recording has ended."""
    is_known: bool = False
    """Whether all that was sent about the call is in the recording, from its beginning.

    Of a call that was only asked about, nothing was sent.
    """
    is_settled: bool = False
    """Whether it has ended, or its turn has: what was not sent by then never will be."""

    def __post_init__(self) -> None:
        """Find out what most rules ask."""
        call, turn = self.call, self.call.turn
        if call.updates or not call.is_asked_first:
            self.is_known = call.announced is not None or self.connection.is_whole
        self.is_settled = call.ended is not None or (turn is not None and turn.ended is not None)


class UnansweredRequest(Struct):
    """A request without a response."""

    asker: Sender
    method: str
    line: int


class RecordingEnded(Struct):
    """The recording has ended. `messages` counts what could be read."""

    line: int
    connection: ObservedConnection
    lines: int
    calls: int
    messages: int = 0
    first: int = 0
    """The line of the first message."""
    has_ids: bool = False
    """Whether there were requests or responses, and not notifications alone."""
    waiting: list[UnansweredRequest] = field(default_factory=list[UnansweredRequest])
    turns: list[ObservedTurn] = field(default_factory=list[ObservedTurn])
    """The turns that have not ended."""
