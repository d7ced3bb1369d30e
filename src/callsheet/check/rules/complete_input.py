"""Does a call say what its tool was given, in time, and before people decide about it?"""

from __future__ import annotations

from typing import Any

import msgspec

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import CallClosed, PermissionAsked, UpdateArrived
from callsheet.observe.evidence import is_blank, texts
from callsheet.observe.model import ApprovalRequest, ObservedCall, text
from callsheet.observe.tool_identity import diff_paths, is_bare_title, needs_input

_decode = msgspec.json.Decoder().decode


def empty_at_first(over: CallClosed) -> Said | None:
    """Find an announcement without input. An empty object is none, unless the tool takes nothing."""
    call = over.call
    if call.announced is None or call.is_replayed or call.opening.get("rawInput"):
        return None
    told = call.opening.get("rawInput") is not None
    if _takes_none(call) and not call.fields.get("rawInput"):
        return None
    if told and not call.fields.get("rawInput") and not _lacks_to_the_end(call):
        return None
    what = "with an empty input" if told else "without its input"
    return Said(f"it is announced {what}", "update.rawInput", call.announced)


def empty_for_ever(over: CallClosed) -> Said | None:
    """Find a call whose input is never told."""
    call = over.call
    if call.fields.get("rawInput") or not over.is_known or not over.is_settled:
        return None
    if any(question.tool_call.get("rawInput") for question in call.questions):
        return None
    if _takes_none(call):
        return None
    if "rawInput" not in call.fields:
        return Said("its input is never told", "update.rawInput")
    if _lacks_to_the_end(call):
        return Said("its input stays empty, but it did its work", "update.rawInput")
    return None


def _takes_none(call: ObservedCall) -> bool:
    """Whether the call is of a kind that may have no input by nature."""
    return call.fields.get("kind") in ("think", "switch_mode")


def _lacks_to_the_end(call: ObservedCall) -> bool:
    """Whether an empty input can't be true. Of a call that failed it may be: just because of that."""
    return call.status == "completed" and needs_input(call)


def text_of_json(told: UpdateArrived) -> Said | None:
    """Find an input that is a text of JSON. It is said once for a call."""
    raw = told.update.get("rawInput")
    if type(raw) is not str or not _is_json(raw):
        return None
    before = told.call.fields.get("rawInput") if told.call is not None else None
    if _is_json(before):
        return None
    return Said("it is an object, written as a text", "update.rawInput")


def asked_as_json(asked: PermissionAsked) -> Said | None:
    """Find the same in a request for permission."""
    question = asked.question
    before = question.call.fields.get("rawInput") if question.call is not None else None
    if not _is_json(question.tool_call.get("rawInput")) or _is_json(before):
        return None
    return Said("it is an object, written as a text", "params.toolCall.rawInput")


def asked_blindly(asked: PermissionAsked) -> Said | None:
    """Find a request for permission that shows nothing of what is to be done."""
    if not _lacks_input(asked) or _shows_what(asked.question):
        return None
    return Said("neither input, nor title, nor content says what would be done", _field(asked))


def asked_without_input(asked: PermissionAsked) -> Said | None:
    """Find a request for permission that tells what is to be done in words for people only."""
    if not _lacks_input(asked) or not _shows_what(asked.question):
        return None
    return Said("what would be done is only in its title or content", _field(asked))


def _lacks_input(asked: PermissionAsked) -> bool:
    question = asked.question
    if question.call_id is None or question.tool_call.get("rawInput"):
        return False
    call = question.call
    if call is None:
        return asked.connection.is_whole
    if call.announced is None and not asked.connection.is_whole:
        return False
    if call.fields.get("rawInput"):
        return False  # it was told before, and what is left out of an update stays as it was
    has_told = "rawInput" in question.tool_call or "rawInput" in call.fields
    return not has_told or needs_input(_as_asked(question, call))


def _as_asked(question: ApprovalRequest, call: ObservedCall) -> ObservedCall:
    """Return a call as it is after what a question tells of it."""
    return msgspec.structs.replace(call, fields={**call.fields, **question.tool_call})


