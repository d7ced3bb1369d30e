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

from collections.abc import KeysView, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from callsheet.describe.arguments import Arguments, has_command, to_arguments
from callsheet.describe.shapes import DescriptionDraft, Shape, shape_of
from callsheet.describe.tables import read_table
from callsheet.describe.titles import cut, humanise, one_line, squash, words_of
from callsheet.report.errors import InvalidKind
from callsheet.report.fields import UNASKED, Kind, ToolKind, to_kind
from callsheet.report.patterns import lazy

Annotations: TypeAlias = Mapping[str, Any]

_OTHER = ToolKind.OTHER
_CHANGING = frozenset((ToolKind.DELETE, ToolKind.MOVE, ToolKind.EDIT, ToolKind.EXECUTE))

_SERVER = lazy(
    r"(?i:mcp)__(?P<s1>.+?)__(?P<t1>.+)|(?i:mcp)_(?P<s2>[^_]+)_(?P<t2>.+)"
    r"|(?!(?i:mcp)__)(?P<s3>[^_/].*?)__(?P<t3>.+)|(?P<s4>[^/\s]+)/(?P<t4>\S+)|(?P<s5>[^.:\s]+)[.:](?P<t5>\S+)"
)
_FAMILY = lazy(r"(?i:(fs|terminal))[_/.:-](.+)")
MAX_NAME = 256
"""Characters of a name that are considered: plans are cached by name."""

_LABEL_WIDTH = 60
_SERVER_WIDTH = 30

# The tables


class KnownTool(NamedTuple):
    """What a tool with a well-known name, or with a word in its name, is taken for."""

    kind: ToolKind
    shape: str
    """The name of its row in `shapes.toml`."""


class _ToolTables(NamedTuple):
    """The contents of `tools.toml`, indexed by squashed names and by words."""

    tools: dict[str, KnownTool]
    words: dict[str, dict[str, KnownTool]]
    """By how strong a word is: strong, weak, reader, last."""
    nouns: frozenset[str]
    wrappers: frozenset[str]


@cache
def _tables() -> _ToolTables:
    raw = read_table("tools.toml")
    words: dict[str, dict[str, KnownTool]] = {}
    for row in raw["word"]:
        tool = KnownTool(ToolKind(row["kind"]), row["shape"])
        words.setdefault(row["strength"], {}).update(dict.fromkeys(row["words"].split(), tool))
    return _ToolTables(
        {
            squash(name): KnownTool(ToolKind(row["kind"]), row["shape"])
            for row in raw["tool"]
            for name in row["names"].split()
        },
        words,
        frozenset(raw["nouns"]["names"].split()),
        frozenset(map(squash, raw["wrappers"]["names"].split())),
    )


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
        return KnownTool(ToolKind.SWITCH_MODE, "mode")
    table = _tables().words
    return (
        _most_harmful(words)
        or _leftmost(words, table["reader"])
        # A name without a verb in its place: `workflow_run`, `web`.
        or table["weak"].get(words[-1] if words else "")
        or _leftmost(words, table["last"])
    )


def _most_harmful(words: list[str]) -> KnownTool | None:
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
    calls_another: bool = False
    """Whether the arguments name the tool that is meant."""


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
    if plan.by_words and guessed in UNASKED and not _SQL.isdisjoint(arguments):
        guessed = ToolKind.EXECUTE  # SQL may do anything that the database allows
    if guessed is ToolKind.EXECUTE or (guessed is _OTHER and plan.is_own):
        pass  # a command changes nothing about these
    elif has_command(arguments):
        return ToolKind.EXECUTE
    if annotations is None:
        return guessed if plan.is_own or guessed not in UNASKED else _OTHER
    if annotations.get("destructiveHint") is True:
        return guessed if guessed in _CHANGING else ToolKind.DELETE
    return _OTHER if guessed in UNASKED else guessed  # tools with annotations are a server's


def reading_kind(name: str) -> ToolKind:
    """Return the kind of a tool that is known to change nothing: what its name implies, or `read`."""
    kind = plan_of(name[:MAX_NAME]).kind
    return kind if kind in UNASKED else ToolKind.READ


def called_tool(plan: ToolPlan, arguments: Arguments) -> tuple[ToolPlan, Arguments]:
    """Return the plan and the arguments of the MCP tool that a call's arguments name."""
    tool = arguments.get("tool_name") or arguments.get("tool")
    if not isinstance(tool, str) or not tool:
        return plan, arguments
    server = arguments.get("server_name") or arguments.get("server")
    server = server if isinstance(server, str) and server else "mcp"
    return plan_of(f"mcp__{server}__{tool}"[:MAX_NAME]), to_arguments(arguments.get("arguments"))


@lru_cache(maxsize=2048)
def plan_of(name: str) -> ToolPlan:
    """Return the plan for a name."""
    if not name.strip():
        return ToolPlan(_OTHER, shape_of("anything"), "")
    entry = known_tool(name)
    if entry is not None:
        return ToolPlan(entry.kind, shape_of(entry.shape), is_own=True)
    if squash(name) in _tables().wrappers:
        return ToolPlan(_OTHER, shape_of("anything"), "MCP", calls_another=True)
    if family := _FAMILY.fullmatch(name):
        return _family_plan(family[1].lower(), family[2])
    server, tool = _server_of(name)
    if server and not name.lower().startswith("mcp"):
        entry = known_tool(tool)
        if entry is not None:
            return ToolPlan(entry.kind, shape_of(entry.shape))
    return _words_plan(server, tool)


def _server_of(name: str) -> tuple[str, str]:
    match = _SERVER.fullmatch(name)
    if match is None:
        return "", name.removeprefix("mcp__")
    server, tool = (part for part in match.groups() if part is not None)
    return server, tool


def _family_plan(family: str, rest: str) -> ToolPlan:
    if family == "terminal":
        return ToolPlan(ToolKind.EXECUTE, shape_of(_terminal_shape(rest)))
    found = guess(rest) or KnownTool(_OTHER, "anything")
    return ToolPlan(found.kind, shape_of(found.shape), _label(rest))


def _terminal_shape(rest: str) -> str:
    verbs = {word.lower() for word in words_of(rest)}
    if verbs & {"output", "read", "wait", "get"}:
        return "output"
    if verbs & {"kill", "release", "stop", "close"}:
        return "stop"
    return "send" if verbs & {"write", "send", "input"} else "shell"


def _words_plan(server: str, tool: str) -> ToolPlan:
    label, shown = _label(tool), cut(one_line(server), _SERVER_WIDTH)
    found = guess(tool, ("git", *(word.lower() for word in words_of(server))))
    if found is None:
        return ToolPlan(_OTHER, shape_of("anything"), label, shown)
    return ToolPlan(found.kind, shape_of(found.shape), label, shown, by_words=True)


def _label(tool: str) -> str:
    return cut(humanise(tool) or one_line(tool), _LABEL_WIDTH)


_SQL = frozenset(("sql", "sql_query", "sqlQuery", "statement", "statements"))
