"""Recordings of real agents: a few that are kept here, and all those that lie beside the project, if they do."""

from __future__ import annotations

from pathlib import Path

from tests.support import RECORDINGS, ROOT

HERE = RECORDINGS
OURS = sorted(HERE.rglob("*.jsonl"))
SHARED = sorted((ROOT.parent / "shared" / "recordings").glob("*-*/*.jsonl"))


def name_of(path: Path) -> str:
    """Return a name for a test of a recording."""
    return f"{path.parent.name}/{path.name}"
