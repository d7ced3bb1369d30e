"""Runs one tool for the command line, from the first line to the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, TextIO

import click

from callsheet.cli.cards.board import TICK
from callsheet.limits.limits import ROOMY, SAFE
from callsheet.report.json import JsonObject
from callsheet.runtime.sanitizer import GuardSettings
from callsheet.runtime.sinks import Sink
from callsheet.tools.errors import NotPermitted, ToolError
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Session
from callsheet.tools.stdio_guard import OwnStdio, own_stdio
from callsheet.tools.tool import Tool
from callsheet.tools.workspace import Workspace

from .asking import Asking
from .keeping import Keeping
from .showing import AsCard, AsLines, AsResult, Shown
from .stops import Stops

Format = Literal["pretty", "acp", "result"]

_ALIAS = "call"


class Plan(NamedTuple):
    """What is to be done."""

    tool: Tool
    arguments: JsonObject
    tools: list[Tool]
    format: Format
    protocol: int
    locale: str | None
    cwd: str
    timeout: float | None
    history: str | None = None


class Runner:
    """Runs a plan. stdout is its alone; whatever else writes there writes to stderr."""

    def __init__(self, plan: Plan, stdio: OwnStdio, stream: TextIO, stops: Stops) -> None:
        self._plan: Plan = plan
        self._stdin: int = stdio.stdin.fileno()
        self._stops: Stops = stops
        self._task: asyncio.Task[int] | None = None
        self._lost: str | None = None
        self._shown: Shown = self._way(stdio.stdout.fileno(), stream)
        self._keeping: Keeping = Keeping(plan.history, plan.cwd, plan.tool.name, plan.locale)
        stops.at_once = self._shown.give_up

    async def run(self) -> int:
        """Run the tool, show it, and give the exit code."""
        self._task = asyncio.current_task()
        session = self._session()
        self._stops.calls(lambda: self._cancel(session))
        result: ToolResult | None = None
        with suppress(asyncio.CancelledError), self._shown.alone():
            async with session:
                turning = asyncio.ensure_future(self._turn())
                try:
                    result = await session.run(
                        self._plan.tool.name,
                        self._plan.arguments,
                        timeout=self._plan.timeout,
                        alias=_ALIAS,
                    )
                finally:
                    turning.cancel()
        self._task = None  # there is nothing left to stop
        if result is not None and self._lost is None:
            self._shown.end(result)
        await self._keeping.close()
        if self._stops.number is not None:
            return self._stops.exit_code
        if result is None or self._lost is not None:
            if self._lost:
                click.echo(f"callsheet: {self._lost}", err=True)
            return 1
        self._say_how(result, session.workspace)
        return 0 if result.success else 1

    def _cancel(self, session: Session) -> None:
        """Cancel the call, whose result then says so; before there is one, all of it."""
        if not session.cancel(_ALIAS) and self._task is not None:
            self._task.cancel()

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._shown.tick()

    def _session(self) -> Session:
        plan = self._plan
        asking = (
            Asking(self._stdin, plan.cwd, self._shown.hidden)
            if Asking.is_possible(self._stdin)
            else None
        )
        # A card is for a person; lines are for clients, some of which take no long ones.
        limits = ROOMY if plan.format == "pretty" else SAFE
        return Session(
            self._keeping.session_id,
            cwd=plan.cwd,
            tools=plan.tools,
            permission="allow",
            on_permission=asking,
            sinks=[*self._shown.sinks, *self._keeping.sinks],
            on_lost=self._on_lost,
            locale=plan.locale,
            guard=GuardSettings(limits=limits),
        )

    def _way(self, stdout: int, stream: TextIO) -> Shown:
        if self._plan.format == "acp":
            return AsLines(stdout, self._plan.protocol)
        if self._plan.format == "result":
            return AsResult(stream)
        return AsCard(stream, self._plan.cwd, self._give_up)

    def _give_up(self, exc: OSError) -> None:
        """Nobody sees what is done any more: stop it. A reader that has enough is no fault."""
        gone = isinstance(exc, (BrokenPipeError, ConnectionError))
        self._lost = "" if gone else exc.strerror or str(exc)
        if self._task is not None:
            self._task.cancel()

    def _on_lost(self, sink: Sink, why: str) -> None:
        if sink in self._keeping.sinks:
            return  # the history has said what is wrong
        gone = "BrokenPipe" in why or "Connection" in why
        self._give_up(BrokenPipeError() if gone else OSError(0, why))

    def _say_how(self, result: ToolResult, workspace: Workspace) -> None:
        """Say what to do about a path outside the workspace where nobody could be asked."""
        if result.metadata.get("error_code") != NotPermitted.code:
            return
        if not Asking.is_possible(self._stdin) and self._goes_outside(workspace):
            click.echo(
                "callsheet: nobody can be asked here: run it on a terminal, "
                "or let --cwd name a directory that holds the path",
                err=True,
            )

    def _goes_outside(self, workspace: Workspace) -> bool:
        for path in self._plan.tool.paths:
            given = self._plan.arguments.get(path.name)
            with suppress(ToolError):
                if isinstance(given, str) and not workspace.holds(
                    workspace.find(given, entry=path.entry)
                ):
                    return True
        return False


def run(plan: Plan) -> int:
    """Run a plan, and give the exit code."""
    logging.getLogger("callsheet").addHandler(logging.NullHandler())
    _have_all_streams()
    with Stops() as stops, own_stdio() as stdio, _text(stdio) as stream:
        return asyncio.run(Runner(plan, stdio, stream, stops).run())


def check(tool: Tool, arguments: JsonObject) -> None:
    """Raise `ToolError` if a tool does not take these arguments. Nothing is run."""
    from callsheet.tools.arguments import Checker
    from callsheet.tools.errors import InvalidArguments

    Checker(tool.name, tool.schema)(arguments)
    try:
        tool.parameters.convert(arguments)
    except Exception as exc:  # noqa: BLE001 - whatever a user's type says of it
        raise InvalidArguments(f"{tool.name}: {exc}") from None


def _have_all_streams() -> None:
    """Open what was closed when we were started, so that no other file takes its place."""
    for fd in (0, 2):
        try:
            os.fstat(fd)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != fd:
                os.dup2(nothing, fd)
                os.close(nothing)


@contextmanager
def _text(stdio: OwnStdio) -> Generator[TextIO]:
    """Return stdout as text, in the encoding that Python has chosen for it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    stream = open(  # noqa: SIM115 - it is closed below, and what can't be written is dropped
        stdio.stdout.fileno(), "w", encoding=encoding, errors="replace", newline="\n", closefd=False
    )
    try:
        yield stream
    finally:
        with suppress(OSError):
            stream.close()
