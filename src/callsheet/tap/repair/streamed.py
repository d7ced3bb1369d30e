"""Arguments that an agent streams in a call's content: recognised, read, and no longer shown as output.

They are taken for arguments only if the call was announced as a skeleton (no input, a bare title), and if the
tool, where it is well known, could use them. See `callsheet.check.recording.streaming`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from callsheet.check.recording.moments import Json
from callsheet.check.recording.streaming import sole_text
from callsheet.check.recording.tools import needs_of
from callsheet.check.recording.values import many, obj, text
from callsheet.describe import arguments as roles

from .known import Draft, Known
from .wording import is_bare

MOST_CHUNKS = 512
"""Pieces of content that are looked at for arguments."""

_SOME = 4096
"""Characters in which members are looked for that are whole already."""

_MEMBER = re.compile(
    r'\s*("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)\s*[,}]', re.S
)
_FIRST_KEY = re.compile(r'\{\s*(?:"([\w.:$-]*)|$|\})').match

_ARGUMENTS = frozenset(
    (
        *(*roles.PATH, *roles.DIRECTORY, *roles.MANY_PATHS, *roles.SOURCE, *roles.DESTINATION),
        *(*roles.PATTERN, *roles.QUERY, *roles.GLOB, *roles.URL, *roles.COMMAND),
        *roles.WORKING_DIRECTORY,
        *("content", "contents", "description", "explanation", "reason", "justification", "prompt"),
        *("old_string", "oldString", "old_str", "old_text", "new_string", "newString", "new_str"),
        *(
            "new_text",
            "edit",
            "edits",
            "patch",
            "diff",
            "input",
            "timeout",
            "offset",
            "limit",
            "env",
        ),
        *("args", "view_range", "replace_all", "replaceAll", "instruction", "name", "task", "code"),
    )
)
"""Names that arguments of well-known tools have."""

_OUTCOME = frozenset(
    ("success", "ok", "isError", "is_error", "error", "stdout", "stderr", "exit_code", "exitCode")
)
"""What a tool's answer has, and no arguments do."""

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
        """Give the members that are whole already."""
        return self.whole if self.whole is not None else members_of(self.text)


def streamed_in(known: Known, draft: Draft) -> Streamed | None:
    """Give the arguments that were streamed in a call's content, if there were any."""
    if known.call.opening.get("rawInput") or not _is_skeleton(known, draft):
        return None
    found = _in_chunks(known) if known.call.chunks else _replaced(known)
    return found if found is not None and _fits(found, draft.name) else None


def object_in(said: str) -> Json | None:
    """Give the object that a text is in JSON; None if it is none."""
    if said[:1] != "{" or said.rstrip()[-1:] != "}":
        return None
    try:
        whole: Any = _decode(said)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return obj(whole) if type(whole) is dict else None


def members_of(said: str) -> Json:
    """Give the first members of an object of which only the beginning is there. Cut ones don't count."""
    found: Json = {}
    said, at = said[:_SOME], 1
    while match := _MEMBER.match(said, at):
        try:
            found[_decode(match[1])] = _decode(match[2])
        except (msgspec.DecodeError, UnicodeEncodeError):
            break
        at = match.end()
    return found


def _replaced(known: Known) -> Streamed | None:
    """Give what was streamed by content that is replaced as a whole each time: ACP v1."""
    said = known.call.streamed
    if not said:
        return None
    content = many(known.call.fields.get("content"))
    is_shown = sole_text(content) == said
    return Streamed(said, object_in(said), [] if is_shown else content, is_shown)


def _in_chunks(known: Known) -> Streamed | None:
    """Give what was streamed by pieces that are appended: ACP v2. The output comes after them."""
    content = many(known.call.fields.get("content"))
    said, pieces = "", 0
    for item in content[:MOST_CHUNKS]:
        piece = text(obj(obj(item).get("content")).get("text"))
        if piece is None or (not pieces and piece.lstrip()[:1] != "{"):
            break
        said, pieces = (said or "") + piece, pieces + 1
        if piece.rstrip()[-1:] == "}" and (whole := object_in(said.lstrip())) is not None:
            return Streamed(said.lstrip(), whole, content[pieces:], True)
    return Streamed(said.lstrip(), None, content[pieces:], True) if pieces else None


def _is_skeleton(known: Known, draft: Draft) -> bool:
    """Whether the call was announced by no more than its name."""
    told = known.call.opening
    title = text(told.get("title"))
    return title is not None and is_bare(title, draft.name, told.get("kind"), None)


def _fits(found: Streamed, name: str) -> bool:
    """Whether a tool could be given this."""
    needs = needs_of(name)
    if found.whole is not None:
        if not needs:
            return _OUTCOME.isdisjoint(found.whole)
        return not found.whole or not found.whole.keys().isdisjoint(needs)
    begin = _FIRST_KEY(found.text)
    if begin is None:
        return False
    key = begin[1] or ""
    is_cut = begin.end() == len(found.text)
    return is_cut or not needs or key in _ARGUMENTS
