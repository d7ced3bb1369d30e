"""A tap's settings (`TapSettings`), the state that its sessions share (`Context`), and that of one call.

An agent may use one id for several calls. The client must never see that, so each call gets an id of its
own (`Ids`): the agent's id where it is free, else that id with a number appended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from callsheet.describe import Describer, pick_locale
from callsheet.describe.titles import Redact
from callsheet.limits.limits import SAFE
from callsheet.observe.model import Json, ObservedCall, SeenIds, many, obj
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidId
from callsheet.report.fields import WIRE_NOTES
from callsheet.report.ids import MAX_ID_CHARS, check_id
from callsheet.report.json import JsonObject, JsonValue
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.report.terminal import CallRecord
from callsheet.runtime.clock import to_rfc3339
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import GuardSettings, LocalPhrases, Sanitizer
from callsheet.runtime.spill_store import SpillStore
from callsheet.tap.repair.card_content import terminal_in
from callsheet.tap.repair.draft import CallDraft, valid_directory
from callsheet.tap.stats import Account

MOST = 4096
"""Ids whose last number is known, and sessions whose replays are counted."""


class TapSettings(Struct, frozen=True, kw_only=True):
    """Settings of a tap: what it does besides passing everything on.

    Attributes:
        repair: Make reports of calls complete and correct. If not, they are as the agent sent them, but
            still safe, within limits and in the smallest updates.
        redact: Remove secrets from what the client is shown and from what is stored.
        bound: Limit the size of messages about calls. What is cut is stored in files.
        locale: The language of the tap's own titles and texts. None means that of the environment.
    """

    repair: bool = True
    redact: bool = True
    bound: bool = True
    locale: str | None = None


StoreCall = Callable[[str, str, CallRecord], None]
"""Stores a call, by its session's id and directory."""


def _raise(exc: Exception) -> None:
    raise exc


def _ignore(*_: object) -> None:
    """Stand in for what the pipeline sets."""


class Context(Struct, eq=False):
    """State and services that all sessions of a tap share.

    `send` receives lines for the client, `send_request` permission requests with the id of their session,
    `pass_on` lines of messages that the tap could not complete, and `failed` the exceptions of its own code.
    The pipeline sets them. `store` stores a call in the history. `epoch` is the time of day, in seconds, at
    time 0; it is None where that is unknown, as in a recording. Of a recording without times, `has_times` is
    false: how long a call took is not known.
    """

    settings: TapSettings
    account: Account
    send: Callable[[bytes], object] = bytes
    send_request: Callable[[str, Json], None] = _ignore
    pass_on: Callable[[bytes, Json], None] = _ignore
    failed: Callable[[Exception], None] = _raise
    store: StoreCall | None = None
    epoch: float | None = None
    has_times: bool = True
    spill: SpillStore | bool = True
    used: SeenIds = field(default_factory=SeenIds)
    """The ids of calls that the client knows, of all sessions."""
    histories: dict[str, int] = field(default_factory=dict[str, int])
    """How often each session was replayed. A replay uses the same ids again, so each has its own ids."""

    def replayed(self, session: str) -> None:
        """Note that the client forgets what it knows of a session: it will be replayed."""
        self.histories[session] = self.histories.pop(session, 0) + 1
        if len(self.histories) > MOST:
            del self.histories[next(iter(self.histories))]

    def ids(self, session: str) -> Ids:
        """Return the ids of a session's calls."""
        return Ids(f"{session}\0{self.histories.get(session, 0)}", self.used)

    def sanitizer(self, words: LocalPhrases, faults: Faults) -> Sanitizer:
        """Return a sanitizer that redacts and bounds values by the settings."""
        chosen = GuardSettings(
            redact=self.settings.redact,
            limits=SAFE if self.settings.bound else None,
            spill=self.spill if self.settings.bound else False,
        )
        return Sanitizer(chosen, words, faults)

    def describer(self, cwd: str | None, clean: Redact | None = None) -> Describer:
        """Return the describer for calls of a session in a directory.

        Args:
            cwd: The session's directory, if it is known.
            clean: Redacts a text before it is cut. Half a secret would not be recognised afterwards.
        """
        return Describer(
            valid_directory(cwd) or "/",
            redact=clean,
            locale=pick_locale(self.settings.locale, os.environ),
            home=os.path.expanduser("~") if self.epoch is not None else None,  # noqa: PTH111
        )

    def time(self, now: float) -> str | None:
        """Return a time of day, if it is known."""
        return None if self.epoch is None else to_rfc3339(int((self.epoch + now) * 1e9))


