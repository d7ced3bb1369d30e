"""Which calls are asked for: a query as conditions of SQL.

What is compared is in an index wherever that is possible: rows are many times its size.
"""

from __future__ import annotations

import re
from typing import Any

from callsheet.history.call_records import column_text
from callsheet.history.database import Database, Values
from callsheet.history.rows import Query, Term
from callsheet.history.search_text import phrases, words
from callsheet.report.status import Reason

_REASONS = [reason.value for reason in Reason]

# The ends of ids are compared within their index: the rows themselves are many times its size.
_ID_PART = """c.seq IN (
    SELECT seq FROM calls WHERE call_id >= ? AND call_id < ?
    UNION SELECT seq FROM calls WHERE substr(call_id, length(call_id) - ? + 1) = ?)"""

# What a term of a filter is compared with.
_AMOUNTS = {"dur": "c.duration_ms", "size": "c.size", "at": "c.at"}
# `marks` is JSON without spaces, in which no text has a quotation mark without a backslash before it.
_IS = {
    "open": "c.writer IS NOT NULL",
    "repaired": """(c.marks IS NOT NULL AND c.marks LIKE '%"repaired":%')""",
    "asked": """(c.marks IS NOT NULL AND c.marks LIKE '%"by":"user"%')""",
    "child": """(c.marks IS NOT NULL AND c.marks LIKE '%"parentId":%')""",
}
# The rest of these compares a text, of whose small letters the value is a part.
_ORIGIN = "c.origin IN (SELECT key FROM origins WHERE lower("
_PART_OF = {
    "tool": "(lower(c.name)",
    # compared within the index of ids
    "id": "c.seq IN (SELECT i.seq FROM calls i WHERE lower(i.call_id)",
    "session": "c.session_id IN (SELECT s.session_id FROM sessions s WHERE lower(s.session_id)",
    "workspace": "c.session_id IN (SELECT s.session_id FROM sessions s WHERE lower(s.cwd)",
    "user": f"{_ORIGIN}user_name)",
    "host": f"{_ORIGIN}host)",
    "agent": f"{_ORIGIN}agent || ' ' || agent_version)",
    "client": f"{_ORIGIN}client || ' ' || client_version)",
    "source": f"{_ORIGIN}source)",
}
_LIKE = re.compile(r"[%_\\]")
_ESCAPED = r"\\\g<0>"

_NAMED = """name IN (
WITH RECURSIVE names(name) AS (
    SELECT min(n.name) FROM calls n UNION ALL
    SELECT (SELECT min(n.name) FROM calls n WHERE n.name > names.name) FROM names WHERE names.name IS NOT NULL
) SELECT name FROM names WHERE lower(name) = lower(?))"""
"""The name of a tool in any case. It goes from name to name in the index, for there are few."""


class Conditions:
    """Which calls are asked for: the conditions, and their values.

    Args:
        db: The database.
        query: The query.
        by_time: Whether calls are gone through in the order of time, and those left out that a search has not
            found. Without this, each call that it has found is looked up, which is better for a few.
    """

    def __init__(self, db: Database, query: Query, *, by_time: bool = False) -> None:
        self._by_time: bool = by_time
        self.values: list[Any] = []
        self._db: Database = db
        self._terms: list[str] = ["1 = 1"]
        if query.search is not None:
            self._add(*self._match(phrases(query.search)))
        for column, value in (
            ("session_id = ?", query.session_id),
            ("call_id = ?", query.call_id),
            (_NAMED, query.tool),
            ("at >= ?", query.since),
            ("at < ?", query.until),
        ):
            if value is not None:
                self._add(f"c.{column}", [value])
        if query.id_part is not None:
            part = query.id_part
            self._add(_ID_PART, [part, f"{part}\U0010ffff", len(part), part])
        if query.status is not None:
            self._add(*_status(query.status))
        for term in query.terms:
            condition, values = self._condition(term)
            # What is not known of a call is no reason to leave it out.
            self._add(f"NOT coalesce({condition}, false)" if term.is_not else condition, values)
        if query.before is not None:
            self._add("(c.at, c.session_id, c.call_id) < (?, ?, ?)", query.before)

    def __str__(self) -> str:
        return " AND ".join(self._terms)

    def _add(self, term: str, values: Values) -> None:
        self._terms.append(term)
        self.values += [column_text(one) if isinstance(one, str) else one for one in values]

    def _match(self, searched: list[list[str]], *, in_paths: bool = False) -> tuple[str, Values]:
        if not searched:
            return "1 = 0", ()
        found, values = self._db.match(searched, in_paths=in_paths)
        if (
            self._by_time
        ):  # look it up for each call: nothing of `coalesce` is joined, or planned to be
            return f"coalesce(c.seq {found}, false)", values
        self._by_time = True  # one join is enough: PostgreSQL plans dozens for many seconds
        return f"c.seq {found}", values

    def _condition(self, term: Term) -> tuple[str, Values]:
        """Return the condition of a term, and its values."""
        field, value = term.field, term.value
        if field in _AMOUNTS:
            return f"({_AMOUNTS[field]} {term.sign} ?)", [value]
        text = str(value)
        if field in ("text", "path"):
            return self._match([words(text)], in_paths=field == "path")
        if field == "status":
            return _status(text)
        if field == "is":
            return _IS[text], ()
        if field == "kind":
            return "c.kind = ?", [text]
        return f"{_PART_OF[field]} LIKE ? ESCAPE '\\')", [f"%{_LIKE.sub(_ESCAPED, text.lower())}%"]


def _status(status: str) -> tuple[str, Values]:
    # Nearly all calls are completed: the others have an index of their own.
    if status == "open":
        return "c.writer IS NOT NULL", ()
    if status == "completed":
        return "c.status = ?", [status]
    if status in _REASONS and status != "cancelled":
        return "(c.status <> 'completed' AND c.reason = ?)", [status]
    return "(c.status <> 'completed' AND c.status = ?)", [status]
