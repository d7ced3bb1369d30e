"""What happens in a recording, as rules see it.

The structs here are what is known. Rules read them, and change nothing.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from .lines import Line, Way
from .values import obj, text

Json: TypeAlias = dict[str, Any]

Outcome: TypeAlias = Literal["allowed", "rejected", "cancelled", "error"] | None

FINAL = ("completed", "failed", "cancelled")


class Connection(Struct):
    """What was agreed on. `version` is None until the agent has answered `initialize`."""

    version: int | None = None
    agent: str = ""
    client: str = ""
    capabilities: Json = field(default_factory=dict[str, Any])
    """Of the client."""
    is_whole: bool = False
    """Whether the recording begins with `initialize`. Of one that does not, less can be known."""
    has_both_ways: bool = False
    """Whether anything of the client was recorded."""


class Turn(Struct):
    """From a prompt to its answer."""

    session: Session
    begun: int
    request: Any = None
    ended: int | None = None
    stop_reason: str | None = None
    cancelled: int | None = None
    calls: dict[str, Call] = field(default_factory=dict[str, "Call"])


class Session(Struct):
    """A session. `asked` and `opened` are the lines of its request and its answer, if they are there."""

    id: str
    asked: int | None = None
    opened: int | None = None
    is_replaying: bool = False
    """Whether it is being loaded: what comes now is history."""
    cwd: str | None = None
    turn: Turn | None = None
    last_turn: Turn | None = None
    calls: dict[str, Call] = field(default_factory=dict[str, "Call"])
    """Those that are not over yet, and some that ended last."""
    terminals: dict[str, int] = field(default_factory=dict[str, int])
    """The ids of terminals that were made, and where."""
    files: dict[str, int] = field(default_factory=dict[str, int])
    """Files that are there, surely, and the lines that showed it. See `files.py`."""
    asked_for: dict[str, int] = field(default_factory=dict[str, int])
    """The calls that nothing had been heard of when permission was asked for them, and where."""


class Call(Struct):
    """All that is known of a call at a moment. Fields are folded as a client would fold them."""

    id: str
    session: Session
    first: int
    """The line on which it was first heard of."""
    announced: int | None = None
    opening: Json = field(default_factory=dict[str, Any])
    """The update that announced it."""
    fields: Json = field(default_factory=dict[str, Any])
    """What a client knows of it, by ACP's names: title, kind, status, content, rawInput, …"""
    status: str | None = None
    statuses: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    ended: int | None = None
    turn: Turn | None = None
    is_replayed: bool = False
    is_judged: bool = False
    """Whether it is over, and was told to be."""
    updates: int = 0
    wire_bytes: int = 0
    """Bytes of all messages about it, its terminals' included."""
    output_bytes: int = 0
    """Bytes of output that came by terminals."""
    questions: list[Question] = field(default_factory=list["Question"])
    last: int = 0
    """The line on which it was last heard of."""

    exit_code: int | None = None
    """That of its command, as a terminal of its own told it."""

    @property
    def name(self) -> str:
        """The tool's name, as far as it is told."""
        return text(self.fields.get("name")) or _name_in(self.fields) or _name_in(self.opening)


def _name_in(told: Json) -> str:
    """Give the name where agents put it before ACP had a place for it."""
    meta = obj(told.get("_meta"))
    return text(meta.get("tool_name")) or text(obj(meta.get("claudeCode")).get("toolName")) or ""


class Question(Struct):
    """A request for permission."""

    line: int
    session: Session | None
    call_id: str | None
    call: Call | None
    params: Json
    tool_call: Json
    """What it tells of the call."""
    request: Any = None
    answered: int | None = None
    outcome: Outcome = None


# Moments


class Heard(Struct):
    """A message, whichever. `sender` is None if that can't be told."""

    line: Line
    message: Json
    sender: Way | None
    connection: Connection
    session: str | None = None


class Unreadable(Struct):
    """A line that is no message."""

    line: Line


class Told(Struct):
    """An update of a call, before it is folded: `call` is what was known before, None if it is new.

    `kind` is the update's `sessionUpdate`: `tool_call`, `tool_call_update` or `tool_call_content_chunk`.
    """

    line: Line
    connection: Connection
    session: Session
    call_id: str
    call: Call | None
    kind: str
    update: Json
    known_before: bool
    """Whether the id was ever used in the session, also by a call that was let go."""


class Folded(Struct):
    """The same update, when it was folded: `call` is what is known now."""

    line: Line
    connection: Connection
    session: Session
    call: Call
    kind: str
    update: Json
    is_first: bool


class Updated(Struct):
    """An update of a session that is not about calls or terminals."""

    line: Line
    connection: Connection
    session: Session
    update: Json


class TerminalTold(Struct):
    """An update that is about a terminal."""

    line: Line
    connection: Connection
    session: Session
    terminal_id: str
    update: Json
    is_known: bool


class Asked(Struct):
    """The agent asks for permission."""

    line: Line
    connection: Connection
    question: Question


class Decided(Struct):
    """The client has answered a question."""

    line: Line
    connection: Connection
    question: Question


class TurnOver(Struct):
    """A turn was answered."""

    line: Line
    connection: Connection
    turn: Turn


class CallOver(Struct):
    """Nothing more is expected of a call: it has ended, and its turn has; or the recording is over.

    `line` is the last that was about it.
    """

    line: int
    connection: Connection
    call: Call
    at_the_end: bool
    """Whether it is over only because the recording is."""

    @property
    def is_known(self) -> bool:
        """Whether all that was told of the call is in the recording, from its beginning."""
        return self.call.announced is not None or self.connection.is_whole

    @property
    def is_settled(self) -> bool:
        """Whether it has ended, or its turn has: what was not told by then never will be."""
        turn = self.call.turn
        return self.call.ended is not None or (turn is not None and turn.ended is not None)


class Over(Struct):
    """The recording is over."""

    line: int
    connection: Connection
    lines: int
    calls: int
