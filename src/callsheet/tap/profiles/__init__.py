"""Agents that are known by name, one file each. Whoever is not here gets the general treatment."""

from __future__ import annotations

from . import claude, codex, fast_agent, gemini, goose, hermes, kimi, opencode
from .profile import Profile

__all__ = ["PROFILES", "UNKNOWN", "Profile", "profile_of"]

UNKNOWN = Profile()

PROFILES: tuple[Profile, ...] = (
    claude.PROFILE,
    codex.PROFILE,
    fast_agent.PROFILE,
    gemini.PROFILE,
    goose.PROFILE,
    hermes.PROFILE,
    kimi.PROFILE,
    opencode.PROFILE,
)


def profile_of(agent: str) -> Profile:
    """Return the profile of the agent that calls itself so."""
    name = agent.strip().lower()
    for profile in PROFILES:
        if name.startswith(profile.agents):
            return profile
    return UNKNOWN
