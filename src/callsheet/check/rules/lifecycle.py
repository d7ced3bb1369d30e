"""Does each call open once, under an id of its own, and move only as it may? How calls end: `endings.py`."""

from __future__ import annotations

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import quoted
from callsheet.observe.events import CallBegan, UpdateArrived
from callsheet.observe.model import FINAL, ObservedConnection, text

V1 = ("pending", "in_progress", "completed", "failed")
V2 = (*V1, "paused", "cancelled")
_STARTED = ("in_progress", "paused")
_INSTANT = ("think", "switch_mode")
"""Kinds of which nothing runs."""


def announced_twice(told: UpdateArrived) -> Said | None:
    """Find a `tool_call` for a call that is open."""
    call = told.call
    if told.kind != "tool_call" or call is None or call.ended is not None:
        return None
    if call.announced is None or _is_told_again(told):
        return None
    return Said(f"it was announced on line {call.announced}, and is open", "update.toolCallId")


def id_reused(begun: CallBegan) -> Said | None:
    """Find a call that has the id of another that was there before."""
    call = begun.call
    if not call.is_reused:
        return None
    before = f", which ended on line {call.ended_before}" if call.ended_before else ""
    where = "params.toolCall.toolCallId" if call.is_asked_first else "update.toolCallId"
    return Said(f"the id {call.id} was another call's{before}", where)


def not_announced(told: UpdateArrived) -> Said | None:
    """Find the first update of a call that was not announced."""
    if told.kind == "tool_call" or told.elsewhere is not None or not told.session.is_whole:
        return None
    if told.connection.is_v2 and told.kind == "tool_call_update":
        return None  # it announces
    call = told.call
    if call is None and not told.known_before:
        return Said("no call of this id was announced", "update.toolCallId")
    if call is not None and call.announced is None and not call.updates:
        asked = call.questions[0].line if call.questions else call.first
        return Said(f"it was asked about on line {asked}, and never announced", "update.toolCallId")
    return None


def moved_back(told: UpdateArrived) -> Said | None:
    """Find a call that goes back: from running to pending, from an end to anything that is none."""
    call, status = told.call, _status(told)
    if call is None or status is None or told.kind == "tool_call" or _is_told_again(told):
        return None
    if call.ended is not None:
        is_back = status not in FINAL and call.status in FINAL and not _tells_anew(told)
    else:
        is_back = status == "pending" and call.status in _STARTED
    return (
        Said(f"it goes back from {call.status} to {status}", "update.status") if is_back else None
    )


def never_ran(told: UpdateArrived) -> Said | None:
    """Find a call that is done, and never was shown to run."""
    call = told.call
    if call is None or call.announced is None or call.is_replayed or call.ended is not None:
        return None
    if call.status != "pending" or _status(told) != "completed" or told.kind == "tool_call":
        return None
    if call.denied is not None or call.fields.get("kind") in _INSTANT or _may_be_history(told):
        return None
    since = next((line for status, line in call.statuses if status == "pending"), call.first)
    return Said(
        f"it was pending since line {since}, and is completed without in_progress between",
        "update.status",
    )


def changed_after_its_end(told: UpdateArrived) -> Said | None:
    """Find the first update of a call that has ended, and each that ends it in another way."""
    call, status = told.call, _status(told)
    if told.kind == "tool_call" or _is_told_again(told):
        return None
    if call is None:
        is_gone = told.known_before and not told.session.is_replaying
        return Said("it was over long ago") if is_gone else None
    if call.ended is None or (status is not None and status not in FINAL):
        return None  # the latter is a move back
    if status is not None and status != call.status and call.status in FINAL:
        return Said(f"it was {call.status} since line {call.ended}, now {status}", "update.status")
    if call.late:
        return None
    return Said(
        f"it was {call.status} since line {call.ended}", "update.status" if status else None
    )


def unknown_status(told: UpdateArrived) -> Said | None:
    """Find a status that the version of the protocol does not have."""
    status, connection = text(told.update.get("status")), told.connection
    if status is None or status in V1:
        return None
    if not connection.is_v1 and (status in V2 or status.startswith("_")):
        return None
    if told.call is not None and told.call.status == status:
        return None  # it was told
    return Said(f"{quoted(status, 40)} is no status of ACP {_version(connection)}", "update.status")


def _status(told: UpdateArrived) -> str | None:
    status = told.update.get("status")
    if status is None and "status" in told.update and told.connection.is_v2:
        return "pending"  # v2: null resets it
    return text(status)


