"""Run a tap in front of a live agent: a pipeline, driven by what both sides send and by the clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from callsheet.processes.child import CannotStart
from callsheet.tap.stdio import Between, warn_user

if TYPE_CHECKING:
    from callsheet.acp.jsonrpc import LineBuffer
    from callsheet.history.history import History
    from callsheet.tap.context import TapSettings
    from callsheet.tap.pipeline import Pipeline
    from callsheet.tap.recording import RecordingWriter
    from callsheet.tap.stats import Account
    from callsheet.telemetry.budget import CostBudget


class Driver:
    """The traffic of a tap: whole lines go through a pipeline, and lines that are too long pass in parts."""

    def __init__(self, pipeline: Pipeline, recorder: RecordingWriter | None = None) -> None:
        # Imported here: the agent is started before anything that takes long to import.
        from callsheet.acp.jsonrpc import LineBuffer, split_lines

        self.to_client: list[bytes] = []
        self.to_agent: list[bytes] = []
        self.pipeline: Pipeline = pipeline
        self._recorder: RecordingWriter | None = recorder
        self._split: Callable[[bytes], list[bytes]] = split_lines
        self._client_lines: LineBuffer = LineBuffer()
        self._agent_lines: LineBuffer = LineBuffer()
        self._began: float = time.monotonic()
        # Whether the client was sent half a line: then nothing else may be sent before the rest of it.
        self._is_within: bool = False
        # When something is due. It does not change by lines that pass unchanged.
        self._due: float | None = None

    def now(self) -> float:
        """Return the time of the pipeline."""
        return time.monotonic() - self._began

    def from_client(self, data: bytes) -> None:
        """Process a piece of what the client sends; none at the end."""
        more, lines, begun = self._client_lines.feed(data)
        if more:
            self.to_agent.append(more)
        for line in self._split(lines):
            if self._recorder is not None:
                self._recorder.write("client->agent", self.pipeline.for_recording(line))
            self.pipeline.from_client(line, self.now())
        self._collect()
        if begun:
            self.to_agent.append(begun)
        if not data and (rest := self._client_lines.end()):
            self.to_agent.append(rest)

    def from_agent(self, data: bytes) -> None:
        """Process a piece of what the agent sends; none at the end: then all that is open ends."""
        more, lines, begun = self._agent_lines.feed(data)
        if more:
            self._pass_part(more)
        if lines:
            self._process(lines)
        if begun:
            self._pass_part(begun)
        elif not data:
            self._end(self._agent_lines.end())

    @property
    def wait(self) -> float | None:
        """Seconds until something is due, if it may be sent."""
        return None if self._due is None else self._due - self.now()

    def tick(self) -> None:
        """Do what is due."""
        self.pipeline.tick(self.now())
        self._collect()

    def _process(self, lines: bytes) -> None:
        """Process whole lines of the agent."""
        if self.pipeline.passes(lines):
            self._pass_unchanged(lines)
            return
        now = self.now()
        for line in self._split(lines):
            self.pipeline.from_agent(line, now)
        self._collect()

    def _pass_part(self, data: bytes) -> None:
        """Pass on a part of a line that is too long to be parsed."""
        if not self._is_within:
            self.pipeline.release_requests(self.now())
            self._collect()
        self._is_within = not data.endswith(b"\n")
        self._pass_unchanged(data)
        self._collect()

    def _pass_unchanged(self, data: bytes) -> None:
        if self._recorder is not None:
            self._recorder.write("agent->client", data)
        self.to_client.append(data)

    def _end(self, rest: bytes) -> None:
        """Process a line whose end never came, and end what is open: the agent will send nothing more."""
        if rest and self._is_within:
            self.to_client.append(rest)
        elif rest:  # it may be a message all the same
            before = len(self.to_client)
            self._process(rest + b"\n")
            if self.to_client[before:] == [rest + b"\n"]:
                self.to_client[before:], self._is_within = [rest], True
        self.pipeline.agent_gone(self.now())
        if self._is_within and self.pipeline.to_client:
            self.to_client.append(b"\n")
        self._is_within = False
        self._collect()

    def _collect(self) -> None:
        """Take what the pipeline has for both sides. The client's waits while half a line was sent."""
        pipeline = self.pipeline
        if pipeline.to_agent:
            self.to_agent += pipeline.to_agent
            pipeline.to_agent.clear()
        if pipeline.to_client and not self._is_within:
            if self._recorder is not None:
                recorded = b"".join(map(pipeline.for_recording, pipeline.to_client))
                self._recorder.write("agent->client", recorded)
            self.to_client += pipeline.to_client
            pipeline.to_client.clear()
        self._due = None if self._is_within else pipeline.due


def tap(
    command: Sequence[str],
    settings: TapSettings,
    *,
    history: Callable[[], History] | None = None,
    record: str | None = None,
    between: Between | None = None,
    notice: bool = False,
    budget: CostBudget | None = None,
    started: Callable[[], object] | None = None,
) -> tuple[int, Account | None]:
    """Run an agent behind a tap until it ends.

    Args:
        command: The agent's command line.
        settings: What the tap does.
        history: Opens the history in which to store what the client is shown; None to store nothing.
        record: A file to record the traffic to, or a directory; None to record nothing.
        between: What started the agent already, if it was started.
        notice: Whether the first session of this agent behind a tap says that it is tapped.
        budget: What each session may cost.
        started: Called when the agent is started.

    Returns:
        The agent's exit code and the counts of what was done. If the agent can't be started, what a shell
        would exit with, and None.
    """
    try:
        between = between or Between(command)
    except CannotStart as exc:
        warn(str(exc))
        return exc.exit_code, None
    from callsheet.tap.context import Context
    from callsheet.tap.history_sink import HistorySink
    from callsheet.tap.notice import Notice, claim_first
    from callsheet.tap.pipeline import Pipeline
    from callsheet.tap.recording import RecordingWriter, path_in
    from callsheet.tap.span_sink import SpanSink
    from callsheet.tap.stats import Account  # imported late, while the agent starts
    from callsheet.telemetry import makes_spans

    name = os.path.basename(command[0])  # noqa: PTH119 - pathlib takes long to import
    account = Account()
    with ExitStack() as stack:
        recorder = sink = spans = None
        if history is not None:
            sink = HistorySink(history, name, warn)
            stack.callback(sink.close)
        if makes_spans():
            spans = SpanSink()
            stack.callback(spans.close)
        if record is not None:
            recorder = RecordingWriter(path_in(record, command[0]), warn=warn)
            stack.callback(recorder.close)
        context = Context(settings, account, epoch=time.time())
        said = Notice(
            lambda: context.describer(None).phrase("tap_notice"), partial(claim_first, command)
        )
        pipeline = Pipeline(context, warn, sink, said if notice else None, budget, spans)
        driver = Driver(pipeline, recorder)
        context.epoch = time.time() - driver.now()  # the driver's clock has started later
        if started is not None:
            started()
        if budget is not None:
            from callsheet.telemetry.prices import load

            load()  # so that no turn has to wait for it
        return between.serve(driver), account


warn = partial(warn_user, "tap")
"""Write a message for the user to stderr."""
