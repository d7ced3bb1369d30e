"""What tools run on: files and commands. By default, those of this machine.

An editor may offer its own: files with changes that are not saved yet, and terminals that its user sees.
Tools go through the session's host, so that each tool is written once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from callsheet.processes.process import Ended

    from .files.document import Document, New
    from .session import Call

GoOn: TypeAlias = Callable[[], None]
"""Raises if the call was cancelled."""

OnOutput: TypeAlias = Callable[[bytes], object]


class HostCommand(Protocol):
    """A command. `ended` is known also if its run was cancelled."""

    ended: Ended | None

    async def run(self, timeout: float | None = None) -> Ended:
        """Run it to its end, or end it after so many seconds, or when this is cancelled."""
        ...


class Host(Protocol):
    """Files and commands. What has to do with files is called in threads, and may wait."""

    by_text: bool
    """Whether there may be texts of files that are not saved, as in an editor."""

    def look(self, call: Call, path: Path, found: os.stat_result) -> Document | None:
        """Return a file that is to be read, if there may be an unsaved text of it; else None."""
        ...

    def load(self, call: Call, path: Path, go_on: GoOn) -> Document:
        """Return a file that is to be changed."""
        ...

    def replace(
        self, call: Call, path: Path, new: New, old: Document | None, go_on: GoOn
    ) -> os.stat_result | None:
        """Replace a file. Return its state then; None if it is not on the disk yet."""
        ...

    def command(
        self,
        call: Call,
        command: str,
        cwd: Path,
        env: Mapping[str, str | None],
        on_output: OnOutput,
    ) -> HostCommand:
        """Make a command of a shell, ready to run. Raises ValueError for what can't be passed on."""
        ...


class Machine:
    """This machine."""

    by_text: bool = False

    def look(self, call: Call, path: Path, found: os.stat_result) -> Document | None:
        """Return None: there are no unsaved texts."""
        del call, path, found
        return None

    def load(self, call: Call, path: Path, go_on: GoOn) -> Document:
        """Read a file from the disk."""
        del go_on
        from .files.document import load

        return load(path, call.workspace.show(path))

    def replace(
        self, call: Call, path: Path, new: New, old: Document | None, go_on: GoOn
    ) -> os.stat_result | None:
        """Replace a file on the disk, as a whole."""
        del call
        from .files.atomic import replace_file

        return replace_file(path, new.data, None if old is None else old.stat, go_on)

    def command(
        self,
        call: Call,
        command: str,
        cwd: Path,
        env: Mapping[str, str | None],
        on_output: OnOutput,
    ) -> HostCommand:
        """Make a process."""
        del call
        from callsheet.processes.process import Process
        from callsheet.processes.shell import environment, shell
        from callsheet.tools.fs.dirfd import open_directory

        argv = [shell(), "-c", "--", command]
        return Process(
            argv, cwd=cwd, env=environment(env), on_output=on_output, open_cwd=open_directory
        )
