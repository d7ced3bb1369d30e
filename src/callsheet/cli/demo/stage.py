"""Play the scenes with a real agent, show them, and check the traffic at the end."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, TextIO

import click

from callsheet import __version__
from callsheet.cli.cards.board import TICK, Board, board_for
from callsheet.cli.cards.style import Glyphs, glyphs_for
from callsheet.cli.demo.scenes import Project, Scene, scenes
from callsheet.cli.demo.summary import (
    StoredCalls,
    show_calls,
    show_checks,
    show_next_steps,
    stored_calls,
)
from callsheet.cli.output import Page, visible
from callsheet.cli.signals import StopSignals
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.testing import AgentClient, AgentError, AgentGone

PAUSE = 0.25
"""Seconds between two scenes, on a terminal: as long as it takes to see that one has ended."""

THOUGHT = 0.6
"""Seconds after which the user answers, on a terminal."""


def run(protocol: Literal[1, 2], locale: str | None, stream: TextIO) -> int:
    """Play the demo, and return the exit code."""
    with StopSignals() as signals:
        try:
            return asyncio.run(_run(protocol, locale, stream, signals))
        except (AgentGone, AgentError, TimeoutError) as exc:
            click.echo(f"callsheet: {exc}", err=True)
            return 1


async def _run(
    protocol: Literal[1, 2], locale: str | None, stream: TextIO, signals: StopSignals
) -> int:
    task = asyncio.current_task()
    assert task is not None
    signals.on_first(lambda: _stop(task))  # from here on a signal interrupts nothing but a wait
    with Project() as project:
        return await Stage(project, protocol, locale, stream, signals).run(task)


def _stop(task: asyncio.Task[int]) -> None:
    task.cancel()


class Stage:
    """One run of the demo."""

    def __init__(
        self,
        project: Project,
        protocol: Literal[1, 2],
        locale: str | None,
        stream: TextIO,
        signals: StopSignals,
    ) -> None:
        self._project: Project = project
        self._protocol: Literal[1, 2] = protocol
        self._locale: str | None = locale
        self._stream: TextIO = stream
        self._signals: StopSignals = signals
        self._cwd: str = str(project.path)
        self._board: Board = board_for(stream, self._cwd, version=protocol)
        self._is_watched: bool = self._board.draws
        self._glyphs: Glyphs = glyphs_for(stream.encoding)
        self._scene: Scene | None = None
        self._session: str = ""
        self._started: asyncio.Event = asyncio.Event()
        self._lost: OSError | None = None

    async def run(self, task: asyncio.Task[int]) -> int:
        """Play, show and check, and return the exit code. `task` is the one that this runs in."""
        self._signals.before_exit = self._leave
        began = time.monotonic()
        turning = asyncio.ensure_future(self._turn(task))
        try:
            client = await self._play()
        except asyncio.CancelledError:
            self._board.give_up()
            if self._lost is not None:
                raise self._lost from None
            if self._signals.number is None:
                raise
            return self._signals.exit_code
        finally:
            turning.cancel()
        seconds = time.monotonic() - began
        return self._sum_up(client, seconds, await stored_calls(self._session))

    async def _play(self) -> AgentClient:
        client = self._client()
        self._board.note(f"Callsheet {__version__}", "bold")
        async with client:
            text = f"An agent and its client, over stdio, in ACP v{client.version}."
            self._board.note(text, "dim")
            session = self._session = await client.new_session(self._cwd)
            try:
                for scene in self._scenes():
                    await self._play_one(client, session, scene)
            except asyncio.CancelledError:
                with suppress(AgentGone):
                    await client.cancel(session)
                raise
        return client

    def _scenes(self) -> tuple[Scene, ...]:
        return scenes(Path(sys.executable).name)

    async def _play_one(self, client: AgentClient, session: str, scene: Scene) -> None:
        await self._pause(PAUSE)
        self._scene = scene
        self._started.clear()
        self._board.note("")
        self._board.note(scene.caption, "dim italic")
        if scene.mode is not None:
            await self._choose(client, session, scene.mode)
        self._board.note(f"> {scene.prompt}".replace("\n", "\n  "), "bold cyan")
        cancelling = asyncio.ensure_future(self._cancel(client, session, scene))
        try:
            await client.prompt(session, scene.prompt)
        finally:
            cancelling.cancel()
        self._board.refresh()

    async def _choose(self, client: AgentClient, session: str, mode: str) -> None:
        """Choose a mode for the user, and show what it is called."""
        params: JsonObject = {"sessionId": session, "configId": "permission", "value": mode}
        if client.version == 2:
            params["type"] = "id"  # v2 requires the type of the value
        answer = await client.request("session/set_config_option", params)
        options = answer.get("configOptions") if is_object(answer) else None
        for option in options if is_list(options) else []:
            name = _name(option.get("options"), "value", mode)
            self._board.note(f"{visible(str(option.get('name')))}: {name}", "yellow")
            await self._pause(THOUGHT)

    async def _cancel(self, client: AgentClient, session: str, scene: Scene) -> None:
        if scene.cancel_after is not None:
            await self._started.wait()
            await asyncio.sleep(scene.cancel_after)
            self._board.note("Stop.", "yellow")
            await client.cancel(session)

    async def _answer(self, params: JsonObject) -> str:
        """Answer for the user, and show what was asked."""
        await self._pause(THOUGHT)
        answer = "reject_once" if self._scene is None else self._scene.answer
        self._board.note(f"May it? {_name(params.get('options'), 'kind', answer)}", "yellow")
        return answer

    def _receive(self, line: bytes) -> None:
        self._board.take(line)
        self._board.refresh()
        if any(self._runs(key) for key in self._board.open):
            self._started.set()

    def _runs(self, key: str) -> bool:
        report = self._board.report(key)
        return report is not None and report.status.value == "in_progress"

    def _client(self) -> AgentClient:
        command = [sys.executable, "-m", "callsheet", "agent", "--protocol", str(self._protocol)]
        if self._locale is not None:
            command += ["--locale", self._locale]
        return AgentClient(
            command,
            protocol=self._protocol,
            cwd=self._cwd,
            env=_environment(),
            capabilities={"_meta": {"terminal_output": True}},
            on_permission=self._answer,
            on_line=self._receive,
            timeout=30,
        )

    async def _pause(self, seconds: float) -> None:
        if self._is_watched:
            await asyncio.sleep(seconds)

    async def _turn(self, task: asyncio.Task[int]) -> None:
        """Turn the spinners, until the terminal is gone."""
        try:
            while True:
                await asyncio.sleep(TICK)
                self._board.tick()
        except OSError as exc:
            self._lost = exc
            task.cancel()

    def _leave(self) -> None:
        """Leave nothing behind: the process ends at once, and the agent when it sees that."""
        self._board.give_up()
        self._project.remove()

    def _sum_up(self, client: AgentClient, seconds: float, stored: StoredCalls | None) -> int:
        ends = [end for scene in self._scenes() for end in scene.ends]
        page = Page(self._stream)
        show_calls(page, client, seconds, self._glyphs)
        passed = show_checks(page, client, self._project.secrets, ends, stored, self._glyphs)
        show_next_steps(page, stored)
        self._stream.flush()
        return 0 if passed else 1


def _name(options: JsonValue, key: str, value: str) -> str:
    """Return the name of an option as the user sees it, in their language."""
    for option in options if is_list(options) else []:
        if is_object(option) and option.get(key) == value:
            return visible(str(option.get("name")))
    return value


def _environment() -> dict[str, str]:
    """Return the agent's environment: it finds this Python, and what this Python finds."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    programs = (str(Path(sys.executable).parent), env.get("PATH", os.defpath))
    env["PATH"] = os.pathsep.join(programs)
    if modules := env.get("PYTHONPATH"):  # the agent is started in another directory
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, modules.split(os.pathsep)))
    return env
