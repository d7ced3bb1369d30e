"""A recording of what went between a client and an agent: it can be checked, saved, and read again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import msgspec

from callsheet.observe.lines import Direction, RecordedLine, encode_line, read_lines

from .agent_process import Frame

if TYPE_CHECKING:
    from callsheet.check.finding import Finding

    from .client import AgentClient
    from .recordings import Recorder

Source: TypeAlias = "Recording | AgentClient | Recorder | str | Path | Iterable[Any]"
"""What a recording can be made of: a client, a sink, a file, or frames, lines or messages."""

_WAYS: dict[str, Direction] = {"in": "agent->client", "out": "client->agent"}


class _Taken(NamedTuple):
    """A line, which way it went, and when; None where nobody knows."""

    line: bytes
    way: Direction | None = None
    at: float | None = None


class Recording:
    """What went between a client and an agent.

    async with AgentClient(["my-agent"], recording=recording) as client:
        ...
    assert recording.check() == []

    `directory` is where `command` lets agents be recorded to.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self.found: list[Finding] = []
        """What was found when it was checked last."""
        self._directory: Path | None = None if directory is None else Path(directory)
        self._taken: list[_Taken] = []
        self._files: list[Path] = []
        self._began: float = time.monotonic()

    @classmethod
    def of(cls, source: Source) -> Self:
        """Make one of what was kept: by a client, by a sink, in a file, or as lines or messages."""
        made = cls()
        if isinstance(source, (str, Path)):
            made._files.append(Path(source))
            return made
        if isinstance(source, Recording):
            made._taken += source._taken
            made._files += source._files
            return made
        kept: Any = getattr(source, "traffic", None)
        if kept is None and hasattr(source, "send"):  # a sink: it has heard the agent only
            kept = [_Taken(line, "agent->client") for line in getattr(source, "lines", ())]
        made._taken += map(_taken, source if kept is None else kept)  # pyright: ignore[reportArgumentType]
        return made

    # Recording

    def agent(self, line: bytes) -> None:
        """Take a line that the agent wrote. It can be a session's `on_update`."""
        self._taken.append(_Taken(line, "agent->client", time.monotonic() - self._began))

    def client(self, line: bytes) -> None:
        """Take a line that the client wrote."""
        self._taken.append(_Taken(line, "client->agent", time.monotonic() - self._began))

    def take(self, frame: Frame) -> None:
        """Take a line of a client's traffic, at the time that it is now."""
        (self.agent if frame.way == "in" else self.client)(frame.line)

    def command(self, *agent: str) -> list[str]:
        """Return the command that runs an agent and records it here, for whatever client starts it."""
        if self._directory is None:
            raise ValueError("there is nowhere to record to: give Recording a directory")
        path = self._directory / f"agent-{len(self._files) + 1}.jsonl"
        self._files.append(path)
        return [sys.executable, "-m", "callsheet", "record", "-o", str(path), "--", *agent]

    # What is in it

    @property
    def lines(self) -> list[RecordedLine]:
        """Its lines: each has its `number`, `message`, `sender` and `time`, or a `problem`."""
        return list(read_lines(BytesIO(self.to_bytes())))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, both ways, in order."""
        return [line.message for line in self.lines if line.message is not None]

    def check(
        self,
        *,
        select: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        clients: str | Iterable[str] = (),
    ) -> list[Finding]:
        """Find what is wrong with it; see `callsheet check`.

        `select` and `ignore` name rules or categories; `clients` (zed, toad, acpx) those whose own rules
        hold, too. The findings' lines are those of the file that `save` makes.
        """
        from callsheet.check.engine import check_stream
        from callsheet.check.runner import choose, named

        asked = _words(clients)
        rules = choose(chosen=named(_words(select)), ignored=named(_words(ignore)), clients=asked)
        # Rules about a client that are selected by name hold without the client being named.
        held = {*asked, *(client for rule in rules for client in rule.clients)}
        self.found = list(check_stream(BytesIO(self.to_bytes()), rules=rules, clients=held))
        return list(self.found)

    def to_bytes(self) -> bytes:
        """Return what a file of it holds."""
        return b"".join(self._parts())

    def save(self, path: str | Path) -> Path:
        """Write it to a file that only its owner can read. One that is there is replaced."""
        path = Path(path)
        path.unlink(missing_ok=True)
        path.touch(0o600)
        with path.open("wb") as file:
            file.writelines(self._parts())
        return path

    def _parts(self) -> Iterator[bytes]:
        for taken in self._taken:
            if taken.way is None:
                yield taken.line.rstrip(b"\r\n") + b"\n"
            else:
                for line in taken.line.split(b"\n"):
                    yield from encode_line(taken.at, taken.way, line)
        for path in self._files:
            if path.exists() or len(self._files) == 1:
                yield path.read_bytes()

    def __repr__(self) -> str:
        files = f" and {len(self._files)} files" if self._files else ""
        return f"<Recording of {len(self._taken)} lines{files}>"


def _taken(item: Any) -> _Taken:
    if isinstance(item, _Taken):
        return item
    if isinstance(item, Frame):
        return _Taken(item.line, _WAYS[item.way], item.at)
    if isinstance(item, str):
        return _Taken(item.encode())
    return _Taken(item if isinstance(item, bytes) else msgspec.json.encode(item))


def _words(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
