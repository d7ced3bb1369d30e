"""Repair the content of a call's card: its result, its diffs, and why it failed.

Nothing is invented: what is shown here was reported elsewhere, in the raw output, in a permission
request, in an exit code, or in an edit's input that has both the old text and the new. The input of a
tool that overwrites a file makes no diff, because the old text is unknown. Items in an agent's own form
are converted to ACP's where their meaning is clear; what is no item at all is shown as JSON, so that
nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from callsheet.acp.terminal_text import fenced
from callsheet.describe import arguments as roles
from callsheet.limits.content import IN_CONTENT
from callsheet.observe.evidence import is_blank, raw_text, results_in, shows_something, texts
from callsheet.observe.exit_codes import exit_of
from callsheet.observe.model import Json, ObservedCall, many, obj, text
from callsheet.report.status import Reason
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.outcome import as_drafted, in_acp

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


def complete_content(draft: CallDraft) -> CallDraft:
    """Repair a call's content: the form of its items, missing diffs, and at its end the result."""
    content = in_form(_reported(draft), is_v2=draft.is_v2, is_growing=not draft.has_ended)
    if draft.status not in _BAD:
        content = [*content, *missing] if (missing := _lost_diffs(draft, content)) else content
    if draft.has_ended:
        own = _own(draft, content)
        came = _what_came(draft, own)
        content = [*own, *came] if came else content
    return draft if content is draft.content else draft.with_repair("content", content=content)


def _reported(draft: CallDraft) -> list[Any]:
    """Return the content as a list, also where the agent sent a single item instead of one."""
    if draft.content:
        return draft.content
    reported = draft.call.fields.get("content", draft.call.asked.get("content"))
    return [reported] if reported and type(reported) in (str, dict) else draft.content


def _lost_diffs(draft: CallDraft, content: list[Any]) -> list[Any]:
    """Return the diffs that were shown before, if none is shown any more; else those of the input."""
    call, shows_diff = draft.call, any(map(is_diff, content))
    for earlier in (call.asked.get("content"), draft.earlier_diffs, call.opening.get("content")):
        found = list(filter(is_diff, many(earlier)))
        if found:
            return [] if shows_diff else in_form(found, is_v2=draft.is_v2)
    is_known = draft.is_v2 or draft.is_streaming or shows_diff or _is_ours(call)
    return diffs_in(draft.raw_input) if draft.kind == "edit" and not is_known else []


def _what_came(draft: CallDraft, own: list[Any]) -> list[Any]:
    """Return the items to add: the result, where the content shows nothing of it, and why it failed."""
    came: list[Any] = []
    call = draft.call
    if not call.output_bytes:
        # A terminal with the call's own id is the agent's, and it has shown no output.
        own = [item for item in own if terminal_in(item) != call.id]
    if not call.output_bytes and not shows_something(own):
        came.extend(_result(draft.raw_output, draft.kind))
    if draft.status == "completed" and not (came or shows_something(own)):
        came.extend(_no_result(draft))
    if draft.status in _BAD:
        why = _why(draft, [*own, *came])
        if why is not None:
            came.append(why)
    return came


def _no_result(draft: CallDraft) -> Iterator[Any]:
    """Yield an item stating that the result is unknown, unless there is one, even an empty one."""
    is_known = draft.raw_output is not None or draft.call.output_bytes or _is_ours(draft.call)
    if not is_known and draft.kind not in _SILENT:
        yield text_item(draft.describer.phrase("no_result"))


def _is_ours(call: ObservedCall) -> bool:
    """Whether a call is of an agent that uses Callsheet, and so shows all that there is."""
    is_marked = "callsheet" in obj(call.fields.get("_meta"))
    return is_marked or call.session.connection.agent.startswith("callsheet")


def _own(draft: CallDraft, content: list[Any]) -> list[Any]:
    """Return the content that may be a result: not what only a permission request showed, no blanks."""
    if "content" in draft.call.fields:
        return content if shows_something(content) else []
    return [item for item in content if obj(item).get("type") in ("diff", "terminal")]


