"""What a store makes of a record: a row, another id, an end, a replacement, its spill files, JSON.

Ids come from agents, and several runs of one may use the same: the second `call_0` of a session becomes
`call_0~2`. A call whose process is gone is closed as abandoned. A call whose payload is damaged is shown with
the columns of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from itertools import count
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callsheet.history.amounts import utc_time
from callsheet.history.codec import Codec, as_json_bytes, blocks_as_json
from callsheet.history.origin import hidden, is_hiding
from callsheet.history.rows import (
    CallRow,
    Head,
    MessageRow,
    Origin,
    SessionRow,
    StoredCall,
    TurnRow,
    WaitingRow,
)
from callsheet.report.content import TerminalContent, TextContent
from callsheet.report.fields import foreign_kind
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.report.patterns import lazy
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus, to_status
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage

LONGEST = 1000
"""Characters of a text in a column, which an agent may have written. The payload has all of them."""

PLAIN = 1 << 15
"""Characters of the JSON of an input or output in a column. The payload has all of it."""

Price: TypeAlias = Callable[[TokenUsage, float], TokenUsage]
"""Estimates what a turn has cost that its agent reports no cost of; its time is in seconds since 1970."""

# In JSON. A backslash before it belongs to it only if that is not the second of a pair.
_NUL = lazy(r"(?<!\\)((?:\\\\)*)\\u0000")

_DECISION = ("by", "outcome", "option", "scope", "askedAt", "answeredAt")


class WaitingCall(Struct, frozen=True, gc=False):
    """A state of a call that is to be written, and its position."""

    session: SessionRow
    position: int
    at: float
    updated_at: float
    record: CallRecord
    key: str = ""
    turn: str | None = None

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
            kind=column_text(str(report.kind))[:LONGEST],
            status=str(report.status),
            reason=column_text(reason)[:LONGEST] if isinstance(reason, str) else None,
            at=self.at,
            updated_at=self.updated_at,
            duration_ms=float(duration) if isinstance(duration, (int, float)) else None,
            size=size,
            marks=_marks(notes),
            origin=self.session.origin.key,
            payload=b"",
            key=self.key or call_id,
            turn=self.turn,
            input=plain_json(report.raw_input),
            output=plain_json(_output(report)),
        )


def _output(report: ToolCallReport) -> Any:
    """Return what a call gave back: its raw output, else the text of its content."""
    if report.raw_output is not None:
        return report.raw_output
    texts = [item.text for item in report.content if type(item) is TextContent]
    return "\n".join(texts) if texts else None


def plain_json(value: Any) -> str | None:
    """Return the JSON of a value for other programs, short enough for a column; None for no value.

    Databases have no NUL in texts. What is too long becomes a text: its beginning, and how long it was.
    """
    if value is None:
        return None
    found = column_text(msgspec.json.encode(value).decode())
    if "\\u0000" in found:
        found = _NUL.sub("\\1\ufffd", found)
    if len(found) <= PLAIN:
        return found
    short = f"{found[:PLAIN]}… ({len(found)} characters)"
    return msgspec.json.encode(short).decode()


def _marks(notes: JsonObject) -> str | None:
    found = marks_of(notes)
    return column_text(msgspec.json.encode(found).decode()) if found else None


def marks_of(notes: JsonObject) -> JsonObject:
    """Return what lists show and filters find of a call's notes. What is not as expected is left out."""
    made: JsonObject = {}
    if spills := len(_spills_in(notes)):
        made["spills"] = spills
    parent, decision, repaired = (notes.get(one) for one in ("parentId", "permission", "repaired"))
    if isinstance(parent, str) and parent:
        made["parentId"] = parent
    if is_object(decision):
        texts = {key: decision.get(key) for key in _DECISION}
        known: JsonObject = {
            key: one[:LONGEST] for key, one in texts.items() if isinstance(one, str)
        }
        if type(waited := decision.get("waitedMs")) in (int, float):
            known["waitedMs"] = waited
        if known:
            made["permission"] = known
    if is_list(repaired):
        names = [name[:LONGEST] for name in repaired[:LONGEST] if isinstance(name, str)]
        if names:
            made["repaired"] = names
    return made


class WaitingTurn(Struct, frozen=True, gc=False):
    """A state of a turn that is to be written."""

    session: SessionRow
    position: int
    at: float
    key: str
    ended_at: float | None = None
    stop_reason: str | None = None
    usage: TokenUsage = TokenUsage()
    trace: str | None = None

    def to_row(self, price: Price | None = None) -> TurnRow:
        """Return its row. If it has ended without a known cost, that is what `price` estimates."""
        usage = self.usage
        if price is not None and self.ended_at is not None and usage.cost is None:
            usage = price(usage, self.at)
        if usage.model or usage.currency:
            texts = {"model": usage.model, "currency": usage.currency}
            known = {name: column_text(one)[:LONGEST] for name, one in texts.items() if one}
            usage = replace(usage, **known)
        reason = self.stop_reason
        return TurnRow(
            session_id=self.session.session_id,
            key=self.key,
            position=self.position,
            at=self.at,
            ended_at=self.ended_at,
            stop_reason=None if reason is None else column_text(reason)[:LONGEST],
            origin=self.session.origin.key,
            usage=usage,
            trace=self.trace,
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


Waiting: TypeAlias = WaitingCall | WaitingMessage | WaitingTurn


def to_rows(
    entries: Collection[Waiting], codec: Codec, price: Price | None = None
) -> list[WaitingRow]:
    """Return the rows of entries, in their order. Raise any error if one of them can be no row."""
    texts: list[bytes] = []
    packed: list[CallRow | MessageRow] = []
    rows: list[WaitingRow] = []
    hides = is_hiding()
    for one in entries:  # at once, while what it refers to is in the processor's cache
        if isinstance(one, WaitingTurn):
            rows.append((one.session, one.to_row(price)))
            continue
        text = one.to_json()
        if hides:
            text = hidden(text.decode()).encode()
        row = one.to_row(len(text))
        if hides and isinstance(row, CallRow):
            row.title = hidden(row.title)
            row.input, row.output = (one and hidden(one) for one in (row.input, row.output))
        texts.append(text)
        packed.append(row)
        rows.append((one.session, row))
    for row, payload in zip(packed, codec.compress(texts), strict=True):
        row.payload = payload
    if any(row.position >> 63 for _, row in rows):
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
    notes: dict[str, Any] = {"reason": Reason.ABANDONED.value, "endedAt": utc_time(ended)}
    if began is not None:
        notes["durationMs"] = round((ended - began) * 1000, 3)
    return notes


def spills_of(report: ToolCallReport) -> list[str]:
    """Return the paths of the files that hold what a report had no room for."""
    return _spills_in(report.notes)


def _spills_in(notes: JsonObject) -> list[str]:
    noted = notes.get("truncated")
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


def exported(call: StoredCall, origin: Origin, cwd: str) -> JsonObject:
    """Return a whole call: ACP's `tool_call`, where, when and by whom it was made, and its terminals.

    What is not known of who made it is null.
    """
    body: dict[str, Any] = msgspec.json.decode(as_json_bytes(call.record))
    made = {"sessionId": call.head.session_id, "at": utc_time(call.head.at), **body["call"]}
    made |= {"cwd": cwd, **origin.facts()}
    if body.get("terminals"):
        made["terminals"] = body["terminals"]
    return made
