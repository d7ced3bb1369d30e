"""The kind of a call, decided step by step. The first step that knows, decides.

1. declared: the tool declares its kind.
2. input: whatever receives a shell command is `execute`, whatever the command runs.
3. annotations: an MCP server's hint that its tool destroys something.
4. name: the exact name of a well-known tool.
5. family: `fs_*`, `terminal_*`.
6. words: the words of the name, the destructive first.

Names and words are in `tools.toml`, which is loaded with the first call that is described.

Clients approve some kinds without asking (`UNASKED`). Only a declaration, or the exact name of a
tool of the agent's own, leads to one of those. What a server claims of its tool, and words that
anybody can put into a name, lead to `other` instead: a guess must never loosen an approval.

What depends on the name alone is a `ToolPlan`, made once for each name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, KeysView, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files as package_files
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from callsheet.describe.arguments import Arguments, has_command, to_arguments
from callsheet.describe.paths import PathContext
from callsheet.describe.shapes import (
    DescriptionDraft,
    Shape,
    files,
    fixed,
    processes,
    search,
    tasks,
)
from callsheet.describe.titles import cut, humanise, one_line, squash, words_of
from callsheet.report.errors import InvalidKind
from callsheet.report.fields import UNASKED, Kind, ToolKind, to_kind

Annotations: TypeAlias = Mapping[str, Any]

_OTHER = ToolKind.OTHER
_CHANGING = frozenset((ToolKind.DELETE, ToolKind.MOVE, ToolKind.EDIT, ToolKind.EXECUTE))

_SERVER = re.compile(
    r"(?i:mcp)__(?P<s1>.+?)__(?P<t1>.+)|(?i:mcp)_(?P<s2>[^_]+)_(?P<t2>.+)"
    r"|(?!(?i:mcp)__)(?P<s3>[^_/].*?)__(?P<t3>.+)|(?P<s4>[^/\s]+)/(?P<t4>\S+)|(?P<s5>[^.:\s]+)[.:](?P<t5>\S+)"
)
_FAMILY = re.compile(r"(?i:(fs|terminal))[_/.:-](.+)")
MAX_NAME = 256
"""Characters of a name that are considered: plans are cached by name."""

_LABEL_WIDTH = 60
_SERVER_WIDTH = 30

# The tables


class KnownTool(NamedTuple):
    """What a tool with a well-known name, or with a word in its name, is taken for."""

    kind: ToolKind
    shape: Shape
    word: str = ""
    """The word that it was guessed by."""


class _ToolTables(NamedTuple):
    """The contents of `tools.toml`, indexed by squashed names and by words."""

    tools: dict[str, KnownTool]
    words: dict[str, dict[str, KnownTool]]
    """By how strong a word is: strong, weak, reader, last."""
    nouns: frozenset[str]
    wrappers: frozenset[str]


@cache
def _tables() -> _ToolTables:
    text = package_files("callsheet.describe").joinpath("tools.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    words: dict[str, dict[str, KnownTool]] = {}
    for row in raw["word"]:
        kind, shape = ToolKind(row["kind"]), _shape(row["shape"])
        by_word = words.setdefault(row["strength"], {})
        by_word.update({word: KnownTool(kind, shape, word) for word in row["words"].split()})
    return _ToolTables(
        {
            squash(name): KnownTool(ToolKind(row["kind"]), _shape(row["shape"]))
            for row in raw["tool"]
            for name in row["names"].split()
        },
        words,
        frozenset(raw["nouns"]["names"].split()),
        frozenset(map(squash, raw["wrappers"]["names"].split())),
    )


_SHAPES = {"tasks": tasks, "files": files, "processes": processes, "search": search}


def _shape(name: str) -> Shape:
    module, _, function = name.partition(".")
    return getattr(_SHAPES[module], function)


def known_tool(name: str) -> KnownTool | None:
    """Return what a tool of exactly this name is, in well-known agents; None if it is unknown."""
    return _tables().tools.get(squash(name))


def known_names() -> KeysView[str]:
    """Return the names of all well-known tools, squashed."""
    return _tables().tools.keys()


_CONJUNCTIONS = frozenset(("and", "or", "then", "http"))
_MODE_VERBS = frozenset(("switch", "set", "enter", "exit", "leave", "change"))
_BY_HARM = (ToolKind.DELETE, ToolKind.MOVE, ToolKind.EDIT, ToolKind.EXECUTE)


def guess(name: str, prefixes: Sequence[str] = ("git",)) -> KnownTool | None:
    """Guess what a tool is from the words of its name; None if they mean nothing.

    Args:
        name: The tool's name, without its server.
        prefixes: First words that mean nothing.
    """
    words = [word.lower() for word in words_of(name)]
    while len(words) > 1 and words[0] in prefixes:
        words.pop(0)
    if "mode" in words and words[0] in _MODE_VERBS:
        return KnownTool(ToolKind.SWITCH_MODE, tasks.mode, "mode")
    readers = _tables().words["reader"]
    return _changing(words) or _leftmost(words, readers) or _fallback(words)


def _changing(words: list[str]) -> KnownTool | None:
    """Find the most destructive verb."""
    if "_".join(words) in _tables().nouns:
        return None
    strong, weak = _tables().words["strong"], _tables().words["weak"]
    found = [strong[word] for word in words if word in strong]
    for place, word in enumerate(words):
        if word in weak and (place == 0 or words[place - 1] in _CONJUNCTIONS):
            found.append(weak[word])
    return min(found, key=lambda one: _BY_HARM.index(one.kind)) if found else None


def _leftmost(words: list[str], table: dict[str, KnownTool]) -> KnownTool | None:
    return next((table[word] for word in words if word in table), None)


def _fallback(words: list[str]) -> KnownTool | None:
    """Guess from a name without a verb in its place: `workflow_run`, `web`."""
    weak = _tables().words["weak"]
    if words and words[-1] in weak:
        return weak[words[-1]]
    return _leftmost(words, _tables().words["last"])


# The steps


class ToolPlan(Struct, frozen=True):
    """What follows from a tool's name: the kind, how to describe a call, and the tool's label."""

    kind: ToolKind
    shape: Shape
    label: str | None = None
    """The name in readable form. None: the shape's own words describe more."""
    server: str = ""
    by_words: bool = False
    """Whether the words of the name decided the kind."""
    is_own: bool = False
    """Whether it is the exact name of a tool that well-known agents have themselves."""


