"""Claude Code, by its adapter: declares names, and tells the input member by member as it is written."""

from __future__ import annotations

from .profile import Profile

CLAUDE = Profile(
    agents=("@agentclientprotocol/claude", "@zed-industries/claude", "claude-agent", "claude-code")
)
