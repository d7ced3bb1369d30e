"""Test the adapters, each with its framework in a virtual environment of its own: `make adapters`.

    python -m tests.adapters [NAME…]

Frameworks don't go together: one pins what another can't have. So each has a folder in `.venvs`, which stays.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from pathlib import Path

from tests.support import ROOT

VENVS = ROOT / ".venvs"
TOOLS = ["pytest>=8.2", "pytest-asyncio>=0.24", "hypothesis>=6.112"]
FRAMEWORKS = {
    "acp_sdk": ["agent-client-protocol>=0.12,<0.13"],
    "acp_sdk_1": ["agent-client-protocol>=1.0.0rc3,<2"],
    "pydantic_ai": ["pydantic-ai-slim>=2.0,<3"],
    "openai_agents": ["openai-agents>=0.22,<0.25"],
    "langchain": ["langchain>=1.0,<2", "langchain-core>=1.2", "langgraph>=1.0,<2"],
    "claude_agent_sdk": ["claude-agent-sdk>=0.2.120,<0.3"],
    "strands": ["strands-agents>=1.62,<2"],
    "google_adk": ["google-adk>=2.13,<3"],
    "mcp_server": ["mcp>=2.0,<3"],
    "mcp_server_1": ["mcp>=1.23,<2"],
    "mcp_server_4": ["fastmcp>=4,<5"],
}
"""The adapters, and what to install for each. One that ends with a number is for another version."""


EXAMPLES = [
    "tests/integration/test_docs.py::test_an_example_runs_alone_and_prints_what_the_page_says",
    "-k",
    "not docs or frameworks.md",
]
"""The examples of the page about frameworks: those of others are skipped."""


def main(names: list[str]) -> int:
    """Install and test, print how long each took and how large it is, and return the exit code."""
    if unknown := [name for name in names if name not in FRAMEWORKS]:
        print(f"{unknown[0]}: expected one of {', '.join(FRAMEWORKS)}", file=sys.stderr)
        return 2
    rows: list[str] = []
    failed = False
    for name in names or FRAMEWORKS:
        began = time.monotonic()
        python = install(name)
        ready = time.monotonic()
        tests = [f"tests/adapters/test_{name.rstrip('_14')}.py"]
        tests += [] if name == "mcp_server_1" else EXAMPLES  # the page has mcp 2
        code = subprocess.run([python, "-m", "pytest", *tests], cwd=ROOT, check=False).returncode
        failed = failed or code != 0
        size = sum(one.stat().st_size for one in (VENVS / name).rglob("*") if one.is_file())
        took = f"{ready - began:6.0f} s to install {time.monotonic() - ready:6.0f} s to test"
        rows.append(f"{name:<18} {'failed' if code else 'passed'} {took} {size / 1e6:6.0f} MB")
    print("\n".join(rows))
    return int(failed)


def install(name: str) -> Path:
    """Return the Python that has a framework, callsheet and pytest."""
    folder = VENVS / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = [*TOOLS, *FRAMEWORKS[name], "-e", str(ROOT)]
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *quiet, *wanted], check=True)
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
