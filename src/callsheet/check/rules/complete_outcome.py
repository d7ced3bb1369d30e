"""Does a call's end show what came of it, and is it the truth?"""

from __future__ import annotations

from callsheet.check.exit_evidence import failure_of
from callsheet.check.finding import Rule, Said
from callsheet.observe.events import CallClosed
from callsheet.observe.evidence import (
    error_in,
    has_output,
    is_blank,
    raw_text,
    texts,
)
from callsheet.observe.exit_codes import CommandExit, exit_of
from callsheet.observe.model import ObservedCall, many, obj, text
from callsheet.observe.tool_identity import entry_kind

_SILENT_KINDS = ("think", "switch_mode")


def only_in_raw_output(over: CallClosed) -> Said | None:
    """Find a result that is in `rawOutput` and not in `content`."""
    call = over.call
    if call.status not in ("completed", "failed") or not over.is_known or has_output(call):
        return None
    raw = call.fields.get("rawOutput")
    if not raw_text(raw) and not (raw and call.status == "failed"):
        return None
    return Said("its content is empty, but its raw output is not", "update.content")


def nothing_shown(over: CallClosed) -> Said | None:
    """Find a call that is completed and shows nothing. A raw output may say that there was nothing."""
    call = over.call
    if call.status != "completed" or not over.is_known or has_output(call):
        return None
    if call.fields.get("rawOutput") is not None or call.exit_code is not None or _is_silent(call):
        return None
    return Said("it is completed, and nothing of it can be seen", "update.content")


def exit_code_hidden(over: CallClosed) -> Said | None:
    """Find a command that failed and is shown as completed."""
    call = over.call
    if call.status != "completed":
        return None
    found: CommandExit | None = exit_of(call)
    if found is not None and not found.is_fine:
        return Said(f"{found.where} {found.code}, but the call is completed", found.field)
    # What the tap repairs by does not see all that it should: there is a second opinion.
    seen = failure_of(call)
    if seen is None:
        return None
    return Said(f"the exit code is {seen.code}, but the call is completed", seen.field)


def error_hidden(over: CallClosed) -> Said | None:
    """Find a tool that says that it failed, and is shown as completed."""
    call = over.call
    if call.status != "completed":
        return None
    where = error_in(call)
    if where is None:
        return None
    return Said(f"`{where}` tells of an error, but the call is completed", "update.status")


def failed_without_reason(over: CallClosed) -> Said | None:
    """Find a failed call that says nothing about why."""
    call = over.call
    if call.status != "failed" or not over.is_known or not over.connection.has_both_ways:
        return None  # what people have rejected or cancelled is not in half of a recording
    if _is_known_to_people(call) or _has_terminal(call):
        return None
    if call.output_bytes or call.exit_code is not None or call.fields.get("rawOutput"):
        return None
    if any(not is_blank(found) for found in texts(call.fields.get("content"))):
        return None
    return Said("it failed, and nothing says why", "update.content")


def _is_known_to_people(call: ObservedCall) -> bool:
    """Whether people have ended it themselves, or the agent gives a reason in its own way."""
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


RULES = (
    Rule(
        id="complete/result-in-raw-output",
        severity="warning",
        moment=CallClosed,
        title="The result is in the raw output only",
        protocol="`content` is what the call has produced, for people; `rawOutput` is for programs.",
        harm="Clients that show only `content` show an empty card.",
        fix="Put the text into `content` as well, as text, diff or terminal.",
        check=only_in_raw_output,
        example='{"tool_call": "c1", "title": "ls", "kind": "execute", "status": "completed",'
        ' "rawOutput": {"stdout": "a.py"}}',
    ),
    Rule(
        id="complete/nothing-shown",
        severity="warning",
        moment=CallClosed,
        title="A completed call shows nothing",
        protocol="`content` is what the call has produced.",
        harm="People can't see what was found, printed or changed, nor if anything was.",
        fix="Send the result as `content`. If there is none, say so, or send an empty `rawOutput`.",
        check=nothing_shown,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed"}',
    ),
    Rule(
        id="complete/exit-code",
        severity="error",
        moment=CallClosed,
        title="A command that failed is shown as completed",
        protocol="`completed` means that the call was successful; `failed`, that it ended with an error.",
        harm="People see a green mark where tests failed or nothing ran at all.",
        fix="End the call as `failed` if the command's exit code isn't 0.",
        check=exit_code_hidden,
        example='{"tool_call": "c1", "title": "make", "kind": "execute", "status": "completed",'
        ' "rawOutput": {"exit_code": 2, "output": "no rule"}}',
    ),
    Rule(
        id="complete/error-as-success",
        severity="error",
        moment=CallClosed,
        title="A tool's error is shown as completed",
        protocol="`completed` means that the call was successful; `failed`, that it ended with an error.",
        harm="People see a green mark and believe that it was done.",
        fix="End the call as `failed` if the tool says `isError`, `success: false` or `error`.",
        check=error_hidden,
        example='{"tool_call": "c1", "title": "Weather", "status": "completed", "rawOutput": {"isError":'
        ' true, "content": [{"type": "text", "text": "no such city"}]}}',
    ),
    Rule(
        id="complete/failed-without-reason",
        severity="warning",
        moment=CallClosed,
        title="A call failed, and nothing says why",
        protocol="`content` is what the call has produced; of a failed one, the error.",
        harm="People see a red mark and can do nothing about it.",
        fix="Send the error's text as `content` with the final update.",
        check=failed_without_reason,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "failed"}',
    ),
)
