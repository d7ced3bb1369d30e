"""What leaves a session: values converted to JSON, secrets redacted, sizes bounded, the rest stored in files.

It runs once, before anything is stored or sent, so that all consumers receive the same. What the tool
and the model receive is not altered. `callsheet.limits` and `callsheet.redaction` do the work; this
module combines them.
"""

from __future__ import annotations

import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from json import dumps
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callsheet.acp.jsonrpc import FRAME_BUDGET
from callsheet.acp.peer import Phrases
from callsheet.acp.v1 import SealedResult
from callsheet.describe import Describer, escape_title
from callsheet.limits.content import without_repeats, without_texts
from callsheet.limits.limits import NAME_LIMIT, SAFE, Limits, bound_report
from callsheet.limits.text import visible
from callsheet.limits.to_json import fix_text, jsonsafe
from callsheet.limits.truncation import truncated
from callsheet.redaction.redactor import Redactor, Settings, StreamRedactor, secrets_of
from callsheet.report.content import (
    DiffContent,
    TerminalContent,
    TextContent,
    ToolCallContent,
    UnknownContent,
)
from callsheet.report.errors import InvalidValue
from callsheet.report.fields import NOTES, Kind, ToolCallLocation, settle_meta, to_items
from callsheet.report.json import EMPTY, MAX_DEPTH, JsonObject, JsonValue, freeze
from callsheet.report.report import ToolCallReport
from callsheet.runtime.health import Faults, short_message
from callsheet.runtime.spill_store import SpillStore, default_directory

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_WIRE_NAMES = {"content": "content", "raw_input": "rawInput", "raw_output": "rawOutput"}
_GUARDED = {
    "text", "uri", "name", "title", "description", "patch", "mime_type",
    "meta", "extra", "annotations", "outer",
}  # fmt: skip


SMALL = 1024
"""Bytes of an input that has room in a report with all that is derived from it."""

MOST_NAMES = 1000
"""Names of tools that are remembered without their secrets (`Sanitizer.names`)."""


class GuardSettings(Struct, frozen=True, kw_only=True):
    """How a session sanitizes what it sends and stores.

    `redact` is a `Redactor` of your own, True for the built-in rules, or False. `limits` are the bytes
    of each field, or None for no limits. `spill` stores what was cut: a store, True for one in the
    user's cache directory, or False.
    """

    redact: Redactor | bool = True
    limits: Limits | None = SAFE
    spill: SpillStore | bool = True

    def __post_init__(self) -> None:
        for name, kinds in (
            ("redact", (Redactor, bool)),
            ("limits", (Limits, type(None))),
            ("spill", (SpillStore, bool)),
        ):
            value = getattr(self, name)
            if not isinstance(value, kinds):
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise InvalidValue(f"guard {name}: expected {wanted}, got {type(value).__name__}")


class LocalPhrases(Phrases):
    """What views and limits add to a report by themselves, in the language of a describer."""

    def __init__(self, describer: Describer) -> None:
        self._describer: Describer = describer

    def left_out(self, count: int, lines: int | None = None) -> str:
        """Return how much of an output is not shown, as text."""
        text = self._describer.phrase("bytes_left_out", count=count)
        if lines is not None:
            text += " · " + self._describer.phrase("lines_left_out", count=lines)
        return text

    def escaped(self, title: str, kind: Kind, rendering: Literal["markdown", "either"]) -> str:
        """Return a title for a client that renders it as Markdown, or may do so."""
        return escape_title(title, kind, rendering)

    def left_out_phrase(self, key: str, **values: int | str) -> str:
        """Return what `callsheet.limits` writes in place of what it left out."""
        phrase, count = self._describer.phrase, values.get("count", 0)
        if key == "link_name":
            return phrase("whole", field=values["field"]) + f" ({values['bytes']} B)"
        if key == "data_cut":
            return f"{values['mime']}: {self.left_out(int(values['bytes']))}"
        if key in ("text_cut", "lines_cut"):
            lines = int(values["lines"]) if key == "lines_cut" else None
            return f"… {self.left_out(int(values['bytes']), lines)} …"
        if key in ("items_cut", "keys_cut"):
            return f"… {phrase(key.replace('cut', 'left_out'), count=count)} …"
        return f"… {phrase(key)} …"


