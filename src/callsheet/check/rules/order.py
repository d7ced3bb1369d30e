"""Does each message come where it belongs: in its session, and in its turn? Questions: `asking.py`.

Is permission asked for a call that people can see, and is the answer waited for?
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

_OF_A_SESSION = frozenset(
    (
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "config_options_update",
        "session_info_update",
        "usage_update",
    )
)
"""Updates that tell how a session is, and nothing that is done in it."""
_OF_A_TURN = ("agent_message_chunk", "agent_thought_chunk")


@rule("order/before-session", UnopenedSession)
def before_session(strayed: UnopenedSession) -> Violation | None:
    """Find an update of a session that is not answered yet."""
    return None if _is_news(strayed) else _too_early(strayed)


@rule("order/news-before-session", UnopenedSession)
def news_before_session(strayed: UnopenedSession) -> Violation | None:
    """Find news of a session that is not answered yet: its commands, its mode, its use of tokens."""
    return _too_early(strayed) if _is_news(strayed) else None


def _too_early(strayed: UnopenedSession) -> Violation | None:
    if strayed.opening is None or not _is_all_recorded(strayed):
        return None
    return Violation(
        f"the request of line {strayed.opening} is not answered yet, so nobody knows of the session",
        "params.sessionId",
    )


def _is_news(strayed: UnopenedSession) -> bool:
    update = obj(obj(obj(strayed.line.message).get("params")).get("update"))
    return update.get("sessionUpdate") in _OF_A_SESSION


@rule("order/unknown-session", UnopenedSession)
def unknown_session(strayed: UnopenedSession) -> Violation | None:
    """Find an update of a session that nobody has opened."""
    if strayed.opening is not None or not _is_all_recorded(strayed):
        return None
    return Violation("nobody has opened this session", "params.sessionId")


@rule("order/another-session", UpdateArrived)
def another_session(told: UpdateArrived) -> Violation | None:
    """Find an update of a call that is another session's."""
    if told.elsewhere is None:
        return None
    return Violation(f"the call is one of session {told.elsewhere}", "params.sessionId")


@rule("order/late-call", UpdateArrived)
def late_call(told: UpdateArrived) -> Violation | None:
    """Find the first update of a call that comes after its turn."""
    if told.session.is_replaying:
        return None
    turn = _turn_missed(told)
    if turn is None:
        return None
    return Violation(f"its turn was over on line {turn.ended}")


@rule("order/late-content", SessionUpdated)
def late_content(updated: SessionUpdated) -> Violation | None:
    """Find the first message of the agent after the turn that it belongs to."""
    session, turn = updated.session, updated.session.last_turn
    if turn is None or turn.late or updated.connection.is_v2 or not _is_between(session):
        return None
    if not updated.connection.has_both_ways:
        return None
    kind = text(updated.update.get("sessionUpdate"))
    if kind not in _OF_A_TURN:
        return None
    return Violation(f"{kind} after the turn was over on line {turn.ended}", "update.sessionUpdate")


@rule("order/overlapping-prompts", TurnEnded)
def overlapping_prompts(over: TurnEnded) -> Violation | None:
    """Find a prompt that was taken while another was not answered."""
    turn, connection = over.turn, over.connection
    first = turn.overlaps
    if first is None or turn.is_failed or connection.is_v2:
        return None
    if first.cancelled is not None and first.cancelled < turn.begun:
        return None  # the first was on its way out
    if _queues(connection.agent_capabilities):
        return None
    return Violation(
        f"it was asked for while the prompt of line {first.begun} was not answered, and not refused",
        line=turn.begun,
    )


def _is_all_recorded(strayed: UnopenedSession) -> bool:
    return strayed.connection.is_whole and strayed.connection.has_both_ways


def _turn_missed(told: UpdateArrived) -> ObservedTurn | None:
    """Return the turn that an update comes too late for."""
    call = told.call
    if call is None:
        return _turn_before(told)
    turn = call.turn
    if turn is None or turn.ended is None or call.ended is not None or call.late:
        return None
    return None if _may_go_on(call, told) else turn


def _turn_before(told: UpdateArrived) -> ObservedTurn | None:
    """Return the turn after which a call begins that no turn has. v2 lets an agent begin by itself."""
    session, connection = told.session, told.connection
    if not (connection.is_v1 and connection.has_both_ways and _is_between(session)):
        return None
    if told.known_before or _is_of_background(told):
        return None
    return session.last_turn


def _is_between(session: ObservedSession) -> bool:
    return session.turn is None and not session.is_replaying and session.last_turn is not None


def _may_go_on(call: ObservedCall, told: UpdateArrived) -> bool:
    if call.is_background or _is_of_background(told):
        return True
    return told.connection.is_v2 and told.session.background is None


def _is_of_background(told: UpdateArrived) -> bool:
    """Whether the call was made by one that goes on in the background."""
    meta = obj(told.update.get("_meta"))
    parent = (
        text(obj(meta.get("claudeCode")).get("parentToolUseId"))
        or text(meta.get("parentToolCallId"))
        or text(obj(meta.get("callsheet")).get("parentId"))
    )
    made_by = told.session.calls.get(parent) if parent is not None else None
    return made_by is not None and made_by.is_background


def _queues(capabilities: object) -> bool:
    """Whether an agent says that it takes prompts while it works on one."""
    for value in obj(obj(capabilities).get("_meta")).values():
        if obj(value).get("promptQueueing") is True:
            return True
    return False


@rule("order/asked-unannounced", PermissionAsked)
def asked_unannounced(asked: PermissionAsked) -> Violation | None:
    """Find a question about a call that was never announced."""
    question = asked.question
    if question.twin is not None or not _is_unheard_of(asked):
        return None
    return Violation(f"no call {question.call_id} was announced", _field(question))


@rule("order/asked-under-another-id", PermissionAsked)
def asked_under_another_id(asked: PermissionAsked) -> Violation | None:
    """Find a question about a call that was announced under another id."""
    question = asked.question
    twin = question.twin
    if twin is None or question.session is None or not question.session.is_whole:
        return None
    return Violation(
        f"it was announced on line {twin.announced} under the id {twin.id}", _field(question)
    )


@rule("order/left-unanswered", TurnEnded)
def left_unanswered(over: TurnEnded) -> list[Violation] | None:
    """Find the questions that are open when their turn is over."""
    turn = over.turn
    if not turn.questions or turn.cancelled is not None or not over.connection.has_both_ways:
        return None
    return [
        Violation(f"the question of line {question.line} is neither answered nor taken back")
        for question in turn.questions
        if question.withdrawn is None
    ]


@rule("order/ended-while-asking", PermissionDecided)
def ended_while_asking(decided: PermissionDecided) -> Violation | None:
    """Find a question whose call ended before it was answered."""
    question = decided.question
    call, turn = question.call, question.turn
    if call is None or call.ended is None or not question.line < call.ended < decided.line.number:
        return None
    if question.withdrawn is not None or call.cancelled is not None:
        return None
    if call.status != "completed" and turn is not None and turn.cancelled is not None:
        return None
    return Violation(f"it was {call.status} on line {call.ended}, before the answer")


def _is_unheard_of(asked: PermissionAsked) -> bool:
    """Whether a question is the first that is heard of its call, and no announcement, as in v2."""
    question, session = asked.question, asked.question.session
    call = question.call
    if call is None or session is None or not session.is_whole or question.is_known:
        return False
    return not call.is_reused and call.announced is None


def _field(question: ApprovalRequest) -> str:
    if "toolCall" in question.params:
        return "params.toolCall.toolCallId"
    return "params.subject.toolCallId"
