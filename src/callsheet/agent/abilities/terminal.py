"""A command in a terminal of the client: its user sees it as it runs, with its colours.

A command is run once: if the client says that it can't make a terminal, the command runs here; if it is
not known whether it did, it is not run again. The terminal is let go of when the client knows the end
of the call, because it may not know the terminal any more after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from callsheet.acp.jsonrpc import FrameTooLarge
from callsheet.agent.rpc import ClientError, Disconnected
from callsheet.processes.shell import QUIET, shell
from callsheet.processes.start import Ended
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.tools.errors import IOFailed
from callsheet.tools.host import OnOutput, Running
from callsheet.tools.session import Call

from .asking import Asking

CREATE_SECONDS = 10.0
STOP_SECONDS = 2.0
"""How long the client may take to kill a command and tell what it printed."""

KEPT = 1 << 20
"""Bytes of output that the client keeps."""

CUT = b"[The client has kept only the end of the output.]\n"

Spawn = Callable[[Coroutine[Any, Any, Any]], None]


class ClientTerminal:
    """One command. `own` makes a process of this machine that does the same."""

    def __init__(
        self,
        asking: Asking,
        call: Call,
        request: JsonObject,
        own: Callable[[], Running],
        on_output: OnOutput,
        spawn: Spawn,
    ) -> None:
        self.ended: Ended | None = None
        self._asking: Asking = asking
        self._call: Call = call
        self._request: JsonObject = request
        self._own: Callable[[], Running] = own
        self._on_output: OnOutput = on_output
        self._spawn: Spawn = spawn

    async def run(self, timeout: float | None = None) -> Ended:
        """Run it to its end, or end it after so many seconds, or when this is cancelled."""
        terminal = await self._create()
        if terminal is None:
            process = self._own()
            try:
                return await process.run(timeout)
            finally:
                self.ended = process.ended
        self._call.terminal(terminal)
        self._call.session.when_ended(self._call, lambda: self._spawn(self._release(terminal)))
        try:
            async with asyncio.timeout(timeout):
                status = await self._ask("terminal/wait_for_exit", terminal)
        except TimeoutError:
            self.ended = await self._stopped(terminal, timed_out=True)
        except asyncio.CancelledError:
            self.ended = await self._stopped(terminal, timed_out=False)
            raise
        except CallsheetError as exc:
            self.ended = await self._stopped(terminal, timed_out=False)
            raise IOFailed(f"The editor's terminal has failed: {exc}") from exc
        else:
            self.ended = await self._output(terminal, status)
        return self.ended

    async def _create(self) -> str | None:
        """Make the terminal, in which the command runs at once. None if the client says that it can't."""
        asked = asyncio.ensure_future(self._asking.ask("terminal/create", self._request))
        try:
            answer = await asyncio.wait_for(asyncio.shield(asked), CREATE_SECONDS)
        except (ClientError, FrameTooLarge):
            return None
        except Disconnected as exc:
            raise IOFailed("The editor that should run the command is gone") from exc
        except TimeoutError:
            asked.add_done_callback(self._drop)
            raise IOFailed(
                f"The editor did not make a terminal within {CREATE_SECONDS:g} s. It is not known whether "
                "the command runs, so it is not run again"
            ) from None
        except asyncio.CancelledError:
            asked.add_done_callback(self._drop)
            raise
        terminal = answer.get("terminalId")
        if not isinstance(terminal, str) or not terminal:
            raise IOFailed(f"The editor made a terminal without an id: {terminal!r}")
        return terminal

    def _drop(self, asked: asyncio.Future[JsonObject]) -> None:
        """End a command whose terminal was made too late."""
        if asked.cancelled() or asked.exception() is not None:
            return
        terminal = asked.result().get("terminalId")
        if isinstance(terminal, str) and terminal:
            self._spawn(self._kill_and_release(terminal))

    async def _output(self, terminal: str, status: JsonValue, *, timed_out: bool = False) -> Ended:
        """Hand on what was printed, and say how it ended."""
        said = await self._tried("terminal/output", terminal)
        text, is_cut = said.get("output"), said.get("truncated") is True
        if isinstance(text, str) and text:
            self._on_output((CUT if is_cut else b"") + text.encode(errors="replace"))
        found = status if is_object(status) and status else said.get("exitStatus")
        code, signal = _exit_of(found)
        return Ended(code, signal, timed_out=timed_out, is_cut=is_cut)

    async def _stopped(self, terminal: str, *, timed_out: bool) -> Ended:
        """Kill the command, and keep what it has printed."""
        status: JsonObject = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS / 2):
                await self._tried("terminal/kill", terminal)
                status = await self._tried("terminal/wait_for_exit", terminal)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS / 2):
                return await self._output(terminal, status, timed_out=timed_out)
        return Ended(*_exit_of(status), timed_out=timed_out)

    async def _kill_and_release(self, terminal: str) -> None:
        await self._tried("terminal/kill", terminal)
        await self._tried("terminal/release", terminal)

    async def _release(self, terminal: str) -> None:
        """Let go of the terminal, when everything about the call was sent."""
        with suppress(Exception):
            await self._call.session.flush_client()
        await self._tried("terminal/release", terminal)

    async def _ask(self, method: str, terminal: str) -> JsonObject:
        return await self._asking.ask(method, {"terminalId": terminal})

    async def _tried(self, method: str, terminal: str) -> JsonObject:
        """Ask for something that may fail."""
        try:
            return await self._ask(method, terminal)
        except CallsheetError:
            return {}


def request_of(command: str, cwd: str, env: Mapping[str, str | None]) -> JsonObject:
    """Return the params of `terminal/create`. The client adds its own environment, and shows colours."""
    argv = [shell(), "-c", *(["--"] if command.startswith(("-", "+")) else []), command]
    removed = [name for name, value in env.items() if value is None]
    if removed:
        argv = ["env", *(part for name in removed for part in ("-u", name)), *argv]
    merged = {name: value for name, value in {**QUIET, **env}.items() if value is not None}
    if "TERM" not in env:
        merged.pop("TERM", None)
    return {
        "command": argv[0],
        "args": argv[1:],
        "cwd": cwd,
        "env": [{"name": name, "value": value} for name, value in merged.items()],
        "outputByteLimit": KEPT,
    }


def _exit_of(status: JsonValue) -> tuple[int | None, str | None]:
    """Read an exit status. Nothing is made up: what is not told is not known."""
    if not is_object(status):
        return None, None
    code, signal = status.get("exitCode"), status.get("signal")
    if isinstance(signal, str) and signal:
        return None, signal
    return (code if isinstance(code, int) and not isinstance(code, bool) else None), None
