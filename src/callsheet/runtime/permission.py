"""Asking the client for approval. The client sees the whole call, and only a clear approval counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from callsheet.acp import v1, v2
from callsheet.acp.jsonrpc import FRAME_BUDGET
from callsheet.acp.permission import PermissionOption
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.runtime.clock import to_rfc3339
from callsheet.runtime.health import PermissionDenied, short_message

if TYPE_CHECKING:
    from callsheet.runtime.call import RuntimeCall
    from callsheet.runtime.session import RuntimeSession

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


class Question(Struct, frozen=True):
    """What is asked: may this call, shown whole, be done?"""

    session_id: str
    report: ToolCallReport
    options: tuple[PermissionOption, ...]

    def params(self, version: int = 1) -> JsonObject:
        """Return the params of ACP's `session/request_permission`."""
        wire = v1 if version == 1 else v2
        return wire.encode_permission(self.session_id, self.report, self.options)


OnPermission: TypeAlias = Callable[[Question], Awaitable[JsonValue] | JsonValue]
"""A handler that asks the user; may be async. Returns the chosen option's id, or ACP's whole answer."""


async def ask(
    call: RuntimeCall, options: Sequence[PermissionOption] | None, scope: str | None = None
) -> PermissionOption:
    """Ask the client, note its answer in the call's report, and return the option by which it approved.

    Raises:
        PermissionDenied: The client did not approve, or could not be asked.
    """
    session, phrase = call.session, call.session.phrase
    ask_client = session.on_permission
    if ask_client is None:
        raise PermissionDenied(phrase("nobody_to_ask"))
    if options is None:
        options = [PermissionOption(kind, phrase(kind), kind) for kind in KINDS]
    whole = replace(session.shown(call.report), raw_input=call.whole_input)
    question = Question(session.session_id, whole, tuple(options))
    try:
        size = len(json.encode(question.params()))  # what can't be shown whole is not asked
    except CallsheetError as exc:
        raise PermissionDenied(f"{phrase('nobody_to_ask')} ({exc})") from exc
    if size > FRAME_BUDGET:
        raise PermissionDenied(f"{phrase('nobody_to_ask')} ({size} B)")
    await session.flush_client()  # it knows the call before it is asked about it
    asked = session.clock.time_ns()
    try:
        answer: Any = ask_client(question)
        if hasattr(answer, "__await__"):
            answer = await answer
    except Exception as exc:
        why = short_message(exc, session.guard.clean)
        raise PermissionDenied(f"{phrase('nobody_to_ask')} ({why})") from exc
    if call.has_ended:
        raise PermissionDenied(phrase("undecided"), cancelled=True)
    try:
        chosen = _chosen(answer, question.options, session)
    except PermissionDenied as exc:
        _note(call, asked, exc.option, scope, "cancelled" if exc.cancelled else "denied")
        raise
    _note(call, asked, chosen, scope, "allowed")
    return chosen


def _note(
    call: RuntimeCall,
    asked: int,
    option: PermissionOption | None,
    scope: str | None,
    outcome: Literal["allowed", "denied", "cancelled"],
) -> None:
    """Note the answer, and how long it took."""
    answered, clean = call.session.clock.time_ns(), call.session.guard.clean
    is_for_all = option is not None and option.kind.endswith("_always")
    call.decided(
        outcome,
        "user",
        option=None if option is None else clean(option.name),
        scope=clean(scope) if scope and is_for_all else None,
        askedAt=to_rfc3339(asked),
        answeredAt=to_rfc3339(answered),
        waitedMs=max(0, (answered - asked) // 1_000_000),
    )


def _chosen(
    answer: JsonValue, options: tuple[PermissionOption, ...], session: RuntimeSession
) -> PermissionOption:
    phrase = session.phrase
    if is_object(answer):
        outcome = answer.get("outcome", answer)
        if is_object(outcome) and outcome.get("outcome") == "cancelled":
            raise PermissionDenied(phrase("undecided"), cancelled=True)
        answer = outcome.get("optionId") if is_object(outcome) else None
    for option in options:
        if option.option_id == answer:
            if option.kind in ("allow_once", "allow_always"):
                return option
            raise PermissionDenied(phrase("denied"), option=option)
    if answer is not False:
        message = f"permission: the answer {answer!r} is none of the options; that is no approval"
        session.faults.count(message, degraded=1)
    raise PermissionDenied(phrase("denied"))
