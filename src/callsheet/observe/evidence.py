"""Extract evidence from calls: texts that they show, errors, files that exist, streamed arguments.

- Results: content and raw output come in many shapes. This module finds the texts in them, and whether one
  of them reports that the tool has failed. A field `error` of a document that was read is no failure, so
  evidence must come from where agents report an outcome.
- Files: those that were read or changed certainly exist. A command may remove any file silently, so
  whatever could have run one makes all of that uncertain.
- Streamed arguments: some agents show them in a call's content while the model still writes them, as the
  text of a JSON object that grows until the output replaces it. Here the text is only stored; the tap reads
  it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from callsheet.observe.model import FINAL, Json, ObservedCall, ObservedSession, many, obj, text

OUTPUT_KEYS = ("stdout", "stderr", "output", "content", "text", "message", "result")
"""Where clients look for text in a raw output that is an object."""

_TEXTS = (*OUTPUT_KEYS, "error", "aggregated_output", "formatted_output")
"""Where tools put what the user should see."""

_SUCCEEDED = frozenset(("success", "ok", "isError", "is_error"))
_OUTCOME_KEYS = frozenset(
    (*OUTPUT_KEYS, "error", "errors", "reason", "detail", "exit_code", "exitCode", "title")
)
"""What stands beside a status that is the tool's own."""
_WRAPPERS = (
    "metadata",
    "result",
    "Ok",
    "response",
    "structuredContent",
    "exitStatus",
    "observation",
)
"""Where agents put what a tool has returned, in an object of their own."""
_FEW = 6
"""Fields of a raw output that is no more than an error, at most."""
_OF_COMMANDS = frozenset(("output", "stdout", "stderr", "command"))
_LONGEST = 64 * 1024
_ON_FILES = ("read", "edit", "delete", "move")
_LINE = 600
_FAILED = re.compile(
    r"(?i)(?:error|failed|cannot|could not|unable to|file not found|no such file)\b[^\n]*"
).fullmatch
_NO_LONGER = 1000
_TOOL_FAILED = re.compile(
    r"(?i)(?:error: ?)?(?:(?:(?:tool|input|argument|parameter|schema|command|request)s? ){0,3}"
    r"validation (?:failed|error)|invalid (?:tool )?(?:arguments?|parameters?|params|input)\b"
    r"|missing (?:a )?required (?:\w+ )?(?:argument|parameter|property|field)"
    r"|(?:unknown|no such) tool\b"
    r"|tool (?:'[^']*'|\"[^\"]*\"|[\w.-]+) (?:not found|does not exist|is not available)"
    r"|tool (?:call |execution )?(?:failed|error)"
    r"|(?:an )?error (?:occurred )?(?:while )?(?:calling|executing|running|invoking) (?:the )?tool)"
).match
"""How agents report that a tool could not do its work, at the beginning of its result."""
_MARK = re.compile(r"\s*(?:\[[!x]\]|[\u2190-\u2bff\U0001f300-\U0001faff\ufe0f])+\s*").match
"""A sign before a line, by which agents mark messages of their own."""
_OTHERS_TEXT = ("read", "search", "fetch", "execute")
"""Kinds of calls whose results are what others wrote, be they files or programs."""
_NOT_THERE = re.compile(r"(?i)not found|no such file|does not exist|doesn't exist|ENOENT").search

_decode = msgspec.json.Decoder().decode


def texts(content: Any) -> Iterator[str]:
    """Yield the texts in a call's content, and those of the resources in it."""
    for item in many(content):
        block = obj(obj(item).get("content"))
        for holder in (block, obj(block.get("resource"))):
            found = text(holder.get("text"))
            if found is not None:
                yield found


def shows_something(content: Any) -> bool:
    """Whether a call's content has anything that a user can see."""
    return any(map(_is_shown, many(content)))


def _is_shown(item: Any) -> bool:
    fields = obj(item)
    block = obj(fields.get("content"))
    if fields.get("type") == "content" and block.get("type") == "text":
        return not is_blank(text(block.get("text")))
    return bool(fields)


def is_blank(value: str | None) -> bool:
    """Whether a text is missing, empty, or only white space. Unlike `strip`, this copies nothing."""
    return not value or value.isspace()


def raw_text(raw: Any) -> str:
    """Return the first text in a raw output that the user should see; "" if there is none."""
    if type(raw) is str:
        return "" if is_blank(raw) else raw
    if type(raw) is list:
        return next((found for item in many(raw) if (found := raw_text(item))), "")
    fields = obj(raw)
    for key in _TEXTS:
        if key in fields and (found := raw_text(fields[key])):
            return found
    return ""


