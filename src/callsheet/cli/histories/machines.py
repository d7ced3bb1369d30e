"""Calls for machines: as JSON, and as lines with tabs between the fields."""

from __future__ import annotations

from typing import Any

import msgspec

from callsheet.cli.cards.words import visible
from callsheet.history import Head, StoredCall, StoredSession
from callsheet.history.codec import as_json_bytes
from callsheet.report.json import JsonObject

from .words import utc_time


def as_object(head: Head) -> JsonObject:
    """Return what `--format json` says of a call."""
    return {
        "id": head.call_id,
        "session": head.session_id,
        "tool": head.name,
        "title": head.title,
        "kind": head.kind,
        "status": head.status,
        "reason": head.reason,
        "at": utc_time(head.at),
        "durationMs": head.duration_ms,
        "bytes": head.size,
    }


def as_whole_object(call: StoredCall, session: StoredSession | None = None) -> JsonObject:
    """Return a call whole: ACP's `tool_call`, and beside it where and when, and what stood in its terminals."""
    body: dict[str, Any] = msgspec.json.decode(as_json_bytes(call.record))
    told = {"sessionId": call.head.session_id, "at": utc_time(call.head.at), **body["call"]}
    if session is not None:
        told["cwd"] = session.cwd
    if body.get("terminals"):
        told["terminals"] = body["terminals"]
    return told


def as_session(session: StoredSession) -> JsonObject:
    """Return what `--format json` says of a session."""
    return {
        "id": session.session_id,
        "title": session.title,
        "cwd": session.cwd,
        "calls": session.calls,
        "createdAt": utc_time(session.created_at),
        "updatedAt": utc_time(session.updated_at),
    }


def as_fields(head: Head) -> str:
    """Return a call as a line with tabs: id, session, time, status, reason, milliseconds, tool, title."""
    took = "" if head.duration_ms is None else f"{head.duration_ms:.0f}"
    how = (head.status, head.reason or "", took)
    fields = (head.call_id, head.session_id, utc_time(head.at), *how, head.name, head.title)
    return "\t".join(visible(field) for field in fields)


def json_text(value: Any) -> str:
    """Return a value as one line of JSON."""
    return msgspec.json.encode(value).decode()
