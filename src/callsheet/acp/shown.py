"""A call as one peer can see it: progress and parents said in the way that the peer understands."""

from __future__ import annotations

from msgspec.structs import replace

from callsheet.acp.peer import Peer
from callsheet.report.content import TextContent
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.report.report import ToolCallReport

LONGEST_PROGRESS = 80
"""Characters of progress that are added to a title at most."""


def shown_to(peer: Peer, report: ToolCallReport) -> ToolCallReport:
    """Return a call as a peer can see it."""
    notes = report.notes
    if "progress" in notes and peer.progress != "meta" and not report.status.is_final:
        report = _with_progress(peer, report, notes["progress"])
    if peer.parent_keys and isinstance(notes.get("parentId"), str):
        report = replace(report, meta=_with_parent(peer, report.meta, notes["parentId"]))
    return report


def progress_text(progress: JsonValue) -> str:
    """Return progress as people read it, in a line: `3/12 · tests/test_x.py`."""
    if not is_object(progress):
        return ""
    done, total, message = (progress.get(key) for key in ("done", "total", "message"))
    parts: list[str] = []
    if done is not None:
        parts.append(f"{_number(done)}/{_number(total)}" if total is not None else _number(done))
    if isinstance(message, str) and message:
        parts.append(" ".join(message.split()))
    text = " · ".join(parts)
    return text if len(text) <= LONGEST_PROGRESS else text[: LONGEST_PROGRESS - 1] + "…"


def _with_progress(peer: Peer, report: ToolCallReport, progress: JsonValue) -> ToolCallReport:
    text = progress_text(progress)
    if not text:
        return report
    if peer.progress == "title":
        return replace(report, title=f"{report.title or report.name} · {text}")
    return replace(report, content=(*report.content, TextContent(text)))


def _with_parent(peer: Peer, meta: JsonObject, parent: str) -> JsonObject:
    meta = dict(meta)
    if "parentToolCallId" in peer.parent_keys:
        meta.setdefault("parentToolCallId", parent)
    if "claudeCode" in peer.parent_keys:
        theirs = meta.get("claudeCode")
        meta["claudeCode"] = {"parentToolUseId": parent, **(theirs if is_object(theirs) else {})}
    return meta


def _number(value: JsonValue) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
