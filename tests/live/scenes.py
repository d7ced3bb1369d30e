"""What is played with a real agent: good turns, denials, cancels, and ends that nobody wanted.

Each scene is played to its end, whatever happens, and gives an `Outcome`. Tests judge it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from callsheet.report.errors import CallsheetError
from callsheet.testing import AgentClient
from tests.processes import new_token, with_token

from .stage import PATIENCE, Stage

SECRETS = {
    "github": "ghp_" + "Zk3v9QwLr7TnXb2YcH5dMf8sJg4pAe6uRi1o",
    "aws": "AKIA" + "Q7XW3ZLNV5RTY2KD",
    "password": "hunter2-" + "correct-horse",
}
"""Fake ones, put together here so that nothing takes them for real."""

END = 15.0
"""Seconds within which everything must be gone after an end."""


@dataclass
class Outcome:
    """How a scene went."""

    client: AgentClient | None = None
    stop: str = ""
    """Why the turn stopped, or what went wrong."""
    permissions: list[dict[str, Any]] = field(default_factory=list)
    """The requests for permission, as the client got them."""
    seconds: float = 0.0
    """How long it took from what was done to its effect."""
    left: list[str] = field(default_factory=list)
    """The processes that were left behind."""

    @property
    def calls(self) -> dict[str, dict[str, Any]]:
        """The calls as the client has seen them, each folded as the protocol says."""
        calls: dict[str, dict[str, Any]] = {}
        for update in self.client.updates if self.client is not None else ():
            if str(update["sessionUpdate"]).startswith("tool_call"):
                known = calls.setdefault(str(update["toolCallId"]), {})
                known |= {key: value for key, value in update.items() if value is not None}
        return calls

    @property
    def statuses(self) -> list[str]:
        """How the calls have ended, or not."""
        return [str(call.get("status")) for call in self.calls.values()]


Scene: TypeAlias = Callable[[Stage], Awaitable[Outcome]]


async def works(stage: Stage) -> Outcome:
    """Read, edit, and run two commands, one of which fails. Everything is allowed."""
    agent, file = stage.agent, _file(stage)
    good, bad = agent.shell("echo fine > made; cat made"), agent.shell("echo so far; exit 3")
    stage.plays(agent.read(file), agent.edit(file, "two", "zwei"), good, bad)
    return await _turn(stage, "allow_once")


async def together(stage: Stage) -> Outcome:
    """Read and run two commands in one step."""
    agent, file = stage.agent, _file(stage)
    stage.plays((agent.read(file), agent.shell("echo > first"), agent.shell("echo > second")))
    return await _turn(stage, "allow_once")


async def denied(stage: Stage) -> Outcome:
    """Be denied a command. What follows is up to the agent."""
    stage.plays(stage.agent.shell("echo no > made"))
    return await _turn(stage, "reject_once")


async def secrets(stage: Stage) -> Outcome:
    """Read secrets in a file, write them, and see them in a command and in its output."""
    agent, file = stage.agent, stage.project / "settings.ini"
    file.write_text("".join(f"{name}={secret}\n" for name, secret in SECRETS.items()))
    telling = agent.shell(f"export GITHUB_TOKEN={SECRETS['github']}; cat settings.ini")
    edit = agent.edit(file, f"aws={SECRETS['aws']}", f"aws={SECRETS['aws']} # mine")
    stage.plays(agent.read(file), telling, edit)
    return await _turn(stage, "allow_once")


async def cancelled(stage: Stage) -> Outcome:
    """Cancel while a command runs."""
    token = new_token()
    stage.plays(stage.agent.shell(f"echo so far; sleep {token}"))
    outcome = Outcome()
    async with stage.client(on_permission=_asked(outcome, "allow_once")) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        turn = asyncio.ensure_future(outcome.client.prompt(session, "Go on."))
        await _until(lambda: with_token(token), turn)
        began = time.monotonic()
        await outcome.client.cancel(session)
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
        await _until_gone(lambda: with_token(token))
    return await _over(stage, outcome)


async def cancelled_when_asked(stage: Stage) -> Outcome:
    """Cancel while permission is asked for."""
    stage.plays(stage.agent.shell("echo no > made"))
    outcome, asked = Outcome(), asyncio.Event()

    async def decide(params: dict[str, Any]) -> str | None:
        outcome.permissions.append(params)
        asked.set()
        await asyncio.sleep(PATIENCE)
        return None

    async with stage.client(on_permission=decide) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        turn = asyncio.ensure_future(outcome.client.prompt(session, "Go on."))
        await _until(asked.is_set, turn)
        began = time.monotonic()
        await outcome.client.cancel(session)
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
    return await _over(stage, outcome)


async def agent_killed(stage: Stage) -> Outcome:
    """Kill the agent while a command runs."""
    token = new_token()
    stage.plays(stage.agent.shell(f"echo so far; sleep {token}"))
    outcome = Outcome()
    async with stage.client(on_permission=_asked(outcome, "allow_once")) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        turn = asyncio.ensure_future(outcome.client.prompt(session, "Go on."))
        await _until(lambda: with_token(token), turn)
        stage.look()
        began = time.monotonic()
        stage.agent_process().kill()
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
    return await _over(stage, outcome)


async def client_closes(stage: Stage) -> Outcome:
    """Close the agent's input while a command runs, as an editor does that is closed."""
    token = new_token()
    stage.plays(stage.agent.shell(f"echo so far; sleep {token}"))
    outcome = Outcome()
    async with stage.client(on_permission=_asked(outcome, "allow_once")) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        turn = asyncio.ensure_future(outcome.client.prompt(session, "Go on."))
        await _until(lambda: with_token(token), turn)
        stage.look()
        began = time.monotonic()
        await outcome.client.close()
        outcome.seconds = time.monotonic() - began
        outcome.stop = await _stop(turn)
    return await _over(stage, outcome)


