"""What a store makes of a record: a row, another id, an end, a replacement, its spill files.

Ids come from agents, and several runs of one may use the same: the second `call_0` of a session becomes
`call_0~2`. A call whose process is gone is closed as abandoned. A call whose payload is damaged is shown with
the columns of its row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from callsheet.history.codec import Codec, as_json_bytes, blocks_as_json
from callsheet.history.rows import CallRow, Head, MessageRow, SessionRow, WaitingRow
from callsheet.report.content import TerminalContent, TextContent
from callsheet.report.fields import foreign_kind
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_status
from callsheet.report.terminal import CallRecord


class WaitingCall(Struct, frozen=True, gc=False):
    """A state of a call that is to be written, and its position."""

    session: SessionRow
    position: int
    at: float
    updated_at: float
    record: CallRecord
    key: str = ""

    def to_json(self) -> bytes:
        """Return what its payload holds, not compressed yet."""
        return as_json_bytes(self.record)

    def to_row(self, size: int) -> CallRow:
        """Return its row, without its payload, which takes so many bytes when it is not compressed."""
        report = self.record.report
        notes, call_id = report.notes, column_text(report.tool_call_id)
        reason, duration = notes.get("reason"), notes.get("durationMs")
        return CallRow(
            session_id=self.session.session_id,
            call_id=call_id,
            position=self.position,
            name=column_text(report.name),
            title=column_text(report.title or report.name),
            kind=str(report.kind),
            status=str(report.status),
            reason=reason if isinstance(reason, str) else None,
            at=self.at,
            updated_at=self.updated_at,
            duration_ms=float(duration) if isinstance(duration, (int, float)) else None,
            size=size,
            payload=b"",
            key=self.key or call_id,
        )


class WaitingMessage(Struct, frozen=True, gc=False):
    """A part of a message that is to be written, and its position."""

    session: SessionRow
    message_id: str
    part: int
    position: int
    kind: str
    at: float
    blocks: tuple[JsonObject, ...]
    key: str = ""

    def to_json(self) -> bytes:
        """Return what its payload holds, not compressed yet."""
        return blocks_as_json(self.blocks)

    def to_row(self, size: int) -> MessageRow:
        """Return its row, without its payload, which takes so many bytes when it is not compressed."""
        message_id = column_text(self.message_id)
        return MessageRow(
            session_id=self.session.session_id,
            message_id=message_id,
            part=self.part,
            position=self.position,
            kind=self.kind,
            at=self.at,
            size=size,
            payload=b"",
            key=self.key or f"{message_id} {self.part}",
        )


Waiting: TypeAlias = WaitingCall | WaitingMessage


def to_rows(entries: Collection[Waiting], codec: Codec) -> list[WaitingRow]:
    """Return the rows of entries, in their order. Raise any error if one of them can be no row."""
    texts: list[bytes] = []
    rows: list[WaitingRow] = []
    for one in entries:  # at once, while what it refers to is in the processor's cache
        text = one.to_json()
        texts.append(text)
        rows.append((one.session, one.to_row(len(text))))
    for (_, row), payload in zip(rows, codec.compress(texts), strict=True):
        row.payload = payload
        if row.position >> 63:
            raise ValueError("a position is out of range")
    return rows


def column_text(text: str) -> str:
    """Return a text for a column. PostgreSQL has no NUL in texts, and an id or a path may be no text."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "\ufffd") if "\0" in text else text


def possible_ids(call_id: str) -> Iterator[str]:
    """Return the ids that a call may have in its session, its agent's own first."""
    yield call_id
    for number in count(2):
        yield f"{call_id}~{number}"


def renamed(record: CallRecord, call_id: str) -> CallRecord:
    """Return a call with the id that it has in its session. Its terminals get ids of their own with it."""
    report, terminals = record.report, record.terminals
    own = report.tool_call_id
    if own == call_id:
        return record
    content = report.content
    if call_id.startswith(f"{own}~"):
        end = call_id[len(own) :]
        content = tuple(
            replace(item, terminal_id=item.terminal_id + end)
            if type(item) is TerminalContent
            else item
            for item in content
        )
        terminals = tuple([replace(one, terminal_id=one.terminal_id + end) for one in terminals])
    return CallRecord(replace(report, tool_call_id=call_id, content=content), terminals)


def run_of(key: str, message_id: str) -> str:
    """Return the run of a log that a message belongs to; empty where none was noted."""
    return "" if key.startswith(f"{message_id} ") else key.partition(" ")[0]


def unreadable(head: Head, why: str) -> CallRecord:
    """Return a call as a list shows it, with what is wrong as its content."""
    status = to_status(head.status)
    notes: dict[str, object] = {}
    if head.reason is not None and status is ToolCallStatus.FAILED:
        notes["reason"] = head.reason
    if head.duration_ms is not None:
        notes["durationMs"] = head.duration_ms
    report = ToolCallReport(
        head.call_id,
        head.name,
        head.title,
        foreign_kind(head.kind),
        status,
        (TextContent(f"(The history has lost what this call was given and gave back: {why}.)"),),
        meta={"callsheet": notes},
    )
    return CallRecord(report)


def abandoned(record: CallRecord, seen: float, locale: str | None) -> CallRecord:
    """Return a call that was left open as it ended: when it was last seen, and with no result.

    `seen` is in seconds since 1970.
    """
    report = record.report.snapshot()
    if report.is_final:
        return record
    if report.status is ToolCallStatus.PAUSED:  # which leads only to work going on
        report.update_status(ToolCallStatus.IN_PROGRESS)
    from callsheet.describe import Describer  # it takes long to import, and is seldom needed

    note = TextContent(Describer("/", locale=locale).phrase("interrupted"))
    notes = _notes(report.notes, seen)
    report = report.changed(
        {"status": ToolCallStatus.FAILED, "content": (*report.content, note)}, None, notes
    )
    return CallRecord(report, record.terminals)


def _notes(before: dict[str, Any], seen: float) -> dict[str, Any]:
    try:
        began = datetime.fromisoformat(before["startedAt"]).timestamp()
    except (LookupError, TypeError, ValueError):
        began = None
    ended = max(seen, began or 0.0)
    if not ended:
        return {"reason": Reason.ABANDONED.value}
    when = datetime.fromtimestamp(ended, UTC).isoformat(timespec="milliseconds")
    notes: dict[str, Any] = {
        "reason": Reason.ABANDONED.value,
        "endedAt": when.replace("+00:00", "Z"),
    }
    if began is not None:
        notes["durationMs"] = round((ended - began) * 1000, 3)
    return notes


def spills_of(report: ToolCallReport) -> list[str]:
    """Return the paths of the files that hold what a report had no room for."""
    noted = report.notes.get("truncated")
    records = [noted] if is_object(noted) else noted if is_list(noted) else []
    found: list[str] = []
    for record in records:
        if is_object(record):
            others = record.get("others")
            for one in (record, *(others if is_list(others) else ())):
                path = one.get("spill") if is_object(one) else None
                if isinstance(path, str):
                    found.append(path)
    return found
