"""A real agent, on a machine of its own as far as it can see: a model, a home, a project, and who is in front.

`Front` says what stands between the client and the agent: `callsheet record`, `callsheet tap`, or both.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from callsheet.testing import AgentClient
from tests.live.agents.agent import Agent
from tests.live.dialects.steps import Step, Use
from tests.live.model import Model
from tests.support.processes import with_token

CALLSHEET = (sys.executable, "-m", "callsheet")
PATIENCE = 60.0
TOKEN = "CALLSHEET_LIVE"
"""The variable by which everything that an agent starts is known."""


@dataclass(frozen=True)
class Front:
    """What stands in front of an agent, and where it records: what the client sees, what the agent says."""

    name: str
    seen: str
    """The recording of what the client sees."""
    said: str
    """The recording of what the agent says."""
    command: Callable[[Path], list[str]]
    """Takes a directory for recordings, gives what the agent's command is put behind."""


def _record(directory: Path) -> list[str]:
    return [*CALLSHEET, "record", "-o", str(directory / "raw.jsonl"), "--"]


def _tap(directory: Path) -> list[str]:
    return [*CALLSHEET, "tap", "--record", str(directory / "tap.jsonl"), "--"]


RECORD = Front("record", "raw.jsonl", "raw.jsonl", _record)
TAP = Front("tap", "tap.jsonl", "tap.jsonl", _tap)
BOTH = Front("tap-record", "tap.jsonl", "raw.jsonl", lambda place: [*_tap(place), *_record(place)])


@dataclass
class Stage:
    """Where one test plays."""

    agent: Agent
    front: Front
    root: Path
    token: str
    model: Model = field(default_factory=Model)
    pid: int = 0
    """What was started by the client."""
    known: set[psutil.Process] = field(default_factory=set)

    @property
    def project(self) -> Path:
        """The directory that the agent works in."""
        return self.root / "project"

    @property
    def recordings(self) -> Path:
        """Where recordings go."""
        return self.root / "recordings"

    @property
    def seen(self) -> Path:
        """The recording of what the client saw."""
        return self.recordings / self.front.seen

    @property
    def said(self) -> Path:
        """The recording of what the agent said."""
        return self.recordings / self.front.said

    @property
    def command(self) -> list[str]:
        """What a client is to start."""
        return [*self.front.command(self.recordings), *self.agent.command]

    @property
    def environment(self) -> dict[str, str]:
        """All that the agent knows of the machine. Whoever it asks but the model is refused at once."""
        home, url = self.root / "home", self.model.url
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url)
        proxies["NO_PROXY"] = "127.0.0.1,localhost"
        kept = ("PATH", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "TMPDIR", "LANG")
        return {
            **{key: os.environ[key] for key in kept if key in os.environ},
            **proxies,
            **{key.lower(): value for key, value in proxies.items()},
            **self.agent.prepare(home, url),
            "HOME": str(home),
            "SHELL": "/bin/bash",
            "CALLSHEET_HISTORY": "off",
            TOKEN: self.token,
        }

    def plays(self, *uses: Use | tuple[Use, ...] | Step) -> None:
        """Say what the model does, one step after the other."""
        self.model.plays(*map(_step, uses))

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[AgentClient]:
        """Have a client of the agent."""
        options = {"timeout": PATIENCE, "cwd": str(self.project)} | options
        async with AgentClient(self.command, env=self.environment, **options) as client:
            assert client.pid is not None
            self.pid = client.pid
            yield client
            if self.agent.stays:
                with suppress(ProcessLookupError):
                    os.kill(client.pid, signal.SIGTERM)

    # What runs

    def look(self) -> None:
        """Remember what runs now: some give up their name, their parent and their environment."""
        top = psutil.Process(self.pid)
        self.known |= {top, *top.children(recursive=True)}

    def agent_process(self) -> psutil.Process:
        """Return the agent itself: the first that is not ours."""
        process = psutil.Process(self.pid)
        while process.cmdline()[:3] == list(CALLSHEET):
            # The watchdog is a fork, and has no children.
            process = max(process.children(), key=lambda one: len(one.children(recursive=True)))
        return process

    def running(self) -> list[str]:
        """Return what still runs of all that was started."""
        known = [f"{one.pid} {one.cmdline()}" for one in self.known if _runs(one)]
        return known or with_token(f"{TOKEN}={self.token}")

    def end(self) -> None:
        """Kill what still runs."""
        for pid in [int(line.split()[0]) for line in self.running()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _step(use: Use | tuple[Use, ...] | Step) -> Step:
    if isinstance(use, Step):
        return use
    return Step(use if isinstance(use, tuple) else (use,))


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def staged(agent: Agent, front: Front, root: Path, token: str) -> Iterator[Stage]:
    """Set the stage, with a model that answers."""
    stage = Stage(agent, front, root, token)
    for name in ("home", "project", "recordings"):
        (root / name).mkdir()
    with stage.model.serving():
        yield stage
    with suppress(
        OSError
    ):  # Codex leaves one, empty, wherever it may write: what is below would be a repository
        Path(tempfile.gettempdir(), ".git").rmdir()
