"""What happens in a recording, as rules see it.

The structs here are what is known. Rules read them, and change nothing.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from callsheet.observe.lines import Line, Way
from callsheet.observe.values import obj, text

Json: TypeAlias = dict[str, Any]

Outcome: TypeAlias = Literal["allowed", "rejected", "cancelled", "error"] | None

FINAL = ("completed", "failed", "cancelled")

BIG = 64 * 1024
"""Bytes of a message that are many."""

_BACKGROUND = ("run_in_background", "runInBackground", "is_background", "background")


class Connection(Struct, eq=False):
    """What was agreed on. `version` is None until the agent has answered `initialize`."""

    version: int | None = None
    agent: str = ""
    client: str = ""
    capabilities: Json = field(default_factory=dict[str, Any])
    """Of the client."""
    agent_capabilities: Json = field(default_factory=dict[str, Any])
    is_whole: bool = False
    """Whether the recording begins with `initialize`, and nothing is lost. If not, less can be known."""
    has_gaps: bool = False
    """Whether there were lines of which nothing could be read."""
    has_both_ways: bool = False
    """Whether anything of the client was recorded."""
    spoken: int | None = None
    """The version that the agent's updates are of, where they tell it."""

    @property
    def is_v2(self) -> bool:
        """Whether it is ACP v2 that is spoken: agreed on, or seen where that was not recorded."""
        version = self.spoken if self.version is None else self.version
        return version is not None and version >= 2

    @property
    def is_v1(self) -> bool:
        """Whether it is surely ACP v1 that is spoken."""
        version = self.spoken if self.version is None else self.version
        return version is not None and version < 2


class Turn(Struct, eq=False):
    """From a prompt to its answer; in v2, until the session is idle."""

    session: Session
    begun: int
    request: Any = None
    ended: int | None = None
    stop_reason: str | None = None
    cancelled: int | None = None
    cancelled_at: float | None = None
    """When the client cancelled it, in the recording's seconds."""
    is_active: bool = False
    """Whether the agent has begun to work on it, as far as v2 tells."""
    is_implied: bool = False
    """Whether its prompt was not recorded."""
    is_failed: bool = False
    """Whether it was answered with an error."""
    overlaps: Turn | None = None
    """The turn that was not over yet when it was asked for."""
    calls: dict[str, Call] = field(default_factory=dict[str, "Call"])
    questions: list[Question] = field(default_factory=list["Question"])
    """Those that wait for an answer."""
    late: int = 0
    """Updates that came after its answer, and are not about calls."""


class Session(Struct, eq=False):
    """A session. `asked` and `opened` are the lines of its request and its answer, if they are there."""

    id: str
    asked: int | None = None
    opened: int | None = None
    is_replaying: bool = False
    """Whether it is being loaded: what comes now is history."""
    is_loaded: bool = False
    """Whether it was loaded, and no prompt came since: some tell the history then."""
    cwd: str | None = None
    turn: Turn | None = None
    last_turn: Turn | None = None
    queue: list[Turn] = field(default_factory=list[Turn])
    """Turns that were asked for while another was not over."""
    background: frozenset[str] | None = None
    """The calls that go on when a turn is over, as v2 lists them. None if the agent does not say."""
    updates: int = 0
    calls: dict[str, Call] = field(default_factory=dict[str, "Call"])
    """Those that are not over yet, and some that ended last."""
    terminals: dict[str, int] = field(default_factory=dict[str, int])
    """The ids of terminals that were made, and where."""
    files: dict[str, int] = field(default_factory=dict[str, int])
    """Files that are there, surely, and the lines that showed it. See `files.py`."""

    def let_go(self) -> None:
        """Forget what refers back to it: memory is free at once, and not when Python looks for garbage."""
        self.turn = self.last_turn = None
        self.calls, self.queue = {}, []

    @property
    def tells_history(self) -> bool:
        """Whether calls that are told now are those of a history."""
        return self.is_replaying or self.is_loaded

    @property
    def is_known(self) -> bool:
        """Whether somebody has opened it, or was about to."""
        return self.opened is not None or self.asked is not None

    @property
    def is_whole(self) -> bool:
        """Whether its beginning was recorded: all its calls are known."""
        return bool(self.opened or self.asked)


