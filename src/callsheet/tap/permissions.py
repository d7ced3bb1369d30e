"""A request for permission, made whole: the same report as the announcement, under the same id.

Requests for permission, made whole and passed on.

Some agents ask before they tell what they ask about, and even before what they have said until then. Nobody
should allow what is told a moment later, so such a request waits for it, no longer than an announcement does.
Those of other calls may overtake it meanwhile, and texts; answers, and what else the agent asks for, may not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from callsheet.acp import v1, v2
from callsheet.acp.codec import KEYS, as_dict
from callsheet.observe.events import PermissionAsked
from callsheet.observe.model import ApprovalRequest, Json, many, obj, text
from callsheet.report.report import ToolCallReport
from callsheet.tap.calls import Tapped
from callsheet.tap.hold import ANNOUNCEMENT
from callsheet.tap.repair.names import is_bare

if TYPE_CHECKING:
    from callsheet.tap.session import TappedSession

_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
_OF_OPTIONS = ("optionId", "name", "kind")


def request_of(
    message: Json,
    report: ToolCallReport,
    version: int,
    agent_is_v2: bool,
    clean: Callable[[Any], Any],
) -> Json | None:
    """Return a request with the whole call in it, in the client's version. All else is as the agent has it.

    `clean` takes secrets out of that. None if it is not in form, and what it asks can't be known.
    """
    params = obj(message.get("params"))
    if not _is_in_form(params, version, agent_is_v2):
        return None
    call = as_dict((v2 if version == 2 else v1).announce(report))
    call.pop("sessionUpdate", None)
    told = ("toolCall",) if version == 2 or not agent_is_v2 else ("subject", "title", "description")
    made = _cleaned({key: value for key, value in params.items() if key not in told}, clean)
    if version == 2:
        made["title"] = text(made.get("title")) or report.title or report.name or "Unknown tool"
        made["subject"] = {**obj(made.get("subject")), "type": "tool_call", "toolCall": call}
    else:
        made["toolCall"] = call
    return {**message, "params": made}


def asked_of(request: Json) -> Json:
    """Return the call that a request of either version is about."""
    params = obj(request.get("params"))
    return obj(params.get("toolCall")) or obj(obj(params.get("subject")).get("toolCall"))


def is_blind(mine: Tapped, question: ApprovalRequest, version: int) -> bool:
    """Whether nothing is known of what people would allow by a request of a v1 agent."""
    report = mine.report
    if report is None or report.is_final or not _is_in_form(question.params, version, False):
        return False
    shows = question.tool_call.get("content") or report.content or report.locations
    if report.raw_input or shows:
        return False
    return mine.has_own_title or is_bare(report.title, report.name, report.kind, None)


def is_same(made: Json, told: Json) -> bool:
    """Whether people are shown the same of two calls."""
    return all(made.get(key) == told.get(key) for key in KEYS if key != "_meta")


def _cleaned(params: Json, clean: Callable[[Any], Any]) -> Json:
    """Return params without secrets, but for the ids by which they are answered."""
    if "subject" in params:
        about = obj(params["subject"])
        params["subject"] = {key: value for key, value in about.items() if key != "toolCall"}
    made = clean(params)
    options = zip(made["options"], params["options"], strict=True)
    return {
        **made,
        "sessionId": params["sessionId"],
        "options": [{**shown, "optionId": told["optionId"]} for shown, told in options],
    }


def _is_in_form(params: Json, version: int, agent_is_v2: bool) -> bool:
    """Whether all but the call is as ACP has it."""
    options = params.get("options")
    if options.__class__ is not list or (version == 2 and not options):
        return False
    if not _is_meta(params) or not _is_meta(obj(params.get("subject"))):
        return False
    if version == 2 and not _is_text(params, "description"):
        return False
    if version == 2 and agent_is_v2 and not _is_text(params, "title"):
        return False
    return all(_is_option(obj(option), version) for option in many(options))


def _is_option(option: Json, version: int) -> bool:
    if any(text(option.get(key)) is None for key in _OF_OPTIONS) or not _is_meta(option):
        return False
    return version == 2 or option["kind"] in _KINDS


def _is_meta(told: Json) -> bool:
    return told.get("_meta").__class__ in (dict, type(None))


def _is_text(told: Json, key: str) -> bool:
    return told.get(key).__class__ in (str, type(None))


MOST = 64
"""Requests that wait at once."""


class _Held(Struct, eq=False):
    """A request that waits. `line` is as it came."""

    session: TappedSession
    mine: Tapped
    asked: PermissionAsked
    message: Json
    line: bytes
    until: float


class Questions:
    """The requests of one tap.

    `send` passes on a request that was made whole; `give_up` one that can't be, as it came.
    """

    def __init__(
        self,
        send: Callable[[PermissionAsked, Json, float], None],
        give_up: Callable[[bytes, Json, Exception | None], None],
    ) -> None:
        self._send: Callable[[PermissionAsked, Json, float], None] = send
        self._give_up: Callable[[bytes, Json, Exception | None], None] = give_up
        self._held: list[_Held] = []

    def take(
        self, session: TappedSession, asked: PermissionAsked, message: Json, line: bytes, now: float
    ) -> bool:
        """Take in a request, and pass it on unless it is to wait. False if it is to pass as it came."""
        call = asked.question.twin or asked.question.call
        self._pass_on_those(now, lambda held: held.mine.call is call)
        mine = session.asked(asked.question, now)
        if mine is None:
            return False
        until = mine.since + ANNOUNCEMENT
        if now < until and session.is_blind(mine, asked.question):
            self._held.append(_Held(session, mine, asked, message, line, until))
            if len(self._held) > MOST:
                self._pass_on(self._held.pop(0), now)
            return True
        made = session.request(mine, asked.question, message, now)
        if made is not None:
            self._send(asked, made, now)
        return made is not None

    @property
    def due(self) -> float | None:
        """When the first of those that wait has waited for long enough."""
        return min((held.until for held in self._held), default=None)

    def tick(self, now: float) -> None:
        """Pass on what has waited for long enough."""
        self._pass_on_those(now, lambda held: held.until <= now)

    def told(self, now: float) -> None:
        """Pass on what is known by now, for a call was told of."""
        self._pass_on_those(
            now, lambda held: not held.session.is_blind(held.mine, held.asked.question)
        )

    def release(self, now: float, about: Tapped | None = None) -> None:
        """Pass on what waits, or only that about a call: what comes now must not overtake it."""
        self._pass_on_those(now, lambda held: about in (None, held.mine))

    def _pass_on_those(self, now: float, which: Callable[[_Held], bool]) -> None:
        if not self._held:
            return
        ready: list[_Held] = []
        others: list[_Held] = []
        for held in self._held:
            (ready if which(held) else others).append(held)
        self._held = others
        for held in ready:
            self._pass_on(held, now)

    def _pass_on(self, held: _Held, now: float) -> None:
        failed: Exception | None = None
        try:
            made = held.session.request(held.mine, held.asked.question, held.message, now)
            if made is not None:
                self._send(held.asked, made, now)
                return
        except Exception as exc:  # noqa: BLE001 - whatever it is, the agent waits for an answer
            failed = exc
        self._give_up(held.line, held.message, failed)
