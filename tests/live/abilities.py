"""What an editor can do for an agent: read and write files, and run commands in terminals of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from callsheet.testing.agent_client import Serve

CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}

_NOTHING: dict[str, Any] = {}


class Terminal:
    """A command that runs, and what it has written."""

    def __init__(self, process: Process) -> None:
        self.process: Process = process
        self.output: bytearray = bytearray()
        self.reading: asyncio.Task[None] = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while self.process.stdout is not None and (data := await self.process.stdout.read(4096)):
            self.output += data
        await self.process.wait()

    def kill(self) -> None:
        """End the command, and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    @property
    def exit_status(self) -> dict[str, Any] | None:
        """How it ended, if it has."""
        code = self.process.returncode
        if code is None:
            return None
        if code < 0:
            return {"exitCode": None, "signal": signal.Signals(-code).name}
        return {"exitCode": code, "signal": None}


class Abilities:
    """Serves what `CAPABILITIES` promises. Commands run in the project unless the agent says where."""

    def __init__(self, project: Path) -> None:
        self._project: Path = project
        self.terminals: dict[str, Terminal] = {}
        self._numbers: count[int] = count(1)

    @property
    def serve(self) -> Mapping[str, Serve]:
        """The methods, by name."""
        return {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    def close(self) -> None:
        """End what still runs."""
        for terminal in self.terminals.values():
            terminal.kill()

    def _read(self, params: dict[str, Any]) -> dict[str, Any]:
        lines = Path(params["path"]).read_text().splitlines(keepends=True)
        first = (params.get("line") or 1) - 1
        limit = params.get("limit")
        return {"content": "".join(lines[first : None if limit is None else first + limit])}

    def _write(self, params: dict[str, Any]) -> dict[str, Any]:
        Path(params["path"]).write_text(params["content"])
        return _NOTHING

    async def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("args")
        command = [params["command"], *given] if given else ["/bin/sh", "-c", params["command"]]
        env = os.environ | {one["name"]: one["value"] for one in params.get("env") or ()}
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=params.get("cwd") or self._project,
            env=env,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        key = f"term_{next(self._numbers)}"
        self.terminals[key] = Terminal(process)
        return {"terminalId": key}

    def _output(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self.terminals[params["terminalId"]]
        told = {"output": terminal.output.decode(errors="replace"), "truncated": False}
        return told | {"exitStatus": terminal.exit_status}

    async def _wait(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self.terminals[params["terminalId"]]
        await terminal.reading
        return terminal.exit_status or _NOTHING

    def _kill(self, params: dict[str, Any]) -> dict[str, Any]:
        self.terminals[params["terminalId"]].kill()
        return _NOTHING

    def _release(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._kill(params)
