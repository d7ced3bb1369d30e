"""Agents that are known by name, one file each. Whoever is not here gets the general treatment."""

from __future__ import annotations

from .claude import CLAUDE
from .codex import CODEX
from .fast_agent import FAST_AGENT
from .gemini import GEMINI
from .goose import GOOSE
from .kimi import KIMI
from .opencode import OPENCODE
from .profile import Profile

__all__ = ["PROFILES", "UNKNOWN", "Profile", "profile_of"]

UNKNOWN = Profile()

PROFILES: tuple[Profile, ...] = (CLAUDE, CODEX, FAST_AGENT, GEMINI, GOOSE, KIMI, OPENCODE)


def profile_of(agent: str) -> Profile:
    """Give the profile of the agent that calls itself so."""
    name = agent.strip().lower()
    for profile in PROFILES:
        if name.startswith(profile.agents):
            return profile
    return UNKNOWN
