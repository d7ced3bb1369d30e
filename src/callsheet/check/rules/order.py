"""Does each message come where it belongs: in its session, in its turn, and permission in its order?

Permission must be asked for a call that the user can see, and its answer must be waited for.
"""

from __future__ import annotations

from callsheet.check.finding import Violation, rule
from callsheet.observe.events import (
    PermissionAsked,
    PermissionDecided,
    SessionUpdated,
    TurnEnded,
    UnopenedSession,
    UpdateArrived,
)
from callsheet.observe.model import (
    ApprovalRequest,
    ObservedCall,
    ObservedSession,
    ObservedTurn,
    obj,
    text,
)
from callsheet.observe.tracker import SESSION_STATE

_OF_A_TURN = ("agent_message_chunk", "agent_thought_chunk")


@rule("order/before-session", UnopenedSession)
def before_session(event: UnopenedSession) -> Violation | None:
    """Find an update of a session that is not answered yet."""
    return None if _is_state(event) else _too_early(event)


@rule("order/news-before-session", UnopenedSession)
def news_before_session(event: UnopenedSession) -> Violation | None:
    """Find the state of a session (commands, mode, usage) before its request is answered."""
    return _too_early(event) if _is_state(event) else None


def _too_early(event: UnopenedSession) -> Violation | None:
    if event.opening is None or not _is_all_recorded(event):
        return None
    return Violation(
        f"the request on line {event.opening} is not answered yet, so the session does not exist",
        "params.sessionId",
    )


def _is_state(event: UnopenedSession) -> bool:
    update = obj(obj(obj(event.line.message).get("params")).get("update"))
    return update.get("sessionUpdate") in SESSION_STATE


@rule("order/unknown-session", UnopenedSession)
def unknown_session(event: UnopenedSession) -> Violation | None:
    """Find an update of a session that nobody has opened."""
    if event.opening is not None or not _is_all_recorded(event):
        return None
    return Violation("this session was never opened", "params.sessionId")


@rule("order/another-session", UpdateArrived)
def another_session(event: UpdateArrived) -> Violation | None:
    """Find an update of a call that is another session's."""
    if event.elsewhere is None:
        return None
    return Violation(f"the call belongs to session {event.elsewhere}", "params.sessionId")


@rule("order/late-call", UpdateArrived)
def late_call(event: UpdateArrived) -> Violation | None:
    """Find the first update of a call that comes after its turn."""
    if event.session.is_replaying:
        return None
    turn = _turn_missed(event)
    if turn is None:
        return None
    return Violation(f"its turn ended on line {turn.ended}")


@rule("order/late-content", SessionUpdated)
def late_content(event: SessionUpdated) -> Violation | None:
    """Find the first message of the agent after the turn that it belongs to."""
    session, turn = event.session, event.session.last_turn
    if turn is None or turn.late or event.connection.is_v2 or not _is_between(session):
        return None
    if not event.connection.has_both_ways:
        return None
    kind = text(event.update.get("sessionUpdate"))
    if kind not in _OF_A_TURN:
        return None
    return Violation(f"{kind} after the turn ended on line {turn.ended}", "update.sessionUpdate")


@rule("order/overlapping-prompts", TurnEnded)
def overlapping_prompts(event: TurnEnded) -> Violation | None:
    """Find a prompt that was taken while another was not answered."""
    turn, connection = event.turn, event.connection
    first = turn.overlaps
    if first is None or turn.is_failed or connection.is_v2:
        return None
    if first.cancelled is not None and first.cancelled < turn.begun:
        return None  # the first was on its way out
    if _queues(connection.agent_capabilities):
        return None
    return Violation(
        f"it was sent before the prompt on line {first.begun} was answered, and was not refused",
        line=turn.begun,
    )


def _is_all_recorded(event: UnopenedSession) -> bool:
    return event.connection.is_whole and event.connection.has_both_ways


