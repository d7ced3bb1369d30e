"""The real agents that live tests run: one file each, pinned to the versions that were recorded."""

from __future__ import annotations

from tests.live.agents import claude, codex, gemini, kimi, opencode
from tests.live.agents.agent import Agent

AGENTS: dict[str, Agent] = {
    one.name: one for one in (kimi.AGENT, opencode.AGENT, codex.AGENT, gemini.AGENT, claude.AGENT)
}
