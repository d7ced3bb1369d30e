"""The tap's state of one call (`TappedCall`), and the ids by which the client knows calls (`Ids`).

An agent may use one id for several calls. The client must never see that, so each call gets an id of its
own: the agent's id where it is free, else that id with a number appended.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from msgspec import field
from msgspec.structs import replace

from callsheet.observe.model import SeenIds, many, obj, text
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidId
from callsheet.report.fields import WIRE_NOTES
from callsheet.report.ids import MAX_ID_CHARS, check_id
from callsheet.report.json import JsonObject, JsonValue
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.tap.repair.card_content import terminal_in
from callsheet.tap.repair.context import CallDraft, Known


class TappedCall(Known, kw_only=True, eq=False):
    """A call: what the agent reports of it (`Known`), and what we report instead."""

    id: str
    """The client's id of the call: the agent's own, unless another call had that before."""
    since: float
    """When its first line came."""
    began: float
    report: ToolCallReport | None = None
    is_open_again: bool = False
    """Whether permission is asked for it though it was reported as ended: so it has not ended."""
    ran: float | None = None
    """When it began to run, as far as that was reported."""
    done: float | None = None
    """When it was done, if its end was sent later."""
    is_history: bool = False
    """Whether it was done in a replay."""
    deadline: Reason | None = None
    """Why the tap will end it if the agent does not, if so."""
    repaired: set[str] = field(default_factory=set[str])
    is_streaming: bool = False
    """Whether its arguments are on their way, as far as can be seen."""
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    """What each field was last made of, to see that it is still the same."""
    items: tuple[ToolCallContent, ...] = ()
    """Its content as it was reported, and …"""
    safe: tuple[ToolCallContent, ...] = ()
    """… the same without secrets, whole."""
    secrets: dict[str, int] = field(default_factory=dict[str, int])
    """How many secrets were redacted in each field."""
    whole_input: JsonValue = None
    """The input without secrets, unbounded: the user must see all of what they approve."""
    is_cut: bool = False
    """Whether its content is shown with less than there is."""
    counted: int = 0
    """How many items it had when its content was last looked at."""

    @property
    def is_worth_showing(self) -> bool:
        """Whether enough was added to its content: what is cut is not cut anew for each item that comes."""
        return not self.is_cut or len(self.safe) * 10 >= self.counted * 11

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as the client knows."""
        return self.report is not None and self.report.is_final

    def forget(self) -> None:
        """Release the memory of a call that has ended: only its status is used from now on."""
        if self.report is not None:
            self.report = replace(self.report, content=(), raw_input=None, raw_output=None)
        self.given, self.asked, self.items, self.safe = {}, {}, (), ()
        self.whole_input, self.diffs = None, []


class Ids:
    """The ids of one session's calls, as the client knows them. No id stands for two calls.

    `used` holds the ids of all sessions, because a session that was dropped may be used again.
    """

    def __init__(self, session: str, used: SeenIds) -> None:
        self._session: str = session
        self._used: SeenIds = used
        self._renamed: dict[str, str] = {}
        # The last number appended to each id. Without it, an agent that uses one id for every call would
        # make each search for a free number start at 2 again, which is quadratic.
        self._numbers: dict[str, int] = {}

    def new(self, key: str) -> str:
        """Return an id for a call that the agent knows by `key`."""
        chosen = base = _fit(key)
        number = self._numbers.pop(base, 1)
        while self._used.has(self._session, chosen):
            number += 1
            chosen = f"{base}~{number}"
        self._used.add(self._session, chosen)
        if number > 1:
            _note(self._numbers, base, number)
        if chosen != key:
            _note(self._renamed, chosen, key)
        return chosen

    def has(self, chosen: str) -> bool:
        """Whether a call is or was known by an id."""
        return self._used.has(self._session, chosen)

    def keep_alias(self, alias: str, key: str) -> bool:
        """Note an agent's alias for a call, and return whether it may be sent: no other call has it."""
        if self.has(alias):
            return key.startswith(f"{alias}~")  # another tap has renamed the call this way
        self._used.add(self._session, alias)
        return True

    def theirs(self, chosen: str) -> str:
        """Return the agent's id of a call that the client knows by another."""
        return self._renamed.get(chosen, chosen)


