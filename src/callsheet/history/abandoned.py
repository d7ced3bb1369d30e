"""How a call is closed whose process is gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from callsheet.describe import Describer
from callsheet.history.errors import counted
from callsheet.report.content import TextContent
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.report.terminal import CallRecord


def news_of_closed(count: int) -> str:
    """Say that calls were closed."""
    told = counted(
        count, "call that a crash had left open was", "calls that a crash had left open were"
    )
    return f"{told} closed as abandoned."


def abandoned(record: CallRecord, seen: float, locale: str | None) -> CallRecord:
    """Return a call that was left open as it ended: when its process was last seen, and with no result.

    `seen` is in seconds since 1970.
    """
    report = record.report.snapshot()
    if report.is_final:
        return record
    if report.status is ToolCallStatus.PAUSED:  # which leads only to work going on
        report.update_status(ToolCallStatus.IN_PROGRESS)
    said = TextContent(Describer("/", locale=locale).phrase("interrupted"))
    notes = _notes(report.notes, seen)
    report = report.changed(
        {"status": ToolCallStatus.FAILED, "content": (*report.content, said)}, None, notes
    )
    return CallRecord(report, record.terminals)


def seconds(when: object) -> float | None:
    """Return a time of RFC 3339 as seconds since 1970."""
    try:
        return datetime.fromisoformat(when).timestamp() if isinstance(when, str) else None
    except ValueError:
        return None


def _notes(before: dict[str, Any], seen: float) -> dict[str, Any]:
    began = seconds(before.get("startedAt"))
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
