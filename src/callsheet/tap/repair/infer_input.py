"""Restore the input of a call that the agent does not report in `rawInput`, or reports as a text.

It is looked for in this order: the last input that was reported and permission requests, arguments
streamed in the content, the agent's profile, and what else the call shows: diffs, locations, and titles
that are a command, a path, a pattern or a URL. Keys are those that clients look for: `command`, `path`,
`pattern`, `url`.

Some agents announce a call as a skeleton (no input, a bare title), and then stream its arguments as the
call's content (`callsheet.observe.evidence` stores them). These are the input, and no output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from callsheet.describe.shell.programs import program_names
from callsheet.observe.evidence import object_in, sole_text
from callsheet.observe.model import FINAL, Json, ObservedCall, many, obj, text
from callsheet.observe.tool_identity import diff_paths, entry_of, needs_of
from callsheet.tap.profiles import without_notes
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.names import is_bare, listed

_NEED_INPUT = ("edit", "delete", "move")

_SOME = 4096
"""Characters in which members are looked for that are whole already."""

_MEMBER = re.compile(
    r'\s*("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)\s*[,}]', re.S
)
_BEGIN = re.compile(r'\{\s*(?:"[\w.:$-]*|$|\})').match
_RESULTS = listed("results")

_decode = msgspec.json.Decoder().decode


def restore_input(draft: CallDraft) -> CallDraft:
    """Find the input, as far as it can be known, and remove streamed arguments from the content."""
    call = draft.call
    found, whole = _reported(call, draft.name), object_in(call.streamed or "")
    has_streamed = _has_streamed(draft, whole)
    is_shown = sole_text(many(call.fields.get("content"))) == call.streamed
    if has_streamed and is_shown:
        draft = replace(_without_arguments(draft), is_streaming=whole is None)
    elif not has_streamed and sole_text(draft.content) == "" and call.status not in FINAL:
        # An empty text shows nothing, and arguments may follow in it.
        draft = replace(draft, content=[], is_streaming=is_empty(found))
    if is_empty(found) and has_streamed:
        is_over = not is_shown or call.status in FINAL or call.is_left
        rest = call.streamed if is_over else members_of(call.streamed or "") or None
        found = rest if whole is None else whole
    elif is_empty(found):
        found = _guessed(found, draft)
    if is_empty(found) and not is_empty(draft.earlier_input):
        found = draft.earlier_input  # it was found in something that is no longer reported
    elif found is None and type(draft.raw_input) is str:
        found = _as_object(draft.raw_input)
    if found is None:
        return draft
    if found is call.fields.get("rawInput"):
        return replace(draft, raw_input=found)
    return draft.with_repair("input", raw_input=found)


def is_empty(value: Any) -> bool:
    """Whether there is no input, or an empty one."""
    return value is None or (type(value) in (dict, list, str) and not value)


def _reported(call: ObservedCall, name: str) -> Any:
    """Return the input that updates and permission requests have reported, merged where they differ."""
    reported = call.fields.get("rawInput")
    own = _as_object(
        call.last_input if is_empty(reported) and call.last_input is not None else reported
    )
    asked, newer = (_as_object(fields.get("rawInput")) for fields in (call.asked, call.asked_since))
    if is_empty(own):
        return own if is_empty(asked) else asked
    needs, known = needs_of(name), obj(own)
    if known.keys().isdisjoint(needs) and not obj(asked).keys().isdisjoint(needs):
        return {**known, **asked}
    if is_empty(newer) or (known and obj(newer) and not _differs(known, newer, needs)):
        return own
    if not known or not obj(newer):
        return newer
    # The agent asks for something else than it has announced, or for more: this is what would be run.
    replaced = () if newer.keys().isdisjoint(needs) else needs
    return {**{key: value for key, value in known.items() if key not in replaced}, **newer}


def _differs(known: Json, newer: Json, needs: tuple[str, ...]) -> bool:
    """Whether the newer input differs from the other or has more, and not only other names for the same."""
    if not known.keys().isdisjoint(newer):
        return any(key not in known or known[key] != newer[key] for key in newer)
    before, now = ([values[key] for key in needs if key in values] for values in (known, newer))
    return bool(before and now) and not any(one in before for one in now)


def _as_object(raw: Any) -> Any:
    """Return an object that is written as a text of JSON."""
    if type(raw) is not str:
        return raw
    stripped = raw.strip()
    whole = {} if stripped == "{}" else object_in(stripped)
    return raw if whole is None else whole


def _guessed(reported: Any, draft: CallDraft) -> Any:
    """Return an input found elsewhere, unless the reported empty input may well be correct."""
    if reported is not None and not needs_of(draft.name) and draft.kind not in _NEED_INPUT:
        return reported
    if draft.title and draft.title == draft.describer(draft.name).title:
        return None  # another tap made the title without an input, so it is no evidence of one
    input_of = draft.profile.input_of
    return (None if input_of is None else input_of(draft.call)) or input_by_clues(draft)


# Streamed arguments


def _has_streamed(draft: CallDraft, whole: Json | None) -> bool:
    """Whether arguments were streamed: the call was announced as a skeleton, and its tool could use them."""
    call = draft.call
    title = text(call.opening.get("title"))
    if call.opening.get("rawInput") or not call.streamed or title is None:
        return False
    if not is_bare(title, draft.name, call.opening.get("kind"), None):
        return False
    if whole is None:
        return _BEGIN(call.streamed) is not None
    needs = needs_of(draft.name)
    if not needs:
        return _RESULTS.isdisjoint(whole)
    return not whole or not whole.keys().isdisjoint(needs)


def _without_arguments(draft: CallDraft) -> CallDraft:
    """Remove arguments from the content. While a permission request is open, show its content instead."""
    call = draft.call
    is_asked = any(one.answered is one.withdrawn is None for one in call.questions)
    content = many(call.asked.get("content")) if is_asked else []
    return draft.with_repair("content", content=content)


def members_of(source: str) -> Json:
    """Return the complete members at the beginning of an object that may be cut off."""
    found: Json = {}
    source, at = source[:_SOME], 1
    while match := _MEMBER.match(source, at):
        try:
            found[_decode(match[1])] = _decode(match[2])
        except (msgspec.DecodeError, UnicodeEncodeError):
            break
        at = match.end()
    return found


# What the call shows

SMALL = 2000
"""Characters of a diff that is small enough to be sent again as the input."""

MOST_PATHS = 20

_ON_FILES = ("read", "edit", "delete", "move")
_PATH = re.compile(r"(?=\S*[/\\]|\S+\.[A-Za-z]\w{0,4}$)(?!\w+://)\S*[\w)\]]").fullmatch
_QUOTED = re.compile(r"(['\"`])(?P<quoted>(?:(?!\1).)+)\1").fullmatch
_SOUGHT = re.compile(r"(?i:search|grep|glob|find)(?: files)?: (?P<quoted>\S.*[^.…]|\S)").fullmatch
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]")
_RUNS = re.compile(
    r"(?:(?:run|running|execute|executing|ran|shell|bash|command|terminal)\b[: ]*(?:command\b[: ]*)?)?"
    r"(?P<tick>`+)(?P<quoted>[^`]+)(?P=tick)",
    re.IGNORECASE,
).fullmatch
_PROMPT = re.compile(r"(?:[^$`]{1,200}: )?\$ (?P<quoted>\S.*)", re.DOTALL).fullmatch
_FIRST_WORD = re.compile(
    r"(?:[A-Za-z_]\w*=\S*\s+)*(?P<word>[a-z0-9_.~/][\w.+/~@-]*)(?=[\s;|&<>]|$)"
).match
_SURELY_SHELL = re.compile(r"(?:^|\s)--?[A-Za-z]|[|;<>]|&&|\$[\w({]|\s[\w.~-]*/|=\S")

_PROGRAMS = listed("programs")


def input_by_clues(draft: CallDraft) -> Json | None:
    """Return what is known of an input by the call's diffs, locations and title; None if nothing is."""
    entry = entry_of(draft.name)
    kind = draft.kind if draft.kind not in (None, "other") else entry.kind.value if entry else None
    if kind in ("edit", None):
        for content in (draft.content, draft.call.asked.get("content"), draft.earlier_diffs):
            found = _by_diffs(many(content))
            if found:
                return found
    title = draft.title.strip()
    if kind in _ON_FILES:
        # `environment/read_text_file` is a server and its tool.
        is_tool = "_" in draft.name and title.endswith(f"/{draft.name}")
        is_path = kind != "move" and not draft.earlier_input and not is_tool and _PATH(title)
        return _by_places(draft.locations) or _one_argument("path", title if is_path else "")
    if is_bare(title, draft.name, draft.kind, None):
        return None
    if kind == "execute":
        return _one_argument("command", _shown_command(draft.call) or command_in(title))
    if kind == "search":
        match = _QUOTED(title) or _SOUGHT(title)
        return _one_argument("pattern", match["quoted"] if match else "")
    if kind == "fetch":
        found = _ADDRESS.findall(title)
        return _one_argument("url", found[0] if len(found) == 1 else "")
    return None


