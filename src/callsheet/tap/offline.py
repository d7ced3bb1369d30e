"""Run a tap over a recording: write what a client would have been sent, by the recording's times.

No clock is read. Before each line, everything happens that would have been due by the line's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from callsheet.observe.lines import Direction, RecordedLine, Sender, encode_line, is_rpc, read_lines
from callsheet.runtime.spill_store import SpillStore
from callsheet.tap.context import TapSettings
from callsheet.tap.stats import Account

from .context import Context
from .history_sink import HistorySink
from .pipeline import Pipeline

_encode = msgspec.json.Encoder().encode
_DIRECTIONS: dict[Sender, Direction] = {"client": "client->agent", "agent": "agent->client"}

PRECISE = 1e-6
"""Seconds to which times in recordings are exact. A line may have come just when something was due."""


class Repairs:
    """Repair one recording: lines in, lines out.

    Args:
        settings: What is repaired.
        spill: Where what does not fit is written to.
        history: Stores what the client is shown.
        epoch: The time of day at time 0, in seconds since 1970, if it is known.

    Attributes:
        account: Counts of what was done.
        messages: How many messages could be read. A file without any is no recording.
        cut_at: The number of the last line, if that breaks off in the middle.
        faults: Warnings about failures of the tap itself.
    """

    def __init__(
        self,
        settings: TapSettings,
        spill: SpillStore | bool = True,
        *,
        history: HistorySink | None = None,
        epoch: float | None = None,
    ) -> None:
        self.account: Account = Account()
        self.messages: int = 0
        self.cut_at: int | None = None
        self.faults: list[str] = []
        self._tap: Context = Context(settings, self.account, spill=spill, epoch=epoch)
        self._pipeline: Pipeline = Pipeline(self._tap, self.faults.append, history)
        self._now: float = 0.0
        self._is_wrapped: bool = False

    @property
    def now(self) -> float:
        """The time in the recording."""
        return self._now

    def repaired(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the lines of a recording, repaired."""
        for line in read_lines(stream):
            self.cut_at = line.number if line.fault == "cut" else None
            yield from self._one(line)
        yield from self._until(None)
        self._pipeline.agent_gone(self._now)
        yield from self._drained()

    def _one(self, line: RecordedLine) -> Iterator[bytes]:
        message = line.message
        if message is None:
            yield from self._as_it_is(line)
            return
        self.messages += is_rpc(message)
        self._tap.has_times = line.time is not None
        if line.time is not None:
            yield from self._until(line.time)
            self._now = max(self._now, line.time)
        sender = line.sender or self._pipeline.sender_of(message)
        if sender is None:
            yield from self._asked()
            yield self._pipeline.for_recording(line.raw + b"\n")
            return
        self._is_wrapped = self._is_wrapped or line.sender is not None
        data = _encode(message) + b"\n"
        if sender == "client":
            yield from self._asked()  # it may be answered now
            self._pipeline.from_client(data, self._now)
        else:
            self._pipeline.from_agent(data, self._now)
        is_wrapped = line.fault is not None and line.sender is not None
        yield from self._drained(
            data, self._wrapped(sender, data) if is_wrapped else line.raw + b"\n"
        )
        if line.time is None:  # without times, nothing can be delayed
            yield from self._asked()

    def _as_it_is(self, line: RecordedLine) -> Iterator[bytes]:
        """Yield a line that is no message: unchanged, except that secrets are removed."""
        if not line.raw:
            return
        yield from self._asked()
        clean = self._pipeline.for_recording(line.raw + b"\n")
        yield clean if line.sender is None else self._wrapped(line.sender, clean)

    def _asked(self) -> Iterator[bytes]:
        """Send the permission requests that wait, and yield what comes out."""
        self._pipeline.release_requests(self._now)
        yield from self._drained()

    def _wrapped(self, way: Sender, line: bytes) -> bytes:
        return b"".join(encode_line(self._now, _DIRECTIONS[way], line.rstrip(b"\n")))

    def _until(self, time: float | None) -> Iterator[bytes]:
        """Do everything that is due before a time, or all that will ever be due if it is None."""
        pipeline = self._pipeline
        while (due := pipeline.due) is not None and (time is None or due < time - PRECISE):
            self._now = max(self._now, due)
            pipeline.tick(self._now)
            yield from self._drained()

    def _drained(self, data: bytes = b"", as_it_was: bytes = b"") -> Iterator[bytes]:
        """Yield what came out of the pipeline. A line that passed unchanged is yielded as `as_it_was`."""
        pipeline = self._pipeline
        ways: tuple[tuple[Sender, list[bytes]], ...] = (
            ("client", pipeline.to_agent),
            ("agent", pipeline.to_client),
        )
        for sender, lines in ways:
            for line in lines:
                clean = pipeline.for_recording(line)
                if clean is data:
                    yield as_it_was
                else:
                    yield self._wrapped(sender, clean) if self._is_wrapped else clean
            lines.clear()
