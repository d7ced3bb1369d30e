"""What Toad would show people. It ignores locations, raw input and raw output, and reads diffs by key."""

from __future__ import annotations

from typing import Any

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import quoted
from callsheet.check.rules.complete_diffs import bare_diffs
from callsheet.check.rules.shown import can_know, output_of
from callsheet.observe.events import CallClosed, PermissionAsked, UpdateArrived
from callsheet.observe.model import many

_NO_OLD_TEXT = "its diff has no oldText, so Toad does not show it"


def diff_is_not_shown(told: UpdateArrived) -> list[Said]:
    """Find diffs without the key `oldText`."""
    if not can_know(told.connection):
        return []
    before = {path for _, path in bare_diffs(told.call.fields)} if told.call is not None else ()
    return [
        Said(f"{quoted(path)}: {_NO_OLD_TEXT}", f"update.content[{index}].oldText")
        for index, path in bare_diffs(told.update)
        if path not in before
    ]


def diff_is_not_asked(asked: PermissionAsked) -> list[Said]:
    """Find the same in a request for permission, where it decides what people allow."""
    if not can_know(asked.connection):
        return []
    return [
        Said(f"{quoted(path)}: {_NO_OLD_TEXT}", f"params.toolCall.content[{index}].oldText")
        for index, path in bare_diffs(asked.question.tool_call)
    ]


def card_is_empty(over: CallClosed) -> Said | None:
    """Find an output that is only in the raw output."""
    call = over.call
    if call.ended is None or not over.is_known or many(call.fields.get("content")):
        return None
    if not can_know(over.connection) or not output_of(call.fields.get("rawOutput")).strip():
        return None
    return Said("all output is in rawOutput, which Toad does not show", "update.rawOutput")


def _rule(name: str, **told: Any) -> Rule:
    return Rule(id=f"client/toad-{name}", clients=("toad",), **told)


_DIFFS = "In v1, `oldText` of a diff may be left out or null for a new file."
_FIX = "Send `oldText` always: null for a new file, else the text that was there."

RULES = (
    _rule(
        "no-diff",
        severity="warning",
        moment=UpdateArrived,
        title="Toad does not show a diff",
        protocol=_DIFFS,
        harm="Toad shows a diff only if the key is there. People don't see what was written.",
        fix=_FIX,
        check=diff_is_not_shown,
        example='{"tool_call": "c1", "title": "Writing a.py", "kind": "edit", "status": "completed",'
        ' "content": [{"type": "diff", "path": "/code/a.py", "newText": "x"}]}',
    ),
    _rule(
        "asks-without-diff",
        severity="error",
        moment=PermissionAsked,
        title="Toad asks for permission without the diff",
        protocol=_DIFFS,
        harm="Toad shows a diff only if the key is there. People allow a change that they can't see.",
        fix=_FIX,
        check=diff_is_not_asked,
        example='{"tool_call": "c1", "title": "Writing a.py", "kind": "edit", "status": "completed"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1", "options": [],'
        ' "toolCall": {"toolCallId": "c1", "content":'
        ' [{"type": "diff", "path": "/code/a.py", "newText": "x"}]}}}',
    ),
    _rule(
        "empty-card",
        severity="warning",
        moment=CallClosed,
        title="A card in Toad is empty",
        protocol="`content` is what is shown. `rawOutput` is what the tool gave.",
        harm="Toad shows content only. People see a call that seems to have given nothing.",
        fix="Send the output as content, too.",
        check=card_is_empty,
        example='{"tool_call": "c1", "title": "ls", "kind": "execute", "status": "completed",'
        ' "rawOutput": {"output": "a.py"}}',
    ),
)
