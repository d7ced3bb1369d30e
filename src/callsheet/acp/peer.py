"""The other end: what one client understands, as far as it matters to tool calls.

`Phrases` are the few texts that a view adds. They are English here; the session replaces them by those
of the user's language.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from callsheet.report.errors import InvalidValue
from callsheet.report.fields import Kind
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object

ParentKey = Literal["parentToolCallId", "claudeCode"]

_NESTING: dict[str, tuple[ParentKey, ...]] = {
    "tidewave": ("claudeCode",),
    "agent-of-empires": ("claudeCode",),
    "aoe": ("claudeCode",),
    "screenplay": ("claudeCode",),
    "fast-agent": ("parentToolCallId",),
}
"""Clients that are known to nest calls, and the key of `_meta` in which they look for the parent."""

_MARKDOWN_TITLES = ("zed",)
"""Clients that are known to render titles as Markdown."""


class Peer(Struct, frozen=True, kw_only=True):
    """What a client understands.

    - `version`: of ACP, 1 or 2.
    - `terminals`: how a v1 client is shown an agent's live terminal, out of `_meta` or as text.
    - `owns_terminals`: it runs terminals itself, and shows those by their ids.
    - `progress`: where it shows how far a call is. `meta` is for clients that read ours.
    - `titles`: how it renders titles. Clients that render Markdown receive them escaped; those that may do
      `either` receive them with Markdown's characters between backticks.
    - `cancels`: it may cancel single calls (`tool_call/cancel`); each call announces that to v2 clients.
    - `parent_keys`: the vendors' keys besides ours in which it looks for a call's parent.
    """

    version: Literal[1, 2] = 1
    terminals: Literal["meta", "text"] = "text"
    owns_terminals: bool = False
    progress: Literal["title", "content", "meta"] = "title"
    titles: Literal["markdown", "plain", "either"] = "plain"
    cancels: bool = False
    parent_keys: tuple[ParentKey, ...] = ()

    def __post_init__(self) -> None:
        if self.version not in (1, 2):
            raise InvalidValue(f"version {self.version!r}: the versions of ACP are 1 and 2")
        if self.terminals not in ("meta", "text"):
            raise InvalidValue(f"terminals {self.terminals!r}: expected meta or text")
        if self.titles not in ("markdown", "plain", "either"):
            raise InvalidValue(f"titles {self.titles!r}: expected markdown, plain or either")
        if self.progress not in ("title", "content", "meta"):
            raise InvalidValue(f"progress {self.progress!r}: expected title, content or meta")


def peer_of(initialize: JsonValue, version: Literal[1, 2] = 1) -> Peer:
    """Read the params of a client's `initialize`; `version` is the one that was agreed on."""
    params = _object(initialize)
    capabilities = _object(params.get("clientCapabilities"))
    extensions = _object(capabilities.get("_meta"))
    name = _object(params.get("clientInfo")).get("name")
    name = name.lower() if isinstance(name, str) else ""
    keys = _NESTING.get(name, ())
    if extensions.get("subagent-transcript") is True and "claudeCode" not in keys:
        keys = (*keys, "claudeCode")
    return Peer(
        version=version,
        terminals="meta" if extensions.get("terminal_output") is True else "text",
        owns_terminals=version == 1 and capabilities.get("terminal") is True,
        titles="markdown" if name in _MARKDOWN_TITLES else "either",
        parent_keys=keys,
    )


def _object(value: JsonValue) -> JsonObject:
    return value if is_object(value) else EMPTY


class Phrases:
    """English, and titles as they are."""

    def left_out(self, count: int, lines: int | None = None) -> str:
        """Return how much of an output is not shown, as text."""
        text = f"{count} byte{'' if count == 1 else 's'} left out"
        if lines is not None:
            text += f" · {lines} line{'' if lines == 1 else 's'} left out"
        return text

    def escaped(self, title: str, kind: Kind, rendering: Literal["markdown", "either"]) -> str:
        """Return a title for a client that renders it as Markdown, or may do so."""
        del kind, rendering
        return title


ENGLISH = Phrases()
