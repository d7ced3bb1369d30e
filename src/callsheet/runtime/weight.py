"""About how much memory a report takes, quickly; and reports without what takes most of it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from callsheet.report.content import DiffContent, ToolCallContent
from callsheet.report.report import ToolCallReport

BASE = 1024
MOST_PARTS = 200


def weight_of(report: ToolCallReport) -> int:
    """Return about how many bytes a report takes."""
    total = BASE + sum(map(_item_weight, report.content)) + 200 * len(report.locations)
    for value in (report.raw_input, report.raw_output, report.meta):
        if value:
            total += _value_weight(value)
    return total


def slim(report: ToolCallReport) -> ToolCallReport:
    """Return a report without its content and its raw output."""
    return (
        replace(report, content=(), raw_output=None)
        if report.content or report.raw_output
        else report
    )


def _item_weight(item: ToolCallContent) -> int:
    if type(item) is DiffContent:
        texts = [t for change in item.changes for t in (change.old_text, change.new_text) if t]
        return 200 + sum(map(len, texts))
    parts = [getattr(item, name, None) for name in ("text", "data", "blob", "uri")]
    return 200 + sum(len(part) for part in parts if isinstance(part, str))


def _value_weight(value: Any) -> int:
    """Weigh a JSON value by its first parts; a large one by their average."""
    total, seen, waiting = 0, 0, [value]
    while waiting and seen < MOST_PARTS:
        one = waiting.pop()
        seen += 1
        if isinstance(one, str):
            total += 60 + len(one)
        elif isinstance(one, dict):
            total += 100 + 60 * len(one)  # pyright: ignore[reportUnknownArgumentType]
            waiting.extend(one.values())  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(one, list):
            total += 60 + 8 * len(one)  # pyright: ignore[reportUnknownArgumentType]
            waiting.extend(one)  # pyright: ignore[reportUnknownArgumentType]
        else:
            total += 30
    return total + (total // max(1, seen)) * len(waiting)
