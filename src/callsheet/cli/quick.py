"""Starts the agent, or another one, recorded or behind a tap, without click, for which an editor would wait.

Only what is plain is done here: options that are known, with values that are right. Everything else, such as
`--help` or a mistake, is left to the command itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callsheet.tap.stdio import Between

_PLAIN: dict[str, tuple[str, ...]] = {
    "protocol": ("1", "2"),
    "permission": ("ask", "allow", "deny"),
}


def agent(arguments: Sequence[str]) -> int | None:
    """Run `callsheet agent`, and give the exit code; nothing if click should."""
    options = _options(arguments)
    if options is None:
        return None
    from callsheet.agent.startup import BadStart, Options, start

    from .keeping import keeping
    from .redaction import use_rules
    from .settings import BadSettings

    try:
        use_rules()
        options["history"] = keeping()
    except (BadStart, BadSettings):
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
    from callsheet.tap.recording import record as run

    return run(arguments[4:], arguments[2])


_FLAGS = ("--no-repair", "--no-redact", "--no-bound")
_VALUES = ("--history", "--record", "--report")


def tap(arguments: Sequence[str]) -> int | None:
    """Run `callsheet tap … -- COMMAND…`, and give the exit code; nothing if click should.

    The agent is started before all else, and starts while we read our own code.
    """
    found = _tap_options(arguments)
    if found is None:
        return None
    off, values, command = found
    from callsheet.tap.live import CannotStart, say, start

    try:
        between = start(command)
    except CannotStart as exc:
        say(str(exc))
        return exc.exit_code
    return _behind_a_tap(between, command, off, values)


def _behind_a_tap(
    between: Between, command: Sequence[str], off: Collection[str], values: dict[str, str]
) -> int | None:
    from callsheet.agent.startup import BadStart
    from callsheet.tap.context import TapSettings
    from callsheet.tap.live import say, tap

    from .keeping import keeping
    from .redaction import use_rules
    from .settings import BadSettings

    try:
        use_rules()
        history = keeping(values.get("--history"))
    except (BadStart, BadSettings):
        between.child.end()
        between.child.wait()
        return None
    settings = TapSettings(
        repair="--no-repair" not in off,
        redact="--no-redact" not in off,
        bound="--no-bound" not in off,
    )
    record = values.get("--record")
    code, account = tap(command, settings, history=history, record=record, between=between)
    if account is not None:
        from .taps import told

        told(account, values.get("--report"), say)
    return code


def _is_same(one: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(one) == os.path.realpath(other)


def _tap_options(
    arguments: Sequence[str],
) -> tuple[set[str], dict[str, str], list[str]] | None:
    """Read plain options up to `--`: flags, values, and the agent's command."""
    off: set[str] = set()
    values: dict[str, str] = {}
    rest = list(arguments[1:])
    while rest and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        if name in _FLAGS and not equals:
            off.add(name)
            continue
        if not equals:
            value = rest.pop(0) if rest else ""
        if name not in _VALUES or value in ("", "-", "--"):
            return None
        values[name] = value
    if "--record" in values and _is_same(values["--record"], values.get("--report")):
        return None
    return (off, values, rest[1:]) if len(rest) > 1 else None
