"""The rows of a store, the same in both engines, and what is read from them.

A session has one timeline: its messages and its calls have a `position` in it. A call's row is written when
the call is announced, and again as it changes; while it is open, the store notes which process has it.

Ids of sessions, calls and messages are made by whoever reports, and may come again: an agent may number its
calls anew in each process. So a row is identified by its `key`, which is ours: who wrote it (a run of a
log) and its position there. The same key is the same row, however often it is written. Within a session, a
store assigns each call a unique `call_id`: the second `call_0` becomes `call_0~2`.
A `payload` is compressed (see `codec`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from callsheet.report.json import JsonObject

if TYPE_CHECKING:
    from callsheet.report.terminal import CallRecord


class SessionRow(Struct, kw_only=True, gc=False):
    """A session, and further facts about it. Times are seconds since 1970."""

    session_id: str
    cwd: str = ""
    title: str = ""
    info: JsonObject = field(default_factory=dict[str, Any])
    created_at: float = 0.0
    updated_at: float = 0.0


class Head(Struct, kw_only=True, gc=False):
    """What a list of calls shows. `size` is what the whole call takes when it is not compressed."""

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

    @property
    def is_open(self) -> bool:
        """Whether the call has not ended."""
        return self.status in ("pending", "in_progress", "paused")


class CallRow(Head, kw_only=True, gc=False, tag="call"):
    """A whole call."""

    payload: bytes
    key: str


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


WaitingRow = tuple[SessionRow, CallRow | MessageRow]
"""A row that is to be written, and the session that it belongs to."""


# What is read


class StoredCall(Struct):
    """A call that was read, whole."""

    head: Head
    record: CallRecord
    key: str = ""

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
    before: tuple[float, str, str] | None = None
    limit: int = 50


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
"""The default limits."""


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
