"""What a report can hold and ACP v1 can't say: kept beside the call, and put back.

Only reports of other agents, or with keys in `_meta` that are somebody's on the wire, have any of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from callsheet.acp.codec import KEYS, TOOL_NAME
from callsheet.acp.terminals import EXIT, INFO, MORE, OUTPUT
from callsheet.report import content
from callsheet.report.content import DiffContent, TextContent, ToolCallContent, UnknownContent
from callsheet.report.fields import NOTES
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.report import ToolCallReport

_META = frozenset((INFO, OUTPUT, EXIT, MORE, TOOL_NAME))
_KINDS: dict[str, type[ToolCallContent]] = {
    kind.__name__: kind
    for kind in vars(content).values()
    if isinstance(kind, type) and issubclass(kind, ToolCallContent)
}


def take_out(report: ToolCallReport) -> tuple[ToolCallReport, JsonObject]:
    """Return a report that v1 can say, and what is odd about it. Nearly always, that is nothing."""
    found: JsonObject = {}
    items = {
        str(place): [type(item).__name__, msgspec.to_builtins(item)]
        for place, item in enumerate(report.content)
        if type(item) is not UnknownContent and _is_odd(item)
    }
    if items:
        found["content"] = items
    if report.extra and not KEYS.isdisjoint(report.extra):
        found["extra"] = {key: value for key, value in report.extra.items() if key in KEYS}
        rest = {key: value for key, value in report.extra.items() if key not in KEYS}
        report = replace(report, extra=rest)
    if report.meta and not _META.isdisjoint(report.meta):
        found["meta"] = {key: value for key, value in report.meta.items() if key in _META}
        rest = {key: value for key, value in report.meta.items() if key not in _META}
        report = replace(report, meta=rest)
    return report, found


def put_back(report: ToolCallReport, found: JsonObject) -> ToolCallReport:
    """Return the report that something odd was taken out of."""
    items: list[Any] = list(report.content)
    for place, (kind, told) in found.get("content", {}).items():
        items[int(place)] = msgspec.convert(told, _KINDS[kind])
    return replace(
        report,
        content=tuple(items),
        meta={**report.meta, **found.get("meta", {})},
        extra={**report.extra, **found.get("extra", {})},
    )


def _is_odd(item: Any) -> bool:
    if type(item) is TextContent and item.annotations is item.meta is item.extra is item.outer:
        return False  # nearly always: all are None
    if item.meta and NOTES in item.meta:
        return True
    if item.extra or (type(item) is DiffContent and item.patch is not None):
        return True
    annotations: JsonObject = getattr(item, "annotations", None) or EMPTY
    outer: JsonObject | None = getattr(item, "outer", None)
    return bool(outer or annotations.get("audience"))
