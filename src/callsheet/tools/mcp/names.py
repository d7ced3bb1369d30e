"""What the tools of MCP servers are called: `mcp__SERVER__TOOL`, in letters that every model takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TypeAlias

LONGEST = 64
"""Characters that a tool's name may have, for the strictest of the models' makers."""

Pair: TypeAlias = tuple[str, str]
"""A server's name and a tool's, as the server gives it."""

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def plain_name(server: str, tool: str) -> str:
    """Return the name of a tool, if nobody else has it."""
    head = re.sub(r"__+", "_", _STRANGE.sub("_", server)).strip("_") or "server"
    name = f"mcp__{head}__{_STRANGE.sub('_', tool)}"
    return name if len(name) <= LONGEST else _marked(name, (server, tool))


def name_tools(pairs: Iterable[Pair], known: Mapping[Pair, str]) -> dict[Pair, str]:
    """Return every tool a name of its own.

    Tools that have one keep it. Those whose name needs no change come first, so that the ones that
    only look like them after the change are the ones that are marked.
    """
    wanted = list(dict.fromkeys(pairs))
    names = {pair: known[pair] for pair in wanted if pair in known}
    taken = set(names.values())
    new = [pair for pair in wanted if pair not in names]
    for pair in sorted(new, key=lambda pair: plain_name(*pair) != f"mcp__{pair[0]}__{pair[1]}"):
        name = plain_name(*pair)
        if name in taken:
            name = _marked(name, pair)
        names[pair] = name
        taken.add(name)
    return {pair: names[pair] for pair in wanted}


def _marked(name: str, pair: Pair) -> str:
    """Shorten a name and mark it by what it stands for, so that it is the same every time."""
    raw = "\0".join(pair).encode("utf-8", "surrogatepass")
    return f"{name[: LONGEST - 9]}_{sha256(raw).hexdigest()[:8]}"
