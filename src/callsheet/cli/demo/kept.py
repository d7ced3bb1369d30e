"""What the history has of the demo, looked up in the store as anybody could."""

from __future__ import annotations

from typing import NamedTuple

from callsheet.report.errors import CallsheetError
from callsheet.report.report import ToolCallReport

MOST = 100


class Kept(NamedTuple):
    """Where the history is, and the calls of the demo's session in it, in order. `problem` says why not."""

    where: str
    session: str
    reports: list[ToolCallReport]
    problem: str = ""


async def kept(session: str) -> Kept | None:
    """Look up the session that was played; None if no history is kept."""
    from callsheet.history import Query, chosen_url, store_at

    url = chosen_url()
    if url is None:
        return None
    store = store_at(url)
    where = store.url.removeprefix("sqlite:///")
    try:
        await store.open(write=False)
        try:
            found = await store.calls(Query(session_id=session, limit=MOST))
        finally:
            await store.close()
    except CallsheetError as exc:
        return Kept(where, session, [], str(exc))
    found.sort(key=lambda call: call.position)
    return Kept(where, session, [call.record.report for call in found])
