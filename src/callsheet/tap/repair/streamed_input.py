"""Recognise arguments that an agent streams in a call's content, so that they are not shown as output.

A text counts as arguments in one of three cases: the call was announced as a skeleton (no input, a bare
title) and its tool, where it is well known, could use them; the title is made of them; or other content
replaced them, which does not happen to output. `callsheet.observe.evidence` stores the text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from callsheet.describe import arguments as roles
from callsheet.observe.evidence import object_in, sole_text
from callsheet.observe.model import Json, many, text
from callsheet.observe.tool_identity import needs_of
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.names import is_bare, listed, mentions

_SOME = 4096
"""Characters in which members are looked for that are whole already."""

_MEMBER = re.compile(
    r'\s*("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)\s*[,}]', re.S
)
_CUT = re.compile(r'\{\s*"(\w+)"\s*:\s*"([^"\\]+)').fullmatch
_FIRST_KEY = re.compile(r'\{\s*(?:"([\w.:$-]*)|$|\})').match

_ARGUMENTS = listed("arguments").union(
    *(roles.PATH, roles.DIRECTORY, roles.MANY_PATHS, roles.SOURCE, roles.DESTINATION),
    *(roles.PATTERN, roles.QUERY, roles.GLOB, roles.URL, roles.COMMAND, roles.WORKING_DIRECTORY),
)
"""Names that arguments of well-known tools have."""

_NEEDS: dict[str, tuple[str, ...]] = {
    "execute": roles.COMMAND,
    "read": roles.PATH,
    "edit": roles.PATH,
    "delete": roles.PATH,
    "search": roles.PATTERN,
    "fetch": roles.URL,
}
"""What tools of a kind work on."""

_RESULTS = listed("results")

_decode = msgspec.json.Decoder().decode


class Streamed(msgspec.Struct, frozen=True):
    """Arguments as far as they were streamed. `whole` is None while the object is not closed."""

    text: str
    whole: Json | None
    rest: list[Any]
    """The content without them."""
    is_shown: bool
    """Whether the content still shows them."""

    def parts(self) -> Json:
        """Return the members that are whole already."""
        return self.whole if self.whole is not None else members_of(self.text)


def streamed_in(draft: CallDraft) -> Streamed | None:
    """Return the arguments that were streamed in a call's content, if there were any."""
    call = draft.call
    if call.opening.get("rawInput") or not call.streamed:
        return None
    content = many(call.fields.get("content"))
    is_shown = sole_text(content) == call.streamed
    whole = object_in(call.streamed)
    found = Streamed(call.streamed, whole, [] if is_shown else content, is_shown)
    return found if _is_meant(found, draft) else None


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


def _is_meant(found: Streamed, draft: CallDraft) -> bool:
    """Whether a text that looks like arguments is the call's input, by the module's three cases."""
    if _is_skeleton(draft):
        return _fits(found, draft.name)
    if _is_in_title(found, draft):
        return True
    return bool(found.whole) and not found.is_shown and _ARGUMENTS.issuperset(found.whole or ())


def _is_skeleton(draft: CallDraft) -> bool:
    """Whether the call was announced by no more than its name."""
    first_update = draft.call.opening
    title = text(first_update.get("title"))
    return title is not None and is_bare(title, draft.name, first_update.get("kind"), None)


def _is_in_title(found: Streamed, draft: CallDraft) -> bool:
    """Whether the title is made of the argument that tools of this kind work on."""
    wanted = needs_of(draft.name) or _NEEDS.get(draft.kind or "", ())
    parts = found.parts() or _cut_member(found.text)
    return any(
        len(source) > 1 and mentions(draft.title, source)
        for key in wanted
        if key in parts and (source := text(parts[key])) is not None
    )


def _cut_member(source: str) -> Json:
    """Return the first member of an object that ends within it, as far as it came."""
    match = _CUT(source)
    return {match[1]: match[2]} if match is not None else {}


def _fits(found: Streamed, name: str) -> bool:
    """Whether a tool could have these arguments."""
    needs = needs_of(name)
    if found.whole is not None:
        if not needs:
            return _RESULTS.isdisjoint(found.whole)
        return not found.whole or not found.whole.keys().isdisjoint(needs)
    begin = _FIRST_KEY(found.text)
    if begin is None:
        return False
    key = begin[1] or ""
    is_cut = begin.end() == len(found.text)
    return is_cut or not needs or key in _ARGUMENTS
