"""What people see of a call: its result, its diffs, and why it failed.

Nothing is made up: what is shown here was told elsewhere, in the raw output, in a question, in an exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.acp.terminal_text import fenced
from callsheet.limits.repeats import IN_CONTENT
from callsheet.observe.evidence import is_blank, raw_text, results_in, shows_something, texts
from callsheet.observe.exit_codes import exit_of
from callsheet.observe.model import many, obj, text
from callsheet.report.status import Reason

from .edits import diffs_in
from .items import block_item, in_form, is_diff, json_item, terminal_in, text_item
from .known import Draft, Known
from .outcome import as_drafted
from .statuses import FINAL, in_acp

_BAD = ("failed", "cancelled")
_AS_IT_IS = ("execute", "read", "search")
"""Kinds of calls whose output is no Markdown."""
_SILENT = ("think", "switch_mode")
"""Kinds of calls that have nothing to show."""
_ALL_OUTPUT = ("aggregated_output", "formatted_output")
_RESULTS = ("result", "Ok", "response")
_PHRASES = {
    Reason.DENIED.value: "denied",
    Reason.CANCELLED.value: "cancelled",
    Reason.TIMEOUT.value: "timed_out_bare",
}


def contents(known: Known, draft: Draft) -> None:
    """Let a call show what is known to have come of it."""
    before = draft.content
    is_v2 = known.connection.is_v2
    has_ended = draft.status in FINAL
    draft.content = in_form(_told(known, draft), is_v2=is_v2, is_growing=not has_ended)
    if draft.status not in _BAD:
        _keep_diffs(known, draft, is_v2=is_v2)
    if has_ended:
        own = _own(known, draft)
        came = _what_came(known, draft, own)
        if came:
            draft.content = [*own, *came]
    if draft.content is not before:
        draft.repaired.add("content")


def _told(known: Known, draft: Draft) -> list[Any]:
    """Return the content as a list, also where it was told as one thing."""
    if draft.content:
        return draft.content
    told = known.call.fields.get("content", known.asked.get("content"))
    return [told] if told and type(told) in (str, dict) else draft.content


def _keep_diffs(known: Known, draft: Draft, *, is_v2: bool) -> None:
    """Keep a diff that was shown before, if none is shown any more; else that of the input."""
    for earlier in (known.asked.get("content"), known.diffs, known.call.opening.get("content")):
        found = list(filter(is_diff, many(earlier)))
        if found:
            if not any(map(is_diff, draft.content)):
                draft.content = [*draft.content, *in_form(found, is_v2=is_v2)]
            return
    is_known = is_v2 or draft.is_streaming or any(map(is_diff, draft.content)) or _is_ours(known)
    if draft.kind == "edit" and not is_known and (made := diffs_in(draft.raw_input)):
        draft.content = [*draft.content, *made]


def _what_came(known: Known, draft: Draft, own: list[Any]) -> list[Any]:
    """Return what is to be shown besides: the result, where nothing is shown of it; and why it failed."""
    came: list[Any] = []
    call = known.call
    if not call.output_bytes:
        # Nothing has come in a terminal of the agent's own, which is named like the call.
        own = [item for item in own if terminal_in(item) != call.id]
    if not call.output_bytes and not shows_something(own):
        came.extend(_result(draft.raw_output, draft.kind))
    if draft.status == "completed" and not (came or shows_something(own)):
        came.extend(_no_result(known, draft))
    if draft.status in _BAD:
        why = _why(known, draft, [*own, *came])
        if why is not None:
            came.append(why)
    return came


def _no_result(known: Known, draft: Draft) -> Iterator[Any]:
    """Return an item that says that nothing is known of the result. An empty one would be a result."""
    call = known.call
    is_ours = "callsheet" in obj(call.fields.get("_meta"))
    if (
        draft.raw_output is None
        and not (call.output_bytes or is_ours)
        and draft.kind not in _SILENT
    ):
        yield text_item(known.describer.phrase("no_result"))


def _is_ours(known: Known) -> bool:
    """Whether a call is of an agent of ours, which shows all that there is."""
    is_marked = "callsheet" in obj(known.call.fields.get("_meta"))
    return is_marked or known.connection.agent.startswith("callsheet")


def _own(known: Known, draft: Draft) -> list[Any]:
    """Return the content without what only a question has said, which is no result, and without blanks."""
    if "content" in known.call.fields:
        return draft.content if shows_something(draft.content) else []
    return [item for item in draft.content if obj(item).get("type") in ("diff", "terminal")]


def _why(known: Known, draft: Draft, content: list[Any]) -> Any:
    """Return an item that says why a call failed, where nothing in its content does."""
    said = [found for found in texts(content) if not is_blank(found)]
    error = _error_in(draft.raw_output)
    if error and error != IN_CONTENT and not any(error in found for found in said):
        return text_item(error)
    if draft.reason == Reason.EXIT_CODE.value and _was_told_as_done(known):
        return _phrase(known, draft)
    if said or known.call.output_bytes or any(map(terminal_in, content)):
        return None
    result = next(_result(draft.raw_output, draft.kind), None)
    return result or _phrase(known, draft) or json_item(draft.raw_output)


def _was_told_as_done(known: Known) -> bool:
    status, _ = in_acp(known.call.status or "", is_v2=known.connection.is_v2)
    return status == "completed"


def _phrase(known: Known, draft: Draft) -> Any:
    """Return our own words for a reason, with the exit code."""
    if draft.reason == Reason.EXIT_CODE.value:
        found = exit_of(as_drafted(known, draft))
        if found is None or found.where == "its output says exit code":
            return None
        return text_item(known.describer.phrase("exit_code", code=found.code))
    key = _PHRASES.get(draft.reason or "")
    return text_item(known.describer.phrase(key)) if key is not None else None


def _result(raw: Any, kind: str | None) -> Iterator[Any]:
    """Return a raw output as items: MCP's blocks as they are, else the text that it has."""
    told = obj(raw)
    holders = (told, *(obj(told.get(key)) for key in _RESULTS))
    for listed in (raw, *(holder.get("content") for holder in holders)):
        blocks = [block_item(item) for item in many(listed)]
        if blocks and None not in blocks and shows_something(blocks):
            yield from blocks
            return
    for part in results_in(raw):
        said = _text_of(part)
        if said:
            yield text_item(_as_text(said, kind))


def _text_of(raw: Any) -> str:
    """Return all that a command has printed, or the text that another tool has given."""
    told = obj(raw)
    for key in _ALL_OUTPUT:
        said = text(told.get(key))
        if said and not is_blank(said):
            return said
    out, err = text(told.get("stdout")), text(told.get("stderr"))
    if out and err and not is_blank(out) and not is_blank(err):
        return f"{out}{'' if out.endswith(chr(10)) else chr(10)}{err}"
    try:
        return raw_text(raw)
    except RecursionError:
        return ""


def _as_text(said: str, kind: str | None) -> str:
    return fenced(said) if kind in _AS_IT_IS and not said.startswith("```") else said


def _error_in(raw: Any) -> str:
    """Return the text of an error that a raw output has beside its result."""
    error = obj(raw).get("error")
    said = text(error) or text(obj(error).get("message")) or ""
    return said.strip()