class TappedCall(Struct, eq=False, kw_only=True):
    """A call that passes the tap: its last draft, what we report of it, and when it must end."""

    id: str
    """The client's id of the call: the agent's own, unless another call had that before."""
    draft: CallDraft
    """What was made of it last."""
    report: ToolCallReport | None = None
    repaired: set[str] = field(default_factory=set[str])
    """What was repaired in any of its drafts, and in its lifecycle."""

    since: float
    """When its first line came."""
    began: float
    ran: float | None = None
    """When it began to run, as far as that was reported."""
    done: float | None = None
    """When it was done, if its end was sent later."""
    is_history: bool = False
    """Whether it was done in a replay."""
    asked: float | None = None
    """When the user was asked about it."""
    decision: JsonObject = field(default_factory=dict[str, Any])
    """The note on the user's answer, until it is sent."""
    deadline: Reason | None = None
    """Why the tap will end it if the agent does not, if so."""

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
    def call(self) -> ObservedCall:
        """The call as it was observed."""
        return self.draft.call

    @property
    def is_worth_showing(self) -> bool:
        """Whether enough was added to its content: what is cut is not cut anew for each item that comes."""
        return not self.is_cut or len(self.safe) * 10 >= self.counted * 11

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as the client knows."""
        return self.report is not None and self.report.is_final


class Ids:
    """The ids of one session's calls, as the client knows them. No id stands for two calls.

    `used` holds the ids of all sessions, because a session that was dropped may be used again.
    """

    def __init__(self, session: str, used: SeenIds) -> None:
        self._session: str = session
        self._used: SeenIds = used
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
            self._numbers[base] = number
            if len(self._numbers) > MOST:
                del self._numbers[next(iter(self._numbers))]
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


_REASONS = tuple(reason.value for reason in Reason if reason is not Reason.CANCELLED)

_LONGEST = MAX_ID_CHARS - 16
"""Characters of an id that is left as it is: a number may have to be added."""


_UNTRUSTED = frozenset((*WIRE_NOTES, "permission", "repaired"))


def own_notes(
    reported: JsonObject, ids: Ids, status: ToolCallStatus | None, key: str
) -> JsonObject:
    """Return those of an agent's own `callsheet` notes on a call that can be relied on.

    Who approved a call, and what was repaired, only the tap itself says: it has seen that.

    Args:
        reported: The notes as the agent sent them.
        ids: The ids of the session's calls.
        status: The status that the call has now.
        key: The id by which the client knows the call.
    """
    notes = {key: value for key, value in reported.items() if key not in _UNTRUSTED}
    if status is not ToolCallStatus.FAILED or notes.get("reason") not in _REASONS:
        notes.pop("reason", None)
    if not _is_cut(notes.get("truncated")):
        notes.pop("truncated", None)
    alias = notes.get("alias")
    if alias is not None and not (type(alias) is str and ids.keep_alias(alias, key)):
        del notes["alias"]  # it would lead to another call
    return notes


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


def in_own_terminals(draft: CallDraft, ours: str) -> CallDraft:
    """Return a draft with the terminals that it shows renamed, by the rule of `own_terminals`."""
    theirs = draft.call.id
    if ours == theirs or not any(terminal_in(item) == theirs for item in draft.content):
        return draft
    content = [
        {**item, "terminalId": ours} if terminal_in(item) == theirs else item
        for item in draft.content
    ]
    return replace(draft, content=content)


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
