"""What can happen to a call. Everything that changes a report is one of these.

An event is well-formed once it exists: its values were checked and copied when it was made. Whether
it is legal *now* is for the ledger to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr

from callsheet.report.content import ToolCallContent, to_content
from callsheet.report.errors import InvalidValue
from callsheet.report.fields import settle, settle_extra, settle_meta, settle_notes
from callsheet.report.ids import check_id
from callsheet.report.json import (
    EMPTY,
    JsonObject,
    check_path,
    check_text,
    freeze_object,
    is_object,
    own_objects,
)

if TYPE_CHECKING:
    from callsheet.report.report import ToolCallReport


class CallOpened(Struct, frozen=True):
    """A call is announced, with all that is known of it."""

    report: ToolCallReport

    @property
    def tool_call_id(self) -> str:
        """The id under which it is announced."""
        return self.report.tool_call_id


class CallChanged(Struct, frozen=True, kw_only=True):
    """Some fields of a call have new values. With `upsert`, an unknown call is opened by it.

    `fields` holds just those that are spoken of, by the names of `ToolCallReport`. `meta`, `notes`
    and `extra` are patches: the keys that are there are set, and None removes one. `notes` are the
    keys of `_meta.callsheet`.
    """

    tool_call_id: str
    fields: dict[str, Any] = EMPTY
    meta: JsonObject | None = None
    notes: JsonObject | None = None
    extra: JsonObject | None = None
    clear_meta: bool = False
    upsert: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "tool_call_id", check_id(self.tool_call_id))
        if not is_object(self.fields):
            raise InvalidValue("fields: expected a dict of a report's fields")
        force_setattr(self, "fields", settle(dict(self.fields)))
        if self.meta is not None:
            force_setattr(self, "meta", settle_meta(self.meta))
        if self.notes is not None:
            force_setattr(self, "notes", settle_notes(self.notes))
        if self.extra is not None:
            force_setattr(self, "extra", settle_extra(self.extra))


class ContentAppended(Struct, frozen=True, kw_only=True):
    """One more item of content."""

    tool_call_id: str
    item: ToolCallContent

    def __post_init__(self) -> None:
        force_setattr(self, "tool_call_id", check_id(self.tool_call_id))
        force_setattr(self, "item", to_content(self.item))


class ExitStatus(Struct, frozen=True, kw_only=True):
    """How a terminal's command ended. Its presence means that the command has ended."""

    exit_code: int | None = None
    signal: str | None = None
    extra: JsonObject | None = None

    def __post_init__(self) -> None:
        code = self.exit_code
        if code is not None and (type(code) is not int or not -(2**63) <= code < 2**63):
            raise InvalidValue(f"exit code {code!r}: expected a whole number of at most 64 bits")
        if self.signal is not None:
            force_setattr(self, "signal", check_text(self.signal, "signal"))
        own_objects(self, "extra")


class TerminalChanged(Struct, frozen=True, kw_only=True):
    """Some fields of an agent's terminal have new values. None clears one."""

    terminal_id: str
    command: str | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    output: bytes | UnsetType | None = UNSET
    exit_status: ExitStatus | UnsetType | None = UNSET
    meta: JsonObject | UnsetType = UNSET
    extra: JsonObject | UnsetType = UNSET
    clear_meta: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "terminal_id", check_id(self.terminal_id, "terminal id"))
        if self.command is not UNSET and self.command is not None:
            force_setattr(self, "command", check_text(self.command, "terminal command"))
        if self.cwd is not UNSET and self.cwd is not None:
            force_setattr(self, "cwd", check_path(self.cwd, "terminal cwd"))
        for field, kind in (("output", bytes), ("exit_status", ExitStatus)):
            value = getattr(self, field)
            if value is not UNSET and value is not None and not isinstance(value, kind):
                raise InvalidValue(
                    f"terminal {field}: expected {kind.__name__}, got {type(value).__name__}"
                )
        for field in ("meta", "extra"):
            value = getattr(self, field)
            if value is not UNSET:
                force_setattr(self, field, freeze_object(value, f"terminal {field}"))


class TerminalOutput(Struct, frozen=True, kw_only=True):
    """More bytes of an agent's terminal."""

    terminal_id: str
    data: bytes

    def __post_init__(self) -> None:
        force_setattr(self, "terminal_id", check_id(self.terminal_id, "terminal id"))
        if not isinstance(self.data, bytes):
            raise InvalidValue(f"terminal output: expected bytes, got {type(self.data).__name__}")


CallEvent: TypeAlias = CallOpened | CallChanged | ContentAppended
TerminalEvent: TypeAlias = TerminalChanged | TerminalOutput
Event: TypeAlias = CallEvent | TerminalEvent
