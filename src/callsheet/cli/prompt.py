"""`callsheet agent --prompt TEXT`: one turn with the agent on this terminal, without an editor.

The agent is a process of its own and speaks ACP, as with an editor. Its messages are printed, its calls shown
as cards, and the approvals that it requests are asked for here.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import inf

import click

from callsheet.acp.jsonrpc import Notification, decode_line
from callsheet.cli.cards.board import Board, board_for, drawing
from callsheet.cli.cards.body import body_of
from callsheet.cli.output import harmless, visible
from callsheet.cli.signals import StopSignals
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.testing import AgentClient, AgentError, AgentGone

BAD_USAGE = 2
"""The exit code of an agent that can't be started with its options."""

_STYLES = {"agent_message_chunk": "", "agent_thought_chunk": "dim italic"}


def without_prompt(options: Sequence[str]) -> list[str]:
    """Return the options that the agent itself is started with."""
    rest, left = list[str](), iter(options)
    for option in left:
        if option == "--prompt":
            next(left, None)
        elif not option.startswith("--prompt="):
            rest.append(option)
    return rest


def play(text: str, options: Sequence[str], protocol: int) -> int:
    """Start the agent with these options, send it a prompt, and return the exit code of its turn."""
    with StopSignals() as signals:
        turn = PromptedTurn(text, options, protocol, signals)
        try:
            return asyncio.run(turn.run())
        except AgentGone as exc:
            turn.show_errors()
            if turn.client.exit_code == BAD_USAGE:  # it has said what is wrong with the options
                return BAD_USAGE
            click.echo(f"callsheet: {harmless(str(exc).partition(';')[0])}", err=True)
        except AgentError as exc:
            turn.show_errors()
            click.echo(f"callsheet: {harmless(str(exc))}", err=True)
        return 1


class PromptedTurn:
    """One turn, and what it shows."""

    def __init__(
        self, text: str, options: Sequence[str], protocol: int, signals: StopSignals
    ) -> None:
        self._text: str = text
        self._signals: StopSignals = signals
        self._cwd: str = os.getcwd()  # noqa: PTH109
        self._board: Board = board_for(sys.stdout, self._cwd, version=protocol)
        self._exit_code: int = 0
        self._kind: str = ""
        self._line: str = ""
        """The line of a message that has begun."""
        self.client: AgentClient = AgentClient(
            [sys.executable, "-m", "callsheet", "agent", *options],
            protocol=2 if protocol == 2 else 1,
            capabilities={"_meta": {"terminal_output": True}},
            on_permission=self._ask,
            on_line=self._receive,
            timeout=inf,  # Ctrl-C ends a turn that takes too long
        )
        signals.before_exit = self._board.give_up

    async def run(self) -> int:
        """Run the turn, and return the exit code."""
        task = asyncio.current_task()
        assert task is not None
        self._signals.on_first(task.cancel)
        try:
            reason = await self._play()
        except asyncio.CancelledError:
            if self._signals.number is None:
                raise
            return self._signals.exit_code
        self.show_errors()
        if reason != "end_turn":
            self._board.note(f"The turn has ended: {visible(reason)}.", "yellow")
        return self._exit_code

    async def _play(self) -> str:
        """Run the turn, and return why it stopped."""
        async with self.client as client:
            session = await client.new_session(self._cwd)
            try:
                async with drawing(self._board):
                    return await client.prompt(session, self._text)
            except asyncio.CancelledError:
                with suppress(AgentGone):
                    await client.cancel(session)
                raise
            finally:
                self._end_line()
                self._board.refresh()

    def show_errors(self) -> None:
        """Print what the agent wrote to stderr."""
        for line in self.client.errors.splitlines():
            click.echo(harmless(line), err=True)

    def _receive(self, line: bytes) -> None:
        message = decode_line(line)
        if isinstance(message, Notification) and message.method == "session/update":
            update = message.params.get("update")
            kind = str(update.get("sessionUpdate")) if is_object(update) else ""
            if kind != self._kind:
                self._end_line()
            self._kind = kind
            if is_object(update) and kind in _STYLES and is_object(update.get("content")):
                self._write(str(update["content"].get("text") or ""))
        self._board.take(line)
        self._board.refresh()

    def _write(self, text: str) -> None:
        """Print a message line by line, as it comes."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._board.note(line, _STYLES[self._kind])

    def _end_line(self) -> None:
        if self._line:
            self._board.note(self._line, _STYLES[self._kind])
            self._line = ""

    async def _ask(self, params: JsonObject) -> str:
        """Show what a call would do, and return the option that is chosen. Without a terminal, that is no."""
        call = params.get("toolCall")
        report = self._board.report(str(call.get("toolCallId"))) if is_object(call) else None
        given = params.get("options")
        options = list(filter(is_object, given if is_list(given) else []))
        names = ", ".join(
            f"{n} {visible(str(one.get('name')))}" for n, one in enumerate(options, 1)
        )
        self._board.is_paused = True
        try:
            if report is not None:
                self._board.note(visible(report.title or report.name), "bold")
                for line in body_of(report, self._board.ledger.terminal, self._cwd):
                    self._board.note(f"  {line.text}", line.style)
            if not sys.stdin.isatty():
                self._board.note("Nobody can be asked here: rejected. See --permission.", "yellow")
                self._exit_code = 1
                return "reject_once"
            while True:
                self._board.note(f"May it? {names}", "yellow")
                chosen = await _typed_line()
                if chosen is None:
                    return "reject_once"
                if chosen.isdecimal() and 0 < int(chosen) <= len(options):
                    return str(options[int(chosen) - 1].get("optionId"))
        finally:
            self._board.is_paused = False


async def _typed_line() -> str | None:
    """Return the line that is typed next; None if no more comes."""
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()
    # Not in a thread: one that reads could not be stopped by Ctrl-C.
    loop.add_reader(stdin, lambda: typed.done() or typed.set_result(os.read(stdin, 4096)))
    try:
        line = await typed
    finally:
        loop.remove_reader(stdin)
    return line.decode(errors="replace").strip() if line else None
