"""Start the agent from the options of the command line: its handler, its tools, its language.

This is imported at every start of `callsheet agent`, so it imports little. A bad option raises `BadStart`
before anything is served.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from callsheet.agent.handshake import Handshake
from callsheet.report.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.agent.handler import Handler
    from callsheet.history.history import History
    from callsheet.telemetry.budget import CostBudget
    from callsheet.tools.mcp import McpServer
    from callsheet.tools.permissions import Mode
    from callsheet.tools.session import ToolSettings
    from callsheet.tools.tool import Tool

T = TypeVar("T")

PERMISSIONS = ("ask", "allow", "deny")


_HINT = """\
callsheet: this is an agent for editors. It speaks ACP (JSON) on stdin and stdout.
Let your editor start it: {}.
{}To quit: Ctrl-D.
"""


class BadStart(CallsheetError):
    """The agent can't be started with these options. The message begins with the wrong one."""


def start(
    *,
    protocol: Literal[1, 2] = 1,
    permission: Mode = "ask",
    locale: str | None = None,
    tools: str | None = None,
    handler: str | None = None,
    mcp_servers: Sequence[McpServer] = (),
    private_hosts: tuple[str, ...] = (),
    history: Callable[[], History] | None = None,
    budget: CostBudget | None = None,
    handshake: Handshake | None = None,
    options: Sequence[str] = (),
) -> int:
    """Serve the client on stdin and stdout until it disconnects.

    Args:
        protocol: The newest version of ACP to speak.
        permission: What happens at first to calls that change or run something.
        locale: The language of titles and messages.
        tools: A Python file with more tools.
        handler: The handler's class, as `MODULE:CLASS` or `FILE.py:CLASS`. Default: the palette. If it has
            a `name`, `title` or `version`, these are the agent's.
        mcp_servers: MCP servers of every session.
        private_hosts: Hosts that `fetch` may reach though they are not public.
        history: Opens the history.
        budget: What each session may cost.
        handshake: What was read from the client and answered before.

    Returns:
        The exit code.

    Raises:
        BadStart: An option can't be used.
    """
    _read("--locale", _check_locale, locale)
    more_tools = _read("--tools", _tools, tools) or ()
    make = _read("--handler", _handler, handler) or palette
    from callsheet.agent.agent import AgentSettings, serve

    settings = AgentSettings(
        handler=make,
        protocol=protocol,
        permission=permission,
        locale=locale,
        tools=more_tools,
        tool_settings=_tool_settings(private_hosts) if private_hosts else None,
        mcp_servers=mcp_servers,
        history=history,
        budget=budget,
        # An agent is known by its own name, if its handler has one.
        **{
            key: value
            for key in ("name", "title", "version")
            if (value := getattr(make, key, None))
        },
    )
    setup = ["callsheet", "setup", "zed", *(("--", *options) if options else ())]
    return serve(settings, handshake, setup=setup)


def explain(setup: Sequence[str]) -> None:
    """Say how an editor starts this agent, to somebody who has started it on a terminal."""
    import shlex  # rarely needed

    here = ""
    if setup:
        how = f"{shlex.join(setup)} prints the settings"
        here = "To run one turn here: callsheet agent --prompt TEXT. "
    else:
        script = sys.argv[0]
        words = [os.path.abspath(word) if word == script else word for word in sys.orig_argv[1:]]  # noqa: PTH100
        how = f"its command, for the editor's settings, is {shlex.join([sys.executable, *words])}"
    sys.stderr.write(_HINT.format(how, here))


def _read(option: str, read: Callable[[str], T], given: str | None) -> T | None:
    """Return what an option means, if it is given, and name it in what is wrong with it."""
    try:
        return None if given is None else read(given)
    except CallsheetError as exc:
        raise BadStart(f"{option}: {exc}") from None


def palette() -> Handler:
    """Return the default handler."""
    from callsheet.agent.palette import Palette

    return Palette()


def _check_locale(locale: str) -> None:
    from callsheet.describe.i18n import LOCALES, has_locale

    if not has_locale(locale):
        raise BadStart(f"{locale!r}: expected one of {', '.join(LOCALES)}")


def _tools(file: str) -> Sequence[Tool]:
    from callsheet.tools.tool import Registry
    from callsheet.tools.user_code import tools_in

    found = tools_in(file)
    Registry(found)  # raises if two have one name
    return found


def _tool_settings(private_hosts: tuple[str, ...]) -> ToolSettings:
    from callsheet.tools.session import ToolSettings

    return ToolSettings(private_hosts=private_hosts)


def _handler(name: str) -> Callable[[], Handler]:
    """Return the class that `MODULE:CLASS` or `FILE.py:CLASS` names."""
    from callsheet.tools.user_code import named_in

    found: Any = named_in(name)
    if not callable(found):
        raise BadStart(f"{name} is no class, but {type(found).__name__}")
    if isinstance(found, type):
        _check_turn(name, found)
    return cast("Callable[[], Handler]", found)


def _check_turn(name: str, kind: type) -> None:
    """Raise `BadStart` unless a handler's class has the method that is called for each prompt."""
    import inspect

    expected = "expected `async def turn(self, prompt, turn)`"
    turn = inspect.getattr_static(kind, "turn", None)
    if turn is None:
        raise BadStart(f"{name} has no method turn; {expected}")
    if inspect.isfunction(turn):
        try:
            inspect.signature(turn).bind("self", "prompt", "turn")
        except TypeError as exc:
            raise BadStart(f"{name}.turn: {exc}; {expected}") from None
