"""Agents that are known by name, one file each. Whoever is not here gets the general treatment."""

from __future__ import annotations

from .profile import Profile

__all__ = ["PROFILES", "UNKNOWN", "Profile", "profile_of"]

UNKNOWN = Profile()

PROFILES: tuple[Profile, ...] = ()


def profile_of(agent: str) -> Profile:
    """Give the profile of the agent that calls itself so."""
    name = agent.strip().lower()
    for profile in PROFILES:
        if name.startswith(profile.agents):
            return profile
    return UNKNOWN
