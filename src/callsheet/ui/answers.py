"""What the inspector's server answers with: calls in a list, sessions, and lines of an export, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import to_builtins

from callsheet.history import Head, Store, StoredCall, StoredSession
from callsheet.history.call_records import exported, marks_of
from callsheet.history.figures import Used
from callsheet.history.rows import Origin
from callsheet.ui.trace import origin_keys, who


def export_lines(store: Store, calls: Sequence[StoredCall]) -> bytes:
    """Return calls as lines of an export."""
    origins = store.origins(origin_keys(calls))
    directories = store.directories(call.head.session_id for call in calls)
    made = [
        exported(call, origins[call.head.origin], directories[call.head.session_id])
        for call in calls
    ]
    return b"".join(msgspec.json.encode(one) + b"\n" for one in made)


def row_of(head: Head, origin: Origin, cwd: str) -> dict[str, Any]:
    """Return a call as the list shows it."""
    try:
        marks = marks_of(msgspec.json.decode(head.marks or "{}", type=dict[str, Any]))
    except ValueError:  # the file is damaged
        marks = {}
    return {
        "session": head.session_id,
        "cwd": cwd,
        "id": head.call_id,
        "at": head.at,
        "status": head.status,
        "reason": head.reason,
        "title": head.title,
        "name": head.name,
        "kind": head.kind,
        "durationMs": head.duration_ms,
        "size": head.size,
        "who": who(origin),
        "parent": marks.get("parentId"),
        "repaired": marks.get("repaired", []),
        "permission": marks.get("permission"),
    }


def usage_of(used: Used | None) -> dict[str, Any] | None:
    """Return what a session has used as the page shows it, which has room for one currency."""
    if used is None or not used.summary:
        return None
    cost = to_builtins(used.costs[0]) if used.costs else None
    return {"totalTokens": used.total_tokens, "cost": cost}


def session_of(session: StoredSession, used: Used | None) -> dict[str, Any]:
    """Return a session as the list of sessions shows it."""
    return {
        "id": session.session_id,
        "title": session.title,
        "cwd": session.cwd,
        "who": who(session.origin),
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
        "calls": session.calls,
        "usage": "" if used is None else used.summary,
    }
