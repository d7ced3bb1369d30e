"""Runs the official TypeScript SDK in node, if it is here. `sdk_typescript.mjs` does the work."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from .work import SESSION

_HERE = Path(__file__).parent
_SDK = _HERE / "node_modules" / "@agentclientprotocol" / "sdk" / "package.json"


class Run(NamedTuple):
    """What node gave back."""

    lines: list[bytes]
    micros: list[float]


def missing() -> str | None:
    """Say why the SDK can't be run, or None."""
    if shutil.which("node") is None:
        return "no node here"
    return None if _SDK.exists() else "its package is not installed (npm --prefix bench install)"


def run(updates: list[Any], *, rounds: int, seconds: float, pipe: int | None = None) -> Run:
    """Let node time the life that is made of these updates.

    With a pipe, node writes to it, and CPU time is told; else to a stream that drops everything.
    """
    work = {"sessionId": SESSION, "updates": updates, "rounds": rounds, "seconds": seconds}
    done = subprocess.run(
        ["node", str(_HERE / "sdk_typescript.mjs")],
        input=json.dumps({**work, "pipe": pipe is not None}),
        stdout=subprocess.PIPE if pipe is None else pipe,
        stderr=None if pipe is None else subprocess.PIPE,
        text=True,
        timeout=60 + 4 * rounds * seconds,
        check=True,
    )
    out = json.loads(done.stdout if pipe is None else done.stderr)
    return Run([line.encode() for line in out["lines"]], out["micros"])


def versions() -> str:
    """Say what is run."""
    sdk = json.loads(_SDK.read_text(encoding="utf-8"))["version"]
    node = subprocess.run(
        ["node", "--version"], stdout=subprocess.PIPE, text=True, timeout=20, check=True
    )
    return f"TypeScript SDK {sdk} on node {node.stdout.strip()}, in processes of its own"
