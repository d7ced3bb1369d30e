"""Run one tool for `callsheet call`: show it, store it, and return the exit code.

stdout belongs to the answer alone: a card, ACP's lines, or the result as JSON. Whatever a tool or its
children write there goes to stderr instead. A reader who goes away cancels the call; a history that can't be
written never does. Nobody is asked: what is typed is permitted inside of `--cwd`, and refused outside.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

import click

from callsheet.acp.peer import Peer
from callsheet.agent.handshake import CALLSHEET
from callsheet.cli.cards.board import Board, board_for, drawing
from callsheet.cli.output import harmless, visible, write_json
from callsheet.cli.signals import StopSignals
from callsheet.cli.start import history_factory
from callsheet.limits.limits import ROOMY, SAFE
from callsheet.report.errors import CallsheetError
from callsheet.runtime.clock import new_call_id
from callsheet.runtime.sanitizer import GuardSettings
from callsheet.runtime.sinks import PipeSink, Sink
from callsheet.telemetry import session_sink
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Session, ToolSettings
from callsheet.tools.stdio_guard import OwnStdio, own_stdio
from callsheet.tools.tool import Tool

if TYPE_CHECKING:
    from callsheet.cli.call import CallRequest
    from callsheet.history import History
    from callsheet.tools.mcp import McpServer

Format = Literal["pretty", "acp", "result"]

HISTORY_PATIENCE = 2.0
"""Seconds that the history gets at most when the call has ended."""


class CallPlan(NamedTuple):
    """What `callsheet call` was asked to do."""

    request: CallRequest
    tools: list[Tool]
    servers: tuple[McpServer, ...]
    format: Format
    protocol: int
    locale: str | None
    cwd: str
    timeout: float | None
    history: str | None
    hosts: tuple[str, ...]
    """Hosts that `fetch` may reach though they are not public."""


def run(plan: CallPlan) -> int:
    """Run a tool, and return the exit code."""
    logging.getLogger("callsheet").addHandler(logging.NullHandler())
    _open_closed_streams()
    with StopSignals() as signals, own_stdio() as stdio, _text_stdout(stdio) as stream:
        return asyncio.run(Runner(plan, stdio, stream, signals).run())


class Runner:
    """Run one plan."""

    def __init__(
        self, plan: CallPlan, stdio: OwnStdio, stream: TextIO, signals: StopSignals
    ) -> None:
        self._plan: CallPlan = plan
        self._stream: TextIO = stream
        self._signals: StopSignals = signals
        self._task: asyncio.Task[int] | None = None
        self._lost: str | None = None
        """Why stdout can't be written any more; empty if its reader simply left."""
        self._board: Board | None = None
        self._sinks: list[Sink] = []
        if plan.format == "pretty":
            self._board = board_for(stream, plan.cwd)
            self._sinks = [self._board]
            signals.before_exit = self._board.give_up
        elif plan.format == "acp":
            peer = Peer(version=2 if plan.protocol == 2 else 1)
            self._sinks = [PipeSink(stdio.stdout.fileno(), peer)]

    async def run(self) -> int:
        """Run the tool, show it, and return the exit code."""
        self._task = asyncio.current_task()
        session_id = "sess_" + new_call_id().removeprefix("call_")
        history = open_history(self._plan)
        stored = [] if history is None else [self._stored(history, session_id)]
        session = self._session(session_id, stored)
        self._signals.on_first(lambda: self._cancel(session))
        result: ToolResult | None = None
        try:
            with suppress(asyncio.CancelledError):
                async with session:
                    await connected(session)
                    tool, arguments = self._plan.request.resolve(session.tools)
                    async with drawing(self._board):
                        result = await session.run(tool.name, arguments, timeout=self._plan.timeout)
        except OSError as exc:
            self._give_up(exc.strerror or str(exc))
        self._task = None  # there is nothing left to stop
        if result is not None and self._plan.format == "result":
            write_json(result.to_dict(), self._stream)
        try:
            self._stream.flush()
        except OSError as exc:
            self._give_up(exc.strerror or str(exc))
        if history is not None:
            await history.flush(HISTORY_PATIENCE / 2)
            await history.close(HISTORY_PATIENCE / 4)
        return self._exit_code(result)

    def _exit_code(self, result: ToolResult | None) -> int:
        if self._signals.number is not None:
            return self._signals.exit_code
        if result is None or self._lost is not None:
            if self._lost:
                click.echo(f"callsheet: {self._lost}", err=True)
            return 1
        if "outside the workspace" in (result.error or ""):
            click.echo("callsheet: name a directory that contains the path with --cwd", err=True)
        return 0 if result.success else 1

    def _cancel(self, session: Session) -> None:
        """Cancel the call, whose result then is cancelled; before there is one, the whole run."""
        first = next(iter(session.calls), None)  # others are part of it
        is_cancelled = first is not None and session.cancel(first)
        if not is_cancelled and self._task is not None:
            self._task.cancel()

    def _session(self, session_id: str, stored: list[Sink]) -> Session:
        def on_lost(sink: Sink, why: str) -> None:
            if sink not in stored:  # the history has reported it itself
                self._give_up(why)

        name, version = CALLSHEET["name"], CALLSHEET["version"]
        spans = session_sink(session_id, agent=name, version=version)
        return Session(
            session_id,
            cwd=self._plan.cwd,
            tools=self._plan.tools,
            mcp_servers=self._plan.servers,
            permission="allow",
            sinks=[*self._sinks, *stored, *([] if spans is None else [spans])],
            on_lost=on_lost,
            on_exception=lambda text: click.echo(
                "\n".join(map(harmless, text.splitlines())), err=True
            ),
            locale=self._plan.locale,
            tool_settings=ToolSettings(private_hosts=self._plan.hosts),
            # A card is for a person; lines are for clients, some of which take no long ones.
            guard=GuardSettings(limits=ROOMY if self._board is not None else SAFE),
        )

    def _stored(self, history: History, session_id: str) -> Sink:
        plan = self._plan
        from callsheet.history.rows import Origin

        info = {"locale": plan.locale} if plan.locale else {}
        name, version = CALLSHEET["name"], CALLSHEET["version"]
        origin = Origin(agent=name, agent_version=version, source="call")
        title = f"callsheet call {plan.request.name}"
        return history.session(session_id, cwd=plan.cwd, title=title, info=info, origin=origin)

    def _give_up(self, why: str) -> None:
        """Stop, because stdout can't be written any more. A reader that has simply left is no failure."""
        is_gone = any(sign in why for sign in ("BrokenPipe", "Broken pipe", "Connection"))
        self._lost = "" if is_gone else why
        if self._task is not None:
            self._task.cancel()


