"""Identify the tool of a call, and what is certain about such a call.

Only exact names that `describe` knows count here. An ambiguous word ("create", "search") counts only
together with the arguments that such a tool needs.

The last part decides whether a title describes its call, or is no more than the name of a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from callsheet.describe import arguments as roles
from callsheet.describe.classify import KnownTool, known_tool
from callsheet.describe.paths import is_path
from callsheet.describe.shell.judge import text_of_command
from callsheet.describe.titles import squash, words_of
from callsheet.observe.model import Json, ObservedCall, many, obj, text
from callsheet.report.fields import ToolKind

IDENTIFIER = re.compile(r"[A-Za-z][\w.-]*(?:/[A-Za-z][\w.-]*)?").fullmatch
"""How programs write a name: in one word, perhaps below a server's."""

is_absolute = re.compile(r"/|[A-Za-z]:[\\/]|\\\\").match
"""Whether a path is absolute, on any system."""

has_steps = re.compile(r"(?:^|[\\/])\.{1,2}(?:[\\/]|$)").search
"""Whether a path has `.` or `..` in it."""

LONGEST_NAME = 80

PROGRAMS = frozenset((
    "cat", "cmd", "cp", "dir", "exec", "find", "ipython", "ls", "lsp", "mkdir", "mv", "patch",
    "process", "pwsh", "python", "rg", "ripgrep", "rm", "sh", "tree", "unlink", "zsh", "view",
))  # fmt: skip
"""Names of tools that are names of programs, too: as a title, they may be the whole command."""

_SURE_WORDS = frozenset(["bash", "glob", "grep", "shell", "powershell", "ripgrep", "rg"])
"""Single words that name one sort of tool, and nothing else."""

_EVIDENCE: dict[str, tuple[str, ...]] = {
    "read": (*roles.PATH, *roles.MANY_PATHS),
    "write": (*roles.PATH, *roles.MANY_PATHS),
    "edit": (*roles.PATH, *roles.MANY_PATHS, "edits"),
    "delete": (*roles.PATH, *roles.MANY_PATHS),
    "move": (*roles.SOURCE, *roles.PATH),
    "patch": ("patch", "patchText", "diff", "input", *roles.PATH),
    "search": roles.PATTERN,
    "find": roles.GLOB,
    "web_search": roles.QUERY,
    "fetch": roles.URL,
    "shell": roles.COMMAND,
    "foreign_shell": roles.COMMAND,
}
"""The arguments that tools can't do without, by what they do. Other tools are too various."""

_WITHOUT_OBJECT = (ToolKind.THINK, ToolKind.OTHER, ToolKind.SWITCH_MODE)

FILE_SHAPES = ("read", "write", "edit", "delete", "move")
FILE_KINDS = ("read", "edit", "delete", "move")

_FILE_KEYS = frozenset((
    "file_path", "filePath", "filepath", "filename", "file_name", "fileName", "absolute_path",
    "absolutePath", "target_file", "TargetFile", "AbsolutePath", "notebook_path",
    "notebookPath",
))  # fmt: skip
_PATH_KEYS = ("path", "file", "relative_path", "target_path")
_ELSEWHERE = frozenset(("owner", "repo", "repository", "project_id", "projectId", "bucket", "host"))


def tool_name(call: ObservedCall) -> str:
    """Return the tool's name: the one that was sent, or the bare name that the call was announced under."""
    if call.name:
        return call.name
    title = text(call.opening.get("title")) or ""
    return title if is_name_of_tool(title) else ""


def is_name_of_tool(title: str) -> bool:
    """Whether a text is the exact name of a well-known tool, and can't be a command."""
    return len(title) <= LONGEST_NAME and _is_name(title)


@lru_cache(maxsize=1024)
def _is_name(title: str) -> bool:
    if not IDENTIFIER(title) or "/" in title or "." in title:
        return False
    name = squash(title)
    entry = known_tool(name)
    if entry is None or name in PROGRAMS:
        return False
    # "Think" and "Plan" are complete titles.
    return entry.kind not in _WITHOUT_OBJECT or len(words_of(title)) > 1


def certain_kind(call: ObservedCall) -> str | None:
    """Return the kind that a call has, if that is beyond doubt."""
    entry = _entry(call)
    if entry is None or entry.shape not in _EVIDENCE or not _is_meant(call, entry):
        return None
    return entry.kind.value


def entry_kind(call: ObservedCall) -> str | None:
    """Return the kind of the well-known tool that a call is of, whatever kind the call has."""
    entry = _entry(call)
    return None if entry is None else entry.kind.value


def needs_input(call: ObservedCall) -> bool:
    """Whether the call is of a tool that can't do anything without arguments."""
    if call.fields.get("kind") in ("edit", "delete", "move"):
        return True
    return bool(needs_of(tool_name(call)))


def needs_of(name: str) -> tuple[str, ...]:
    """Return the arguments of which a well-known tool needs at least one; none if they are unknown."""
    entry = entry_of(name)
    return _EVIDENCE.get(entry.shape, ()) if entry is not None else ()


