"""What tests share: where things are, and the clients, agents, stores and corpora that they use."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
RECORDINGS = TESTS / "recordings"
"""Recordings of real agents, and of faults, that are part of the project."""