class Call(Struct, eq=False, weakref=True):
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
    given: Any = None
    """The last input that was told and is not empty, even if an empty one came later."""
    streamed: str = ""
    """What looked like arguments in its content before there was an input. See `streaming.py`."""
    status: str | None = None
    statuses: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    ended: int | None = None
    turn: Turn | None = None
    is_replayed: bool = False
    is_judged: bool = False
    """Whether it is over, and was told to be."""
    updates: int = 0
    busiest: int = 0
    """Updates within a second, at most; as far as the recording tells times."""
    second: tuple[float, int] | None = None
    """When the second began that is counted now, and how many came in it."""
    again: dict[tuple[str, str], Again] = field(default_factory=dict[tuple[str, str], "Again"])
    """What was sent more than once, by field and by how."""
    wire_bytes: int = 0
    """Bytes of all messages about it, its terminals' included."""
    output_bytes: int = 0
    """Bytes of output that came by terminals."""
    news_bytes: int = 0
    """Text that came by its content, without what was sent again."""
    questions: list[Question] = field(default_factory=list["Question"])
    last: int = 0
    """The line on which it was last heard of."""
    is_asked_first: bool = False
    """Whether the first that was heard of it was a question."""
    is_reused: bool = False
    """Whether its id was another call's before."""
    ended_before: int | None = None
    """The line on which that other call ended, if it is known."""
    cancelled: int | None = None
    """The line on which the client cancelled this call alone, and the agent took it."""
    chunks: int = 0
    """Items that were appended to its content."""
    late: int = 0
    """Updates that came after its end, or after its turn's."""
    is_left: bool = False
    """Whether it was told to be open when its turn was over."""
    ended_at: float | None = None
    """When it ended, in the recording's seconds."""

    @property
    def is_background(self) -> bool:
        """Whether it may go on when its turn is over."""
        listed = self.session.background
        if listed is not None and self.id in listed:
            return True
        asked = obj(self.fields.get("rawInput"))
        return any(asked.get(name) is True for name in _BACKGROUND)

    @property
    def denied(self) -> Question | None:
        """The question about it that was answered last, if the answer was no. One taken back is none."""
        for question in reversed(self.questions):
            if question.outcome is not None and question.withdrawn is None:
                return question if question.outcome in ("rejected", "cancelled") else None
        return None

    exit_code: int | None = None
    """That of its command, as a terminal of its own told it."""

    @property
    def name(self) -> str:
        """The tool's name, as far as it is told."""
        return text(self.fields.get("name")) or _name_in(self.fields) or _name_in(self.opening)


def _name_in(told: Json) -> str:
    """Return the name where agents put it before ACP had a place for it."""
    meta = obj(told.get("_meta"))
    return text(meta.get("tool_name")) or text(obj(meta.get("claudeCode")).get("toolName")) or ""


class Again(Struct):
    """How often a field was sent that was known already, how many bytes of it were, and where first."""

    line: int
    times: int = 0
    size: int = 0


class Question(Struct, eq=False):
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
    withdrawn: int | None = None
    turn: Turn | None = None
    is_known: bool = False
    """Whether its call had been heard of before."""
    twin: Call | None = None
    """The call that it is about, if that was announced under another id."""


# Moments


class Heard(Struct):
    """A message, whichever. `sender` is None if that can't be told."""

    line: Line
    message: Json
    sender: Way | None
    connection: Connection
    session: str | None = None
    method: str | None = None
    answers: str | None = None
    """Of an answer, the method that was asked for; empty if nobody has asked for anything under its id."""
    same_id: int | None = None
    """Of a request, the line of another one of its sender that has its id, and waits."""
    before: float | None = None
    """The time of the message before it."""


class Big(Struct):
    """A message of more than 64 KB."""

    line: Line
    sender: Way | None
    session: str | None
    method: str | None = None


class Unreadable(Struct):
    """A line that is not just one message. It may have one that can be made out."""

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
    elsewhere: str | None = None
    """The other session in which a call of this id is open, if nothing announces it in this one."""


class Begun(Struct):
    """A call is heard of for the first time, by an update or by a question."""

    line: Line
    connection: Connection
    session: Session
    call: Call


class Folded(Struct):
    """The same update, when it was folded: `call` is what is known now."""

    line: Line
    connection: Connection
    session: Session
    call: Call
    kind: str
    update: Json
    is_first: bool
    """Whether it is the call's first update, and not a question has announced it, as in v2."""


class Strayed(Struct):
    """The first update or question of a session that nobody has opened."""

    line: Line
    connection: Connection
    session: Session
    opening: int | None
    """The line of a request for a session that is not answered yet."""


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


class LeftOpen(Struct):
    """A call is open where it should have ended: its turn is over, or its history was told."""

    line: int
    connection: Connection
    call: Call
    turn: Turn | None


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
        """Whether all that was told of the call is in the recording, from its beginning.

        Of one that was only asked about, nothing was told.
        """
        call = self.call
        if call.is_asked_first and not call.updates:
            return False
        return call.announced is not None or self.connection.is_whole

    @property
    def is_settled(self) -> bool:
        """Whether it has ended, or its turn has: what was not told by then never will be."""
        turn = self.call.turn
        return self.call.ended is not None or (turn is not None and turn.ended is not None)


class Waiting(Struct):
    """A request that was not answered."""

    asker: Way
    method: str
    line: int


class Over(Struct):
    """The recording is over. `messages` counts what could be read."""

    line: int
    connection: Connection
    lines: int
    calls: int
    messages: int = 0
    first: int = 0
    """The line of the first message."""
    has_ids: bool = False
    """Whether there were requests or answers, and not notifications alone."""
    waiting: list[Waiting] = field(default_factory=list[Waiting])
    turns: list[Turn] = field(default_factory=list[Turn])
    """Those that are not over."""
