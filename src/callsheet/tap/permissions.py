"""Complete permission requests: each shows the same report as its call's announcement, under the same id.

Some agents ask before they report what they ask about. No user should approve what is reported only a
moment later, so such a request waits for it, no longer than an announcement does (`hold.py`).
Meanwhile, text and requests about other calls may overtake it; responses and other requests of the
agent may not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from callsheet.acp import v1, v2
from callsheet.acp.codec import KEYS, as_dict
from callsheet.observe.model import ApprovalRequest, Json, many, obj, text
from callsheet.report.report import ToolCallReport
from callsheet.tap.calls import TappedCall
from callsheet.tap.hold import ANNOUNCEMENT, Waits, Why
from callsheet.tap.repair.names import is_bare

if TYPE_CHECKING:
    from callsheet.tap.tapped_session import TappedSession

MOST = 64
"""Requests that wait at once."""

_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
_OPTION_FIELDS = ("optionId", "name", "kind")


def complete_request(
    message: Json, report: ToolCallReport, clean: Callable[[Any], Any], *, is_v2: bool
) -> Json | None:
    """Return a permission request with the complete call in it. All else stays as the agent sent it.

    Args:
        message: The request.
        report: The call as the client is shown it.
        clean: Redacts the rest of the request.
        is_v2: Whether ACP v2 is spoken.

    Returns:
        The request, or None if it is malformed, so that its meaning is unclear: then it passes unchanged.
    """
    params = obj(message.get("params"))
    if not _is_well_formed(params, is_v2=is_v2):
        return None
    call = as_dict((v2 if is_v2 else v1).announce(report))
    call.pop("sessionUpdate", None)
    made = _cleaned({key: value for key, value in params.items() if key != "toolCall"}, clean)
    if is_v2:
        made["title"] = text(made.get("title")) or report.title or report.name or "Unknown tool"
        made["subject"] = {**obj(made.get("subject")), "type": "tool_call", "toolCall": call}
    else:
        made["toolCall"] = call
    return {**message, "params": made}


def shows_the_same(request: Json, call: Json) -> bool:
    """Whether a request of either version shows a call just so."""
    params = obj(request.get("params"))
    shown = obj(params.get("toolCall")) or obj(obj(params.get("subject")).get("toolCall"))
    return all(shown.get(key) == call.get(key) for key in KEYS if key != "_meta")


def is_blind(mine: TappedCall, question: ApprovalRequest) -> bool:
    """Whether nothing is known of what the user would approve by a request of a v1 agent."""
    report = mine.report
    if report is None or report.is_final or not _is_well_formed(question.params, is_v2=False):
        return False
    shows = question.tool_call.get("content") or report.content or report.locations
    if report.raw_input or shows:
        return False
    return mine.has_own_title or is_bare(report.title, report.name, report.kind, None)


def _cleaned(params: Json, clean: Callable[[Any], Any]) -> Json:
    """Return params without secrets, except for the ids by which the request is answered."""
    if "subject" in params:
        subject = obj(params["subject"])
        params["subject"] = {key: value for key, value in subject.items() if key != "toolCall"}
    made = clean(params)
    options = zip(made["options"], params["options"], strict=True)
    return {
        **made,
        "sessionId": params["sessionId"],
        "options": [{**shown, "optionId": option["optionId"]} for shown, option in options],
    }


def _is_well_formed(params: Json, *, is_v2: bool) -> bool:
    """Whether all but the call is as ACP has it."""
    options = params.get("options")
    if options.__class__ is not list or (is_v2 and not options):
        return False
    if not _has(params, "_meta", dict) or not _has(obj(params.get("subject")), "_meta", dict):
        return False
    if is_v2 and not (_has(params, "description", str) and _has(params, "title", str)):
        return False
    return all(_is_option(obj(option), is_v2=is_v2) for option in many(options))


def _is_option(option: Json, *, is_v2: bool) -> bool:
    if any(text(option.get(key)) is None for key in _OPTION_FIELDS):
        return False
    return _has(option, "_meta", dict) and (is_v2 or option["kind"] in _KINDS)


def _has(value: Json, key: str, kind: type) -> bool:
    """Whether a member is of a type, or is not there."""
    return value.get(key).__class__ in (kind, type(None))


class _HeldRequest(Struct, eq=False):
    """A request that waits. `line` is as it came."""

    session: TappedSession
    mine: TappedCall
    question: ApprovalRequest
    message: Json
    line: bytes


class PermissionRequests:
    """The permission requests of one tap.

    `send` receives each completed request with the id of its session. `give_up` receives a request that
    could not be completed, as it came.
    """

    def __init__(
        self,
        send: Callable[[str, Json], None],
        give_up: Callable[[bytes, Json, Exception | None], None],
        waits: Waits,
    ) -> None:
        self._send: Callable[[str, Json], None] = send
        self._give_up: Callable[[bytes, Json, Exception | None], None] = give_up
        self._waits: Waits = waits
        self._held: list[_HeldRequest] = []

    def take(
        self,
        session: TappedSession,
        question: ApprovalRequest,
        message: Json,
        line: bytes,
        now: float,
    ) -> bool:
        """Pass on a request, or hold it. Return False if the caller is to pass it on unchanged."""
        call = question.twin or question.call
        self._pass_on_those(now, lambda held: held.mine.call is call)
        mine = session.asked(question, now)
        if mine is None:
            return False
        until = mine.since + ANNOUNCEMENT
        if now < until and session.is_blind(mine, question):
            held = _HeldRequest(session, mine, question, message, line)
            self._held.append(held)
            self._waits.hold(Why.REQUEST, id(held), until, partial(self._pass_on, held))
            if len(self._held) > MOST:
                self._pass_on(self._held[0], now)
            return True
        made = session.request(mine, question, message, now)
        if made is not None:
            self._send(session.session.id, made)
        return made is not None

    def call_updated(self, now: float) -> None:
        """Pass on the requests whose calls are known by now."""
        self._pass_on_those(now, lambda held: not held.session.is_blind(held.mine, held.question))

    def release(self, now: float) -> None:
        """Pass on all that waits: what comes now must not overtake it."""
        self._pass_on_those(now, lambda _: True)

    def release_about(self, mine: TappedCall, now: float) -> None:
        """Pass on what waits about a call, before its end is sent."""
        self._pass_on_those(now, lambda held: held.mine is mine)

    def _pass_on_those(self, now: float, which: Callable[[_HeldRequest], bool]) -> None:
        for held in list(filter(which, self._held)):
            if held in self._held:  # passing on one may pass on others
                self._pass_on(held, now)

    def _pass_on(self, held: _HeldRequest, now: float) -> None:
        self._held.remove(held)
        self._waits.drop(Why.REQUEST, id(held))
        failed: Exception | None = None
        try:
            made = held.session.request(held.mine, held.question, held.message, now)
            if made is not None:
                self._send(held.session.session.id, made)
                return
        except Exception as exc:  # noqa: BLE001 - whatever it is, the agent waits for an answer
            failed = exc
        self._give_up(held.line, held.message, failed)
