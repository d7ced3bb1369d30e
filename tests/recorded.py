"""Recordings of real agents: a few that are kept here, and all those that lie beside the project, if they do."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent / "recordings"
OURS = sorted(HERE.rglob("*.jsonl"))
SHARED = sorted((Path(__file__).parents[2] / "shared" / "recordings").glob("*-*/*.jsonl"))


def name_of(path: Path) -> str:
    """Give a name for a test of a recording."""
    return f"{path.parent.name}/{path.name}"