def _why(draft: CallDraft, content: list[Any]) -> Any:
    """Return an item that explains why a call failed, where nothing in its content does; else None."""
    shown = [found for found in texts(content) if not is_blank(found)]
    error = _error_in(draft.raw_output)
    if error and error != IN_CONTENT and not any(error in found for found in shown):
        return text_item(error)
    if draft.reason == Reason.EXIT_CODE.value and _was_reported_as_done(draft):
        return _phrase(draft)
    if shown or draft.call.output_bytes or any(map(terminal_in, content)):
        return None
    result = next(_result(draft.raw_output, draft.kind), None)
    return result or _phrase(draft) or json_item(draft.raw_output)


def _was_reported_as_done(draft: CallDraft) -> bool:
    status, _ = in_acp(draft.call.status or "", is_v2=draft.is_v2)
    return status == "completed"


def _phrase(draft: CallDraft) -> Any:
    """Return an item with Callsheet's phrase for the reason or the exit code; None if there is none."""
    if draft.reason == Reason.EXIT_CODE.value:
        found = exit_of(as_drafted(draft))
        if found is None or found.where == "its output says exit code":
            return None
        return text_item(draft.describer.phrase("exit_code", code=found.code))
    key = _PHRASES.get(draft.reason or "")
    return text_item(draft.describer.phrase(key)) if key is not None else None


def _result(raw: Any, kind: str | None) -> Iterator[Any]:
    """Yield a raw output as items: MCP's blocks unchanged, else the text in it."""
    reported = obj(raw)
    holders = (reported, *(obj(reported.get(key)) for key in _RESULTS))
    for listed in (raw, *(holder.get("content") for holder in holders)):
        blocks = [block_item(item) for item in many(listed)]
        if blocks and None not in blocks and shows_something(blocks):
            yield from blocks
            return
    for part in results_in(raw):
        shown = _text_of(part)
        if shown:
            yield text_item(_as_text(shown, kind))


def _text_of(raw: Any) -> str:
    """Return all that a command has printed, or the text that another tool has returned."""
    reported = obj(raw)
    for key in _ALL_OUTPUT:
        shown = text(reported.get(key))
        if shown and not is_blank(shown):
            return shown
    out, err = text(reported.get("stdout")), text(reported.get("stderr"))
    if out and err and not is_blank(out) and not is_blank(err):
        return f"{out}{'' if out.endswith(chr(10)) else chr(10)}{err}"
    try:
        return raw_text(raw)
    except RecursionError:
        return ""


def _as_text(shown: str, kind: str | None) -> str:
    return fenced(shown) if kind in _AS_IT_IS and not shown.startswith("```") else shown


def _error_in(raw: Any) -> str:
    """Return the text of an error that a raw output has beside its result."""
    error = obj(raw).get("error")
    shown = text(error) or text(obj(error).get("message")) or ""
    return shown.strip()


_NEEDS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}
"""Blocks of ACP, which are MCP's, and the texts that they can't do without."""

_MANY = 64

_encode = msgspec.json.Encoder().encode


def text_item(shown: str) -> Json:
    """Return a text as an item."""
    return {"type": "content", "content": {"type": "text", "text": shown}}


def block_item(block: Any) -> Json | None:
    """Return a block as an item, None if it is none."""
    reported = _with_text(obj(block))
    needed = _NEEDS.get(text(reported.get("type")) or "")
    if needed is None or any(type(reported.get(key)) is not str for key in needed):
        return None
    if reported["type"] == "resource" and type(obj(reported.get("resource")).get("uri")) is not str:
        return None
    return {"type": "content", "content": reported}


def _with_text(block: Json) -> Json:
    """Return a block of text with its text: encoders of Go leave out one that is empty."""
    return {**block, "text": ""} if block.get("type") == "text" and "text" not in block else block