def _shows_what(question: ApprovalRequest) -> bool:
    told = question.tool_call
    known = question.call.fields if question.call is not None else {}
    if any(text(question.params.get(key)) for key in ("title", "description")):
        return True  # in v2, a question speaks for itself
    for fields in (told, known):
        if any(diff_paths(fields)):
            return True
    title = text(told.get("title")) or text(known.get("title")) or ""
    if not is_bare_title(title, question.call):
        return True
    shown = (*texts(told.get("content")), *texts(known.get("content")))
    return any(not is_blank(found) for found in shown)


def _field(asked: PermissionAsked) -> str:
    inside = "params.subject.toolCall" if "subject" in asked.question.params else "params.toolCall"
    return f"{inside}.rawInput"


def _is_json(raw: Any) -> bool:
    if type(raw) is not str or not raw.lstrip().startswith("{"):
        return False
    try:
        return type(_decode(raw)) is dict
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


_PROTOCOL = "`rawInput` is the input that was sent to the tool."

RULES = (
    Rule(
        id="complete/input-at-first",
        severity="advice",
        moment=CallClosed,
        title="A call is announced without its input",
        protocol=f"{_PROTOCOL} It may come later, by an update.",
        harm="The card is a skeleton at first: nobody sees what is about to happen.",
        fix="Announce the call when its input is known, and send the input with it.",
        check=empty_at_first,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "name": "read"}\n'
        '{"tool_call_update": "c1", "status": "completed", "rawInput": {"path": "/code/a.py"}}',
    ),
    Rule(
        id="complete/input",
        severity="warning",
        moment=CallClosed,
        title="A call's input is never told",
        protocol=_PROTOCOL,
        harm="Nobody can see, audit or repeat what was done.",
        fix="Send `rawInput`; `{}` for a tool that takes nothing.",
        check=empty_for_ever,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "name": "read", "status":'
        ' "completed", "content": [{"type": "content", "content": {"type": "text", "text":'
        ' "import this"}}]}',
    ),
    Rule(
        id="complete/input-as-text",
        severity="warning",
        moment=UpdateArrived,
        title="The input is a text of JSON",
        protocol=f"{_PROTOCOL} It can be any JSON, so an object is sent as an object.",
        harm="Clients look for `command` or `path` in it, and find none.",
        fix="Parse the model's arguments before sending them.",
        check=text_of_json,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "rawInput": "{\\"path\\":'
        ' \\"/code/a.py\\"}", "status": "completed"}',
    ),
    Rule(
        id="complete/asked-input-as-text",
        severity="warning",
        moment=PermissionAsked,
        title="The input in a request for permission is a text of JSON",
        protocol=f"{_PROTOCOL} It can be any JSON, so an object is sent as an object.",
        harm="Clients look for `command` or `path` in it, and find none to show to who decides.",
        fix="Parse the model's arguments before sending them.",
        check=asked_as_json,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1", "rawInput": "{\\"path\\": \\"/code/a.py\\"}"}, "options":'
        ' [{"optionId": "n", "name": "No", "kind": "reject_once"}]}}',
    ),
    Rule(
        id="complete/asked-blindly",
        severity="error",
        moment=PermissionAsked,
        title="Permission is asked without saying for what",
        protocol="A request for permission carries the details of the tool call.",
        harm="People approve blind. It is what users of agents complain about most.",
        fix="Send the whole input with the request, and a title that says what would be done.",
        check=asked_blindly,
        example='{"tool_call": "c1", "title": "bash", "kind": "execute"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1", "title": "bash"}, "options": [{"optionId": "n",'
        ' "name": "No", "kind": "reject_once"}]}}',
    ),
    Rule(
        id="complete/asked-without-input",
        severity="warning",
        moment=PermissionAsked,
        title="Permission is asked without the input",
        protocol="A request for permission carries the details of the tool call.",
        harm="People see a summary; a client can't show, check or remember the exact command.",
        fix="Send the whole `rawInput` with the request, or with the announcement before it.",
        check=asked_without_input,
        example='{"tool_call": "c1", "title": "rm -r build", "kind": "execute"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c1"}, "options": [{"optionId": "n", "name": "No", "kind":'
        ' "reject_once"}]}}',
    ),
)
