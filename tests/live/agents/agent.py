"""What a test needs to know of an agent: how it is got, started and set up, and what its tools are called."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tests.live.dialects.steps import Use

HOME = Path(__file__).parent.parent / ".agents"
"""Where agents are installed, each in a directory of its own."""

Prepare: TypeAlias = Callable[[Path, str], Mapping[str, str]]
"""Takes a home directory and the model's address, writes settings, and gives environment variables."""


@dataclass(frozen=True)
class Agent:
    """A real agent. `program` is a path in its directory; one in JavaScript is run by node."""

    name: str
    registry: Literal["pypi", "npm"]
    package: str
    version: str
    program: str
    prepare: Prepare
    read: Callable[[Path], Use]
    edit: Callable[[Path, str, str], Use]
    shell: Callable[[str], Use]
    arguments: tuple[str, ...] = ()
    stays: bool = False
    """Whether it has to be told to leave: the end of its input is not enough."""
    shows_output: bool = True
    """Whether it tells what a command has written."""
    loads: bool = True
    """Whether it finds a session again after it was ended."""

    @property
    def directory(self) -> Path:
        """Where it is installed. A new version gets a new place."""
        return HOME / f"{self.name}-{self.version}"

    @property
    def is_installed(self) -> bool:
        """Whether the whole of it is there."""
        return (self.directory / ".done").exists()

    @property
    def command(self) -> list[str]:
        """What starts it."""
        path = str(self.directory / self.program)
        node = [shutil.which("node") or "node"] if path.endswith("js") else []
        return [*node, path, *self.arguments]
