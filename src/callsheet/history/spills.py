"""The spill files that a call's report names."""

from __future__ import annotations

from callsheet.report.json import is_list, is_object
from callsheet.report.report import ToolCallReport


def spills_of(report: ToolCallReport) -> list[str]:
    """Return the paths of the files that hold what a report had no room for."""
    told = report.notes.get("truncated")
    records = [told] if is_object(told) else told if is_list(told) else []
    found: list[str] = []
    for record in records:
        if is_object(record):
            others = record.get("others")
            for one in (record, *(others if is_list(others) else ())):
                path = one.get("spill") if is_object(one) else None
                if isinstance(path, str):
                    found.append(path)
    return found
