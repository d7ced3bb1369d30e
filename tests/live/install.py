"""Installs the agents that live tests run: `python -m tests.live.install [NAME…]`.

Each goes into a directory of its own below `tests/live/.agents`; one that is there is left alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.live.agents import AGENTS
from tests.live.agents.agent import Agent

PYTHONS = ("python3.13", "python3.12", "python3.14")
"""Those that the agents in Python run on."""


class CannotInstall(Exception):
    """The machine lacks what an agent needs."""


def install(agent: Agent) -> None:
    """Install an agent, or leave nothing behind."""
    place = agent.directory
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        (_from_pypi if agent.registry == "pypi" else _from_npm)(agent, place)
        (place / ".done").touch()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _from_pypi(agent: Agent, place: Path) -> None:
    _run(_python(), "-m", "venv", str(place))
    pip = str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"
    _run(*pip, "install", f"{agent.package}=={agent.version}")


def _from_npm(agent: Agent, place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("there is no npm here")
    wanted = {"private": True, "dependencies": {agent.package: agent.version}}
    (place / "package.json").write_text(json.dumps(wanted))
    _run(npm, "--prefix", str(place), "install", "--no-audit", "--no-fund", "--loglevel=error")


def _python() -> str:
    """Return a Python that is new enough, also one that pyenv has and does not show."""
    if sys.version_info >= (3, 12):
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for name in PYTHONS:
        hidden = [str(one / "bin") for one in sorted(root.glob(f"{name[6:]}.*"))]
        for path in (None, os.pathsep.join(hidden)):
            found = shutil.which(name, path=path)
            if found is not None and _runs(found):
                return found
    raise CannotInstall("it needs Python 3.12 or newer")


def _runs(python: str) -> bool:
    """Return whether it is one: pyenv has commands for those, too, that are not chosen."""
    return not subprocess.run([python, "-V"], check=False, capture_output=True).returncode


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, timeout=900)
    if done.returncode:
        raise CannotInstall(done.stderr.strip()[-2000:])


def main(names: list[str]) -> int:
    """Install those that are named, or all. Gives how many can't be."""
    failed = 0
    for name in names or AGENTS:
        agent = AGENTS[name]
        began = time.monotonic()
        if agent.is_installed:
            continue
        try:
            install(agent)
        except (CannotInstall, OSError, subprocess.TimeoutExpired) as exc:
            failed += 1
            print(f"{agent.package} {agent.version}: {exc}", file=sys.stderr)
        else:
            took = time.monotonic() - began
            print(f"{agent.package} {agent.version}: installed in {took:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
