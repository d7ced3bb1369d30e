"""The settings of an agent: who it is, what it offers, and where it stores what it did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from callsheet.acp.jsonrpc import ProtocolError
from callsheet.agent.handshake import CALLSHEET
from callsheet.report.json import JsonObject

if TYPE_CHECKING:
    from callsheet.agent.handler import Handler
    from callsheet.history.history import History
    from callsheet.runtime.sanitizer import GuardSettings
    from callsheet.telemetry.budget import CostBudget
    from callsheet.tools.mcp import McpServer
    from callsheet.tools.permissions import Mode
    from callsheet.tools.session import ToolSettings
    from callsheet.tools.tool import Tool


class AuthRequired(ProtocolError):
    """The client must authenticate first. Raise it where a handler is made that has no credentials."""

    code = -32000
    label = "Authentication required"


class AgentSettings(Struct, kw_only=True):
    """The settings of an agent.

    Attributes:
        handler: Makes the handler of a session; usually the handler's class.
        name: The agent's name, for programs.
        title: The agent's name, for people. Default: `name`.
        version: The agent's version.
        protocol: The newest version of ACP to speak.
        permission: What happens at first to calls that change or run something.
        locale: The language of titles and messages, such as `de`.
        tools: Tools in addition to the built-in ones.
        builtin_tools: Whether there are the built-in tools, or the names of those that there are.
        prompt_capabilities: What prompts may have beside text: `image`, `audio`. It reaches the handler.
        auth_methods: ACP's `authMethods`: `[{"id": "login", "name": "Log in"}]`. A handler's factory that
            raises `AuthRequired` makes the client show them.
        authenticate: Called with the id of the method that the user has chosen; may be async, and raise.
        tool_settings: The settings of all tools.
        mcp_servers: MCP servers of every session, in addition to those that the client names.
        guard: What is redacted, and how much is sent.
        budget: What each session may cost: `callsheet.telemetry.budget.parse_budget("2.00")`. The turn that
            spends it is cancelled. Handlers report costs by `Turn.report_usage`.
        history: Where sessions are stored, or a function that opens it. None stores nothing.
    """

    handler: Callable[[], Handler]
    name: str = CALLSHEET["name"]
    title: str = ""
    version: str = ""
    protocol: Literal[1, 2] = 1
    permission: Mode = "ask"
    locale: str | None = None
    tools: Sequence[Tool] = ()
    builtin_tools: bool | Sequence[str] = True
    prompt_capabilities: Sequence[Literal["image", "audio"]] = ()
    auth_methods: Sequence[JsonObject] = ()
    authenticate: Callable[[str], Awaitable[object] | object] | None = None
    tool_settings: ToolSettings | None = None
    mcp_servers: Sequence[McpServer] = ()
    guard: GuardSettings | None = None
    budget: CostBudget | None = None
    history: Callable[[], History] | History | None = None

    @property
    def info(self) -> JsonObject:
        """The agent's name, title and version, as ACP has them."""
        known = {"name": self.name, "title": self.name, "version": "0"}
        if self.name == CALLSHEET["name"]:
            known = CALLSHEET
        return known | {key: one for key in ("title", "version") if (one := getattr(self, key))}
