"""Adapters: calls of the frameworks that agents are built with, reported to a session.

One module for each framework, which imports it when it is used: `acp_sdk`, `pydantic_ai`, `openai_agents`,
`langchain` and `langgraph`, `claude_agent_sdk`, `strands`, `google_adk`, `mcp_server`. `serve` makes an ACP
agent of an agent of any of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from callsheet.runtime.call import RuntimeCall

FRAMEWORKS = {
    "pydantic_ai": ("pydantic_ai", "PydanticHandler"),
    "agents.agent": ("openai_agents", "OpenAiHandler"),
    "langgraph": ("langgraph", "GraphHandler"),
    "claude_agent_sdk": ("claude_agent_sdk", "ClaudeHandler"),
    "strands": ("strands", "StrandsHandler"),
    "google.adk": ("google_adk", "AdkHandler"),
}
"""The adapters that can serve an agent, by the module of the agent's class or of one of its bases."""

_TAKE_AUDIO = ("pydantic_ai", "langgraph", "google_adk")


def running_call() -> RuntimeCall | None:
    """Return the call whose tool runs here, to report its progress or output; None where there is none.

    For tools whose framework has no progress of its own: `if call := running_call(): call.progress(1, 3)`.
    """
    from callsheet.adapters.reporter import running_call as found

    return found()


def serve(agent: Any, *, context_window: int | None = None, **settings: Any) -> int:
    """Serve an agent of a framework to an editor, as an ACP agent on stdin and stdout.

    Args:
        agent: The framework's agent.
        context_window: Tokens of the model's whole window. With it, the client is sent the usage.
        settings: Fields of `AgentSettings`. `prompt_capabilities=["image"]` lets the user show pictures to a
            model that takes them. Default: the agent's own name, and no built-in tools, because the
            framework runs its own.

    Returns:
        The exit code, when the client has disconnected.

    Raises:
        UnknownFramework: There is no adapter for it, or its version is too old.
        ValueError: The adapter can't pass on what `prompt_capabilities` has.
    """
    from callsheet.adapters.framework import require
    from callsheet.agent.agent import AgentSettings
    from callsheet.agent.agent import serve as serve_settings

    name, handler_type = adapter_of(agent)
    if "audio" in settings.get("prompt_capabilities", ()) and name not in _TAKE_AUDIO:
        raise ValueError(
            f'prompt_capabilities: {name} can\'t pass audio to its model, expected ["image"] or []'
        )
    adapter = import_module(f"callsheet.adapters.{name}")
    require(*adapter.VERSIONS)
    handler = getattr(adapter, handler_type).factory(agent, context_window)
    own = getattr(agent, "name", None)
    if "name" not in settings and isinstance(own, str) and own:
        settings["name"] = own
    settings.setdefault("builtin_tools", False)
    return serve_settings(AgentSettings(handler=handler, **settings))


def adapter_of(agent: Any) -> tuple[str, str]:
    """Return the names of the module that adapts an agent, and of the handler in it. Nothing is imported.

    Raises:
        UnknownFramework: There is none.
    """
    for kind in type(agent).__mro__:
        for module, adapter in FRAMEWORKS.items():
            if f"{kind.__module__}.".startswith(f"{module}."):
                return adapter
    from callsheet.adapters.framework import UnknownFramework

    kind = cast("type[Any]", type(agent))
    raise UnknownFramework(
        f"there is no adapter for {kind.__module__}.{kind.__qualname__}; there are ones for agents of "
        "pydantic-ai, openai-agents, langchain, claude-agent-sdk, strands-agents and google-adk"
    )
