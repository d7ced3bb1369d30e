"""The state of observed ACP traffic: connection, sessions, turns, calls, approval requests.

The tracker (`tracker.py`) fills these structs line by line; rules, the tap and all others only read
them. Line numbers stand for points in time throughout (`ended`, `cancelled`, `answered`):
a recording need not have a clock, but its lines always have an order.

Traffic may hold anything, so fields of messages are never trusted to have the right type. `obj`,
`many` and `text` look into JSON: a value of another type counts as absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field

from callsheet.report.usage import TokenUsage

if TYPE_CHECKING:
    from callsheet.observe.usage import Meter

Json: TypeAlias = dict[str, Any]

Decision: TypeAlias = Literal["allowed", "rejected", "cancelled", "error"] | None

FINAL = ("completed", "failed", "cancelled")

REMEMBERED_IDS = 1 << 17
"""Ids that `SeenIds` remembers. When there are more, the older half is forgotten."""

_BACKGROUND = ("run_in_background", "runInBackground", "is_background", "background")

_NO_FIELDS: dict[str, Any] = {}
_NO_ITEMS: list[Any] = []


def obj(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else a shared empty one that must not be changed."""
    return value if value.__class__ is dict else _NO_FIELDS


def many(value: Any) -> list[Any]:
    """Return the value if it is a list, else a shared empty one that must not be changed."""
    return value if value.__class__ is list else _NO_ITEMS


def text(value: Any) -> str | None:
    """Return the value if it is a string, else None."""
    return value if type(value) is str else None


def rpc_id(value: Any) -> Any:
    """Return a JSON-RPC id as a dictionary key, in which 1 and "1" differ; None if it is no id."""
    return value if isinstance(value, (str, int, float)) else None


def name_of(info: Any) -> str:
    """Return a program's name and version from the info object in `initialize`."""
    known = obj(info)
    return " ".join(filter(None, (text(known.get("name")), text(known.get("version")))))


class SeenIds:
    """Remembers which ids were used in which session, in bounded memory.

    Two generations of hashes: when the newer one is full, the older one is dropped. So at least the
    last `REMEMBERED_IDS / 2` ids are always known, and memory stays at a few megabytes however long
    the traffic is. Hashes instead of strings, because ids may be of any length.
    """

    def __init__(self) -> None:
        self._new: set[int] = set()
        self._old: set[int] = set()

    def add(self, session: str, key: str) -> None:
        """Remember that an id was used."""
        self._new.add(hash((session, key)))
        if len(self._new) >= REMEMBERED_IDS // 2:
            self._old, self._new = self._new, set()

    def has(self, session: str, key: str) -> bool:
        """Whether an id was used, as far as that is remembered."""
        found = hash((session, key))
        return found in self._new or found in self._old


class ObservedConnection(Struct, eq=False):
    """What both sides agreed on. `version` is None until the agent has answered `initialize`."""

    version: int | None = None
    agent: str = ""
    client: str = ""
    capabilities: Json = field(default_factory=dict[str, Any])
    """The client's capabilities."""
    agent_capabilities: Json = field(default_factory=dict[str, Any])
    is_whole: bool = False
    """Whether the recording begins with `initialize`, and nothing is lost. If not, less is certain."""
    has_gaps: bool = False
    """Whether there were lines of which nothing could be read."""
    has_both_ways: bool = False
    """Whether any message of the client was recorded."""
    spoken: int | None = None
    """The protocol version that the agent's updates imply, where they do."""

    @property
    def is_v2(self) -> bool:
        """Whether ACP v2 is spoken: agreed on, or implied where the agreement was not recorded."""
        version = self.spoken if self.version is None else self.version
        return version is not None and version >= 2

    @property
    def is_v1(self) -> bool:
        """Whether it is certain that ACP v1 is spoken."""
        version = self.spoken if self.version is None else self.version
        return version is not None and version < 2


class ObservedTurn(Struct, eq=False):
    """A turn: from a prompt to its response; in v2, until the session is idle."""

    session: ObservedSession
    begun: int
    request: Any = None
    ended: int | None = None
    stop_reason: str | None = None
    cancelled: int | None = None
    cancelled_at: float | None = None
    """When the client cancelled it, in the recording's seconds."""
    is_active: bool = False
    """Whether the agent has begun to work on it, as far as v2 reports that."""
    is_implied: bool = False
    """Whether its prompt was not recorded."""
    is_failed: bool = False
    """Whether the response was an error."""
    overlaps: ObservedTurn | None = None
    """The turn that had not ended when this one was requested."""
    calls: dict[str, ObservedCall] = field(default_factory=dict[str, "ObservedCall"])
    questions: list[ApprovalRequest] = field(default_factory=list["ApprovalRequest"])
    """The approval requests that wait for a response."""
    late: int = 0
    """Updates after its end that are not about calls."""
    usage: TokenUsage = TokenUsage()
    """What it has used so far, as far as that was reported, also after its end."""


