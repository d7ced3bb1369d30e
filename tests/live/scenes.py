"""What is played with a real agent: good turns, denials, cancels, and ends that nobody wanted.

Each scene is played to its end, whatever happens, and gives an `Outcome`. Tests judge it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from callsheet.report.errors import CallsheetError
from callsheet.testing import AgentClient
from tests.live.abilities import CAPABILITIES, Abilities
from tests.live.dialects.steps import PROMPT
from tests.live.model import OVER
from tests.live.stage import PATIENCE, Stage
from tests.support.processes import new_token, with_token

SECRETS = {
    "github": "ghp_" + "Zk3v9QwLr7TnXb2YcH5dMf8sJg4pAe6uRi1o",
    "aws": "AKIA" + "Q7XW3ZLNV5RTY2KD",
    "password": "hunter2-" + "correct-horse",
}
"""Fake ones, put together here so that nothing takes them for real."""

LINES = 300
"""Lines that a long command writes."""

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
    before: Outcome | None = None
    """How it went before, where something is done again."""

    @property
    def calls(self) -> dict[str, dict[str, Any]]:
        """The calls as the client has seen them, each folded as the protocol says."""
        updates = self.client.updates if self.client is not None else []
        return fold(update for update in updates if "toolCallId" in update)

    @property
    def statuses(self) -> list[str]:
        """How the calls have ended, or not."""
        return [str(call.get("status")) for call in self.calls.values()]


def fold(updates: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return calls by their ids, each as its updates make it."""
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        known = calls.setdefault(str(update["toolCallId"]), {})
        known |= {key: value for key, value in update.items() if value is not None}
    return calls


Running: TypeAlias = tuple[Outcome, str, "asyncio.Task[str]", Callable[[], list[str]]]
"""How it goes, the session, its turn, and who tells whether the command still runs."""

Scene: TypeAlias = Callable[[Stage], Awaitable[Outcome]]


async def works(stage: Stage) -> Outcome:
    """Read, edit, and run two commands, one of which fails. Everything is allowed."""
    return await _working(stage)


async def _working(stage: Stage, **options: Any) -> Outcome:
    agent, file = stage.agent, _file(stage)
    good, bad = agent.shell("echo fine > made; cat made"), agent.shell("echo so far; exit 3")
    stage.plays(agent.read(file), agent.edit(file, "two", "zwei"), good, bad)
    return await _turn(stage, "allow_once", **options)


async def together(stage: Stage) -> Outcome:
    """Read and run two commands in one step."""
    agent, file = stage.agent, _file(stage)
    stage.plays((agent.read(file), agent.shell("echo > first"), agent.shell("echo > second")))
    return await _turn(stage, "allow_once")


async def works_with_abilities(stage: Stage) -> Outcome:
    """Do all of that again with a client that offers its files and terminals."""
    abilities = Abilities(stage.project)
    try:
        return await _working(stage, capabilities=CAPABILITIES, serve=abilities.serve)
    finally:
        abilities.close()


async def long_command(stage: Stage) -> Outcome:
    """Run a command that writes for some seconds."""
    line = "x" * 60
    loop = f"seq 1 {LINES} | while read i; do echo $i {line}; sleep 0.01; done"
    stage.plays(stage.agent.shell(loop))
    return await _turn(stage, "allow_once")


async def large_file(stage: Stage) -> Outcome:
    """Edit a line of a large file."""
    file = stage.project / "large.txt"
    file.write_text("".join(f"line {number} {'y' * 50}\n" for number in range(LINES * 20)))
    old = f"line 77 {'y' * 50}"
    stage.plays(stage.agent.edit(file, old, old.replace("y", "z")))
    return await _turn(stage, "allow_once")