def json_item(value: Any) -> Json | None:
    """Return any value as an item that shows its JSON; None if there is nothing to see in it."""
    if value is None or value in ("", [], {}):
        return None
    try:
        shown = _encode(value).decode()
    except (msgspec.EncodeError, RecursionError, UnicodeError, TypeError, ValueError):
        return None
    return text_item(fenced(shown))


def in_form(content: list[Any], *, is_v2: bool, is_growing: bool = False) -> list[Any]:
    """Return a call's content with each item in ACP's form: the same list, if each is.

    Of a long content that is growing, only the end is checked: this runs after each item, and checking
    all of them would be quadratic.
    """
    looked_at = content[-_MANY:] if is_growing and len(content) > _MANY else content
    if all(_is_good(item, is_v2) for item in looked_at):
        return content
    made: list[Any] = []
    for item in content:
        made.extend((item,) if _is_good(item, is_v2) else _items_of(item, is_v2))
    return made


def is_diff(item: Any) -> bool:
    """Whether an item is a diff."""
    return obj(item).get("type") == "diff"


def terminal_in(item: Any) -> str | None:
    """Return the id of the terminal that an item shows."""
    reported = obj(item)
    return text(reported.get("terminalId")) if reported.get("type") == "terminal" else None


def _is_good(item: Any, is_v2: bool) -> bool:
    if item.__class__ is not dict:
        return False
    kind = item.get("type")
    if kind == "content":
        block = item.get("content")
        if block.__class__ is not dict:
            return False
        sort = block.get("type")
        if sort == "text":
            return type(block.get("text")) is str
        return type(sort) is str and (sort not in _NEEDS or block_item(block) is not None)
    if kind == "diff":
        return is_v2 or (_has_path(item) and type(item.get("newText")) is str and "oldText" in item)
    if kind == "terminal":
        return "terminalId" in item
    return type(kind) is str and kind not in _NEEDS


def _items_of(item: Any, is_v2: bool) -> list[Json]:
    """Return an item in ACP's form, where its meaning is clear; else as JSON, so that nothing is lost."""
    reported = obj(item)
    if reported.get("type") == "diff" and not is_v2:
        # Without an old text, the file is new; without a new one, it is gone.
        old, new = text(reported.get("oldText")), text(reported.get("newText"))
        if _has_path(reported) and (old is not None or new is not None):
            return [{**reported, "oldText": old, "newText": new or ""}]
    block = block_item(reported) or block_item(reported.get("content"))
    if block is not None:
        return [block]
    shown = (text(value) for value in (item, reported.get("text"), reported.get("content")))
    phrase = next((one for one in shown if one is not None), None)
    made = json_item(item) if phrase is None else text_item(phrase)
    return [] if made is None else [made]


def _has_path(diff: Json) -> bool:
    path = diff.get("path")
    return type(path) is str and bool(path)


_PAIRS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldStr", "newStr"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old_content", "new_content"),
    ("search", "replace"),
    ("find", "replace"),
)
_LISTS = ("edits", "changes", "replacements", "operations")
_MOST = 50


def diffs_in(tool_input: Any) -> list[Json]:
    """Return the diffs of v1 that an edit's input makes; none if a path, or one of the texts, is missing."""
    reported = obj(tool_input)
    path = text(roles.first(reported, roles.PATH)) or ""
    listed = next((many(reported[key]) for key in _LISTS if many(reported.get(key))), [reported])
    found = [diff for edit in listed[:_MOST] for diff in _diff(obj(edit), path)]
    return found if len(found) == len(listed) else []


def _diff(edit: Json, path: str) -> Iterator[Json]:
    path = text(roles.first(edit, roles.PATH)) or path
    for old_key, new_key in _PAIRS:
        old, new = text(edit.get(old_key)), text(edit.get(new_key))
        if path and old is not None and new is not None and old != new:
            yield {"type": "diff", "path": path, "oldText": old, "newText": new}
            return