def declared_kind(kind: object) -> Kind | None:
    """Return a declared kind. One that is none is as good as not declared."""
    if kind is None or type(kind) is ToolKind:
        return kind
    try:
        return to_kind(kind)
    except InvalidKind:
        return None


def inferred_kind(
    plan: ToolPlan,
    draft: DescriptionDraft,
    arguments: Arguments,
    annotations: Annotations | None = None,
) -> ToolKind:
    """Return the kind of a call whose tool declares none."""
    guessed = draft.kind or plan.kind
    is_known = guessed is ToolKind.EXECUTE or (guessed is _OTHER and plan.is_own)
    if not is_known and has_command(arguments):
        return ToolKind.EXECUTE
    if annotations and annotations.get("destructiveHint") is True:
        return guessed if guessed in _CHANGING else ToolKind.DELETE
    if guessed in UNASKED and (annotations is not None or not plan.is_own):
        return _OTHER  # tools with annotations are a server's
    return guessed


def reading_kind(name: str) -> ToolKind:
    """Return the kind of a tool that is known to change nothing: what its name implies, or `read`."""
    kind = plan_of(name[:MAX_NAME]).kind
    return kind if kind in UNASKED else ToolKind.READ


def look_up(name: object, raw_input: object) -> tuple[ToolPlan, Arguments]:
    """Return the plan for a tool, and its arguments. A tool that calls a tool of MCP stands for that one."""
    plan = plan_of(name[:MAX_NAME] if isinstance(name, str) else "")
    arguments = to_arguments(raw_input)
    if plan.shape is calls_another:
        tool = arguments.get("tool_name") or arguments.get("tool")
        if isinstance(tool, str) and tool:
            server = arguments.get("server_name") or arguments.get("server") or "mcp"
            meant = plan_of(f"mcp__{server}__{tool}"[:MAX_NAME])
            return meant, to_arguments(arguments.get("arguments"))
    return plan, arguments