async def connected(session: Session) -> bool:
    """Wait for the MCP servers of a session, report their problems, and return whether there are none."""
    problems = await session.connected()
    for problem in problems:
        lines = map(visible, problem.splitlines())  # a server's last words are several
        click.echo("\n  ".join(["callsheet: " + next(lines), *lines]), err=True)
    return not problems


# Streams


@contextmanager
def _text_stdout(stdio: OwnStdio) -> Generator[TextIO]:
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


def _open_closed_streams() -> None:
    """Open stdin and stderr on /dev/null if they are closed, so that no other file takes their place."""
    while (nothing := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(nothing, True)  # each takes the lowest number that is free
    os.close(nothing)


# History


def open_history(plan: CallPlan) -> History | None:
    """Return the history that stores the call, if any. A mistake is reported, and does not stop the call."""
    from callsheet.history.store_errors import sentence

    try:
        factory = history_factory(plan.history, cwd=plan.cwd)
        return None if factory is None else factory()
    except CallsheetError as exc:
        _warn(f"{sentence(exc)} The call is not stored.")
    except ImportError as exc:
        _warn(f"it needs {exc.name or exc}, which is not installed. The call is not stored.")
    return None


def _warn(text: str) -> None:
    click.echo(f"callsheet: history: {' '.join(text.split())}", err=True)
