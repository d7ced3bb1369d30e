"""Does each message come where it belongs: in its session, and in its turn? Questions: `asking.py`."""

from __future__ import annotations

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import SessionUpdated, TurnEnded, UnopenedSession, UpdateArrived
from callsheet.observe.model import ObservedCall, ObservedSession, ObservedTurn, obj, text

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


def before_session(strayed: UnopenedSession) -> Said | None:
    """Find an update of a session that is not answered yet."""
    return None if _is_news(strayed) else _too_early(strayed)


def news_before_session(strayed: UnopenedSession) -> Said | None:
    """Find news of a session that is not answered yet: its commands, its mode, its use of tokens."""
    return _too_early(strayed) if _is_news(strayed) else None


def _too_early(strayed: UnopenedSession) -> Said | None:
    if strayed.opening is None or not _is_all_recorded(strayed):
        return None
    return Said(
        f"the request of line {strayed.opening} is not answered yet, so nobody knows of the session",
        "params.sessionId",
    )


def _is_news(strayed: UnopenedSession) -> bool:
    update = obj(obj(obj(strayed.line.message).get("params")).get("update"))
    return update.get("sessionUpdate") in _OF_A_SESSION


def unknown_session(strayed: UnopenedSession) -> Said | None:
    """Find an update of a session that nobody has opened."""
    if strayed.opening is not None or not _is_all_recorded(strayed):
        return None
    return Said("nobody has opened this session", "params.sessionId")


def another_session(told: UpdateArrived) -> Said | None:
    """Find an update of a call that is another session's."""
    if told.elsewhere is None:
        return None
    return Said(f"the call is one of session {told.elsewhere}", "params.sessionId")


def late_call(told: UpdateArrived) -> Said | None:
    """Find the first update of a call that comes after its turn."""
    if told.session.is_replaying:
        return None
    turn = _turn_missed(told)
    if turn is None:
        return None
    return Said(f"its turn was over on line {turn.ended}")


def late_content(updated: SessionUpdated) -> Said | None:
    """Find the first message of the agent after the turn that it belongs to."""
    session, turn = updated.session, updated.session.last_turn
    if turn is None or turn.late or updated.connection.is_v2 or not _is_between(session):
        return None
    if not updated.connection.has_both_ways:
        return None
    kind = text(updated.update.get("sessionUpdate"))
    if kind not in _OF_A_TURN:
        return None
    return Said(f"{kind} after the turn was over on line {turn.ended}", "update.sessionUpdate")


def overlapping_prompts(over: TurnEnded) -> Said | None:
    """Find a prompt that was taken while another was not answered."""
    turn, connection = over.turn, over.connection
    first = turn.overlaps
    if first is None or turn.is_failed or connection.is_v2:
        return None
    if first.cancelled is not None and first.cancelled < turn.begun:
        return None  # the first was on its way out
    if _queues(connection.agent_capabilities):
        return None
    return Said(
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


RULES = (
    Rule(
        id="order/before-session",
        severity="error",
        moment=UnopenedSession,
        title="An update comes before the session is there",
        protocol="A session begins with the answer to `session/new`. Updates of it come afterwards.",
        harm="Clients drop the update, or show a spinner that never ends.",
        fix="Answer `session/new` first, then say and do things.",
        check=before_session,
        example='{"id": 3, "method": "session/new", "params": {"cwd": "/code", "mcpServers": []}}\n'
        '{"method": "session/update", "params": {"sessionId": "s2", "update": {"sessionUpdate":'
        ' "agent_message_chunk", "content": {"type": "text", "text": "Hello"}}}}\n'
        '{"id": 3, "result": {"sessionId": "s2"}}',
    ),
    Rule(
        id="order/news-before-session",
        severity="warning",
        moment=UnopenedSession,
        title="News of a session come before the session is there",
        protocol="A session begins with the answer to `session/new`. Updates of it come afterwards.",
        harm="Clients drop them: commands and modes are missing until they are told again.",
        fix="Answer `session/new` first, then send commands, modes and everything else.",
        check=news_before_session,
        example='{"id": 3, "method": "session/new", "params": {"cwd": "/code", "mcpServers": []}}\n'
        '{"method": "session/update", "params": {"sessionId": "s2", "update": {"sessionUpdate":'
        ' "current_mode_update", "currentModeId": "ask"}}}\n'
        '{"id": 3, "result": {"sessionId": "s2"}}',
    ),
    Rule(
        id="order/unknown-session",
        severity="error",
        moment=UnopenedSession,
        title="An update is for a session that nobody has opened",
        protocol="`sessionId` is one that the client has opened: by `session/new`, `session/load`, …",
        harm="Clients drop the update: people never see what was done.",
        fix="Send each update under the id of the session that the client has opened.",
        check=unknown_session,
        example='{"method": "session/update", "params": {"sessionId": "s9", "update": {"sessionUpdate":'
        ' "agent_message_chunk", "content": {"type": "text", "text": "Hello"}}}}',
    ),
    Rule(
        id="order/another-session",
        severity="error",
        moment=UpdateArrived,
        title="An update of a call comes under another session",
        protocol="A call belongs to the session that it was announced in, with all its updates.",
        harm="Its card never ends, and in the other session a failed card appears.",
        fix="Keep the session's id with the call, and send it with each update.",
        check=another_session,
        example='{"id": 3, "method": "session/new", "params": {"cwd": "/code", "mcpServers": []}}\n'
        '{"id": 3, "result": {"sessionId": "s2"}}\n'
        '{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"method": "session/update", "params": {"sessionId": "s2", "update": {"sessionUpdate":'
        ' "tool_call_update", "toolCallId": "c1", "status": "completed"}}}',
    ),
    Rule(
        id="order/late-call",
        severity="error",
        moment=UpdateArrived,
        title="An update of a call comes after its turn",
        protocol="All updates of a turn come before its answer (v2: before `idle`, but for background work).",
        harm="Clients have closed the turn: the update is lost, or shown below the next prompt.",
        fix="Wait for the turn's calls and their last updates before you answer the prompt.",
        check=late_call,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"id": 2, "result": {"stopReason": "end_turn"}}\n'
        '{"tool_call_update": "c1", "status": "completed"}',
    ),
    Rule(
        id="order/late-content",
        severity="error",
        moment=SessionUpdated,
        title="The agent speaks after its turn",
        protocol="All messages of a turn come before its answer.",
        harm="Clients have closed the turn: words are lost, or shown below the next prompt.",
        fix="Send what is buffered before you answer the prompt.",
        check=late_content,
        example='{"id": 2, "result": {"stopReason": "end_turn"}}\n'
        '{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done."}}',
    ),
    Rule(
        id="order/overlapping-prompts",
        severity="warning",
        moment=TurnEnded,
        title="Two turns of a session overlap",
        protocol="In v1, a prompt is sent when the turn before is over.",
        harm="Nobody can tell which turn a call belongs to, or which of them a cancel ends.",
        fix="Client: wait for the answer. Agent: refuse a prompt while a turn runs, or say that you queue.",
        check=overlapping_prompts,
        example='{"id": 3, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": []}}\n'
        '{"id": 2, "result": {"stopReason": "end_turn"}}\n'
        '{"id": 3, "result": {"stopReason": "end_turn"}}',
    ),
)
