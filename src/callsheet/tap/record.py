"""Records an agent's traffic to a file while it is passed on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from .between import Between
from .child import CannotStart
from .relay import Send

if TYPE_CHECKING:
    from callsheet.observe.lines import Direction

    from .recording import Form


class Kept:
    """A hook that keeps what it passes on."""

    def __init__(self, way: Direction, keep: Callable[[Direction, bytes], None]) -> None:
        self._way: Direction = way
        self._keep: Callable[[Direction, bytes], None] = keep

    def begin(self, send: Send) -> None:
        """Nothing is said that was not heard."""

    def take(self, data: bytes, send: Send) -> None:
        """Keep it first: what answers it must come later in the recording."""
        self._keep(self._way, data)
        send(data)

    def end(self, send: Send) -> None:
        """Nothing was held back."""


def record(command: Sequence[str], output: str, form: Form = "wrapped") -> int:
    """Run an agent, pass on its traffic, and record it. Gives the exit code that is the agent's.

    `output` is a file, or a directory, which then gets a file for each run.
    """
    between = Between()
    try:
        between.start(command)
    except CannotStart as exc:
        _say(str(exc))
        return exc.exit_code
    from .recording import RecordingWriter  # the agent starts meanwhile

    writer = RecordingWriter(path_in(output, command[0]), form, say=_say)
    try:
        return between.serve(Kept("client->agent", writer.keep), Kept("agent->client", writer.keep))
    finally:
        writer.close()


def path_in(output: str, program: str) -> str:
    """Return where to record to: in a directory, a new file with the agent's name and the time."""
    if not (output.endswith(os.sep) or os.path.isdir(output)):  # noqa: PTH112
        return output
    with suppress(OSError):  # who opens the file will say so
        os.makedirs(output, exist_ok=True)  # noqa: PTH103
    name = os.path.basename(program) or "agent"  # noqa: PTH119
    when = time.strftime("%Y%m%d-%H%M%S")
    return os.path.join(output, f"{name}-{when}-{os.getpid()}.jsonl")  # noqa: PTH118


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"callsheet record: {text}\n".encode(errors="replace"))
