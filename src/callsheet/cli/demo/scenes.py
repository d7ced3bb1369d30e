"""`callsheet demo agent`: a real agent and a real client over stdio, shown as cards.

The agent is `callsheet agent`, in a small project of its own. The client types what `SCENES` has, answers for
the user, and shows what it is sent, as an editor would. At the end, the traffic is checked by
`callsheet.check`, as anybody's can be.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from callsheet import __version__
from callsheet.check.runner import CLIENTS
from callsheet.cli.cards.board import TICK, Board, board_for, drawing
from callsheet.cli.demo import own_environment, staged
from callsheet.cli.output import visible
from callsheet.cli.signals import StopSignals
from callsheet.report.humanize import plural
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.testing import AgentClient, AgentGone

PAUSE = 0.4
"""Seconds between two scenes and before an answer, on a terminal: time to see what happens."""

PYTHON = Path(sys.executable).name
OLD = "PRICES[name] for name in basket"
NEW = "PRICES[name] * count for name, count in basket.items()"

FILES = {
    "prices.py": f'''\
"""What a basket costs, in cents."""

PRICES = {{"bread": 320, "milk": 110, "eggs": 295}}


def total(basket):
    """Sum up a basket: what, and how many of it."""
    return sum({OLD})
''',
    "check.py": '''\
"""Checks prices.py, basket by basket."""

import time

from prices import total

BASKETS = {
    "a loaf": ({"bread": 1}, 320),
    "breakfast": ({"bread": 1, "milk": 1}, 430),
    "a loaf for the neighbour, too": ({"bread": 2}, 640),
    "pancakes": ({"eggs": 1, "milk": 2}, 515),
    "the whole shop": ({"bread": 9, "milk": 9, "eggs": 9}, 6525),
}

for number, (name, (basket, expected)) in enumerate(BASKETS.items(), 1):
    found = total(basket)
    if found != expected:
        raise SystemExit(f"{number}/5 {name}: {found}, and should be {expected}")
    print(f"{number}/5 {name}: {found}", flush=True)
    time.sleep(0.2)
''',
    ".env": f"GITHUB_TOKEN=ghp_{secrets.token_hex(18)}\nDATABASE=postgres://shop:{secrets.token_hex(12)}@db/shop\n",
}


class Scene(NamedTuple):
    """One turn: what is typed, and how the user answers requests for permission.

    With `cancels`, the turn is cancelled once the call runs.
    """

    caption: str
    prompt: str
    answer: str = "allow_once"
    cancels: bool = False


SCENES = (
    Scene("A file is read.", "/read prices.py"),
    Scene("A command fails.", f"!{PYTHON} check.py", answer="allow_always"),
    Scene("A file is edited, with the user's permission.", f'/edit prices.py "{OLD}" "{NEW}"'),
    Scene("The same command, allowed by now, shows its output live.", f"!{PYTHON} check.py"),
    Scene("The user says no.", "!rm prices.py", answer="reject_once"),
    Scene("A command prints secrets. They don't leave the agent.", "!cat .env"),
    Scene("The user cancels.", "!while sleep 0.2; do echo waiting ...; done", cancels=True),
)


@click.command("agent")
def command() -> int:
    """Watch our agent and its tools at work: a client and an agent over stdio, as cards.

    It takes about ten seconds, in a directory of its own that is removed afterwards. No model and no
    network are needed, and nothing is stored.

    \b
    Exit codes: 0 ok, 1 a check over the traffic failed, 2 bad usage, 130 interrupted.
    """

    async def play(directory: Path, signals: StopSignals) -> int:
        for name, text in FILES.items():
            (directory / name).write_text(text, encoding="utf-8")
        return await Demo(directory, signals).run()

    return staged(play)


class Demo:
    """One run of the demo."""

    def __init__(self, directory: Path, signals: StopSignals) -> None:
        self._directory: Path = directory
        self._board: Board = board_for(sys.stdout, str(directory), version=1)
        self._scene: Scene = SCENES[0]
        # Commands find this Python.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self._client: AgentClient = AgentClient(
            # In English, as the words around it are: never two languages on one screen.
            [sys.executable, "-m", "callsheet", "agent", "--locale", "en"],
            cwd=str(directory),
            env={**own_environment(directory), "PATH": path},
            capabilities={"_meta": {"terminal_output": True}},
            on_permission=self._answer,
            on_line=self._receive,
            timeout=30,
        )
        signals.before_exit = self._leave

    async def run(self) -> int:
        """Play, show and check, and return the exit code."""
        try:
            # Drawing ends first: a reader who is gone must not stop the client while it ends the agent.
            async with self._client as client, drawing(self._board):
                await self._play(client)
        except asyncio.CancelledError:
            self._board.give_up()
            raise
        return self._check()

    async def _play(self, client: AgentClient) -> None:
        self._board.note(f"Callsheet {__version__}", "bold")
        self._board.note("An agent and its client, over stdio, in ACP.", "dim")
        session = await client.new_session(str(self._directory))
        try:
            for self._scene in SCENES:
                await self._pause()
                self._board.note(f"\n{self._scene.caption}", "dim italic")
                typed = self._scene.prompt.replace("\n", "\n  ")
                self._board.note(f"> {typed}", "bold cyan")
                turn = asyncio.ensure_future(client.prompt(session, self._scene.prompt))
                if self._scene.cancels:
                    while not (self._is_running() or turn.done()):
                        await asyncio.sleep(TICK)
                    await asyncio.sleep(1)
                    self._board.note("Stop.", "yellow")
                    await client.cancel(session)
                await turn
                self._board.refresh()
        except asyncio.CancelledError:
            with suppress(AgentGone):
                await client.cancel(session)
            raise

    def _is_running(self) -> bool:
        reports = map(self._board.report, self._board.open)
        return any(report and report.status.value == "in_progress" for report in reports)

    async def _answer(self, params: JsonObject) -> str:
        """Answer for the user, and show what was asked, by the name of the option in their language."""
        await self._pause()
        options = params.get("options")
        for option in options if is_list(options) else []:
            if is_object(option) and option.get("kind") == self._scene.answer:
                self._board.note(f"Permission: {visible(str(option.get('name')))}", "yellow")
        return self._scene.answer

    def _receive(self, line: bytes) -> None:
        self._board.take(line)
        self._board.refresh()

    async def _pause(self) -> None:
        if self._board.draws:
            await asyncio.sleep(PAUSE)

    def _leave(self) -> None:
        """Leave nothing behind: the process ends at once, and the agent when it sees that."""
        self._board.give_up()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _check(self) -> int:
        """Check the traffic, show what was found, and return the exit code."""
        recording = self._client.recording
        found = recording.check(clients=CLIENTS)
        calls = len(list(self._client.fold()))
        traffic = f"{plural(calls, 'call')}, {plural(len(recording.frames), 'message')}"
        self._board.note("")
        for finding in found:
            self._board.note(f"{finding.rule}: {finding.message}", "red")
        verdict = plural(len(found), "finding") if found else "nothing is wrong"
        self._board.note(f"callsheet check: {traffic}: {verdict}.", "red" if found else "green")
        self._board.note("In your editor: callsheet setup zed, or jetbrains, or neovim.")
        return 1 if found else 0