async def same_ids(stage: Stage) -> Outcome:
    """Have two turns in which the model uses the same id again."""
    shell = stage.agent.shell
    outcome = Outcome()
    async with stage.client(on_permission=_asked(outcome, "allow_once")) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        for word in ("first", "second"):
            stage.plays(replace(shell(f"echo {word} | tee {word}"), id="call_0"), OVER)
            outcome.stop = await outcome.client.prompt(session, PROMPT)
    return await _over(stage, outcome)


async def loaded(stage: Stage) -> Outcome:
    """Play a turn, end the agent, start it again, and load the session."""
    agent, file = stage.agent, _file(stage)
    stage.plays(
        agent.read(file), agent.edit(file, "two", "zwei"), agent.shell("cat numbers.txt; exit 3")
    )
    before, outcome = Outcome(), Outcome()
    async with stage.client(on_permission=_asked(before, "allow_once")) as before.client:
        session = await before.client.new_session(str(stage.project))
        await before.client.prompt(session, PROMPT)
    async with stage.client(on_permission=_asked(outcome, "allow_once")) as outcome.client:
        await outcome.client.load_session(session, str(stage.project))
        await asyncio.sleep(1.0)
    outcome.before = before
    return await _over(stage, outcome)


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
    async with _running(stage) as (outcome, session, turn, there):
        began = time.monotonic()
        await _client(outcome).cancel(session)
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
        outcome.left = await _until_gone(there)
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
        turn = asyncio.ensure_future(outcome.client.prompt(session, PROMPT))
        await _until(asked.is_set, turn)
        began = time.monotonic()
        await outcome.client.cancel(session)
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
    return await _over(stage, outcome)


async def agent_killed(stage: Stage) -> Outcome:
    """Kill the agent while a command runs."""
    async with _running(stage) as (outcome, _, turn, _):
        began = time.monotonic()
        stage.agent_process().kill()
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
    return await _over(stage, outcome)


async def front_killed(stage: Stage) -> Outcome:
    """Kill what stands in front of the agent while a command runs."""
    async with _running(stage) as (outcome, _, turn, _):
        began = time.monotonic()
        os.kill(_client(outcome).pid or 0, signal.SIGKILL)
        outcome.stop = await _stop(turn)
        outcome.seconds = time.monotonic() - began
    return await _over(stage, outcome)


async def client_closes(stage: Stage) -> Outcome:
    """Close the agent's input while a command runs, as an editor does that is closed."""
    async with _running(stage) as (outcome, _, turn, _):
        began = time.monotonic()
        await _client(outcome).close()
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
        works_with_abilities,
        together,
        long_command,
        large_file,
        same_ids,
        loaded,
        denied,
        secrets,
        cancelled,
        cancelled_when_asked,
        agent_killed,
        front_killed,
        client_closes,
        client_killed,
    )
}


def _file(stage: Stage) -> Path:
    file = stage.project / "numbers.txt"
    file.write_text("one\ntwo\nthree\n")
    return file


@asynccontextmanager
async def _running(stage: Stage) -> AsyncIterator[Running]:
    """Have a command run that is allowed and does not end by itself."""
    token, outcome = new_token(), Outcome()
    stage.plays(stage.agent.shell(f"echo so far; sleep {token}"))
    async with stage.client(on_permission=_asked(outcome, "allow_once")) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        turn = asyncio.ensure_future(outcome.client.prompt(session, PROMPT))
        await _until(lambda: with_token(token), turn)
        stage.look()
        yield outcome, session, turn, lambda: with_token(token)


def _client(outcome: Outcome) -> AgentClient:
    assert outcome.client is not None
    return outcome.client


async def _turn(stage: Stage, answer: str, **options: Any) -> Outcome:
    outcome = Outcome()
    async with stage.client(on_permission=_asked(outcome, answer), **options) as outcome.client:
        session = await outcome.client.new_session(str(stage.project))
        began = time.monotonic()
        outcome.stop = await outcome.client.prompt(session, PROMPT)
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
    outcome.left += await _until_gone(stage.running)
    outcome.seconds = outcome.seconds or time.monotonic() - began
    stage.end()
    return outcome
