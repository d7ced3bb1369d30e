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

from callsheet.limits.content import bound_content, content_fits, without_repeats
from callsheet.limits.text import (
    WIDEST,
    Bounded,
    Phrases,
    bound_line,
    bound_text,
    size_of,
    text_fits,
)
from callsheet.limits.truncation import LINK_ROOM, Cut, CutPlan, Spill
from callsheet.limits.values import Member, bound_value, share_out, value_fits
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidValue
from callsheet.report.fields import ToolCallLocation
from callsheet.report.json import JsonValue

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
        for name, share in zip(_LIMITED, shares.room, strict=True):
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
    for name, value in fields.items():
        fits = _FITS.get(name)
        if fits is not None and value is not None and not fits(value, limits):
            return _cut(fields, limits, phrases)
    return CutPlan(fields)


def _cut(fields: Mapping[str, Any], limits: Limits, phrases: Phrases) -> CutPlan:
    out, cuts = dict(fields), list[Cut]()
    content, raw = fields.get("content"), fields.get("raw_output")
    linked = bool(content) and raw is not None and not value_fits(raw, limits.raw_output)
    if content:
        room = limits.content - (LINK_ROOM if linked else 0)
        out["content"], cuts = bound_content(content, room, phrases)
    for name, (wire_name, limit_of) in _VALUES.items():
        value, limit = fields.get(name), limit_of(limits)
        if value is not None and not value_fits(value, limit):
            at = len(out["content"]) - 1 if linked and name == "raw_output" else None
            out[name], cut = _cut_value(wire_name, value, limit, at, phrases)
            cuts.append(cut)
    for name, limit in (("title", limits.title), ("name", NAME_LIMIT)):
        if fields.get(name) is not None:
            out[name] = bound_line(fields[name], limit)
    places = fields.get("locations")
    if places and not _places_fit(places, limits):
        out["locations"], cut = _last_places(places, limits.locations)
        cuts.append(cut)
    return CutPlan(out, tuple(cuts))


def _cut_value(
    field: str, value: JsonValue, limit: int, at: int | None, phrases: Phrases
) -> tuple[JsonValue, Cut]:
    bounded = bound_value(value, limit, phrases=phrases)
    kept, total = bounded.kept_bytes, bounded.total_bytes
    spill = Spill(value, "text/plain" if type(value) is str else "application/json")
    return bounded.value, Cut(field=field, kept_bytes=kept, total_bytes=total, spill=spill, at=at)


def _last_places(
    places: tuple[ToolCallLocation, ...], limit: int
) -> tuple[tuple[ToolCallLocation, ...], Cut]:
    """Keep the last places that fit: editors follow the last."""
    room, first = limit, len(places)
    while first and (room := room - _place_size(places[first - 1])) >= 0:
        first -= 1
    spill = Spill(to_builtins(places), "application/json")
    kept, total = size_of(places[first:]), len(spill.data)
    return places[first:], Cut(field="locations", kept_bytes=kept, total_bytes=total, spill=spill)


def _place_size(place: ToolCallLocation) -> int:
    """Return about how many bytes a place takes, quickly: paths are nearly always as long as they look."""
    path = place.path
    if place.meta is None and place.extra is None and len(path) < 64:
        return len(path) * WIDEST + 40
    return size_of(place)


def _places_fit(places: tuple[ToolCallLocation, ...], limits: Limits) -> bool:
    return sum(map(_place_size, places)) <= limits.locations


_VALUES: dict[str, tuple[str, Callable[[Limits], int]]] = {
    "raw_output": ("rawOutput", lambda limits: limits.raw_output),
    "raw_input": ("rawInput", lambda limits: limits.raw_input),
    "meta": ("_meta", lambda limits: limits.meta // 2),
    "notes": ("_meta", lambda limits: limits.meta // 4),
    "extra": ("extra", lambda limits: limits.meta // 4),
}
"""Fields that hold a JSON value: their names on the wire, and their limits."""

_FITS: dict[str, Callable[[Any, Limits], bool]] = {
    "content": lambda items, limits: content_fits(items, limits.content),
    "raw_input": lambda value, limits: value_fits(value, limits.raw_input),
    "raw_output": lambda value, limits: value_fits(value, limits.raw_output),
    "title": lambda title, limits: text_fits(title, limits.title),
    "name": lambda name, _: text_fits(name, NAME_LIMIT),
    "locations": _places_fit,
    "meta": lambda value, limits: value_fits(value, limits.meta // 2),
    "notes": lambda value, limits: value_fits(value, limits.meta // 4),
    "extra": lambda value, limits: value_fits(value, limits.meta // 4),
}
