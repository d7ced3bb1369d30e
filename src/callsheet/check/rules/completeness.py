"""Is a call described completely: title, kind, name and input, and in the end its outcome?

The input must be there in time: when the call is announced, and before the user decides about it.

Does a call's end show what came of it, and is it the truth?
"""

from __future__ import annotations

from typing import Any

import msgspec

from callsheet.check.finding import Violation, quoted, rule
from callsheet.observe.events import CallClosed, PermissionAsked, UpdateArrived
from callsheet.observe.evidence import (
    error_in,
    has_output,
    is_blank,
    object_in,
    raw_text,
    texts,
)
from callsheet.observe.exit_codes import exit_of
from callsheet.observe.model import ApprovalRequest, ObservedCall, many, obj, text
from callsheet.observe.tool_identity import (
    NO_KIND,
    certain_kind,
    diff_paths,
    entry_kind,
    is_bare_title,
    needs_input,
    tool_name,
)


@rule("complete/title-at-first", CallClosed)
def bare_at_first(event: CallClosed) -> Violation | None:
    """Find an announcement under the tool's bare name."""
    call = event.call
    if call.announced is None or call.is_replayed:
        return None
    what = _bare(call, call.opening.get("title"))
    return Violation(f"it is announced {what}", "update.title", call.announced) if what else None


@rule("complete/title", CallClosed)
def bare_for_ever(event: CallClosed) -> Violation | None:
    """Find a call whose title never describes what it does."""
    call = event.call
    if call.announced is None or not event.is_settled:
        return None  # of a call that was never announced, the title may be in an approval request
    what = _bare(call, call.fields.get("title"))
    return Violation(f"it ends {what}", "update.title") if what else None


@rule("complete/kind", CallClosed)
def kind_missing(event: CallClosed) -> Violation | None:
    """Find a call without a kind, or with `other`, although its tool is well known."""
    call = event.call
    kind = call.fields.get("kind")
    if kind not in NO_KIND or not event.is_known or not event.is_settled:
        return None
    if call.opening.get("kind") not in NO_KIND:
        return None  # it was sent, and taken back
    known = certain_kind(call)
    if known is None:
        return None
    has = "it has no kind" if kind is None else "its kind is `other`"
    return Violation(f"{has}, but {quoted(tool_name(call))} is `{known}`", "update.kind")


@rule("complete/name", CallClosed)
def name_missing(event: CallClosed) -> Violation | None:
    """Find a call without the name of its tool."""
    if event.call.name or not event.is_known or not event.is_settled:
        return None
    return Violation("the tool's name is never sent", "update.name", event.call.announced)


def _bare(call: ObservedCall, value: Any) -> str | None:
    """Return what a title lacks, or None if it describes something."""
    title = text(value) or ""
    if not is_bare_title(title, call):
        return None
    return f"with only a name as its title, {quoted(title)}" if title.strip() else "without a title"


@rule("complete/input-at-first", CallClosed)
def empty_at_first(event: CallClosed) -> Violation | None:
    """Find an announcement without input. An empty object is none, unless the tool takes nothing."""
    call = event.call
    if call.announced is None or call.is_replayed or call.opening.get("rawInput"):
        return None
    is_empty = call.opening.get("rawInput") is not None
    if _takes_none(call) and not call.fields.get("rawInput"):
        return None
    if is_empty and not call.fields.get("rawInput") and not _lacks_to_the_end(call):
        return None
    what = "with an empty input" if is_empty else "without its input"
    return Violation(f"it is announced {what}", "update.rawInput", call.announced)


@rule("complete/input", CallClosed)
def empty_for_ever(event: CallClosed) -> Violation | None:
    """Find a call whose input is never sent."""
    call = event.call
    if call.fields.get("rawInput") or not event.is_known or not event.is_settled:
        return None
    if any(question.tool_call.get("rawInput") for question in call.questions):
        return None
    if _takes_none(call):
        return None
    if "rawInput" not in call.fields:
        return Violation("its input is never sent", "update.rawInput")
    if _lacks_to_the_end(call):
        return Violation("its input stays empty, although it did its work", "update.rawInput")
    return None


def _takes_none(call: ObservedCall) -> bool:
    """Whether the call is of a kind that may have no input by nature."""
    return call.fields.get("kind") in ("think", "switch_mode")


def _lacks_to_the_end(call: ObservedCall) -> bool:
    """Whether an empty input can't be true. Of a call that failed it may be: just because of that."""
    return call.status == "completed" and needs_input(call)


@rule("complete/input-as-text", UpdateArrived, fields=["rawInput"], screen=True)
def text_of_json(event: UpdateArrived) -> Violation | None:
    """Find an input that is JSON encoded as a string. It is reported once per call."""
    raw = event.update.get("rawInput")
    if type(raw) is not str or not _is_json(raw):
        return None
    before = event.call.fields.get("rawInput") if event.call is not None else None
    if _is_json(before):
        return None
    return Violation("it is an object, sent as a string", "update.rawInput")


@rule("complete/asked-input-as-text", PermissionAsked, screen=True)
def asked_as_json(event: PermissionAsked) -> Violation | None:
    """Find the same in a request for permission."""
    question = event.question
    before = question.call.fields.get("rawInput") if question.call is not None else None
    if not _is_json(question.tool_call.get("rawInput")) or _is_json(before):
        return None
    return Violation("it is an object, sent as a string", "params.toolCall.rawInput")