MOST = 4096
"""Ids of which more is known than that they are used."""

_REASONS = tuple(reason.value for reason in Reason if reason is not Reason.CANCELLED)

_LONGEST = MAX_ID_CHARS - 16
"""Characters of an id that is left as it is: a number may have to be added."""

_Value = TypeVar("_Value")


def own_notes(
    reported: JsonObject, ids: Ids, status: ToolCallStatus | None, key: str
) -> JsonObject:
    """Return those of an agent's own `callsheet` notes on a call that can be relied on.

    Args:
        reported: The notes as the agent sent them.
        ids: The ids of the session's calls.
        status: The status that the call has now.
        key: The id by which the client knows the call.
    """
    notes = {key: value for key, value in reported.items() if key not in WIRE_NOTES}
    if status is not ToolCallStatus.FAILED or notes.get("reason") not in _REASONS:
        notes.pop("reason", None)
    if not _is_cut(notes.get("truncated")):
        notes.pop("truncated", None)
    alias = notes.get("alias")
    if alias is not None and not (type(alias) is str and ids.keep_alias(alias, key)):
        del notes["alias"]  # it would lead to another call
    return notes


_PARENTS = (("parentToolCallId",), ("claudeCode", "parentToolUseId"), ("callsheet", "parentId"))
"""Where in `_meta` agents name the call that a call is part of."""


def with_parent(meta: JsonObject, ours: Callable[[str], str]) -> JsonObject:
    """Return a `_meta` in which the call's parent has the id by which the client knows it."""
    for path in _PARENTS:
        holder = meta if len(path) == 1 else obj(meta.get(path[0]))
        key = text(holder.get(path[-1]))
        if key is not None and (chosen := ours(key)) != key:
            holder = {**holder, path[-1]: chosen}
            meta = holder if len(path) == 1 else {**meta, path[0]: holder}
    return meta


_OF_TERMINALS = ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit")


def own_terminals(meta: JsonObject, mine: TappedCall) -> JsonObject:
    """Return a `_meta` with terminals in the form that clients know, under ids that belong to this call.

    Some agents use the call's id as the id of its terminal. If an earlier call had that id, so had the
    earlier terminal, and the terminal is renamed together with the call.
    """
    found = {key: meta[key] for key in _OF_TERMINALS if obj(meta.get(key))}
    if not found:
        return meta
    rest = {key: value for key, value in meta.items() if key not in found}
    for key, value in found.items():
        reported = obj(value)
        if reported.get("terminal_id") == mine.call.id:
            reported = {**reported, "terminal_id": mine.id}
        rest["terminal_output" if key == "terminal_output_delta" else key] = reported
    return rest


def in_own_terminals(draft: CallDraft, mine: TappedCall) -> CallDraft:
    """Rename the terminals that a draft shows, by the rule of `own_terminals`, and return the draft."""
    if mine.id != mine.call.id:
        draft.content = [
            {**item, "terminalId": mine.id} if terminal_in(item) == mine.call.id else item
            for item in draft.content
        ]
    return draft


def _is_cut(reported: JsonValue) -> bool:
    records = [reported, *many(obj(reported).get("others"))]
    return all(type(obj(record).get("field")) is str for record in records)


def _fit(key: str) -> str:
    """Return an id that any client accepts: not empty, of limited length, on one line."""
    try:
        if len(key) <= _LONGEST:
            return check_id(key)
    except InvalidId:
        pass
    reported = "".join(sign for sign in key if sign.isprintable())[:64]
    return f"{reported or 'call'}-{sha256(key.encode(errors='replace')).hexdigest()[:16]}"


def _note(known: dict[str, _Value], key: str, value: _Value) -> None:
    known[key] = value
    if len(known) > MOST:
        del known[next(iter(known))]
