"""The tap over a recording: writes down what a client would have been told, by the recording's times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from callsheet.check.recording.lines import Line, Way, read
from callsheet.check.recording.requests import Requests
from callsheet.check.recording.values import obj, rpc_id, text
from callsheet.check.recording.writing import Way as Direction
from callsheet.check.recording.writing import wrapped
from callsheet.runtime.spill import SpillStore

from .account import Account
from .context import Context
from .pipeline import Pipeline
from .settings import TapSettings

_encode = msgspec.json.Encoder().encode
_READ = (None, "surrogate", "encoding")
"""Faults of lines that a tap reads all the same."""

_DIRECTIONS: dict[Way, Direction] = {"client": "client->agent", "agent": "agent->client"}

PRECISE = 1e-6
"""Seconds to which recordings tell times. What they tell when something is due may be just that."""


class Repairs:
    """Repairs one recording: lines in, lines out. `account` says what was done.

    `messages` counts what could be read; a file without any is no recording.
    """

    def __init__(self, settings: TapSettings, spill: SpillStore | bool = True) -> None:
        self.account: Account = Account()
        self.messages: int = 0
        self.faults: list[str] = []
        tap = Context(settings, self.account, spill=spill)
        self._pipeline: Pipeline = Pipeline(tap, self.faults.append)
        self._requests: Requests = Requests()
        self._now: float = 0.0
        self._is_wrapped: bool = False

    def repaired(self, stream: BinaryIO) -> Iterator[bytes]:
        """Give the lines of a recording, repaired."""
        for line in read(stream):
            yield from self._one(line)
        yield from self._until(None)
        self._pipeline.agent_gone(self._now)
        yield from self._drained(b"", b"")

    def _one(self, line: Line) -> Iterator[bytes]:
        message = line.message
        if message is None or line.fault not in _READ:
            if line.raw:
                yield line.raw + b"\n"
            return
        self.messages += 1
        if line.time is not None:
            yield from self._until(line.time)
            self._now = max(self._now, line.time)
        sender = line.sender or self._sender(line, message)
        if sender is None:
            yield line.raw + b"\n"
            return
        self._is_wrapped = self._is_wrapped or line.sender is not None
        data = _encode(message) + b"\n"
        if sender == "client":
            self._pipeline.from_client(data, self._now)
        else:
            self._pipeline.from_agent(data, self._now)
        yield from self._drained(data, line.raw + b"\n")

    def _sender(self, line: Line, message: dict[str, Any]) -> Way | None:
        params = obj(message.get("params"))
        sender = self._requests.sender(message, params)
        method = text(message.get("method"))
        if sender is not None and method is not None and "id" in message:
            self._requests.ask(sender, rpc_id(message["id"]), method, params, line)
        elif sender is not None and "id" in message:
            asker: Way = "client" if sender == "agent" else "agent"
            self._requests.asked.pop((asker, rpc_id(message["id"])), None)
        return sender

    def _until(self, time: float | None) -> Iterator[bytes]:
        """Let everything happen that is due before a time; without one, all that ever will be."""
        pipeline = self._pipeline
        while (due := pipeline.due) is not None and (time is None or due < time - PRECISE):
            self._now = max(self._now, due)
            pipeline.tick(self._now)
            yield from self._drained(b"", b"")

    def _drained(self, data: bytes, as_it_was: bytes) -> Iterator[bytes]:
        """Give what came out. What passed as it came is written as it stood."""
        pipeline = self._pipeline
        yield from self._told("client", pipeline.to_agent, data, as_it_was)
        yield from self._told("agent", pipeline.to_client, data, as_it_was)

    def _told(self, way: Way, lines: list[bytes], data: bytes, as_it_was: bytes) -> Iterable[bytes]:
        for line in lines:
            kept = self._pipeline.for_recording(line)
            if kept is data:
                yield as_it_was
            elif self._is_wrapped:
                yield b"".join(wrapped(self._now, _DIRECTIONS[way], kept.rstrip(b"\n")))
            else:
                yield kept
        lines.clear()


def repair(
    stream: BinaryIO, out: BinaryIO, settings: TapSettings, spill: SpillStore | bool = True
) -> Account:
    """Repair a recording, and write it."""
    repairs = Repairs(settings, spill)
    for line in repairs.repaired(stream):
        out.write(line)
    return repairs.account
