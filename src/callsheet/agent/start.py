"""Starts the agent as the command line asks for it: its mind, its tools, its language."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from callsheet.report.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.tools.permits import Mode
    from callsheet.tools.tool import Tool

    from .brain import Brain

PERMISSIONS = ("ask", "allow", "deny")

_HINT = """\
callsheet: this is an agent for editors. It speaks ACP, which is JSON, on stdin and stdout.
Let your editor start it: its settings take the command `callsheet agent`.
To run one tool by hand: callsheet call read path=README.md. To leave: Ctrl-D.
"""


class BadStart(CallsheetError):
    """The agent can't be started like this. `option` is what was wrong."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option: str = option


class Options(NamedTuple):
    """What the command line asks for."""

    protocol: Literal[1, 2] = 1
    permission: Mode = "ask"
    locale: str | None = None
    tools: str | None = None
    script: str | None = None
    brain: str | None = None
    history: Callable[[], History] | None = None


def start(options: Options) -> int:
    """Serve the client at stdin and stdout until it goes. Gives the exit code."""
    _check_locale(options.locale)
    tools = _tools(options.tools)
    brain = _brain(options)
    from .agent import AgentSettings
    from .serve import serve

    if os.isatty(0):
        sys.stderr.write(_HINT)
    settings = AgentSettings(
        brain=brain,
        protocol=options.protocol,
        permission=options.permission,
        locale=options.locale,
        tools=tools,
        history=options.history,
    )
    return serve(settings)


def palette() -> Brain:
    """Return the default mind."""
    from .brains.palette import Palette

    return Palette()


def _check_locale(locale: str | None) -> None:
    if locale is not None:
        from callsheet.describe.locales import LOCALES, has_locale

        if not has_locale(locale):
            raise BadStart("--locale", f"{locale!r}: expected one of {', '.join(LOCALES)}")


def _tools(file: str | None) -> Sequence[Tool]:
    if file is None:
        return ()
    from callsheet.tools.loading import tools_in
    from callsheet.tools.registry import Registry

    try:
        found = tools_in(file)
        Registry(found)
    except CallsheetError as exc:
        raise BadStart("--tools", str(exc)) from None
    return found


def _brain(options: Options) -> Callable[[], Brain]:
    if options.script is not None:
        if options.brain is not None:
            raise BadStart("--script", "not with --brain; an agent has one mind")
        from .brains.script import BadScript, read_script

        try:
            return read_script(options.script)
        except BadScript as exc:
            raise BadStart("--script", str(exc)) from None
    return palette if options.brain is None else _loaded(options.brain)


def _loaded(name: str) -> Callable[[], Brain]:
    """Return the class that `MODULE:CLASS` or `FILE.py:CLASS` names."""
    from callsheet.tools.loading import BadFile, named_in

    try:
        found: Any = named_in(name)
    except BadFile as exc:
        raise BadStart("--brain", str(exc)) from None
    if not callable(found):
        raise BadStart("--brain", f"{name} is no class, but {type(found).__name__}")
    if isinstance(found, type) and not callable(getattr(found, "turn", None)):
        raise BadStart("--brain", f"{name} has no method turn(prompt, turn)")
    return cast("Callable[[], Brain]", found)