class ObservedSession(Struct, eq=False):
    """A session. `asked` and `opened` are the lines of its request and its response, if present."""

    id: str
    connection: ObservedConnection
    asked: int | None = None
    opened: int | None = None
    is_replaying: bool = False
    """Whether it is being loaded: what arrives now is history."""
    is_loaded: bool = False
    """Whether it was loaded, and no prompt came since: some agents send the history then."""
    cwd: str | None = None
    turn: ObservedTurn | None = None
    last_turn: ObservedTurn | None = None
    queue: list[ObservedTurn] = field(default_factory=list[ObservedTurn])
    """Turns that were requested before the current one ended."""
    background: frozenset[str] | None = None
    """The calls that continue when a turn ends, as v2 lists them. None if the agent lists none."""
    updates: int = 0
    calls: dict[str, ObservedCall] = field(default_factory=dict[str, "ObservedCall"])
    """The calls that have not ended yet, and some that ended last."""
    terminals: dict[str, int] = field(default_factory=dict[str, int])
    """The ids of terminals that were created, and the lines on which they were."""
    files: dict[str, int] = field(default_factory=dict[str, int])
    """Files that certainly exist, and the lines that showed it. See `evidence.note_files`."""
    meter: Meter | None = None
    """What it has used, if something of it was asked for or reported. See `usage.meter_of`."""

    def let_go(self) -> None:
        """Drop what refers back to it, so that memory is freed at once, without the collector."""
        self.turn = self.last_turn = None
        self.calls, self.queue = {}, []

    @property
    def shows_history(self) -> bool:
        """Whether calls that arrive now belong to a history."""
        return self.is_replaying or self.is_loaded

    @property
    def is_known(self) -> bool:
        """Whether somebody has opened it, or was about to."""
        return self.opened is not None or self.asked is not None

    @property
    def is_whole(self) -> bool:
        """Whether its beginning was recorded, so that all its calls are known."""
        return bool(self.opened or self.asked)


class ObservedCall(Struct, eq=False, weakref=True):
    """All that is known of a call at a point in time. Updates are merged as a client would merge them."""

    id: str
    session: ObservedSession
    first: int
    """The line that first mentioned it."""
    announced: int | None = None
    opening: Json = field(default_factory=dict[str, Any])
    """The update that announced it."""
    fields: Json = field(default_factory=dict[str, Any])
    """What a client knows of it, by ACP's names: title, kind, status, content, rawInput, …"""
    last_input: Any = None
    """The last input that was not empty, even if an empty one came later."""
    streamed: str = ""
    """What looked like arguments in its content before there was an input (`evidence.note_streaming`)."""
    status: str | None = None
    statuses: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    ended: int | None = None
    ended_at: float | None = None
    """When it ended, in the recording's seconds."""
    exit_code: int | None = None
    """The exit code of its command, as its own terminal reported it."""
    turn: ObservedTurn | None = None
    is_replayed: bool = False
    is_judged: bool = False
    """Whether `CallClosed` was emitted for it."""
    updates: int = 0
    busiest: int = 0
    """The most updates within a second, as far as the recording has times."""
    second: tuple[float, int] | None = None
    """When the second began that is being counted, and how many updates it has so far."""
    again: dict[tuple[str, str], Repetition] = field(
        default_factory=dict[tuple[str, str], "Repetition"]
    )
    """What was sent more than once, by field and by how: `same` or `grown`."""
    wire_bytes: int = 0
    """Bytes of all messages about it, those of its terminals included."""
    output_bytes: int = 0
    """Bytes of output that came through terminals."""
    news_bytes: int = 0
    """Text that came through its content, without what was sent again."""
    questions: list[ApprovalRequest] = field(default_factory=list["ApprovalRequest"])
    asked: Json = field(default_factory=dict[str, Any])
    """What approval requests have reported of it; where they differ, the last one."""
    asked_since: Json = field(default_factory=dict[str, Any])
    """In v1, input, title and kind of the last request, where no update has reported others since."""
    last: int = 0
    """The line that last mentioned it."""
    is_asked_first: bool = False
    """Whether an approval request was the first to mention it."""
    is_reused: bool = False
    """Whether its id was another call's before."""
    ended_before: int | None = None
    """The line on which that other call ended, if it is known."""
    cancelled: int | None = None
    """The line on which the client cancelled this call alone, and the agent accepted that."""
    chunks: int = 0
    """Items that were appended to its content."""
    late: int = 0
    """Updates after its end, or after its turn's end."""
    is_left: bool = False
    """Whether `CallLeftOpen` was emitted for it."""

    @property
    def is_background(self) -> bool:
        """Whether it may continue when its turn ends."""
        listed = self.session.background
        if listed is not None and self.id in listed:
            return True
        arguments = obj(self.fields.get("rawInput"))
        return any(arguments.get(name) is True for name in _BACKGROUND)

    @property
    def denied(self) -> ApprovalRequest | None:
        """The last answered approval request, if the answer was no. Withdrawn requests don't count."""
        for question in reversed(self.questions):
            if question.outcome is not None and question.withdrawn is None:
                return question if question.outcome in ("rejected", "cancelled") else None
        return None

    @property
    def name(self) -> str:
        """The tool's name, where the agent sends it."""
        return text(self.fields.get("name")) or _name_in(self.fields) or _name_in(self.opening)


def _name_in(fields: Json) -> str:
    """Return the name from where agents put it before ACP had a field for it."""
    meta = obj(fields.get("_meta"))
    if not meta:
        return ""
    return text(meta.get("tool_name")) or text(obj(meta.get("claudeCode")).get("toolName")) or ""


class Repetition(Struct):
    """How often a field was sent that was known already, how many bytes of it, and where first."""

    line: int
    times: int = 0
    size: int = 0


class ApprovalRequest(Struct, eq=False):
    """A `session/request_permission`, and what became of it."""

    line: int
    session: ObservedSession | None
    call_id: str | None
    call: ObservedCall | None
    params: Json
    tool_call: Json
    """The fields of the call that it has."""
    request: Any = None
    answered: int | None = None
    outcome: Decision = None
    chosen: Json = field(default_factory=dict[str, Any])
    """The option that was chosen."""
    withdrawn: int | None = None
    turn: ObservedTurn | None = None
    is_known: bool = False
    """Whether its call was open before."""
    twin: ObservedCall | None = None
    """The call that it is about, if that was announced under another id."""