def _turn_missed(event: UpdateArrived) -> ObservedTurn | None:
    """Return the turn that an update comes too late for."""
    call = event.call
    if call is None:
        return _turn_before(event)
    turn = call.turn
    if turn is None or turn.ended is None or call.ended is not None or call.late:
        return None
    return None if _may_go_on(call, event) else turn


def _turn_before(event: UpdateArrived) -> ObservedTurn | None:
    """Return the turn after which a call begins that no turn has. v2 lets an agent begin by itself."""
    session, connection = event.session, event.connection
    if not (connection.is_v1 and connection.has_both_ways and _is_between(session)):
        return None
    if event.known_before or _is_of_background(event):
        return None
    return session.last_turn


def _is_between(session: ObservedSession) -> bool:
    return session.turn is None and not session.is_replaying and session.last_turn is not None


def _may_go_on(call: ObservedCall, event: UpdateArrived) -> bool:
    if call.is_background or _is_of_background(event):
        return True
    return event.connection.is_v2 and event.session.background is None


def _is_of_background(event: UpdateArrived) -> bool:
    """Whether the call was made by one that goes on in the background."""
    meta = obj(event.update.get("_meta"))
    parent = (
        text(obj(meta.get("claudeCode")).get("parentToolUseId"))
        or text(meta.get("parentToolCallId"))
        or text(obj(meta.get("callsheet")).get("parentId"))
    )
    made_by = event.session.calls.get(parent) if parent is not None else None
    return made_by is not None and made_by.is_background


def _queues(capabilities: object) -> bool:
    """Whether an agent declares that it queues prompts while it works on one."""
    for value in obj(obj(capabilities).get("_meta")).values():
        if obj(value).get("promptQueueing") is True:
            return True
    return False


@rule("order/asked-unannounced", PermissionAsked)
def asked_unannounced(event: PermissionAsked) -> Violation | None:
    """Find an approval request about a call that was never announced."""
    question = event.question
    if question.twin is not None or not _is_first_mention(event):
        return None
    return Violation(f"no call {question.call_id} was announced", _field(question))


@rule("order/asked-under-another-id", PermissionAsked)
def asked_under_another_id(event: PermissionAsked) -> Violation | None:
    """Find an approval request about a call that was announced under another id."""
    question = event.question
    twin = question.twin
    if twin is None or question.session is None or not question.session.is_whole:
        return None
    return Violation(
        f"it was announced on line {twin.announced} under the id {twin.id}", _field(question)
    )


@rule("order/left-unanswered", TurnEnded)
def left_unanswered(event: TurnEnded) -> list[Violation] | None:
    """Find the approval requests that are open when their turn is over."""
    turn = event.turn
    if not turn.questions or turn.cancelled is not None or not event.connection.has_both_ways:
        return None
    return [
        Violation(f"the request on line {question.line} is neither answered nor withdrawn")
        for question in turn.questions
        if question.withdrawn is None
    ]


@rule("order/ended-while-asking", PermissionDecided)
def ended_while_asking(event: PermissionDecided) -> Violation | None:
    """Find an approval request whose call ended before it was answered."""
    question = event.question
    call, turn = question.call, question.turn
    if call is None or call.ended is None or not question.line < call.ended < event.line.number:
        return None
    if question.withdrawn is not None or call.cancelled is not None:
        return None
    if call.status != "completed" and turn is not None and turn.cancelled is not None:
        return None
    return Violation(f"it was {call.status} on line {call.ended}, before the answer")


def _is_first_mention(event: PermissionAsked) -> bool:
    """Whether a request is the first to mention its call, and does not announce it, as it does in v2."""
    question, session = event.question, event.question.session
    call = question.call
    if call is None or session is None or not session.is_whole or question.is_known:
        return False
    return not call.is_reused and call.announced is None


def _field(question: ApprovalRequest) -> str:
    if "toolCall" in question.params:
        return "params.toolCall.toolCallId"
    return "params.subject.toolCallId"
