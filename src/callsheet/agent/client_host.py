"""What the tools of a session run on, if the client offers its files or terminals (`fs`, `terminal`).

`ClientHost` does what the client's capabilities offer. Its files are `ClientFiles`, its commands run in a
`ClientTerminal`: the user sees them as they run, with their colours.

A command is run once. If the client answers `terminal/create` with an error, the command runs on this
machine; if it is unknown whether it has started, it is not started again. A terminal is released only after
the end of the call was sent, because a client may drop the output that it shows together with the terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from callsheet.acp.jsonrpc import FrameTooLarge
from callsheet.agent.client_files import ClientFiles
from callsheet.processes.process import Ended
from callsheet.processes.shell import QUIET, shell
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.runtime.rpc import Disconnected, RemoteError, RpcPeer
from callsheet.tools.errors import IOFailed
from callsheet.tools.host import HostCommand, OnOutput, ShellCommand
from callsheet.tools.session import Call

CREATE_SECONDS = 10.0
STOP_SECONDS = 2.0
"""Seconds for the client to kill a command and return what it has printed."""

SETTLE_SECONDS = 2.0
"""Seconds at the end of a turn for the client to release terminals."""

OUTPUT_LIMIT = 1 << 20
"""Bytes of output that the client is asked to retain."""

CUT = b"[The client has kept only the end of the output.]\n"


class ClientTerminal:
    """One command. `own` is a process of this machine that does the same."""

    def __init__(
        self,
        host: ClientHost,
        call: Call,
        request: JsonObject,
        own: HostCommand,
        on_output: OnOutput,
    ) -> None:
        self.ended: Ended | None = None
        self._host: ClientHost = host
        self._call: Call = call
        self._request: JsonObject = request
        self._own: HostCommand = own
        self._on_output: OnOutput = on_output

    async def run(self, timeout: float | None = None) -> Ended:
        """Run the command to its end. Kill it after `timeout` seconds, or when this task is cancelled.

        Raises:
            IOFailed: The client is gone, or its terminal failed.
        """
        terminal = await self._create()
        if terminal is None:
            try:
                return await self._own.run(timeout)
            finally:
                self.ended = self._own.ended
        self._call.terminal(terminal)
        self._call.session.when_ended(self._call, lambda: self._host.spawn(self._release(terminal)))
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
        """Create the terminal, which starts the command. Return None if the client can't.

        After a timeout or a cancel, the request stays open (it is shielded): a terminal that the client
        creates late is killed by `_drop`.
        """
        asked = asyncio.ensure_future(self._host.ask("terminal/create", self._request))
        try:
            answer = await asyncio.wait_for(asyncio.shield(asked), CREATE_SECONDS)
        except (RemoteError, FrameTooLarge):
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
            self._host.spawn(self._kill_and_release(terminal))

    async def _output(self, terminal: str, status: JsonValue, *, timed_out: bool = False) -> Ended:
        """Pass on what was printed, and return how it ended."""
        answer = await self._tried("terminal/output", terminal)
        text, is_cut = answer.get("output"), answer.get("truncated") is True
        if isinstance(text, str) and text:
            self._on_output((CUT if is_cut else b"") + text.encode(errors="replace"))
        found = status if is_object(status) and status else answer.get("exitStatus")
        code, signal = _exit_of(found)
        return Ended(code, signal, timed_out=timed_out, is_cut=is_cut)

    async def _stopped(self, terminal: str, *, timed_out: bool) -> Ended:
        """Kill the command, and return how it ended, with what it has printed passed on."""
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
        """Release the terminal, when everything about the call was sent."""
        with suppress(Exception):
            await self._call.session.flush_client()
        await self._tried("terminal/release", terminal)

    async def _ask(self, method: str, terminal: str) -> JsonObject:
        return await self._host.ask(method, {"terminalId": terminal})

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
        "outputByteLimit": OUTPUT_LIMIT,
    }


def _exit_of(status: JsonValue) -> tuple[int | None, str | None]:
    """Return the exit code and the signal of an exit status; None for what the client leaves out."""
    if not is_object(status):
        return None, None
    code, signal = status.get("exitCode"), status.get("signal")
    if isinstance(signal, str) and signal:
        return None, signal
    return (code if isinstance(code, int) and not isinstance(code, bool) else None), None


class ClientHost(ClientFiles):
    """Files and commands of one session: the client's, as far as it offers them, else this machine's."""

    def __init__(self, connection: RpcPeer, capabilities: JsonObject, session_id: str) -> None:
        super().__init__(connection, capabilities, session_id)
        self._terminals: bool = capabilities.get("terminal") is True
        self._tasks: set[asyncio.Task[Any]] = set()

    def command(self, call: Call, command: ShellCommand) -> HostCommand:
        """Make a command of a shell, ready to run."""
        own = super().command(call, command)
        if not self._terminals:
            return own
        cwd = call.workspace.as_given(command.cwd)
        request = request_of(command.text, cwd, command.env)
        return ClientTerminal(self, call, request, own, command.on_output)

    async def settled(self) -> None:
        """Wait until terminals that are not needed any more were released."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=SETTLE_SECONDS)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work that the end of the turn waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
