"""Replay a stored session to a client, as the client would have seen it live.

Each call is sent once, in its last state: same id, title, kind, status, content, locations and times. Live
output comes back as what the client understands, terminal or text; a terminal that no longer exists is left
out. A call that has not ended, because another process still runs it, is sent as abandoned: nobody would end
it for this client.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.peer import ENGLISH, Peer, Phrases
from callsheet.acp.views import view_for
from callsheet.history.call_records import abandoned, possible_ids
from callsheet.history.rows import StoredCall, StoredMessage
from callsheet.report.content import TerminalContent
from callsheet.report.fields import NOTES
from callsheet.report.json import JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import TerminalState

if TYPE_CHECKING:
    from callsheet.history.store import Store

LINE = 60 * 1024
"""Bytes of a line from which a call is sent in two: some clients die on a line over 64 KB."""

PIECE = 16 * 1024
"""Characters of a message that are sent at once."""

PAGE = 50
"""Entries of a session that are read at once."""

_CHUNKS = {
    "user": "user_message_chunk",
    "agent": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}
_WHOLE = {"agent": "agent_message", "thought": "agent_thought"}


def entries_of(
    store: Store, session_id: str, after: int = -1
) -> Iterator[StoredCall | StoredMessage]:
    """Yield the entries of a session's timeline after a position, in order."""
    while page := store.timeline(session_id, after=after, limit=PAGE):
        yield from page
        last = page[-1]
        after = last.head.position if isinstance(last, StoredCall) else last.position


class Replay:
    """Make the lines that replay one session to one client.

    Args:
        session_id: The session's id, as the client knows it.
        peer: What the client understands.
        words: The texts in the client's language.
        alive: The ids of calls that still run in this process; they are not sent as abandoned.
        plan: Return the update for a plan's entries. Default: the plan update of ACP.
    """

    def __init__(
        self,
        session_id: str,
        peer: Peer,
        *,
        words: Phrases = ENGLISH,
        alive: Collection[str] = (),
        plan: Callable[[list[JsonObject]], JsonObject] | None = None,
    ) -> None:
        self._peer: Peer = replace(peer, owns_terminals=False)
        self._words: Phrases = words
        self._alive: Collection[str] = alive
        self._plan: Callable[[list[JsonObject]], JsonObject] = plan or self._plan_update
        self._frames: UpdateFrames = UpdateFrames(session_id)
        # The runs that have messages of each id.
        self._runs: dict[str, list[str]] = {}
        self._begun: set[tuple[str, str]] = set()

    def lines(self, entry: StoredCall | StoredMessage) -> Iterator[bytes]:
        """Yield the lines that replay one entry of the session's timeline. Call it for each, in order."""
        updates = self._call(entry) if isinstance(entry, StoredCall) else self._message(entry)
        for update in updates:
            yield update if isinstance(update, bytes) else self._line(update)

    def _line(self, update: Update) -> bytes:
        """Return the line of an update, with as much of it as fits."""
        return self._frames.fitting(update)[0]

    # Calls

    def _call(self, call: StoredCall) -> Iterator[Update | bytes]:
        record = call.record
        if not record.report.is_final and record.report.tool_call_id not in self._alive:
            record = abandoned(record, call.head.updated_at, None)
        terminals = {one.terminal_id: one.state() for one in record.terminals}
        report = _without_lost(record.report, terminals)
        view = view_for(self._peer, terminals.get, self._words)
        late = {one.terminal_id for one in record.terminals if one.late}
        if not (late and self._announces_terminals):
            lines = [self._line(update) for update in view.call(report)]
            if all(len(line) <= LINE for line in lines):
                yield from lines
                return
            view = view_for(self._peer, terminals.get, self._words)
        yield from view.call(self._opening(report, late))
        yield from view.call(report)

    @property
    def _announces_terminals(self) -> bool:
        """Whether the client learns of terminals from the announcement of their call, and only there."""
        return self._peer.version == 1 and self._peer.terminals == "meta"

    def _opening(self, report: ToolCallReport, late: Collection[str]) -> ToolCallReport:
        """Return the first half of a call that is sent in two: without its result."""
        shown = [
            item
            for item in report.content
            if self._announces_terminals
            and type(item) is TerminalContent
            and item.terminal_id not in late
        ]
        notes = {key: value for key, value in report.notes.items() if key != "reason"}
        meta = {**report.meta, NOTES: notes} if notes else report.meta
        status = ToolCallStatus.IN_PROGRESS if report.is_final else report.status
        return replace(report, status=status, content=tuple(shown), raw_output=None, meta=meta)

    # Messages

    def _message(self, message: StoredMessage) -> Iterator[Update]:
        if message.kind == "plan":
            yield self._plan(message.blocks)
        elif message.kind == "user" and self._peer.version == 2:
            key = self._message_id(message)
            yield {"sessionUpdate": "user_message", "messageId": key, "content": message.blocks}
        else:
            key = self._message_id(message)
            if self._peer.version == 2 and (message.kind, key) not in self._begun:
                # Whatever the client has of it from before is replaced: chunks would be added to that.
                self._begun.add((message.kind, key))
                yield {"sessionUpdate": _WHOLE[message.kind], "messageId": key, "content": []}
            for block in message.blocks:
                for piece in _pieces(block):
                    yield {
                        "sessionUpdate": _CHUNKS[message.kind],
                        "messageId": key,
                        "content": piece,
                    }

    def _message_id(self, message: StoredMessage) -> str:
        """Return an id that no message of another run has: a client would take both for one."""
        runs = self._runs.setdefault(message.message_id, [])
        if message.run not in runs:
            runs.append(message.run)
        return next(islice(possible_ids(message.message_id), runs.index(message.run), None))

    def _plan_update(self, entries: list[JsonObject]) -> JsonObject:
        if self._peer.version == 1:
            return {"sessionUpdate": "plan", "entries": entries}
        plan: JsonObject = {"type": "items", "planId": "plan", "entries": entries}
        return {"sessionUpdate": "plan_update", "plan": plan}


def _without_lost(report: ToolCallReport, known: dict[str, TerminalState]) -> ToolCallReport:
    """Return a call without the terminals that exist no more."""
    known_items = [
        item
        for item in report.content
        if type(item) is not TerminalContent or item.terminal_id in known
    ]
    if len(known_items) == len(report.content):
        return report
    return replace(report, content=tuple(known_items))


def _pieces(block: JsonObject) -> Iterator[JsonObject]:
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str) or len(text) <= PIECE:
        yield block
        return
    for start in range(0, len(text), PIECE):
        yield {**block, "text": text[start : start + PIECE]}