def _is_told_again(told: UpdateArrived) -> bool:
    """Whether a history is told of a call that was known before."""
    session, call = told.session, told.call
    return session.is_replaying and call is not None and call.first < (session.asked or 0)


def _may_be_history(told: UpdateArrived) -> bool:
    """Whether a session may just be loaded: of the agent's lines alone, nobody can tell."""
    session = told.session
    return not (told.connection.has_both_ways or session.is_whole or session.last_turn)


def _tells_anew(told: UpdateArrived) -> bool:
    """Whether v2 opens another call under the id, which is another matter."""
    return told.connection.is_v2 and ("title" in told.update or "rawInput" in told.update)


def _version(connection: ObservedConnection) -> str:
    return "v2" if connection.is_v2 else "v1" if connection.is_v1 else "v1 or v2"


RULES = (
    Rule(
        id="lifecycle/announced-twice",
        severity="error",
        moment=UpdateArrived,
        title="An open call is announced again",
        protocol="`tool_call` opens a call, once. `tool_call_update` changes it.",
        harm="Editors set the card back or draw a second one: what was shown is lost, or shown twice.",
        fix="Send `tool_call` once for each call, and `tool_call_update` from then on.",
        check=announced_twice,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"tool_call_update": "c1", "status": "completed"}',
    ),
    Rule(
        id="lifecycle/id-reused",
        severity="error",
        moment=CallBegan,
        title="A call has the id of an earlier call",
        protocol="`toolCallId` is unique in the whole session, over all its turns.",
        harm="Editors write over the earlier card: people see one call where there were two.",
        fix="Make an id of your own for each call, also if the model uses its ids again.",
        check=id_reused,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed"}\n'
        '{"tool_call": "c1", "title": "Reading b.py", "kind": "read", "status": "completed"}',
    ),
    Rule(
        id="lifecycle/not-announced",
        severity="error",
        moment=UpdateArrived,
        title="A call changes before it is announced",
        protocol="`tool_call` (in v2 the first `tool_call_update`) comes before all else about a call.",
        harm="Editors show a failed card, “Tool call not found”, or nothing at all.",
        fix="Send `tool_call` first, before a question about the call, too.",
        check=not_announced,
        example='{"tool_call_update": "c1", "title": "Reading a.py", "status": "completed"}',
    ),
    Rule(
        id="lifecycle/moved-back",
        severity="error",
        moment=UpdateArrived,
        title="A call goes back to an earlier status",
        protocol="A call goes from `pending` to `in_progress` (v2: and `paused`) to its end, and never back.",
        harm="A card that was done spins again, or one that runs seems to wait for people.",
        fix="Send a status only when the call moves on. A second try is a call of its own.",
        check=moved_back,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"tool_call_update": "c1", "status": "pending"}\n'
        '{"tool_call_update": "c1", "status": "completed"}',
    ),
    Rule(
        id="lifecycle/never-ran",
        severity="advice",
        moment=UpdateArrived,
        title="A call is completed, and was never in progress",
        protocol="`pending` is for calls that have not started; a call that runs is `in_progress`.",
        harm="While it runs, people can't tell whether it works or waits for them.",
        fix="Send `in_progress` when the tool starts, before its result.",
        check=never_ran,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "pending"}\n'
        '{"tool_call_update": "c1", "status": "completed"}',
    ),
    Rule(
        id="lifecycle/after-the-end",
        severity="error",
        moment=UpdateArrived,
        title="A call changes after its end",
        protocol="`completed`, `failed` and v2's `cancelled` are final.",
        harm="Cards that people have read and closed change; histories differ from what was seen.",
        fix="Send everything with the final update, or before it, and nothing afterwards.",
        check=changed_after_its_end,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed"}\n'
        '{"tool_call_update": "c1", "title": "Read a.py"}',
    ),
    Rule(
        id="lifecycle/unknown-status",
        severity="error",
        moment=UpdateArrived,
        title="A status that this version of ACP does not have",
        protocol="v1 has pending, in_progress, completed, failed. v2 adds paused, cancelled, and `_` words.",
        harm="Editors show an unknown status as pending, so the call spins for ever.",
        fix="Speak the version that was agreed on: in v1, a cancelled call is `failed`.",
        check=unknown_status,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "in_progress"}\n'
        '{"tool_call_update": "c1", "status": "cancelled"}',
    ),
)
