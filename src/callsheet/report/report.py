"""The report: all that is known of one call.

A report changes only through its methods, and only as a whole: a change that is refused leaves it
as it was. The structs are frozen so that nobody assigns to a field by mistake; their values are
never changed in place, so a `snapshot()` is cheap and stays what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from msgspec import Struct
from msgspec.structs import force_setattr

from callsheet.report.content import ToolCallContent, to_content
from callsheet.report.errors import OwnedReport
from callsheet.report.fields import (
    NOTES,
    SETTLE,
    Kind,
    ToolCallLocation,
    ToolKind,
    check_reason,
    settle,
    settle_extra,
    settle_meta,
    to_location,
)
from callsheet.report.ids import check_id
from callsheet.report.json import EMPTY, JsonObject, JsonValue, patched
from callsheet.report.status import (
    MOVES,
    Reason,
    ToolCallStatus,
    check_alive,
    check_move,
    to_reason,
)

if TYPE_CHECKING:
    from callsheet.report.events import CallChanged

_CANCELLED = ToolCallStatus.CANCELLED


@final
class Owned(dict[str, Any]):
    """The `extra` of a report that a ledger owns: settled, and to be changed by nobody else.

    A mark that costs nothing to carry, and that comparisons don't see.
    """


OWNED = Owned()
SETTLED = Owned()
"""Passed as `extra` to a new report, this marks that a ledger makes it from checked values."""


class ToolCallReport(Struct, frozen=True, gc=False):
    """All that is known of one call, in ACP's terms.

    An empty `name`, `title`, `content` or `locations`, and a raw value of None, mean that there is
    none. `meta` is ACP's `_meta`; callsheet's own notes are in it under `callsheet`. `extra` are
    fields of the wire that this version doesn't know.
    """

    tool_call_id: str
    name: str = ""
    title: str = ""
    kind: Kind = ToolKind.OTHER
    status: ToolCallStatus = ToolCallStatus.PENDING
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: JsonValue = None
    raw_output: JsonValue = None
    meta: JsonObject = EMPTY
    extra: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if self.extra is SETTLED:
            force_setattr(self, "extra", OWNED)
            return
        force_setattr(self, "tool_call_id", check_id(self.tool_call_id))
        for name, value in settle({name: getattr(self, name) for name in SETTLE}).items():
            force_setattr(self, name, value)
        meta = patched(EMPTY, settle_meta(self.meta))
        force_setattr(self, "meta", reasoned(meta, self.status))
        force_setattr(self, "extra", patched(EMPTY, settle_extra(self.extra)))

    # Values from the notes

    @property
    def notes(self) -> JsonObject:
        """What stands in `_meta.callsheet`."""
        meta = self.meta
        return meta.get(NOTES) or EMPTY if meta else EMPTY

    @property
    def reason(self) -> Reason | None:
        """Why the call ended as it did, if the notes have a reason that we know."""
        try:
            return Reason(self.notes.get("reason"))
        except ValueError:
            return None

    @property
    def alias(self) -> str | None:
        """The id that a model or a provider uses for this call."""
        return self._text_note("alias")

    @property
    def parent_id(self) -> str | None:
        """The id of the call that this one is part of."""
        return self._text_note("parentId")

    def _text_note(self, name: str) -> str | None:
        found = self.notes.get(name)  # an agent may send notes of any shape
        return found if isinstance(found, str) else None

    @property
    def is_final(self) -> bool:
        """Whether the call has ended."""
        return self.status.is_final

    # What changes it

    def update_status(
        self, status: ToolCallStatus | str, reason: Reason | str | None = None
    ) -> None:
        """Move to another status; the transition table judges."""
        self.update(status=status, reason=reason)

    def add_content(self, item: ToolCallContent | str) -> None:
        """Append one item of content; plain text becomes a text item."""
        self._become(self.changed({"content": (*self.content, to_content(item))}))

    def add_location(self, location: ToolCallLocation | str, line: int | None = None) -> None:
        """Append a place. The place that the work is at now stands last."""
        place = to_location(location, line)
        self._become(self.changed({"locations": (*self.locations, place)}))

    def set_raw_input(self, value: JsonValue) -> None:
        """Set the tool's input."""
        self.update(raw_input=value)

    def set_raw_output(self, value: JsonValue) -> None:
        """Set what the tool gave back."""
        self.update(raw_output=value)

    def update(self, *, reason: Reason | str | None = None, **fields: JsonValue) -> None:
        """Set several fields at once: all of them, or, where one is refused, none.

        `content` and `locations` take the place of what was there.
        """
        notes = None if reason is None else {"reason": to_reason(reason).value}
        self._become(self.changed(settle(fields), None, notes))

    def changed(
        self,
        fields: dict[str, JsonValue],
        meta: JsonObject | None = None,
        notes: JsonObject | None = None,
        extra: JsonObject | None = None,
        clear_meta: bool = False,
    ) -> ToolCallReport:
        """Return the report that this one becomes by settled values, or raise. This one stays as it is."""
        status, moves = fields.get("status"), MOVES[self.status]
        if status not in moves:  # not a move, or not a legal one
            if status is not None:
                check_move(self.status, status, self.tool_call_id)
            elif not moves:
                check_alive(self.status, self.tool_call_id)
        report = self.__copy__()
        for name, value in fields.items():
            force_setattr(report, name, value)
        if notes or meta or clear_meta or status is _CANCELLED or (status and self.meta):
            after = EMPTY if clear_meta else self.meta
            if meta:
                after = patched(after, meta)
            old = after.get(NOTES) or EMPTY
            if notes and None in notes.values():
                after = patched(after, {NOTES: patched(old, notes) or None})
            elif notes:
                after = {**after, NOTES: {**old, **notes}}
            if status is _CANCELLED or "reason" in old or (notes and "reason" in notes) or meta:
                after = reasoned(after, report.status)
            force_setattr(report, "meta", after)
        if extra or self.extra:
            force_setattr(report, "extra", self._next_extra(status, extra))
        return report

    def snapshot(self) -> ToolCallReport:
        """Return a copy that later changes don't reach, and that is yours to change."""
        copy = self.__copy__()
        if type(copy.extra) is Owned:
            force_setattr(copy, "extra", dict(copy.extra) or EMPTY)
        return copy

    def owned(self) -> ToolCallReport:
        """Return a copy for a ledger to keep."""
        copy = self.__copy__()
        force_setattr(copy, "extra", Owned(copy.extra) if copy.extra else OWNED)
        return copy

    if TYPE_CHECKING:

        def __copy__(self) -> ToolCallReport: ...  # msgspec has it, its type stubs don't

    def _become(self, other: ToolCallReport) -> None:
        if type(self.extra) is Owned:
            raise OwnedReport(
                f"call {self.tool_call_id} belongs to a ledger; change it with ledger.update(…), or "
                "take a snapshot() of your own"
            )
        for name in self.__struct_fields__:
            force_setattr(self, name, getattr(other, name))

    def _next_extra(self, status: ToolCallStatus | None, patch: JsonObject | None) -> JsonObject:
        overtaken = status is not None and "status" in self.extra  # an unknown one of another agent
        if not (overtaken or patch):
            return self.extra
        extra = patched(self.extra, {"status": None}) if overtaken else self.extra
        extra = patched(extra, patch or EMPTY)
        return Owned(extra) if type(self.extra) is Owned else extra


def report_of(event: CallChanged) -> ToolCallReport:
    """Make the report that an upsert of an unknown call stands for."""
    meta = event.meta or EMPTY
    if event.notes:
        meta = {**meta, NOTES: event.notes}
    extra = event.extra or EMPTY
    return ToolCallReport(tool_call_id=event.tool_call_id, meta=meta, extra=extra, **event.fields)


def reasoned(meta: JsonObject, status: ToolCallStatus) -> JsonObject:
    """Ensure that exactly the cancelled calls have the reason cancelled.

    ACP v1 has no status for them: there, the reason is what distinguishes a cancelled call from a
    failed one.
    """
    cancelled = status is ToolCallStatus.CANCELLED
    if not meta and not cancelled:
        return meta
    notes = meta.get(NOTES) or EMPTY
    reason = notes.get("reason")
    if reason is None and cancelled:
        return {**meta, NOTES: {**notes, "reason": Reason.CANCELLED.value}}
    if reason is not None:
        check_reason(reason, status)
    return meta
