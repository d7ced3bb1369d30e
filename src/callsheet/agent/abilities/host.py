"""The host of a session whose client lends something: each part from the client, or of this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from callsheet.tools.files.document import Document, New
from callsheet.tools.host import GoOn, Host, Machine, OnOutput, Running
from callsheet.tools.session import Call

from .asking import Asking
from .files import ClientFiles
from .terminal import ClientTerminal, request_of

SETTLE_SECONDS = 2.0


class ClientHost:
    """What tools stand on. Files and terminals are the client's, as far as it has them."""

    def __init__(self, asking: Asking, *, reads: bool, writes: bool, terminals: bool) -> None:
        self.by_text: bool = reads
        self._asking: Asking = asking
        self._terminals: bool = terminals
        self._machine: Machine = Machine()
        self._files: Host | ClientFiles = self._machine
        if reads or writes:
            self._files = ClientFiles(asking, reads=reads, writes=writes)
        self._tasks: set[asyncio.Task[Any]] = set()

    def look(self, call: Call, path: Path, found: os.stat_result) -> Document | None:
        """Return a file that is to be read, if somebody may hold another text of it; else None."""
        return self._files.look(call, path, found)

    def load(self, call: Call, path: Path, go_on: GoOn) -> Document:
        """Return a file that is to be changed."""
        return self._files.load(call, path, go_on)

    def replace(
        self, call: Call, path: Path, new: New, old: Document | None, go_on: GoOn
    ) -> os.stat_result | None:
        """Return a file new content."""
        return self._files.replace(call, path, new, old, go_on)

    def command(
        self,
        call: Call,
        command: str,
        cwd: Path,
        env: Mapping[str, str | None],
        on_output: OnOutput,
    ) -> Running:
        """Make a command of a shell, ready to run."""
        own = self._machine.command(call, command, cwd, env, on_output)
        if not self._terminals:
            return own
        request = request_of(command, call.workspace.as_given(cwd), env)
        return ClientTerminal(self._asking, call, request, lambda: own, on_output, self._spawn)

    async def settled(self) -> None:
        """Wait until terminals that are not needed any more were let go of."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=SETTLE_SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
