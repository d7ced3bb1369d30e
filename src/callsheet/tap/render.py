"""Turn a draft into the fields of a report: decoded, without secrets, within limits.

A call is reported in many updates, and most of it stays the same in each, so only the fields that changed
are made again. What can't be decoded is left out field by field; content is shown as the JSON that it is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from callsheet.acp import v1, v2
from callsheet.acp.codec import decode_fields
from callsheet.observe.model import Json, obj
from callsheet.report.content import DiffContent, ToolCallContent, UnknownContent
from callsheet.report.errors import CallsheetError
from callsheet.report.events import Event
from callsheet.report.fields import ToolKind
from callsheet.report.json import JsonObject, JsonValue
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.context import TappedCall
from callsheet.tap.repair.card_content import in_form, json_item
from callsheet.tap.repair.draft import CallDraft

UNREADABLE = (CallsheetError, ValueError, TypeError, RecursionError)
"""What decoders raise for values that are not as ACP has them."""

_EMPTY: tuple[Any, ...] = (None, "", [])
_SAME_NAME = ("name", "title", "locations", "content")
_FIELDS = {name: name for name in _SAME_NAME} | {
    "kind": "shown_kind",
    "rawInput": "raw_input",
    "rawOutput": "raw_output",
}
"""The fields of an update, and what a draft has for them."""


class Renderer:
    """Makes the fields of one session's calls. `version` is the agent's."""

    def __init__(self, sanitizer: Sanitizer, version: int) -> None:
        self._sanitizer: Sanitizer = sanitizer
        self._is_v2: bool = version == 2
        self._decode = v2.decode if version == 2 else v1.decode
        self._decode_items = v2.decode_items if version == 2 else v1.decode_items

    def fields(self, mine: TappedCall, draft: CallDraft) -> JsonObject:
        """Return what a draft changes of a call, except its status, by a report's names; not bounded yet."""
        news: Json = {}
        for key, name in _FIELDS.items():
            value, before = getattr(draft, name), getattr(mine.draft, name)
            if before is value or (before in _EMPTY and value in _EMPTY):
                continue
            if type(before) is not type(value) or before != value:
                news[key] = value
        fields = self._safe(mine, self._decoded(news), runs=draft.status in (None, "pending"))
        if draft.custom_kind is not None and fields.get("kind") == ToolKind.OTHER:
            fields["kind"] = draft.custom_kind
        return fields

    def meta(self, meta: JsonObject | None) -> JsonObject | None:
        """Return a patch of `_meta`, or unknown fields, without secrets, within limits; None if empty."""
        if not meta:
            return None
        return self._sanitizer.meta(meta)

    def append(self, mine: TappedCall, item: ToolCallContent) -> tuple[ToolCallContent, ...]:
        """Return a call's whole content with one more item."""
        (safe,), found = self._sanitizer.items((item,))
        mine.items, mine.safe = (*mine.items, item), (*mine.safe, safe)
        mine.secrets["content"] = mine.secrets.get("content", 0) + found
        return mine.safe

    def bounded(
        self, mine: TappedCall, fields: JsonObject, notes: JsonObject, *, is_final: bool
    ) -> JsonObject:
        """Return fields within their limits, and note what was cut and hidden.

        Content may grow until the call ends, so what is cut of it is stored in a file only then.
        """
        report = mine.report
        if is_final and mine.is_cut and "content" not in fields:
            fields = {**fields, "content": mine.safe}
        hidden = sum(mine.secrets.values())
        if hidden and (report is None or report.notes.get("redactions") != hidden):
            notes["redactions"] = hidden
        grows = fields.pop("content", None) if not is_final else None
        made, cut = self._sanitizer.bounded(fields, report) if fields else ({}, {})
        if grows is not None:
            content, more = self._sanitizer.bounded({"content": grows}, report, spill=False)
            made, cut = made | content, cut | more
        notes |= cut
        if "content" in made:
            mine.counted = len(mine.safe)
            mine.is_cut = made["content"] is not mine.safe and made["content"] != mine.safe
        return made

    # Decoding

    def events(self, reported: Json) -> list[Event]:
        """Return the events besides a call's own fields. What can't be read is left out."""
        reported = self._sanitizer.json({**reported, "sessionUpdate": "tool_call_update"})
        key = {name: reported[name] for name in ("sessionUpdate", "toolCallId")}
        notes = obj(reported.get("_meta"))
        # If all of it can't be read at once, each note may be read by itself.
        for parts in ([reported], [{**key, "_meta": {name: notes[name]}} for name in notes]):
            found: list[Event] = []
            for part in parts:
                with suppress(*UNREADABLE):
                    found += self._decode(part)
            if found:
                return found
        return []

    def asked_items(self, reported: list[JsonValue]) -> tuple[ToolCallContent, ...]:
        """Return content that shows what the user is asked to approve, without secrets."""
        return self._sanitizer.items(self.items(reported), runs=True)[0] if reported else ()

    def items(self, reported: list[JsonValue]) -> tuple[ToolCallContent, ...]:
        """Decode content. An item that can't be read is shown as the JSON that it is."""
        reported = in_form(reported, is_v2=self._is_v2)
        items = self._whole_items(reported)
        if items is not None:
            return items
        return tuple(
            [item for one in reported for item in self._whole_items([one]) or self._json(one)]
        )

    def _whole_items(self, reported: list[JsonValue]) -> tuple[ToolCallContent, ...] | None:
        try:
            items = self._decode_items(reported)
        except UNREADABLE:
            return None
        return items if all(map(_is_whole, items)) else None

    def _json(self, item: JsonValue) -> tuple[ToolCallContent, ...]:
        shown = json_item(self._sanitizer.json(item))
        return self._decode_items([shown] if shown else [])

    def _decoded(self, news: Json) -> JsonObject:
        """Return fields by a report's names. What can't be read is left out."""
        fields: JsonObject = {}
        for key, value in news.items():
            with suppress(*UNREADABLE):
                fields |= decode_fields({key: value}, self.items, null_clears=False)[0]
        return fields

    # Without secrets

    def _safe(self, mine: TappedCall, fields: JsonObject, *, runs: bool) -> JsonObject:
        """Return fields without secrets. Content shows what `runs`, or else its result."""
        sanitizer, out = self._sanitizer, dict[str, Any]()
        for name, value in fields.items():
            found = 0
            safe = value
            if name in ("raw_input", "raw_output"):
                safe, found = sanitizer.value(value, runs=name == "raw_input")
            elif name == "content":
                safe, found = self._content(mine, value, runs)
            elif name in ("title", "name"):
                safe, found = sanitizer.text(value, runs=name == "title")
            elif name == "locations":
                safe = sanitizer.places(value)
            if found or name in mine.secrets:
                mine.secrets[name] = found
            out[name] = safe
        if "raw_input" in out:
            mine.whole_input = out["raw_input"]
        return out

    def _content(
        self, mine: TappedCall, items: tuple[ToolCallContent, ...], runs: bool
    ) -> tuple[tuple[ToolCallContent, ...], int]:
        """Return content without secrets. Items that are as they were stay the same objects."""
        known = list(zip(mine.items, mine.safe, strict=True))
        found, pairs = 0, list[tuple[ToolCallContent, ToolCallContent]]()
        for index, item in enumerate(items):
            if index < len(known) and known[index][0] == item:
                before, safe = pair = known[index]
                found += 0 if safe is before else self._sanitizer.items((item,))[1]
            else:
                (safe,), count = self._sanitizer.items((item,), runs=runs)
                pair, found = (item, safe), found + count
            pairs.append(pair)
        mine.items, mine.safe = tuple([raw for raw, _ in pairs]), tuple([safe for _, safe in pairs])
        return mine.safe, found


def _is_whole(item: ToolCallContent) -> bool:
    """Whether an item is complete: the patch of a diff of v2 may be anything, and then is none."""
    reported: JsonObject | None = None
    if isinstance(item, UnknownContent):
        reported = item.raw if item.raw.get("type") == "diff" else None
    elif isinstance(item, DiffContent):
        reported = item.extra
    if reported is None or "patch" not in reported:
        return True
    patch = obj(reported["patch"])
    return type(patch.get("format")) is str and type(patch.get("text")) is str
