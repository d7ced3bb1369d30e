"""Start the agent from the options of the command line: its handler, its tools, its language.

This is imported at every start of `callsheet agent`, so it imports little. A bad option raises `BadStart`
before anything is served.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from callsheet.report.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.agent.handler import Handler
    from callsheet.history.history import History
    from callsheet.tools.permissions import Mode
    from callsheet.tools.tool import Tool

PERMISSIONS = ("ask", "allow", "deny")

_HINT = """\
callsheet: this is an agent for editors. It speaks ACP, which is JSON, on stdin and stdout.
Let your editor start it: its settings take the command `callsheet agent`.
To run one tool by hand: callsheet call read path=README.md. To leave: Ctrl-D.
"""


class BadStart(CallsheetError):
    """The agent can't be started with these options. `option` is the wrong one."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option: str = option


class Options(NamedTuple):
    """The options of the command line."""

    protocol: Literal[1, 2] = 1
    permission: Mode = "ask"
    locale: str | None = None
    tools: str | None = None
    script: str | None = None
    handler: str | None = None
    history: Callable[[], History] | None = None


def start(options: Options) -> int:
    """Serve the client on stdin and stdout until it disconnects, and return the exit code.

    Raises:
        BadStart: An option can't be used.
    """
    _check_locale(options.locale)
    tools = _tools(options.tools)
    handler = _handler(options)
    from callsheet.agent.agent import AgentSettings, serve

    if os.isatty(0):
        sys.stderr.write(_HINT)
    settings = AgentSettings(
        handler=handler,
        protocol=options.protocol,
        permission=options.permission,
        locale=options.locale,
        tools=tools,
        history=options.history,
    )
    return serve(settings)


def palette() -> Handler:
    """Return the default handler."""
    from callsheet.agent.palette import Palette

    return Palette()


def _check_locale(locale: str | None) -> None:
    if locale is not None:
        from callsheet.describe.i18n import LOCALES, has_locale

        if not has_locale(locale):
            raise BadStart("--locale", f"{locale!r}: expected one of {', '.join(LOCALES)}")


def _tools(file: str | None) -> Sequence[Tool]:
    if file is None:
        return ()
    from callsheet.tools.tool import Registry
    from callsheet.tools.user_code import tools_in

    try:
        found = tools_in(file)
        Registry(found)
    except CallsheetError as exc:
        raise BadStart("--tools", str(exc)) from None
    return found


def _handler(options: Options) -> Callable[[], Handler]:
    if options.script is not None:
        if options.handler is not None:
            raise BadStart("--script", "not with --handler; an agent has one handler")
        from callsheet.agent.script import BadScript, read_script

        try:
            return read_script(options.script)
        except BadScript as exc:
            raise BadStart("--script", str(exc)) from None
    return palette if options.handler is None else _loaded(options.handler)


def _loaded(name: str) -> Callable[[], Handler]:
    """Return the class that `MODULE:CLASS` or `FILE.py:CLASS` names."""
    from callsheet.tools.user_code import BadFile, named_in

    try:
        found: Any = named_in(name)
    except BadFile as exc:
        raise BadStart("--handler", str(exc)) from None
    if not callable(found):
        raise BadStart("--handler", f"{name} is no class, but {type(found).__name__}")
    if isinstance(found, type) and not callable(getattr(found, "turn", None)):
        raise BadStart("--handler", f"{name} has no method turn(prompt, turn)")
    return cast("Callable[[], Handler]", found)
