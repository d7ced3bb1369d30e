"""Agents as processes: started, spoken to by lines of JSON, and ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import sdk_typescript

_HERE = Path(__file__).parent
CALLSHEET = (sys.executable, "-m", "callsheet", "agent")
TAPPED = (sys.executable, "-m", "callsheet", "tap", "--no-notice", "--", *CALLSHEET)
OUR_READER = (sys.executable, str(_HERE / "our_agent.py"))
SDK_READER = (sys.executable, str(_HERE / "sdk_agent.py"))
NODE = ("node", str(_HERE / "node_agent.mjs"))
INITIALIZE: dict[str, Any] = {"protocolVersion": 1, "clientCapabilities": {}}


class AgentProcess:
    """One agent, and a client that asks one thing at a time."""

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        # Bytecode is kept, as it is wherever a package is installed.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.updates: int = 0
        self._id: int = 0
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=environment,
        )

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask, and give the answer; what is told meanwhile is counted."""
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        head = f'{{"jsonrpc":"2.0","id":{self._id},'.encode()
        for line in self._process.stdout:
            if line.startswith(head):
                return json.loads(line)["result"]
            self.updates += b'"toolCallId"' in line
        raise RuntimeError(f"the agent ended without an answer to {method}")

    def cpu(self) -> float:
        """Return the seconds of CPU time that the process has used; 0 where that is not told."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Close its pipes. One that does not end by itself is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        self._process.stdout.close()


@contextmanager
def agent(command: Sequence[str], cwd: Path) -> Generator[AgentProcess]:
    """Start an agent, and end it."""
    process = AgentProcess(command, cwd)
    try:
        yield process
    finally:
        process.end()


def missing() -> list[str]:
    """Say which peers are left out, and why."""
    out: list[str] = []
    if find_spec("acp") is None:
        out.append("the Python SDK is left out: agent-client-protocol is not installed")
    if (why := sdk_typescript.missing()) is not None:
        out.append(f"the TypeScript SDK is left out: {why}")
    return out