@lru_cache(maxsize=2048)
def plan_of(name: str) -> ToolPlan:
    """Return the plan for a name."""
    if not name.strip():
        return ToolPlan(_OTHER, tasks.anything, "")
    entry = known_tool(name)
    if entry is not None:
        return ToolPlan(entry.kind, entry.shape, is_own=True)
    if squash(name) in _tables().wrappers:
        return ToolPlan(_OTHER, calls_another, "MCP")
    if family := _FAMILY.fullmatch(name):
        return _family_plan(family[1].lower(), family[2])
    server, tool = _server_of(name)
    if server and not name.lower().startswith("mcp"):
        entry = known_tool(tool)
        if entry is not None:
            return ToolPlan(entry.kind, entry.shape)
    return _words_plan(server, tool)


def _server_of(name: str) -> tuple[str, str]:
    match = _SERVER.fullmatch(name)
    if match is None:
        return "", name.removeprefix("mcp__")
    server, tool = (part for part in match.groups() if part is not None)
    return server, tool


def _family_plan(family: str, rest: str) -> ToolPlan:
    if family == "terminal":
        return ToolPlan(ToolKind.EXECUTE, _terminal_shape(rest))
    found = guess(rest) or KnownTool(_OTHER, tasks.anything)
    return ToolPlan(found.kind, found.shape, _label(rest))


def _terminal_shape(rest: str) -> Shape:
    verbs = {word.lower() for word in words_of(rest)}
    if verbs & {"output", "read", "wait", "get"}:
        return processes.output
    if verbs & {"kill", "release", "stop", "close"}:
        return processes.stop
    return processes.send if verbs & {"write", "send", "input"} else processes.shell


def _words_plan(server: str, tool: str) -> ToolPlan:
    label, shown = _label(tool), cut(one_line(server), _SERVER_WIDTH)
    prefixes = ("git", *(word.lower() for word in words_of(server)))
    found = guess(tool, prefixes)
    if found is None:
        return ToolPlan(_OTHER, tasks.anything, label, shown)
    shape = _remote(found.shape) if server else found.shape
    shape = _unless_sql(shape) if found.kind in UNASKED else shape
    return ToolPlan(found.kind, shape, label, shown, by_words=True)


def _label(tool: str) -> str:
    return cut(humanise(tool) or one_line(tool), _LABEL_WIDTH)


_SQL = frozenset(("sql", "sql_query", "sqlQuery", "statement", "statements"))


def _unless_sql(shape: Shape) -> Shape:
    """Return a shape that is `execute` if the input is SQL: it may do anything that the database allows."""

    def careful(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        draft = shape(arguments, workspace)
        return draft if _SQL.isdisjoint(arguments) else replace(draft, kind=ToolKind.EXECUTE)

    return careful


_ELSEWHERE = frozenset(
    ("owner", "repo", "repository", "project_id", "projectId", "bucket", "repo_id")
)


def _remote(shape: Shape) -> Callable[[Arguments, PathContext], DescriptionDraft]:
    """Return a shape without locations if the paths are in a repository or a bucket, not on this disk."""

    def remote(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        draft = shape(arguments, workspace)
        if draft.locations and not _ELSEWHERE.isdisjoint(arguments):
            return replace(draft, locations=())
        return draft

    return remote


calls_another = fixed("")
"""The shape of a call whose arguments don't name the tool that is meant."""
