"""What can be known of an input that is never told: from diffs, locations, and titles that are it.

Keys are those that clients look for: `command`, `path`, `pattern`, `url`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from callsheet.describe.programs import RULES
from callsheet.observe.evidence import sole_text
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.tool_identity import diff_paths, entry_of
from callsheet.tap.profiles.words import without_notes

from .known import Draft, Known
from .wording import is_bare

SMALL = 2000
"""Characters of a diff that are not too many to be told twice."""

MOST_PATHS = 20

_ON_FILES = ("read", "edit", "delete", "move")
_PATH = re.compile(r"(?=\S*[/\\]|\S+\.[A-Za-z]\w{0,4}$)(?!\w+://)\S*[\w)\]]").fullmatch
_QUOTED = re.compile(r"(['\"`])(?P<said>(?:(?!\1).)+)\1").fullmatch
_SOUGHT = re.compile(r"(?i:search|grep|glob|find)(?: files)?: (?P<said>\S.*[^.…]|\S)").fullmatch
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]")
_RUNS = re.compile(
    r"(?:(?:run|running|execute|executing|ran|shell|bash|command|terminal)\b[: ]*(?:command\b[: ]*)?)?"
    r"(?P<tick>`+)(?P<said>[^`]+)(?P=tick)",
    re.IGNORECASE,
).fullmatch
_PROMPT = re.compile(r"(?:[^$`]{1,200}: )?\$ (?P<said>\S.*)", re.DOTALL).fullmatch
_FIRST_WORD = re.compile(
    r"(?:[A-Za-z_]\w*=\S*\s+)*(?P<word>[a-z0-9_.~/][\w.+/~@-]*)(?=[\s;|&<>]|$)"
).match
_SURELY_SHELL = re.compile(r"(?:^|\s)--?[A-Za-z]|[|;<>]|&&|\$[\w({]|\s[\w.~-]*/|=\S")

_MORE = (
    "apt apt-get brew bash bun bundle cargo chmod chown cmake composer cp deno docker dotnet flask gcc go "
    "gradle gunzip gzip helm java javac kill kubectl ln make mkdir mv mvn mypy nix node npm npx patch perl "
    "php pip pip3 pkill pnpm poetry pwsh py pytest python python3 rake rm rmdir rsync ruby ruff rustc "
    "rustup scp sh ssh sudo swift tar terraform touch tsc uv uvx vim xcodebuild yarn zip zsh"
)
_PROGRAMS = RULES.keys() | set(_MORE.split())
"""Words that a command line begins with. What begins with another may be words for people."""


def input_by_clues(known: Known, draft: Draft) -> Json | None:
    """Return what is known of an input, by what the call shows and says otherwise."""
    entry = entry_of(draft.name)
    kind = draft.kind if draft.kind not in (None, "other") else entry.kind.value if entry else None
    if kind in ("edit", None):
        for content in (draft.content, known.asked.get("content"), known.diffs):
            found = _by_diffs(many(content))
            if found:
                return found
    title = draft.title.strip()
    if kind in _ON_FILES:
        is_path = kind != "move" and not known.earlier and _PATH(title)
        return _by_places(draft.locations) or as_given("path", title if is_path else "")
    if is_bare(title, draft.name, draft.kind, None):
        return None
    if kind == "execute":
        return as_given("command", _shown_command(known) or command_in(title))
    if kind == "search":
        match = _QUOTED(title) or _SOUGHT(title)
        return as_given("pattern", match["said"] if match else "")
    if kind == "fetch":
        found = _ADDRESS.findall(title)
        return as_given("url", found[0] if len(found) == 1 else "")
    return None


def as_given(key: str, value: str) -> Json | None:
    """Return an input of one argument, if it says anything."""
    return {key: value} if value else None


def command_in(title: str) -> str:
    """Return the command that a title is, or shows between backticks; "" if it is words for people."""
    title = without_notes(title)
    for match in (_RUNS(title), _PROMPT(title)):
        if match is not None:
            return match["said"].strip()
    first = _FIRST_WORD(title)
    if first is None or title[-1:] in "…":
        return ""
    is_command = first["word"].rpartition("/")[2] in _PROGRAMS or _SURELY_SHELL.search(title)
    return title if is_command else ""


def _shown_command(known: Known) -> str:
    """Return the command that a call shows after a prompt as it is announced, before it can have any output."""
    match = _PROMPT(sole_text(many(known.call.opening.get("content"))) or "")
    return match["said"].strip() if match is not None else ""


def _by_places(locations: list[Any]) -> Json | None:
    return _of_paths(path for place in locations if (path := text(obj(place).get("path"))))


def _of_paths(paths: Iterator[str]) -> Json | None:
    found = list(dict.fromkeys(paths))[:MOST_PATHS]
    if len(found) > 1:
        return {"paths": found}
    return {"path": found[0]} if found else None


def _by_diffs(content: list[Any]) -> Json | None:
    """Return the paths of diffs; of a single small one, its texts as well."""
    told = _of_paths(diff_paths({"content": content}))
    diffs = [item for item in map(obj, many(content)) if item.get("type") == "diff"]
    if told is None or len(diffs) != 1:
        return told
    old, new = text(diffs[0].get("oldText")) or "", text(diffs[0].get("newText"))
    if new is None or len(old) + len(new) > SMALL:
        return told
    return {**told, "old_text": old, "new_text": new} if old else {**told, "content": new}
