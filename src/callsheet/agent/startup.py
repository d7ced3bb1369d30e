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
    from callsheet.tools.permissions import Mode
    from callsheet.tools.tool import Tool

T = TypeVar("T")

PERMISSIONS = ("ask", "allow", "deny")

_HINT = """\
callsheet: this is an agent for editors. It speaks ACP, which is JSON, on stdin and stdout.
Let your editor start it: its settings take the command `callsheet agent`.
To run one tool by hand: callsheet call read path=README.md. To leave: Ctrl-D.
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
    history: Callable[[], History] | None = None,
    handshake: Handshake | None = None,
) -> int:
    """Serve the client on stdin and stdout until it disconnects.

    Args:
        protocol: The newest version of ACP to speak.
        permission: What happens at first to calls that change or run something.
        locale: The language of titles and messages.
        tools: A Python file with more tools.
        handler: The handler's class, as `MODULE:CLASS` or `FILE.py:CLASS`. Default: the palette.
        history: Opens the history.
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

    if os.isatty(0):
        sys.stderr.write(_HINT)
    settings = AgentSettings(
        handler=make,
        protocol=protocol,
        permission=permission,
        locale=locale,
        tools=more_tools,
        history=history,
    )
    return serve(settings, handshake)


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


def _handler(name: str) -> Callable[[], Handler]:
    """Return the class that `MODULE:CLASS` or `FILE.py:CLASS` names."""
    from callsheet.tools.user_code import named_in

    found: Any = named_in(name)
    if not callable(found):
        raise BadStart(f"{name} is no class, but {type(found).__name__}")
    if isinstance(found, type) and not callable(getattr(found, "turn", None)):
        raise BadStart(f"{name} has no method turn(prompt, turn)")
    return cast("Callable[[], Handler]", found)