def works_on_a_file(call: ObservedCall) -> bool:
    """Whether it is certain that the call reads or changes a file with a path."""
    kind, entry = call.fields.get("kind"), _entry(call)
    is_known = entry is not None and entry.shape in FILE_SHAPES
    if kind not in FILE_KINDS and (kind not in (None, "other") or not is_known):
        return False
    if entry is not None and not is_known:
        return False
    fields = obj(call.fields.get("rawInput"))
    if not fields:
        # One that failed may have done so because it got no arguments.
        is_sure = is_known and call.status != "failed" and _is_plain(call)
        return is_sure or any(diff_paths(call.fields))
    is_meant = is_known and (kind in FILE_KINDS or _is_plain(call))
    return _ELSEWHERE.isdisjoint(fields) and _has_path(fields, is_meant)


def diff_paths(fields: Json) -> Iterator[str]:
    """Yield the paths of the diffs that a call shows, of v1 and of v2."""
    for item in many(fields.get("content")):
        details = obj(item)
        if details.get("type") == "diff":
            for change in (details, *map(obj, many(details.get("changes")))):
                path = text(change.get("path"))
                if path is not None:
                    yield path


def command_of(call: ObservedCall) -> str:
    """Return the command that a call runs: from its input; without an input, its title may be it."""
    raw: Any = call.fields.get("rawInput")
    fields = obj(raw)
    if fields:
        return text_of_command(roles.first(fields, roles.COMMAND))
    if raw:
        return text_of_command(raw)
    return text(call.fields.get("title")) or "" if call.fields.get("kind") == "execute" else ""


def entry_of(name: str) -> KnownTool | None:
    """Return what is known of a tool by its name, also where a server's name precedes it; else None."""
    return _entry_of(name) if name and len(name) <= LONGEST_NAME else None


@lru_cache(maxsize=1024)
def _entry_of(name: str) -> KnownTool | None:
    return known_tool(name.rpartition("/")[2])


def is_plain_name(name: str) -> bool:
    """Whether the name of a tool is unambiguous without its arguments."""
    name = name.rpartition("/")[2]
    return len(words_of(name)) > 1 or name.lower() in _SURE_WORDS


def _entry(call: ObservedCall) -> KnownTool | None:
    return entry_of(tool_name(call))


def _is_plain(call: ObservedCall) -> bool:
    return is_plain_name(tool_name(call))


def _is_meant(call: ObservedCall, entry: KnownTool) -> bool:
    if _is_plain(call):
        return True
    fields = obj(call.fields.get("rawInput"))
    if entry.shape in FILE_SHAPES:
        return _has_path(fields, False)
    return not fields.keys().isdisjoint(_EVIDENCE[entry.shape])


def _has_path(fields: Json, is_known: bool) -> bool:
    """Whether an input names a file. Of a tool that isn't known, only what can't be anything else counts."""
    if is_known:
        keys: tuple[str, ...] = (*roles.PATH, *roles.SOURCE)
        return any(_is_file(fields.get(key)) for key in keys if key in fields) or any(
            _is_file(path)
            for key in roles.MANY_PATHS
            if key in fields
            for path, _ in roles.texts_of(fields[key])
        )
    if any(_is_file(fields[key]) for key in _FILE_KEYS.intersection(fields)):
        return True
    named = (text(fields.get(key)) or "" for key in _PATH_KEYS)
    return any(
        "." in path.replace("\\", "/").rpartition("/")[2] and _is_file(path) for path in named
    )


def _is_file(value: object) -> bool:
    if type(value) is not str or not value.strip(". /\\"):
        return False
    return value[:5].lower() == "file:" or is_path(value)


NO_KIND = (None, "other")

_WORDS = frozenset(
    ("tool", "tool call", "tool use", "call", "function", "unknown", "unknown tool", "untitled")
)
"""Titles that would fit any call. Others are names of tools."""


def is_bare_title(title: str, call: ObservedCall | None) -> bool:
    """Whether a title is no more than the name of a tool. `call` is what is known besides, if anything."""
    title = title.strip()
    if fits_any_call(title):
        return True
    if call is None or not _may_be_name(title):
        return is_name_of_tool(title)
    fields = call.fields
    return is_only_name(
        title, call.name, tool_name(call), fields.get("kind"), fields.get("rawInput")
    )


def _may_be_name(title: str) -> bool:
    return len(title) <= LONGEST_NAME and IDENTIFIER(title) is not None


def fits_any_call(title: str) -> bool:
    """Whether a stripped title would fit any call."""
    return not title or title.lower() in _WORDS


def is_only_name(title: str, sent_name: str, name: str, kind: object, raw: object) -> bool:
    """Whether a stripped title is no more than the name of its call's tool.

    `sent_name` is the name that was sent, `name` the one that is known.
    """
    if not _may_be_name(title) or title in _arguments(raw):
        return False
    if is_name_of_tool(title):
        return True
    if title == sent_name:
        return kind not in ("think", "switch_mode")
    if name and title.rpartition("/")[2] == name.rpartition("/")[2]:
        return True
    # A name that only a program would write, of an unknown tool.
    return "_" in title and kind in NO_KIND


def _arguments(raw: Any) -> Iterator[Any]:
    """Yield a call's arguments: a title that is one of them does describe it."""
    if type(raw) is str:
        yield raw
    for value in obj(raw).values():
        yield value
        yield from many(value)
