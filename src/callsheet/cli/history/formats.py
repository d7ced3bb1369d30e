"""Calls and sessions for machines: as JSON, and as lines with tabs between the fields."""

from __future__ import annotations

from typing import Any

import msgspec

from callsheet.cli.amounts import utc_time
from callsheet.cli.output import visible
from callsheet.history import Head, StoredCall, StoredSession
from callsheet.history.codec import as_json_bytes
from callsheet.report.json import JsonObject

# JSON


def call_object(head: Head) -> JsonObject:
    """Return what `--format json` has of a call."""
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


def whole_object(call: StoredCall, session: StoredSession | None = None) -> JsonObject:
    """Return a whole call: ACP's `tool_call`, where and when it was made, and its terminals' output."""
    body: dict[str, Any] = msgspec.json.decode(as_json_bytes(call.record))
    made = {"sessionId": call.head.session_id, "at": utc_time(call.head.at), **body["call"]}
    if session is not None:
        made["cwd"] = session.cwd
    if body.get("terminals"):
        made["terminals"] = body["terminals"]
    return made


def session_object(session: StoredSession) -> JsonObject:
    """Return what `--format json` has of a session."""
    return {
        "id": session.session_id,
        "title": session.title,
        "cwd": session.cwd,
        "calls": session.calls,
        "createdAt": utc_time(session.created_at),
        "updatedAt": utc_time(session.updated_at),
    }


def json_text(value: Any) -> str:
    """Return a value as one line of JSON."""
    return msgspec.json.encode(value).decode()


# Lines with tabs


def call_fields(head: Head) -> str:
    """Return a call as a line: id, session, time, status, reason, milliseconds, tool, title."""
    took = "" if head.duration_ms is None else f"{head.duration_ms:.0f}"
    end = (head.status, head.reason or "", took)
    return _tabbed(head.call_id, head.session_id, utc_time(head.at), *end, head.name, head.title)


def session_fields(session: StoredSession) -> str:
    """Return a session as a line: id, time of its last use, number of calls, directory, title."""
    used = utc_time(session.updated_at)
    return _tabbed(session.session_id, used, str(session.calls), session.cwd, session.title)


def _tabbed(*fields: str) -> str:
    return "\t".join(map(visible, fields))