async def client_killed(stage: Stage) -> Outcome:
    """Kill the client while a command runs: nobody reads any more what the agent says."""
    token = new_token()
    stage.plays(stage.agent.shell(f"echo so far; sleep {token}"))
    command = (sys.executable, "-m", "tests.live.alone")
    root = Path(__file__).parents[2]
    client = await asyncio.create_subprocess_exec(*command, cwd=root, stdin=PIPE, stdout=PIPE)
    try:
        told = [stage.command, stage.environment, str(stage.project)]
        assert client.stdin is not None
        client.stdin.write(json.dumps(told).encode() + b"\n")
        assert client.stdout is not None
        stage.pid = int(await asyncio.wait_for(client.stdout.readline(), PATIENCE))
        await _until(lambda: with_token(token), asyncio.ensure_future(client.wait()))
        stage.look()
    finally:
        client.kill()
        await client.wait()
    return await _over(stage, Outcome())


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        works,
        together,
        denied,
        secrets,
        cancelled,
        cancelled_when_asked,
        agent_killed,
        client_closes,
        client_killed,
    )
}


def _file(stage: Stage) -> Path:
    file = stage.project / "numbers.txt"
    file.write_text("one\ntwo\nthree\n")
    return file


async def _turn(stage: Stage, answer: str) -> Outcome:
    outcome = Outcome()
    async with stage.client(on_permission=_asked(outcome, answer)) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        began = time.monotonic()
        outcome.stop = await outcome.client.prompt(session, "Go on.")
        outcome.seconds = time.monotonic() - began
    return await _over(stage, outcome)


def _asked(outcome: Outcome, answer: str) -> Callable[[dict[str, Any]], str]:
    def decide(params: dict[str, Any]) -> str:
        outcome.permissions.append(params)
        return answer

    return decide


async def _stop(turn: asyncio.Task[str]) -> str:
    try:
        return await turn
    except (CallsheetError, TimeoutError) as exc:
        return f"{type(exc).__name__}: {exc}"


async def _until(done: Callable[[], object], unless: asyncio.Task[Any]) -> None:
    """Wait for something to happen, unless something else happens that means that it won't."""
    until = time.monotonic() + PATIENCE
    while not done():
        assert not unless.done(), f"it is over too early: {unless}"
        assert time.monotonic() < until, "it never happened"
        await asyncio.sleep(0.02)


async def _until_gone(there: Callable[[], list[str]]) -> list[str]:
    """Wait for the end of processes. Gives those that are still there after all."""
    until = time.monotonic() + END
    while (left := there()) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return left


async def _over(stage: Stage, outcome: Outcome) -> Outcome:
    """See what is left behind, and end it."""
    began = time.monotonic()
    outcome.left = await _until_gone(stage.running)
    outcome.seconds = outcome.seconds or time.monotonic() - began
    stage.end()
    return outcome
