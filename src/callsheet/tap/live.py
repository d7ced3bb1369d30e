"""Run a tap in front of a live agent: two relays, a pipeline between them, and a timer thread.

The locks of `Driver`:

- `_lock` guards the pipeline, and is never held while anything is written.
- `_speaking` is held by a thread that sends to the client, from before it asks the pipeline until the
  lines are written, so that lines arrive in the order in which they were made. A client that does not
  read blocks the agent in this way, as a bare pipe would, but not the client's own direction.
- `_telling` is held while anything is written to the agent.

What the tap itself sends to the agent is sent by the timer thread. If the thread that reads from the
agent did so, an agent that does not read could block it, and both would wait forever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING

from callsheet.acp.jsonrpc import LineBuffer, split_lines
from callsheet.processes.child import CannotStart
from callsheet.tap.stdio import Between, Send

if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.tap.context import TapSettings
    from callsheet.tap.pipeline import Pipeline
    from callsheet.tap.recording import RecordingWriter
    from callsheet.tap.stats import Account


GONE = 2.0
"""Seconds that the agent has to exit on its own when its client is gone."""

LOOK = 0.25
"""Seconds between two checks whether the client is still there, once it sends nothing more."""


class Driver:
    """Drives a pipeline by what the relays receive, and by the clock."""

    def __init__(
        self, pipeline: Pipeline, recorder: RecordingWriter | None, between: Between
    ) -> None:
        self.pipeline: Pipeline = pipeline
        self._recorder: RecordingWriter | None = recorder
        self._between: Between = between
        self._speaking: Lock = Lock()
        self._telling: Lock = Lock()
        self._tell: Send | None = None
        # Lines of the tap's own for the agent, which the timer thread sends.
        self._besides: list[bytes] = []
        self._lock: Lock = Lock()
        self._thinking: Condition = Condition(self._lock)
        self._began: float = time.monotonic()
        self._send: Send | None = None
        self._until: float | None = None
        self._is_over: bool = False
        self._is_gone: bool = False
        # Whether the client was sent half a line: then nothing else may be sent before the rest of it.
        self._is_within: bool = False
        # When to check next whether the client is there, once it is silent; and since when it is gone.
        self._look_at: float | None = None
        self._gone_since: float | None = None
        self._timer: Thread = Thread(target=self._watch_the_clock, daemon=True)
        self._timer.start()

    def now(self) -> float:
        """Return the time of the pipeline."""
        return time.monotonic() - self._began

    def speak_by(self, send: Send) -> None:
        """Set the function that sends to the client."""
        self._send = send

    def tell_by(self, send: Send) -> None:
        """Set the function that sends to the agent."""
        self._tell = send

    def from_client(self, lines: Sequence[bytes], send: Send) -> None:
        """Process lines of the client, and send the agent what comes of them."""
        pipeline = self.pipeline
        with self._thinking:
            if self._recorder is not None:
                self._recorder.write("client->agent", b"".join(map(pipeline.for_recording, lines)))
            for line in lines:
                pipeline.from_client(line, self.now())
            data = b"".join(pipeline.to_agent)
            pipeline.to_agent.clear()
            self._plan(at_once=bool(pipeline.to_client))
        if data:
            with self._telling:
                send(data)

    def from_agent(self, lines: bytes, send: Send) -> None:
        """Process whole lines of the agent, and send the client what comes of them."""
        with self._speaking:
            with self._lock:
                if not self.pipeline.passes(lines):
                    lines = self._changed(lines)
                elif self._recorder is not None:
                    self._recorder.write("agent->client", lines)
            if lines:
                send(lines)

    def _changed(self, lines: bytes) -> bytes:
        """Return what the client is sent instead of some lines of the agent."""
        pipeline, now = self.pipeline, self.now()
        for line in split_lines(lines):
            pipeline.from_agent(line, now)
        data = self._for_client()
        if pipeline.to_agent:
            self._besides += pipeline.to_agent
            pipeline.to_agent.clear()
        self._plan(at_once=bool(self._besides))
        return data

    def pass_on(self, data: bytes, send: Send) -> None:
        """Pass on a part of a line that is too long to be parsed."""
        with self._speaking:
            with self._thinking:
                before = b""
                if not self._is_within:
                    self.pipeline.release_requests(self.now())
                    before = self._for_client()
                self._is_within = not data.endswith(b"\n")
                self._plan(at_once=not self._is_within)
            if self._recorder is not None:
                self._recorder.write("agent->client", data)
            send(before + data)

    def last_words(self, data: bytes, send: Send) -> None:
        """Process a line whose end never came: it may be a message all the same."""
        with self._speaking:
            with self._lock:
                told = data if self._is_within else self._changed(data + b"\n")
                told = data if told == data + b"\n" else told
                self._is_within = bool(told) and not told.endswith(b"\n")
            if told:
                send(told)

    def agent_gone(self, send: Send) -> None:
        """Send the client the ends of what is open: the agent will send nothing more."""
        with self._speaking:
            with self._thinking:
                if self._is_gone:
                    return
                self._is_gone = True
                self.pipeline.agent_gone(self.now())
                data = self._for_client()
            if data:
                send(b"\n" + data if self._is_within else data)

    def agent_left(self) -> None:
        """Do what `agent_gone` does if the relay could not, because another process holds stdout open."""
        if self._send is None or self._is_gone or not self._speaking.acquire(timeout=LOOK):
            return
        self._speaking.release()
        with suppress(OSError):
            self.agent_gone(self._send)

    def close(self) -> None:
        """Stop the timer thread."""
        with self._thinking:
            self._is_over = True
            self._thinking.notify()

    def _for_client(self) -> bytes:
        pipeline = self.pipeline
        data = b"".join(pipeline.to_client)
        if self._recorder is not None and data:
            kept = b"".join(map(pipeline.for_recording, pipeline.to_client))
            self._recorder.write("agent->client", kept)
        pipeline.to_client.clear()
        return data

    def _plan(self, *, at_once: bool = False) -> None:
        """Wake the timer thread if something is due earlier than it expects."""
        due = self.pipeline.due
        if at_once or (due is not None and (self._until is None or due < self._until)):
            self._until = self.now() if at_once else due
            self._thinking.notify()

    def _watch_the_clock(self) -> None:
        while not self._is_over:
            with self._thinking:
                wait = self._wait()
                if wait is None or wait > 0:
                    self._thinking.wait(wait)
                    continue
            self._tick()
            if self._look_at is not None and self._look_at <= self.now():
                self._look_for_the_client()

    def _wait(self) -> float | None:
        times = [time for time in (self._until, self._look_at) if time is not None]
        return min(times) - self.now() if times else None

    def _tick(self) -> None:
        with self._speaking:
            with self._thinking:
                now = self.now()
                if (due := self.pipeline.due) is not None and due <= now:
                    self.pipeline.tick(now)
                self._until = None if self._is_within else self.pipeline.due
                data = b"" if self._is_within else self._for_client()
                besides, self._besides = b"".join(self._besides), []
            if data and self._send is not None:
                with suppress(OSError):  # the relay gets the same error, and handles it
                    self._send(data)
        if besides and self._tell is not None:
            with self._telling, suppress(OSError):
                self._tell(besides)

    # Whether anybody is there

    def client_is_silent(self) -> None:
        """Note that the client will send nothing more. It may still read."""
        with self._thinking:
            self._look_at = self.now()
            self._thinking.notify()

    def _look_for_the_client(self) -> None:
        """End the agent if nobody reads from it any more, and it does not exit on its own."""
        now = self.now()
        self._look_at = now + LOOK
        if self._between.client_listens():
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since >= GONE:
            self._look_at = None
            self._between.child.end()


class FromClient:
    """The hook on what the client sends."""

    def __init__(self, driver: Driver) -> None:
        self._driver: Driver = driver
        self._lines: LineBuffer = LineBuffer()

    def begin(self, send: Send) -> None:
        """Let the tap send to the agent, too."""
        self._driver.tell_by(send)

    def take(self, data: bytes, send: Send) -> None:
        """Take the next piece."""
        ended, lines, part = self._lines.feed(data)
        try:
            if ended:
                send(ended)
            if lines:
                self._driver.from_client(split_lines(lines), send)
            if part:
                send(part)
        except OSError:
            self._driver.client_is_silent()  # this relay ends, and no longer notices that the client goes
            raise

    def end(self, send: Send) -> None:
        """Pass on what had no end."""
        rest = self._lines.end()
        if rest:
            send(rest)
        self._driver.client_is_silent()


class FromAgent:
    """The hook on what the agent sends."""

    def __init__(self, driver: Driver) -> None:
        self._driver: Driver = driver
        self._lines: LineBuffer = LineBuffer()

    def begin(self, send: Send) -> None:
        """Let the timer thread send to the client, too."""
        self._driver.speak_by(send)

    def take(self, data: bytes, send: Send) -> None:
        """Take the next piece."""
        ended, lines, part = self._lines.feed(data)
        if ended:
            self._driver.pass_on(ended, send)
        if lines:
            self._driver.from_agent(lines, send)
        if part:
            self._driver.pass_on(part, send)

    def end(self, send: Send) -> None:
        """Pass on what had no end, and end what is open."""
        rest = self._lines.end()
        if rest:
            self._driver.last_words(rest, send)
        self._driver.agent_gone(send)


def start(command: Sequence[str]) -> Between:
    """Start an agent, to be served later by `tap`. There must be no other thread yet.

    Args:
        command: The agent's command line.

    Raises:
        CannotStart: The command can't be run.
    """
    between = Between()
    between.start(command)
    return between


def tap(
    command: Sequence[str],
    settings: TapSettings,
    *,
    history: Callable[[], History] | None = None,
    record: str | None = None,
    between: Between | None = None,
) -> tuple[int, Account | None]:
    """Run an agent behind a tap until it ends.

    Args:
        command: The agent's command line.
        settings: What the tap does.
        history: Opens the history in which to store what the client is shown; None to store nothing.
        record: A file to record the traffic to, or a directory; None to record nothing.
        between: What `start` returned, if the agent was started already.

    Returns:
        The agent's exit code and the counts of what was done. If the agent can't be started, what a shell
        would exit with, and None.
    """
    try:
        between = between or start(command)
    except CannotStart as exc:
        say(str(exc))
        return exc.exit_code, None
    from callsheet.tap.context import Context
    from callsheet.tap.history_sink import HistorySink
    from callsheet.tap.pipeline import Pipeline
    from callsheet.tap.recording import RecordingWriter, path_in
    from callsheet.tap.stats import Account  # imported late, while the agent starts

    name = os.path.basename(command[0])  # noqa: PTH119 - pathlib takes long to import
    keeping = HistorySink(history, name, say) if history is not None else None
    recorder = None
    if record is not None:
        recorder = RecordingWriter(path_in(record, command[0]), warn=say)
    account = Account()
    context = Context(
        settings,
        account,
        store=None if keeping is None else keeping.call,
        epoch=time.time(),
    )
    pipeline = Pipeline(context, say, keeping)
    driver = Driver(pipeline, recorder, between)
    context.epoch = (
        time.time() - driver.now()
    )  # the driver's clock started later than `epoch` above
    try:
        code = between.serve(FromClient(driver), FromAgent(driver))
        driver.agent_left()
        return code, account
    finally:
        driver.close()
        if recorder is not None:
            recorder.close()
        if keeping is not None:
            keeping.close()


def say(text: str) -> None:
    """Write a message for the user to stderr."""
    with suppress(OSError):
        os.write(2, f"callsheet tap: {text}\n".encode(errors="replace"))
