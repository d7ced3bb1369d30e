"""A call whose payload can't be read: what is known of it without that."""

from __future__ import annotations

from callsheet.report.content import TextContent
from callsheet.report.fields import foreign_kind
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus, to_status
from callsheet.report.terminal import CallRecord

from .rows import Head


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
