"""Turn what is known of a call into the fields of its report.

`Drafts` repairs a call (`callsheet.tap.repair`). `Maker` decodes the draft, redacts secrets and bounds
it. A call is reported in many updates, and most of it stays the same in each, so only the fields that
changed are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from callsheet.acp import v1, v2
from callsheet.acp.codec import decode_fields, decode_location
from callsheet.acp.terminals import INFO
from callsheet.describe import Describer
from callsheet.observe.model import Json, ObservedConnection, ObservedSession, obj, text
from callsheet.report.content import (
    DiffContent,
    ToolCallContent,
    UnknownContent,
)
from callsheet.report.errors import CallsheetError
from callsheet.report.events import Event
from callsheet.report.fields import CustomKind, ToolCallLocation, ToolKind
from callsheet.report.json import JsonObject, JsonValue
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.calls import Tapped, in_own_terminals
from callsheet.tap.context import Context, absolute
from callsheet.tap.profiles import profile_of
from callsheet.tap.repair import CallDraft, Known, as_told, repaired
from callsheet.tap.repair.card_content import in_form, json_item


class Drafts:
    """Makes drafts of the calls of one session."""

    def __init__(
        self,
        session: ObservedSession,
        connection: ObservedConnection,
        tap: Context,
        sanitizer: Sanitizer,
    ) -> None:
        self._session: ObservedSession = session
        self._connection: ObservedConnection = connection
        self._tap: Context = tap
        self._sanitizer: Sanitizer = sanitizer
        self._cwd: str | None = None
        self.describer: Describer = tap.describer(None, sanitizer.command)

    def of(self, mine: Tapped, now: float, status: str | None = None) -> CallDraft:
        """Return a repaired draft of a call, as if its status were `status`, unless that is None."""
        if self._session.cwd != self._cwd:
            self._cwd = self._session.cwd
            self.describer = self._tap.describer(self._cwd, self._sanitizer.command)
        known = Known(
            call=mine.call,
            connection=self._connection,
            profile=profile_of(self._connection.agent),
            describer=self.describer,
            asked=mine.asked,
            newer=mine.newer,
            title=text(mine.given.get("title")) or "",
            has_own_title=mine.has_own_title,
            earlier=mine.input,
            status=status or ("pending" if mine.is_open_again else None),
            diffs=mine.diffs,
            cwd=absolute(self._cwd) or "",
            now=now,
            announced=mine.report is not None,
        )
        if self._tap.settings.repair:
            try:
                return in_own_terminals(repaired(known), mine)
            except Exception as exc:  # noqa: BLE001 - the call can still be reported unrepaired
                self._tap.failed(exc)
        return as_told(known)


_MISSING = object()
_ALWAYS = ("sessionUpdate", "toolCallId")
_UNREADABLE = (CallsheetError, ValueError, TypeError, RecursionError)
_EMPTY: tuple[Any, ...] = (None, "", [])


class Maker:
    """Makes the fields of one session's calls. `version` is the agent's."""

    def __init__(self, sanitizer: Sanitizer, version: int) -> None:
        self.degraded: int = 0
        self._sanitizer: Sanitizer = sanitizer
        self._is_v2: bool = version == 2
        self._decode = v2.decode if version == 2 else v1.decode
        self._decode_items: Callable[[list[JsonValue]], tuple[ToolCallContent, ...]] = (
            v2.decode_items if version == 2 else v1.decode_items
        )

    def fields(self, mine: Tapped, draft: CallDraft) -> JsonObject:
        """Return the fields that have changed, except the status, by a report's names; not bounded yet."""
        told = {
            "name": draft.name,
            "title": draft.title,
            "kind": draft.shown_kind,
            "locations": draft.locations,
            "rawInput": draft.raw_input,
            "rawOutput": draft.raw_output,
            "content": draft.content,
        }
        news: Json = {}
        for key, value in told.items():
            before = mine.given.get(key, _MISSING)
            if before is value or (before is _MISSING and value in _EMPTY):
                continue
            if before is not _MISSING and type(before) is type(value) and before == value:
                continue
            mine.given[key] = value
            news[key] = value
        if not news:
            return {}
        return self._safe(mine, self.decoded(news), runs=draft.status in (None, "pending"))

    def meta(self, meta: JsonObject | None) -> JsonObject | None:
        """Return a patch of `_meta` without secrets, within limits."""
        if not meta:
            return None
        safe = self._sanitizer.value(meta)[0]
        return self._sanitizer.bounded({"meta": safe}, None, {})["meta"]

    def item(self, mine: Tapped, item: ToolCallContent) -> tuple[ToolCallContent, ...]:
        """Return a call's whole content with one more item."""
        (safe,), found = self._sanitizer.items((item,))
        mine.items, mine.safe = (*mine.items, item), (*mine.safe, safe)
        mine.secrets["content"] = mine.secrets.get("content", 0) + found
        return mine.safe

    def bounded(
        self, mine: Tapped, fields: JsonObject, notes: JsonObject, *, is_final: bool
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
        if not fields:
            return fields
        grows = fields.pop("content", None) if not is_final else None
        made = self._sanitizer.bounded(fields, report, notes) if fields else {}
        if grows is not None:
            made |= self._sanitizer.bounded({"content": grows}, report, notes, keep=False)
        if "content" in made:
            mine.counted = len(mine.safe)
            mine.is_cut = made["content"] is not mine.safe and made["content"] != mine.safe
        return made

    def events(self, told: Json) -> list[Event]:
        """Return the events besides a call's own fields. What can't be read is left out, and counted."""
        told = self._sanitizer.json({**told, "sessionUpdate": "tool_call_update"})
        try:
            return list(self._decode(told))
        except _UNREADABLE:
            pass
        found: list[Event] = []
        meta, key = obj(told.get("_meta")), {name: told[name] for name in _ALWAYS}
        for name, value in meta.items():
            least = {"terminal_id": obj(value).get("terminal_id")} if name == INFO else None
            for told_so in (value, least):
                try:
                    found += self._decode({**key, "_meta": {name: told_so}})
                    break
                except _UNREADABLE:
                    self.degraded += 1
        return found

    def items(self, told: list[JsonValue]) -> tuple[ToolCallContent, ...]:
        """Return content that shows what the user is asked to approve, without secrets."""
        return self._sanitizer.items(self.read(told), runs=True)[0] if told else ()

    def read(self, told: list[JsonValue]) -> tuple[ToolCallContent, ...]:
        """Decode content. An item that can't be read is shown as the JSON that it is."""
        told = in_form(told, is_v2=self._is_v2)
        try:
            items = self._decode_items(told)
            if all(map(_is_whole, items)):
                return items
        except _UNREADABLE:
            pass
        return tuple([item for one in told for item in self._read_one(one)])

    def _read_one(self, told: JsonValue) -> tuple[ToolCallContent, ...]:
        try:
            items = self._decode_items([told])
            if all(map(_is_whole, items)):
                return items
        except _UNREADABLE:
            pass
        self.degraded += 1
        shown = self._as_json(told)
        return self._decode_items([shown] if shown else [])

    def _as_json(self, item: JsonValue) -> Json | None:
        return json_item(self._sanitizer.json(item))

    def decoded(self, news: Json) -> JsonObject:
        """Return fields by a report's names. What can't be read is left out, and counted."""
        try:
            return decode_fields(news, self.read, null_clears=False)[0]
        except _UNREADABLE:
            pass
        fields: JsonObject = {}
        for key, value in news.items():
            if key == "locations":
                fields["locations"] = tuple(self._places(value))
                continue
            try:
                fields |= decode_fields({key: value}, self.read, null_clears=False)[0]
            except _UNREADABLE:
                self.degraded += 1
        return fields

    def _places(self, told: list[JsonValue]) -> Iterator[ToolCallLocation]:
        for place in told:
            try:
                yield decode_location(place)
            except _UNREADABLE:
                self.degraded += 1

    def _safe(self, mine: Tapped, fields: JsonObject, *, runs: bool) -> JsonObject:
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
        self, mine: Tapped, items: tuple[ToolCallContent, ...], runs: bool
    ) -> tuple[tuple[ToolCallContent, ...], int]:
        """Return content without secrets. Items that are as they were stay the same objects."""
        before, known = mine.items, mine.safe
        same = len(before) == len(known)
        found, raw, safe = 0, list[ToolCallContent](), list[ToolCallContent]()
        for index, item in enumerate(items):
            if same and index < len(before) and before[index] == item:
                raw.append(before[index])
                safe.append(known[index])
                if known[index] is not before[index]:
                    found += self._sanitizer.items((item,))[1]
                continue
            (clean,), count = self._sanitizer.items((item,), runs=runs)
            raw.append(item)
            safe.append(clean)
            found += count
        mine.items, mine.safe = tuple(raw), tuple(safe)
        return mine.safe, found


def _is_whole(item: ToolCallContent) -> bool:
    """Whether an item is complete: the patch of a diff of v2 may be anything, and then is none."""
    told: JsonObject | None = None
    if isinstance(item, UnknownContent):
        told = item.raw if item.raw.get("type") == "diff" else None
    elif isinstance(item, DiffContent):
        told = item.extra
    if told is None or "patch" not in told:
        return True
    patch = obj(told["patch"])
    return type(patch.get("format")) is str and type(patch.get("text")) is str


def declare(draft: CallDraft, fields: JsonObject, declared: JsonObject) -> None:
    """Apply what in v1 only our own agent can report: paused, cancelled, and kinds of its own."""
    status, is_final = declared.get("status"), draft.status == "failed"
    if isinstance(status, ToolCallStatus) and (is_final or draft.status == "in_progress"):
        draft.status = status.value if status.is_final == is_final else draft.status
    if type(declared.get("kind")) is CustomKind and fields.get("kind") == ToolKind.OTHER:
        fields["kind"] = declared["kind"]