def output_of(raw: Any) -> str:
    """Return the text that a raw output is, or has under one of the keys that clients know."""
    if type(raw) is str:
        return raw
    fields = obj(raw)
    return next((found for key in OUTPUT_KEYS if (found := text(fields.get(key)))), "")


def has_output(call: ObservedCall) -> bool:
    """Whether a call's terminals have shown something, or its content does."""
    return call.output_bytes > 0 or shows_something(call.fields.get("content"))


def parts(raw: Any) -> list[Json]:
    """Return the objects that a raw output is made of: itself, or what each part of a call's work came to."""
    if type(raw) is not list:
        return [obj(raw)]
    found = [obj(item) for item in many(raw)]
    return found if all(found) else []


def results_in(raw: Any) -> list[Any]:
    """Return the results in a raw output: one for each part of a call's work, or the one that it is."""
    found: list[Any] = [*parts(raw)] if type(raw) is list else []
    return found or [raw]


def raw_texts(raw: Any) -> list[str]:
    """Return the texts in a raw output that the user should see: of each of its parts, the first."""
    try:
        return [phrase for part in results_in(raw) if (phrase := raw_text(part))]
    except RecursionError:
        return []


def inner(raw: Json) -> Iterator[Json]:
    """Yield a raw output, and the objects that are wrapped in it."""
    yield raw
    for key in _WRAPPERS:
        if key in raw:
            yield obj(raw[key])


def of_a_command(raw: Any) -> Any:
    """Return the object in a raw output that is JSON text about a command; else the raw output itself."""
    fields = object_in(raw) if type(raw) is str and len(raw) <= _LONGEST else None
    return raw if fields is None or _OF_COMMANDS.isdisjoint(fields) else fields


def object_in(source: str) -> Json | None:
    """Return the object that a text is in JSON; None if it is none."""
    if source[:1] != "{" or source.rstrip()[-1:] != "}":
        return None
    try:
        return obj(_decode(source))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def error_in(call: ObservedCall) -> str | None:
    """Return where a call's result reports that the tool has failed, as a phrase; None if it does not."""
    raw: Any = call.fields.get("rawOutput")
    if _reports_tool_failure(call):
        return "its result says that the tool failed"
    if type(raw) is str:
        found = _error_in_text(raw, call.fields.get("kind"))
        return found or (
            "it says that there is no such file" if _reports_missing_file(call) else None
        )
    if type(raw) is list:
        where = _error_in_parts(raw, call.fields.get("kind"))
        return where and f"rawOutput: {where}"
    for fields in inner(obj(raw)):
        where = _error_in(fields)
        if where is not None:
            return f"rawOutput: {where}"
    return "content: it says that there is no such file" if _reports_missing_file(call) else None


def result_text(call: ObservedCall) -> str:
    """Return the text that a call's result is, if it is no more than one that is short; else ""."""
    shown = [phrase for phrase in texts(call.fields.get("content")) if not is_blank(phrase)]
    found = shown or raw_texts(call.fields.get("rawOutput"))
    return found[0].strip("` \n") if len(found) == 1 and len(found[0]) <= _NO_LONGER else ""


def _reports_tool_failure(call: ObservedCall) -> bool:
    """Whether a result begins with the agent's own message that the tool failed, not with a file's text."""
    phrase = result_text(call)
    mark = _MARK(phrase)
    if mark is None and call.fields.get("kind") in _OTHERS_TEXT:
        return False
    phrase = phrase[mark.end() if mark is not None else 0 :]
    if _TOOL_FAILED(phrase) is not None:
        return True
    is_change = call.fields.get("kind") in ("edit", "delete", "move")
    return is_change and _FAILED(phrase.partition("\n")[0]) is not None


def _reports_missing_file(call: ObservedCall) -> bool:
    """Whether all that a call shows is a line which reports that the call's own file does not exist."""
    if call.fields.get("kind") not in _ON_FILES:
        return False
    shown = list(texts(call.fields.get("content"))) or raw_texts(call.fields.get("rawOutput"))
    if len(shown) != 1 or len(shown[0]) > _LINE or not _is_missing(shown[0].strip("` \n")):
        return False
    raw_input = obj(call.fields.get("rawInput")).values()
    return any(type(value) is str and len(value) > 2 and value in shown[0] for value in raw_input)


def _is_missing(line: str) -> bool:
    return _FAILED(line) is not None and _NOT_THERE(line) is not None


