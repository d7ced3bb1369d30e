"""Starts the agent, or records another, without click, which an editor would have to wait for.

Only what is plain is done here: options that are known, with values that are right. Everything else, such as
`--help` or a mistake, is left to the command itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PLAIN: dict[str, tuple[str, ...]] = {
    "protocol": ("1", "2"),
    "permission": ("ask", "allow", "deny"),
}


def agent(arguments: Sequence[str]) -> int | None:
    """Run `callsheet agent`, and give the exit code; nothing if click should."""
    options = _options(arguments)
    if options is None:
        return None
    from callsheet.agent.start import BadStart, Options, start

    from .keeping import keeping

    try:
        options["history"] = keeping()
    except BadStart:
        return None
    return start(Options(**options))


def _options(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Read plain options: `--protocol 2` or `--protocol=2`."""
    if arguments[:1] != ["agent"]:
        return None
    found: dict[str, Any] = {}
    rest = list(arguments[1:])
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals:
            value = rest.pop(0) if rest else ""
        key = name.removeprefix("--")
        if f"--{key}" != name or value not in _PLAIN.get(key, ()):
            return None
        found[key] = int(value) if key == "protocol" else value
    return found


def record(arguments: Sequence[str]) -> int | None:
    """Run `callsheet record -o FILE -- COMMAND…`, and give the exit code; nothing if click should."""
    plain = len(arguments) > 4 and (arguments[1], arguments[3]) == ("-o", "--")
    if not plain or arguments[2] == "-":
        return None
    from callsheet.tap.record import record as run

    return run(arguments[4:], arguments[2])