def _plain(value: Any, data: bytes) -> JsonValue:
    """Return a private copy of a value that was encoded as `data`, if it is plain JSON, as nearly all are.

    msgspec encodes more than JSON has (dates, bytes, tuples, numbers that are none), and not equal to what
    is decoded again.

    Raises:
        InvalidValue: It is not plain JSON.
    """
    is_shallow = data.count(b"{") + data.count(b"[") <= MAX_DEPTH
    copy = _decode(data) if is_shallow else freeze(value, "value")
    if copy != value:
        raise InvalidValue("value: is not plain JSON")
    return copy


class Sanitizer:
    """Guards the values of one session. Its methods may be called from any thread.

    Nearly all values are plain JSON, without secrets and within their limits. That is seen quickly:
    by one encoding and one search. Everything else takes the one detour: made plain
    (`jsonsafe`), redacted, cut, and what was cut stored in a file.
    """

    def __init__(self, settings: GuardSettings, words: LocalPhrases, faults: Faults) -> None:
        self._settings: GuardSettings = settings
        self._limits: Limits | None = settings.limits
        self._rooms: dict[str, int] = _rooms(settings.limits or SAFE)
        self._result_room: int = min(self._rooms["content"], self._rooms["raw_output"])
        self.small: int = min(SMALL, min(self._rooms.values()) // 4)
        self._phrase: Callable[..., str] = words.left_out_phrase
        self._faults: Faults = faults
        self.names: dict[str, str] = {}
        self._redactor: Redactor | None = None
        self._spills: SpillStore | None = None

    @property
    def frame(self) -> int:
        """Bytes that a line may have."""
        return FRAME_BUDGET if self._limits is None else self._limits.frame + 1024

    @property
    def redactor(self) -> Redactor | None:
        """The redactor, if there is one. The built-in one is made when it is first needed."""
        if self._redactor is None:
            given = self._settings.redact
            if given is True:
                self._redactor = _shipped()
            elif given is not False:
                self._redactor = given
        return self._redactor

    def learn(self, known: Mapping[str, str]) -> None:
        """Take values out from now on that are known to be secret."""
        redactor = self.redactor
        if redactor is None or not known:
            return
        if self._settings.redact is True:
            self._redactor = _shipped(known)
        else:
            redactor.register(known)
        self.names.clear()

    # Values

    def value(self, value: Any, *, runs: bool = False) -> tuple[JsonValue, int]:
        """Return a private copy of any value as safe JSON, and how many secrets were in it.

        With `runs`, nothing is hidden that a shell would act on. A call's input and title are such
        values: the user approves the call by reading them.
        """
        safe, found, _ = self.sealed(value, runs=runs)
        return safe, found

    def sealed(self, value: Any, *, runs: bool = False) -> tuple[JsonValue, int, int | None]:
        """Return what `value` returns, and the bytes of the value as JSON, if they are known."""
        redactor = self._redactor or self.redactor
        try:
            data = _encode(value)
            copy = _plain(value, data)
            if redactor is None or redactor.is_clean_json(data):
                return copy, 0, len(data)
        except Exception:  # noqa: BLE001 - it is not plain, or can't be encoded
            pass
        safe = freeze(jsonsafe(value, phrases=self._phrase), "value")
        if redactor is None:
            return safe, 0, None
        return *redactor.value(safe, runs=runs), None

    def sealed_result(self, output: Any, raw: Any) -> SealedResult | None:
        """Return a result of one text, encoded, if it has no secrets and is surely within its limits.

        Most results are one text, which the raw output repeats: both are encoded and searched once,
        without the repetition. For all others this returns None, and `result` takes the detour.
        """
        if type(output) is not str:
            return None
        redactor = self._redactor or self.redactor
        try:
            if raw is not None and self._limits is not None:
                raw = without_texts(raw, (output,))
            text, rest = _encode(output), _encode(raw)
            if 2 * (len(text) + len(rest)) > self._result_room or visible(output) is not output:
                return None
            copy = None if raw is None else _plain(raw, rest)
            if redactor is None or redactor.is_clean_json(b"[%b,%b]" % (text, rest)):
                return SealedResult({"content": output, "raw_output": copy}, text, rest)
        except Exception:  # noqa: BLE001 - it is not plain, or can't be encoded
            pass
        return None

    def result(self, output: Any, raw: Any) -> tuple[tuple[ToolCallContent, ...], JsonValue, int]:
        """Return a call's last content, its raw output, and how many secrets were in them."""
        items, found = ((), 0) if output is None else self.items(output)
        if raw is None:
            return items, None, found
        safe, more = self.value(raw)
        return items, safe, found + more

    def json(self, value: Any) -> JsonValue:
        """Return any value as JSON, with whatever secrets it has. For looking at, never for letting out."""
        return jsonsafe(value, phrases=self._phrase)

    def places(self, places: Sequence[ToolCallLocation]) -> tuple[ToolCallLocation, ...]:
        """Return places without secrets in their paths."""
        cleaned = [(place, self.clean(place.path)) for place in places]
        if all(place.path == path and place.meta is None for place, path in cleaned):
            return tuple(places)
        return tuple(
            [
                replace(place, path=path, meta=self.value(place.meta)[0] if place.meta else None)
                for place, path in cleaned
            ]
        )

    def text(self, text: Any, *, runs: bool = False) -> tuple[str, int]:
        """Return a text without secrets, and how many there were. For `runs`, see `value`."""
        if type(text) is not str:
            text = str.__str__(text) if isinstance(text, str) else str(text)
        safe = text if text.isascii() else fix_text(text)
        redactor = self._redactor or self.redactor
        if redactor is None or redactor.is_clean_json(_encode(safe)):
            return safe, 0
        return redactor.text(safe, runs=runs)

    def name(self, name: str) -> str:
        """Return a tool's name without secrets. There are few, and they come again and again."""
        if not isinstance(name, str):
            raise InvalidValue(f"name: expected text (a str), got {type(name).__name__}")
        clean = self.clean(name)
        if len(self.names) < MOST_NAMES:
            self.names[name] = clean
        return clean

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        return self.text(text)[0]

    def command(self, text: str) -> str:
        """Return a command, or a text that shows one, without secrets. For titles."""
        return self.text(text, runs=True)[0]

    def items(self, given: Any, *, runs: bool = False) -> tuple[tuple[ToolCallContent, ...], int]:
        """Return content without secrets, and how many there were. What is not content is refused.

        With `runs`, the content shows what is to be run, and not its result; see `value`.
        """
        if type(given) is str:
            text, count = self.text(given, runs=runs)
            return (TextContent(visible(text)),), count
        many: list[Any] = [given]
        if isinstance(given, (list, tuple)):
            many = list(given)  # pyright: ignore[reportUnknownArgumentType]
        items = to_items([self._as_item(item) for item in many])
        redactor = self.redactor
        if redactor is None:
            return tuple(map(_visible, items)), 0
        # Secrets are known by the escape sequences around them, too, so these stay until here.
        cleaned = [_clean_item(item, redactor, runs) for item in items]
        return tuple([_visible(item) for item, _ in cleaned]), sum(count for _, count in cleaned)

    def _as_item(self, given: Any) -> ToolCallContent | str:
        """Return what a tool shows as content: what is neither text nor content is shown as text."""
        if isinstance(given, ToolCallContent):
            return given
        if isinstance(given, BaseException):
            return fix_text(short_message(given, self.clean))
        safe: Any = given if isinstance(given, str) else self.json(given)
        return (
            fix_text(safe) if isinstance(safe, str) else dumps(safe, indent=2, ensure_ascii=False)
        )

    def stream(self) -> StreamRedactor | None:
        """Begin a stream of live output."""
        redactor = self.redactor
        return None if redactor is None else redactor.stream()

    # Fields of a report

    def meta(self, given: JsonObject) -> JsonObject:
        """Return a patch for `_meta`, safe and within its limit."""
        fields, _ = self.bounded({"meta": self.value(given)[0]}, None)
        return settle_meta(fields["meta"])

    def bounded(
        self,
        fields: dict[str, Any],
        report: ToolCallReport | None,
        found: int = 0,
        *,
        spill: bool = True,
    ) -> tuple[dict[str, Any], JsonObject]:
        """Return fields within their limits, and the notes about what was redacted and cut.

        Args:
            fields: Sanitized fields of a report. `notes` among them become part of the notes.
            report: The report that they are for, if there is one yet.
            found: How many secrets were redacted in them.
            spill: Whether the whole values of cut fields are stored in files.
        """
        known: JsonObject = EMPTY
        if report is not None and report.meta:
            known = report.meta.get(NOTES) or EMPTY
        notes: JsonObject = {}
        if found:
            self._faults.tally(redacted=found)
            notes["redactions"] = found + (known.get("redactions") or 0)
        limits = self._limits
        if limits is not None and fields:
            raw = fields.get("raw_output")
            shown = fields.get("content") or (report.content if report is not None else ())
            if raw is not None and shown:
                fields = {**fields, "raw_output": without_repeats(raw, shown)}
            try:  # together, they are nearly always smaller than each may be
                size = len(_encode(fields))
                fits = 2 * size <= min(map(self._rooms.__getitem__, fields))
            except Exception:  # noqa: BLE001 - numbers beyond 64 bits; the detour measures them
                fits = False
            if not fits:
                fields = self._cut(fields, limits, known, notes, spill)
            elif "truncated" in known:
                notes["truncated"] = truncated((), known["truncated"], _wire_names(fields))
        if "notes" in fields:
            notes = {**fields.pop("notes"), **notes}
        return fields, notes

    def _cut(
        self,
        fields: dict[str, Any],
        limits: Limits,
        known: JsonObject,
        notes: JsonObject,
        spill: bool,
    ) -> dict[str, Any]:
        """Return fields cut to their limits, where they exceed them; add to the notes what was cut."""
        plan = bound_report(fields, limits, phrases=self._phrase)
        if plan.cuts:
            self._faults.tally(cut=len(plan.cuts))
        store = self._store() if spill and plan.cuts else None
        finish = plan.finish if store is None else partial(store.finish, plan)
        cut, records = finish(phrases=self._phrase)
        if records or "truncated" in known:
            notes["truncated"] = truncated(records, known.get("truncated"), _wire_names(fields))
        return dict(cut)

    def _store(self) -> SpillStore | None:
        if self._spills is None and self._settings.spill is not False:
            given = self._settings.spill
            self._spills = SpillStore(default_directory()) if given is True else given
        return self._spills


def _rooms(limits: Limits) -> dict[str, int]:
    """Return the bytes, as JSON, of which a field may surely take the half.

    Not all of them, since a diff as a patch may take up to twice its texts. Locations are measured
    generously by `limits`, and notes share their limit with the rest of `_meta`.
    """
    rooms = {name: getattr(limits, name) for name in _WIRE_NAMES}
    rooms |= dict.fromkeys(("meta", "notes", "extra"), limits.meta // 4)
    return rooms | {
        "title": limits.title,
        "locations": limits.locations // 2,
        "name": NAME_LIMIT,
        "kind": NAME_LIMIT,
    }


def _wire_names(fields: Mapping[str, Any]) -> list[str]:
    return [_WIRE_NAMES[name] for name in fields if name in _WIRE_NAMES]


_making = threading.Lock()


def _shipped(known: Mapping[str, str] = EMPTY) -> Redactor:
    """Return the redactor with the shipped rules. Making one takes a while, so sessions share it."""
    with _making:
        named = {**secrets_of(os.environ), **known}
        return _made(tuple(sorted(named.items())), Redactor.settings)


@lru_cache(maxsize=4)
def _made(known: tuple[tuple[str, str], ...], settings: Settings) -> Redactor:  # noqa: ARG001
    return Redactor(known=dict(known))


def _visible(item: ToolCallContent) -> ToolCallContent:
    if type(item) is not TextContent:
        return item
    shown = visible(item.text)
    return item if shown is item.text else replace(item, text=shown)


def _clean_item(
    item: ToolCallContent, redactor: Redactor, runs: bool
) -> tuple[ToolCallContent, int]:
    """Return an item without secrets, and how many there were."""
    if type(item) is TerminalContent:
        return item, 0
    if type(item) is UnknownContent:
        raw, count = redactor.value(item.raw, runs=runs)
        return (UnknownContent(raw), count) if count else (item, 0)
    changes, total = {}, 0
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if value and name in _GUARDED:
            changes[name], count = redactor.value(value, runs=runs)
            total += count
    blob: Any = getattr(item, "blob", None)
    if isinstance(blob, str) and blob:
        changes["blob"], count = _clean_blob(blob, redactor)
        total += count
    if type(item) is DiffContent:
        files = [_clean_change(change, redactor) for change in item.changes]
        changes["changes"] = tuple([file for file, _ in files])
        total += sum(count for _, count in files)
    return (replace(item, **changes), total) if total else (item, 0)


def _clean_blob(blob: str, redactor: Redactor) -> tuple[str, int]:
    """Return base64 without secrets, if what it stands for is text."""
    try:
        text = b64decode(blob).decode()
    except ValueError:
        return blob, 0
    clean, count = redactor.text(text)
    return (b64encode(clean.encode()).decode(), count) if count else (blob, 0)


def _clean_change(change: Any, redactor: Redactor) -> tuple[Any, int]:
    changes, total = {}, 0
    for name in ("path", "old_path", "old_text", "new_text", "meta", "extra"):
        value = getattr(change, name)
        if value:
            changes[name], count = redactor.value(value)
            total += count
    return (replace(change, **changes), total) if total else (change, 0)
