"""The host, through which tools access files and run commands. By default, it is this machine.

An editor may provide its own: files with unsaved changes, and terminals that its user sees. Tools use the
session's host, so that each tool is written only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from callsheet.processes.process import Ended

    from .files.document import Document, New
    from .session import Call

GoOn: TypeAlias = Callable[[], None]
"""Raises if the call was cancelled."""

OnOutput: TypeAlias = Callable[[bytes], object]


class ShellCommand(NamedTuple):
    """A command for a shell: its text, where it runs, what is changed in its environment.

    `on_output` receives what it prints.
    """

    text: str
    cwd: Path
    env: Mapping[str, str | None]
    on_output: OnOutput


class HostCommand(Protocol):
    """A command that is ready to run. `ended` is set even if its run was cancelled."""

    ended: Ended | None

    async def run(self, timeout: float | None = None) -> Ended:
        """Run the command until it ends. End it after `timeout` seconds, or when this is cancelled."""
        ...


class Host:
    """Files and commands of this machine. A subclass may lend others.

    The methods for files are called in threads, and may block.
    """

    by_text: bool = False
    """Whether files may have unsaved text, as in an editor."""

    def look(self, call: Call, path: Path, found: os.stat_result) -> Document | None:
        """Return a file that is to be read, if it may have unsaved text; else None."""
        del call, path, found
        return None

    def load(self, call: Call, path: Path, go_on: GoOn) -> Document:
        """Return a file that is to be changed."""
        del go_on
        from .files.document import load

        return load(path, call.workspace.show(path))

    def replace(
        self, call: Call, path: Path, new: New, old: Document | None, go_on: GoOn
    ) -> os.stat_result | None:
        """Replace a file atomically, and return its new state; None if it is not on disk yet."""
        del call
        from .files.document import replace_file

        return replace_file(path, new.data, None if old is None else old.stat, go_on)

    def command(self, call: Call, command: ShellCommand) -> HostCommand:
        """Return a shell command that is ready to run.

        Raises:
            ValueError: The command or its environment can't be passed on.
        """
        del call
        from callsheet.processes.process import Process
        from callsheet.processes.shell import environment, shell
        from callsheet.tools.files.dirfd import open_directory

        return Process(
            [shell(), "-c", "--", command.text],
            cwd=command.cwd,
            env=environment(command.env),
            on_output=command.on_output,
            open_cwd=open_directory,
        )
