"""Is permission asked for a call that people can see, and is the answer waited for?"""

from __future__ import annotations

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import PermissionAsked, PermissionDecided, TurnEnded
from callsheet.observe.model import ApprovalRequest


def asked_unannounced(asked: PermissionAsked) -> Said | None:
    """Find a question about a call that was never announced."""
    question = asked.question
    if question.twin is not None or not _is_unheard_of(asked):
        return None
    return Said(f"no call {question.call_id} was announced", _field(question))


def asked_under_another_id(asked: PermissionAsked) -> Said | None:
    """Find a question about a call that was announced under another id."""
    question = asked.question
    twin = question.twin
    if twin is None or question.session is None or not question.session.is_whole:
        return None
    return Said(
        f"it was announced on line {twin.announced} under the id {twin.id}", _field(question)
    )


def left_unanswered(over: TurnEnded) -> list[Said] | None:
    """Find the questions that are open when their turn is over."""
    turn = over.turn
    if not turn.questions or turn.cancelled is not None or not over.connection.has_both_ways:
        return None
    return [
        Said(f"the question of line {question.line} is neither answered nor taken back")
        for question in turn.questions
        if question.withdrawn is None
    ]


def ended_while_asking(decided: PermissionDecided) -> Said | None:
    """Find a question whose call ended before it was answered."""
    question = decided.question
    call, turn = question.call, question.turn
    if call is None or call.ended is None or not question.line < call.ended < decided.line.number:
        return None
    if question.withdrawn is not None or call.cancelled is not None:
        return None
    if call.status != "completed" and turn is not None and turn.cancelled is not None:
        return None
    return Said(f"it was {call.status} on line {call.ended}, before the answer")


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


RULES = (
    Rule(
        id="order/asked-unannounced",
        severity="error",
        moment=PermissionAsked,
        title="Permission is asked for a call that was never announced",
        protocol="A question is about a call that was announced (v1: `tool_call`), and tells its id.",
        harm="People are asked about a call that has no card: they can't see how it goes on and ends.",
        fix="Announce the call as `pending`, with its input, then ask under the same id.",
        check=asked_unannounced,
        example='{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1", "title": "rm -r build", "rawInput": {"command": "rm'
        ' -r build"}}, "options": [{"optionId": "n", "name": "No", "kind": "reject_once"}]}}',
    ),
    Rule(
        id="order/asked-under-another-id",
        severity="error",
        moment=PermissionAsked,
        title="Permission is asked under another id than the call's",
        protocol="A question tells the id under which its call was announced.",
        harm="Clients can't tie the question to its card: it stands alone, and the card never asks.",
        fix="Use one id for a call: in the announcement, the question and the updates.",
        check=asked_under_another_id,
        example='{"tool_call": "c1", "title": "rm -r build", "kind": "execute", "rawInput": {"command":'
        ' "rm -r build"}}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c2", "rawInput": {"command": "rm -r build"}}, "options":'
        ' [{"optionId": "n", "name": "No", "kind": "reject_once"}]}}',
    ),
    Rule(
        id="order/left-unanswered",
        severity="warning",
        moment=TurnEnded,
        title="A question is open when its turn is over",
        protocol="An agent waits for the answer, or takes the question back with `$/cancel_request`.",
        harm="People are asked about something that is over; whatever they answer has no effect.",
        fix="Wait for each answer before the turn's, or take the question back.",
        check=left_unanswered,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "pending"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1"}, "options": [{"optionId": "n", "name": "No", "kind":'
        ' "reject_once"}]}}',
    ),
    Rule(
        id="order/ended-while-asking",
        severity="error",
        moment=PermissionDecided,
        title="A call ended before its question was answered",
        protocol="An agent that asks waits for the answer, or takes the question back.",
        harm="What people decide has no effect: it was done without their word, or is over already.",
        fix="Wait for the answer. If the call ends for another reason, send `$/cancel_request`.",
        check=ended_while_asking,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "pending"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1"}, "options": [{"optionId": "n", "name": "No", "kind":'
        ' "reject_once"}]}}\n'
        '{"tool_call_update": "c1", "status": "completed"}\n'
        '{"id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "n"}}}',
    ),
)
