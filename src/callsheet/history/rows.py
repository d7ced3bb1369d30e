"""The rows of a store, the same in both engines, and what is read from them.

A session has one timeline: its messages and its calls have a `position` in it. A call's row is written when
the call is announced, and again as it changes; while it is open, the store notes which process has it.

Ids of sessions, calls and messages are made by whoever reports, and may come again: an agent may number its
calls anew in each process. So a row is identified by its `key`, which is ours: who wrote it (a run of a
log) and its position there. The same key is the same row, however often it is written. Within a session, a
store assigns each call a unique `call_id`: the second `call_0` becomes `call_0~2`.
A `payload` is compressed (see `codec`). What other programs may want to read stands beside it in plain
columns, and the views of `schema` show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import astuple

from callsheet.report.json import JsonObject
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.report.usage import TokenUsage

if TYPE_CHECKING:
    from callsheet.report.terminal import CallRecord


FACTS = ("user", "host", "agent", "agentVersion", "client", "clientVersion", "source")
"""What is known of who made calls, by the names that programs see."""

LATEST = 2.5e11
"""Seconds since 1970 that a calendar has a date for."""

LONGEST_NAME = 100
"""Characters of a name in an `Origin`."""


class Origin(Struct, kw_only=True, frozen=True, gc=False):
    """Who made calls: the person and the machine, the agent and the client; empty where that is unknown.

    `source` is how they came into the history: `agent`, `tap`, `call`, `adapter` or `import`.
    """

    user: str = ""
    host: str = ""
    agent: str = ""
    agent_version: str = ""
    client: str = ""
    client_version: str = ""
    source: str = ""

    @property
    def key(self) -> str | None:
        """What identifies it in a store; None if nothing is known."""
        return _origin_key(self)

    def facts(self) -> dict[str, str | None]:
        """Return all of it by the names that programs see; None where it is unknown."""
        return {name: text or None for name, text in zip(FACTS, astuple(self), strict=True)}

    @property
    def agent_name(self) -> str:
        """The agent's name and version."""
        return f"{self.agent} {self.agent_version}".strip()

    @property
    def client_name(self) -> str:
        """The client's name and version."""
        return f"{self.client} {self.client_version}".strip()

    @property
    def text(self) -> str:
        """All of it for people: `ada on build7, Claude Agent 0.99.1 in Zed 0.213, through the tap`."""
        person = " on ".join(filter(None, (self.user, self.host)))
        program = " in ".join(filter(None, (self.agent_name, self.client_name)))
        way = _WAYS.get(self.source, self.source)
        return ", ".join(filter(None, (person, program, way))) or "unknown"


SOURCES = ("agent", "tap", "call", "adapter", "import")
"""What a `source` is."""

_WAYS = {
    "agent": "by its own report",
    "tap": "through the tap",
    "call": "by callsheet call",
    "adapter": "by an adapter",
    "import": "imported",
}


def name_text(text: str) -> str:
    """Return what a program calls itself as a short line: it may have said anything."""
    return "".join(char for char in text[: 2 * LONGEST_NAME] if char.isprintable())[:LONGEST_NAME]


def name_and_version(text: str) -> tuple[str, str]:
    """Split what programs call themselves: a version is the last word if there is a digit in it."""
    text = name_text(text).strip()
    name, _, version = text.rpartition(" ")
    return (name, version) if name and any(map(str.isdigit, version)) else (text, "")


@lru_cache(maxsize=1024)
def _origin_key(origin: Origin) -> str | None:
    if origin == UNKNOWN:
        return None
    text = "\0".join(astuple(origin)).encode(errors="surrogatepass")
    return blake2b(text, digest_size=12).hexdigest()


UNKNOWN = Origin()


class SessionRow(Struct, kw_only=True, gc=False):
    """A session, and further facts about it. Times are seconds since 1970."""

    session_id: str
    cwd: str = ""
    title: str = ""
    info: JsonObject = field(default_factory=dict[str, Any])
    created_at: float = 0.0
    updated_at: float = 0.0
    origin: Origin = UNKNOWN