def _one_argument(key: str, value: str) -> Json | None:
    """Return an input of one argument; None if the argument is empty."""
    return {key: value} if value else None


def command_in(title: str) -> str:
    """Return the command that a title is, or shows between backticks; "" if it is a phrase."""
    title = without_notes(title)
    for match in (_RUNS(title), _PROMPT(title)):
        if match is not None:
            return match["quoted"].strip()
    first = _FIRST_WORD(title)
    if first is None or title[-1:] in "…":
        return ""
    word = first["word"].rpartition("/")[2]
    is_command = word in _PROGRAMS or word in program_names() or _SURELY_SHELL.search(title)
    return title if is_command else ""


def _shown_command(call: ObservedCall) -> str:
    """Return the command that an announcement shows after a prompt, before there can be any output."""
    match = _PROMPT(sole_text(many(call.opening.get("content"))) or "")
    return match["quoted"].strip() if match is not None else ""


def _by_places(locations: list[Any]) -> Json | None:
    return _of_paths(path for place in locations if (path := text(obj(place).get("path"))))


def _of_paths(paths: Iterator[str]) -> Json | None:
    found = list(dict.fromkeys(paths))[:MOST_PATHS]
    if len(found) > 1:
        return {"paths": found}
    return {"path": found[0]} if found else None


def _by_diffs(content: list[Any]) -> Json | None:
    """Return the paths of diffs; of a single small one, its texts as well."""
    reported = _of_paths(diff_paths({"content": content}))
    diffs = [item for item in map(obj, many(content)) if item.get("type") == "diff"]
    if reported is None or len(diffs) != 1:
        return reported
    old, new = text(diffs[0].get("oldText")) or "", text(diffs[0].get("newText"))
    if new is None or len(old) + len(new) > SMALL:
        return reported
    return {**reported, "old_text": old, "new_text": new} if old else {**reported, "content": new}