def _error_in_parts(raw: Any, kind: Any) -> str | None:
    """Find that all parts of a call's work have failed; of several commands, that any has."""
    results = [_failure_in(fields) for fields in parts(raw)]
    failed = [where for where in results if where is not None]
    if not failed or (len(failed) < len(results) and kind != "execute"):
        return None
    return f"in a part, {failed[0]}"


def _failure_in(fields: Json) -> str | None:
    for key in ("isError", "is_error"):
        if fields.get(key) is True:
            return f"{key} is true"
    for key in ("success", "ok"):
        if fields.get(key) is False:
            return f"{key} is false"
    return None


def _error_in(fields: Json) -> str | None:
    where = _failure_in(fields)
    if where is not None:
        return where
    if fields.get("status") in ("error", "failed", "failure") and _is_its_own(fields):
        return f"status is {fields['status']}"
    error = fields.get("error")
    if not error or type(error) not in (str, dict) or not _SUCCEEDED.isdisjoint(fields):
        return None
    # A document may well have a field `error`. Beside a result, it is no outcome.
    has_result = any(fields.get(key) for key in ("output", "content", "result", "data", "stdout"))
    return None if has_result or len(fields) > _FEW else "it has an error, and no result"


def _is_its_own(fields: Json) -> bool:
    """Whether a status is the tool's own, and not that of what it has looked up: a build, a job."""
    return len(fields) == 1 or not _OUTCOME_KEYS.isdisjoint(fields)


def _error_in_text(raw: str, kind: Any) -> str | None:
    if raw.startswith("<tool_use_error>"):
        return "rawOutput: it is a <tool_use_error>"
    if kind not in ("edit", "delete", "move") or len(raw) > _LONGEST:
        return None
    where = _error_in(object_in(raw) or {})
    return where and f"rawOutput: {where}"


# Files

MOST_FILES = 1024
"""Files of a session that are remembered."""

_HARMLESS = ("read", "search", "fetch", "think", "edit", "switch_mode")
_ERROR_TEXT = re.compile(r"(?i)not found|no such|n.t exist|not exist|enoent|error|cannot|could not")
_LOOKED_AT = 400
_LEAVES = ("add", "modify", "move", "copy")
"""Operations of a change in v2 after which there is a file."""


def note_files(session: ObservedSession, call: ObservedCall, line: int) -> None:
    """Note which files exist by what a call shows, after an update of it."""
    if session.files and call.fields.get("kind") not in _HARMLESS:
        session.files.clear()
    if call.ended != line:
        return
    if call.status != "completed":  # it may have failed because a file is not there any more
        for place in many(call.fields.get("locations")):
            session.files.pop(text(obj(place).get("path")) or "", None)
        return
    for path in _shown(call.fields):
        if len(session.files) >= MOST_FILES:
            del session.files[next(iter(session.files))]
        session.files[path] = line


def _shown(fields: Json) -> Iterator[str]:
    """Yield the files that a completed call has read or changed."""
    kind, content, places = fields.get("kind"), many(fields.get("content")), fields.get("locations")
    if kind == "edit":
        for item in content:
            for change in (obj(item), *map(obj, many(obj(item).get("changes")))):
                path, leaves = text(change.get("path")), change.get("operation") in _LEAVES
                if path is not None and (change.get("newText") or leaves):
                    yield path
    elif kind == "read" and len(many(places)) == 1 and _is_good(content):
        path = text(obj(many(places)[0]).get("path"))
        if path is not None:
            yield path


def _is_good(content: list[object]) -> bool:
    """Whether a read has returned something that is no error message."""
    phrase = text(obj(obj(content[0]).get("content")).get("text")) if content else None
    return bool(phrase) and not _ERROR_TEXT.search(phrase[:_LOOKED_AT])


# Streamed arguments


def note_streaming(call: ObservedCall, update: Json) -> None:
    """Store the content as streamed arguments if it begins like an object, and there is no input yet."""
    if call.last_input or call.ended is not None or update.get("status") in FINAL:
        return
    if "rawOutput" in call.fields:
        return
    shown = sole_text(call.fields.get("content"))
    if shown is not None and shown[:1] == "{" and shown.startswith(call.streamed):
        call.streamed = shown


def sole_text(content: Any) -> str | None:
    """Return the text of a content that is exactly one text, without leading white space; else None."""
    items = many(content)
    if len(items) != 1:
        return None
    item = obj(items[0])
    block = obj(item.get("content"))
    if item.get("type") != "content" or block.get("type") != "text":
        return None
    shown = text(block.get("text", ""))  # encoders of Go leave out one that is empty
    return shown and shown.lstrip()