class Head(Struct, kw_only=True, gc=False):
    """What a list of calls shows. `size` is what the whole call takes when it is not compressed.

    `marks` is what the call's notes say of its parent, its permission and its repair, as JSON; None if that
    is nothing, or if the call was stored before version 4. `origin` is the key of its `Origin`.
    """

    session_id: str
    call_id: str
    position: int
    name: str
    title: str
    kind: str
    status: str
    reason: str | None
    at: float
    updated_at: float
    duration_ms: float | None
    size: int
    marks: str | None = None
    origin: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call has not ended."""
        return self.status in ("pending", "in_progress", "paused")


class CallRow(Head, kw_only=True, gc=False, tag="call"):
    """A whole call. `turn` is the key of its turn; `input` and `output` are JSON, for other programs."""

    payload: bytes
    key: str
    turn: str | None = None
    input: str | None = None
    output: str | None = None

    @property
    def room(self) -> int:
        """How many it takes, more or less."""
        return len(self.payload) + len(self.input or "") + len(self.output or "")


class MessageRow(Struct, kw_only=True, gc=False, tag="message"):
    """A message: a user's, an agent's, a thought, or a plan.

    `kind` is `user`, `agent`, `thought` or `plan`. A long message has several rows, each with its own
    position; 0.1.0 has numbered them as `part`.
    """

    session_id: str
    message_id: str
    part: int
    position: int
    kind: str
    at: float
    size: int
    payload: bytes
    key: str

    @property
    def room(self) -> int:
        """How many it takes, more or less."""
        return len(self.payload)


class TurnRow(Struct, kw_only=True, gc=False, tag="turn"):
    """A turn, from the user's message to the agent's answer. It is open until it has an end."""

    session_id: str
    key: str
    position: int
    at: float
    ended_at: float | None = None
    stop_reason: str | None = None
    origin: str | None = None
    usage: TokenUsage = TokenUsage()
    trace: str | None = None
    """The `traceparent` that the client has sent, if it has."""
    room: ClassVar[int] = 200


WaitingRow = tuple[SessionRow, CallRow | MessageRow | TurnRow]
"""A row that is to be written, and the session that it belongs to."""


# What is read


class StoredCall(Struct):
    """A call that was read, whole."""

    head: Head
    record: CallRecord
    key: str = ""
    turn: str = ""
    """The key of its turn; empty outside of turns."""
    own_id: str = ""
    """The id by which it was reported: another call of its session may have had that before."""

    @property
    def position(self) -> int:
        """Its place in the session's timeline."""
        return self.head.position


class StoredMessage(Struct):
    """A message that was read. `blocks` are ACP's blocks of content, or the entries of a plan."""

    position: int
    kind: str
    message_id: str
    at: float
    blocks: list[JsonObject]
    run: str = ""
    """The run of a log that it belongs to: another one may have used the same id."""


class StoredSession(SessionRow, kw_only=True, gc=False):
    """A session that was read, and how many calls it has."""

    calls: int = 0


STATUSES = list(dict.fromkeys(("open", *map(str, ToolCallStatus), *map(str, Reason))))
"""What a status to look for may be: ACP's statuses, `open` for those that are not final, and reasons."""


class Term(Struct, frozen=True):
    """One condition of a filter: see `filters`. `is_not` turns it around."""

    field: str
    value: str | float
    sign: str = ":"
    is_not: bool = False


class Query(Struct, kw_only=True, frozen=True):
    """Select the calls that meet every condition, the newest first. None means no condition.

    Attributes:
        session_id: The session.
        call_id: The whole id of a call.
        id_part: What a call's id begins or ends with.
        tool: The tool's name.
        status: A status of ACP, `open`, or a reason (`denied`, `timeout`, …).
        since: Seconds since 1970; earlier calls are left out.
        until: Seconds since 1970; calls from then on are left out.
        search: Words and quoted phrases that must all occur.
        terms: Further conditions, as `filters.parse_filter` returns them.
        before: Where an earlier page ended: the `at`, session and id of its last call.
        limit: How many calls to return at most.
    """

    session_id: str | None = None
    call_id: str | None = None
    id_part: str | None = None
    tool: str | None = None
    status: str | None = None
    since: float | None = None
    until: float | None = None
    search: str | None = None
    terms: tuple[Term, ...] = ()
    before: tuple[float, str, str] | None = None
    limit: int = 50


class Window(Struct):
    """Some of the calls that a query selects, the oldest first, and how many there are in all."""

    total: int
    offset: int
    heads: list[Head]


class ToolStats(Struct):
    """Figures of one tool's calls. Durations are in milliseconds, of the calls that have one."""

    name: str
    calls: int
    failed: int
    cancelled: int
    open: int
    p50: float | None
    p95: float | None
    size: int


class Stats(Struct, kw_only=True):
    """Figures of calls. `size` is what they would take as plain JSON; `stored` is what they take.

    `sessions` counts those with such calls, and `messages` theirs.
    """

    calls: int
    sessions: int
    messages: int
    open: int
    failed: int
    size: int
    stored: int
    file_bytes: int
    indexed: int
    oldest: float | None
    newest: float | None
    tools: list[ToolStats]


class Retention(Struct, kw_only=True, frozen=True):
    """The limits of what is stored; None means no limit. The oldest calls go first, running ones never.

    Attributes:
        max_age: Seconds.
        max_calls: Calls in the whole store.
        max_bytes: Bytes of the whole store, as it is stored.
    """

    max_age: float | None = None
    max_calls: int | None = None
    max_bytes: int | None = None


KEEP = Retention(max_age=90 * 86400.0, max_calls=1_000_000, max_bytes=2 << 30)
"""The default limits of one user's file. Where many share a store, only the age of it holds: see `limits`."""


def limits(keep: Retention, *, is_shared: bool) -> Retention:
    """Return the limits that hold: what is plenty for one user is soon too little for a team."""
    return Retention(max_age=keep.max_age) if is_shared and keep == KEEP else keep


class Fill(Struct):
    """The bytes that a store uses, if it exceeds a limit, and how many calls go then, more or less."""

    used: int
    surplus: int


class Pruned(Struct):
    """What was removed, and the spill files that nobody refers to any more."""

    calls: int = 0
    sessions: int = 0
    messages: int = 0
    spills: Sequence[str] = ()
