"""Limits of what is shown: for each field of a report, and so for each frame.

All limits count bytes as they go over the wire: JSON, in UTF-8. The limits of the fields add up to
less than the frame's, so any mix of fields fits into one frame, and nothing has to be known of
what else is sent with it.

Values here are what `jsonsafe` returns, after redaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import force_setattr

from callsheet.limits.content import bound_content, content_size, without_repeats
from callsheet.limits.text import WIDEST, Bounded, Phrases, bound_line, bound_text, size_of
from callsheet.limits.truncation import LINK_ROOM, Cut, CutPlan, Spill
from callsheet.limits.values import Member, bound_value, share_out
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidValue
from callsheet.report.fields import ToolCallLocation

__all__ = ["ROOMY", "SAFE", "Bounded", "Limits", "bound_report", "bound_text", "bound_value"]

_KIB = 1024
OVERHEAD = 4 * _KIB
"""Bytes of a frame that no field has: JSON-RPC, ids, names of fields, and the note on what was cut."""

SMALLEST_FRAME = 8 * _KIB
SMALLEST_FIELD = 256
NAME_LIMIT = 512


class Limits(Struct, frozen=True, kw_only=True):
    """Bytes, as JSON, that the fields of a report and a whole frame take at most.

    Fields that would not fit into the frame together get less, the largest first.
    """

    content: int = 32 * _KIB
    raw_input: int = 14 * _KIB
    raw_output: int = 7 * _KIB
    title: int = _KIB
    locations: int = 2 * _KIB
    meta: int = 3 * _KIB
    frame: int = 63 * _KIB

    def __post_init__(self) -> None:
        if self.frame < SMALLEST_FRAME:
            raise InvalidValue(f"limit of a frame {self.frame}: at least {SMALLEST_FRAME} bytes")
        sizes = [getattr(self, name) for name in _LIMITED]
        for name, size in zip(_LIMITED, sizes, strict=True):
            if size < SMALLEST_FIELD:
                raise InvalidValue(f"limit of {name} {size}: at least {SMALLEST_FIELD} bytes")
        members = [Member(size, SMALLEST_FIELD, 0) for size in sizes]
        shares = share_out(members, self.frame - OVERHEAD, 0)
        for name, share in zip(_LIMITED, shares, strict=True):
            force_setattr(self, name, share)


_LIMITED = ("content", "raw_input", "raw_output", "title", "locations", "meta")

SAFE = Limits()
"""For any client. The strictest known ones fail on lines of 64 KiB."""

ROOMY = Limits(
    content=2048 * _KIB,
    raw_input=3072 * _KIB,
    raw_output=2048 * _KIB,
    title=4 * _KIB,
    locations=64 * _KIB,
    meta=256 * _KIB,
    frame=8192 * _KIB,
)
"""For clients known to accept long lines. The strictest of these fail at 10 MiB."""


def bound_report(
    fields: Mapping[str, Any],
    limits: Limits = SAFE,
    *,
    shown: tuple[ToolCallContent, ...] = (),
    phrases: Phrases = None,
) -> CutPlan:
    """Return the plan for some fields of a report, by the names of `ToolCallReport` (and `notes`).

    `shown` is the content that the call has already: a raw output doesn't repeat it. If nothing has
    to change, the plan's fields are the very ones passed.
    """
    raw = fields.get("raw_output")
    if raw is not None:
        content = fields.get("content") or shown
        if content and (fresh := without_repeats(raw, content)) is not raw:
            fields = {**fields, "raw_output": fresh}
    large: set[str] = set()
    for name, value in fields.items():
        if value is not None and name in _FIELDS and not _fits(name, value, limits):
            large.add(name)
    return _cut(fields, large, limits, phrases) if large else CutPlan(fields)


def _fits(name: str, value: Any, limits: Limits) -> bool:
    if name == "content":
        size = content_size(value)
    else:
        size = sum(map(_place_size, value)) if name == "locations" else size_of(value)
    return size <= _FIELDS[name][1](limits)


def _cut(fields: Mapping[str, Any], large: set[str], limits: Limits, phrases: Phrases) -> CutPlan:
    out, cuts = dict(fields), list[Cut]()
    content = fields.get("content")
    linked = bool(content) and "raw_output" in large
    if content:
        room = limits.content - (LINK_ROOM if linked else 0)
        out["content"], cuts = bound_content(content, room, phrases)
    for name, (wire_name, limit_of) in _FIELDS.items():
        if name not in large:
            continue
        value, limit = fields[name], limit_of(limits)
        if name in ("title", "name"):
            out[name] = bound_line(value, limit)
        elif name == "locations":
            out[name] = _last_places(value, limit)
            spill = Spill(to_builtins(value), "application/json")
            cuts.append(Cut(field=wire_name, kept_bytes=size_of(out[name]), spill=spill))
        elif name != "content":
            bounded = bound_value(value, limit, phrases=phrases)
            out[name] = bounded.value
            spill = Spill(value, "text/plain" if type(value) is str else "application/json")
            at = len(out["content"]) - 1 if linked and name == "raw_output" else None
            cuts.append(Cut(field=wire_name, kept_bytes=bounded.kept_bytes, spill=spill, at=at))
    return CutPlan(out, tuple(cuts))


def _last_places(places: tuple[ToolCallLocation, ...], limit: int) -> tuple[ToolCallLocation, ...]:
    """Return the last places that fit: editors follow the last."""
    room, first = limit, len(places)
    while first and (room := room - _place_size(places[first - 1])) >= 0:
        first -= 1
    return places[first:]


def _place_size(place: ToolCallLocation) -> int:
    """Return the bytes that a place takes at most; of short paths, generously."""
    path = place.path
    is_short = place.meta is None and place.extra is None and len(path) < 64
    return len(path) * WIDEST + 40 if is_short else size_of(place)


_FIELDS: dict[str, tuple[str, Callable[[Limits], int]]] = {
    "content": ("content", lambda limits: limits.content),
    "raw_output": ("rawOutput", lambda limits: limits.raw_output),
    "raw_input": ("rawInput", lambda limits: limits.raw_input),
    "meta": ("_meta", lambda limits: limits.meta // 2),
    "notes": ("_meta", lambda limits: limits.meta // 4),
    "extra": ("extra", lambda limits: limits.meta // 4),
    "title": ("title", lambda limits: limits.title),
    "name": ("name", lambda _: NAME_LIMIT),
    "locations": ("locations", lambda limits: limits.locations),
}
"""The fields that are bounded: their names on the wire, and their limits."""