@rule("complete/asked-blindly", PermissionAsked)
def asked_blindly(event: PermissionAsked) -> Violation | None:
    """Find a request for permission that shows nothing of what is to be done."""
    if not _lacks_input(event) or _shows_what(event.question):
        return None
    return Violation("neither input, nor title, nor content says what would be done", _field(event))


@rule("complete/asked-without-input", PermissionAsked)
def asked_without_input(event: PermissionAsked) -> Violation | None:
    """Find a request for permission that describes what is to be done in text only."""
    if not _lacks_input(event) or not _shows_what(event.question):
        return None
    return Violation("only its title or content says what would be done", _field(event))


def _lacks_input(event: PermissionAsked) -> bool:
    question = event.question
    if question.call_id is None or question.tool_call.get("rawInput"):
        return False
    call = question.call
    if call is None:
        return event.connection.is_whole
    if call.announced is None and not event.connection.is_whole:
        return False
    if call.fields.get("rawInput"):
        return False  # it was sent before, and what is left out of an update stays as it was
    has_input = "rawInput" in question.tool_call or "rawInput" in call.fields
    return not has_input or needs_input(_as_asked(question, call))


def _as_asked(question: ApprovalRequest, call: ObservedCall) -> ObservedCall:
    """Return a call with the fields that an approval request has."""
    return msgspec.structs.replace(call, fields={**call.fields, **question.tool_call})


def _shows_what(question: ApprovalRequest) -> bool:
    details = question.tool_call
    known = question.call.fields if question.call is not None else {}
    if any(text(question.params.get(key)) for key in ("title", "description")):
        return True  # in v2, an approval request has texts of its own
    for fields in (details, known):
        if any(diff_paths(fields)):
            return True
    title = text(details.get("title")) or text(known.get("title")) or ""
    if not is_bare_title(title, question.call):
        return True
    shown = (*texts(details.get("content")), *texts(known.get("content")))
    return any(not is_blank(found) for found in shown)


def _field(event: PermissionAsked) -> str:
    inside = "params.subject.toolCall" if "subject" in event.question.params else "params.toolCall"
    return f"{inside}.rawInput"


def _is_json(raw: Any) -> bool:
    return type(raw) is str and object_in(raw.lstrip()) is not None


_SILENT_KINDS = ("think", "switch_mode")


@rule("complete/result-in-raw-output", CallClosed)
def only_in_raw_output(event: CallClosed) -> Violation | None:
    """Find a result that is in `rawOutput` and not in `content`."""
    call = event.call
    if call.status not in ("completed", "failed") or not event.is_known or has_output(call):
        return None
    raw = call.fields.get("rawOutput")
    if not raw_text(raw) and not (raw and call.status == "failed"):
        return None
    return Violation("its content is empty, but its raw output is not", "update.content")


@rule("complete/nothing-shown", CallClosed)
def nothing_shown(event: CallClosed) -> Violation | None:
    """Find a call that is completed and shows nothing. A raw output may show that there was nothing."""
    call = event.call
    if call.status != "completed" or not event.is_known or has_output(call):
        return None
    if call.fields.get("rawOutput") is not None or call.exit_code is not None or _is_silent(call):
        return None
    return Violation("it is completed, but shows nothing", "update.content")


@rule("complete/exit-code", CallClosed)
def exit_code_hidden(event: CallClosed) -> Violation | None:
    """Find a command that failed and is shown as completed."""
    call = event.call
    if call.status != "completed":
        return None
    found = exit_of(call)
    if found is None or found.is_fine:
        return None
    return Violation(f"{found.where} {found.code}, but the call is completed", found.field)


@rule("complete/error-as-success", CallClosed)
def error_hidden(event: CallClosed) -> Violation | None:
    """Find a tool that reports an error, and is shown as completed."""
    call = event.call
    if call.status != "completed":
        return None
    where = error_in(call)
    if where is None:
        return None
    return Violation(f"`{where}` reports an error, but the call is completed", "update.status")


@rule("complete/failed-without-reason", CallClosed)
def failed_without_reason(event: CallClosed) -> Violation | None:
    """Find a failed call without a reason."""
    call = event.call
    if call.status != "failed" or not event.is_known or not event.connection.has_both_ways:
        return None  # what the user rejected or cancelled is missing in half of a recording
    if _is_known_to_people(call) or _has_terminal(call):
        return None
    if call.output_bytes or call.exit_code is not None or call.fields.get("rawOutput"):
        return None
    if any(not is_blank(found) for found in texts(call.fields.get("content"))):
        return None
    return Violation("it failed, and nothing says why", "update.content")


def _is_known_to_people(call: ObservedCall) -> bool:
    """Whether the user has ended it, or the agent has a reason in a field of its own."""
    if call.turn is not None and call.turn.cancelled is not None:
        return True
    if any(question.outcome != "allowed" for question in call.questions):
        return True
    meta = obj(call.fields.get("_meta"))
    return any(text(obj(value).get("reason")) for value in meta.values())


def _has_terminal(call: ObservedCall) -> bool:
    """Whether it shows a terminal: what is in it may be known to the client only."""
    return any(obj(item).get("type") == "terminal" for item in many(call.fields.get("content")))


def _is_silent(call: ObservedCall) -> bool:
    """Whether the tool is of a sort that has nothing to show."""
    kind = call.fields.get("kind")
    return kind in _SILENT_KINDS or entry_kind(call) in (*_SILENT_KINDS, "other")
