"""What waits for one consumer, and how it becomes lines.

Status changes wait in the order in which they happened, across all calls. Of a call's other changes
the latest stands for all, and goes to the end of the line: so nothing is seen before what happened
before it. Whoever empties it takes all that waits, so no call waits for ever. Live output waits in
its terminal, which keeps so much of it.

`put` and `output` are called under the desk's lock by any thread; `fill` by the event loop's.
"""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager
from typing import Any

from msgspec import json

from callsheet.report.content import TextContent
from callsheet.report.errors import CallsheetError
from callsheet.report.report import ToolCallReport
from callsheet.report.terminals import TerminalState
from callsheet.wire.frames import UpdateFrames
from callsheet.wire.jsonrpc import FrameTooLarge
from callsheet.wire.messages import Update, as_dict
from callsheet.wire.peer import Peer
from callsheet.wire.view import TerminalOf, V1TextView, View, view_for
from callsheet.wire.words import Words

from .faults import Faults

BATCH = 256 * 1024
"""Bytes of lines that are made at once."""

NEAR = 256
"""Changes that may wait without being weighed."""

MAX_WEIGHT = 64 * 1024 * 1024
"""Bytes of changes that may wait for a consumer; one that is farther behind is given up."""

_LEAVE_OUT = ("", "rawOutput", "content", "rawInput", "locations", "_meta", "title")


class Backlog:
    """What waits for one consumer."""

    def __init__(
        self,
        session_id: str,
        peer: Peer | None,
        terminal_of: TerminalOf,
        words: Words,
        lock: AbstractContextManager[Any],
        faults: Faults,
    ) -> None:
        self.view: View = view_for(peer or Peer(progress="meta"), terminal_of, words)
        # A text shows the beginning and the end of the output; the others want every byte.
        self.wants_all: bool = peer is not None and not isinstance(self.view, V1TextView)
        self.lines: deque[Any] = deque()
        self.outputs: dict[str, TerminalState] = {}
        self.is_soft: bool = False
        self.weight: int = 0
        self.put_count: int = 0
        self.taken_count: int = 0
        self._peer: Peer | None = peer
        self._lock: AbstractContextManager[Any] = lock
        self._faults: Faults = faults
        self._frames: UpdateFrames = UpdateFrames(session_id)
        # Status changes under numbers, other changes under the ids of their calls.
        self._queue: dict[int | str, ToolCallReport] = {}
        self._number: int = 0
        self._due: dict[str, TerminalState] = {}
        self._states: dict[str, TerminalState] = {}
        self._todo: deque[ToolCallReport] = deque()

    # Filling it

    def put(self, report: ToolCallReport, moved: bool) -> None:
        """Let the consumer see this state. `moved` says that the call's status has changed."""
        queue = self._queue
        self.put_count += 1
        if moved:
            if queue:
                queue.pop(report.tool_call_id, None)  # it has all that this had
            queue[self._number] = report
            self._number += 1
        else:
            queue.pop(report.tool_call_id, None)
            queue[report.tool_call_id] = report
            self.is_soft = True
        if len(queue) > NEAR:
            self._weigh(report)

    def output(self, tool_call_id: str, state: TerminalState) -> bool:
        """Let the consumer see a call's new output. Gives whether it had none to see before."""
        if tool_call_id in self.outputs:
            return False
        self._states[tool_call_id] = self.outputs[tool_call_id] = state
        self.put_count += 1
        return True

    def clear(self) -> None:
        """Let go of everything."""
        for waiting in (self._queue, self.outputs, self._due, self._states, self._todo, self.lines):
            waiting.clear()

    def _weigh(self, report: ToolCallReport) -> None:
        texts = [item.text for item in report.content if type(item) is TextContent]
        self.weight += 1024 + sum(map(len, texts))
        for value in (report.raw_input, report.raw_output):
            if value:
                self.weight += len(json.encode(value))

    # Emptying it

    @property
    def is_done(self) -> bool:
        """Whether everything that was taken up has become lines."""
        return not self._todo

    def has_more(self) -> bool:
        """Whether there is anything that could become lines."""
        return bool(self._queue or self._todo or self.outputs)

    def fill(self, outputs: bool) -> None:
        """Make the next lines; of live output too, if `outputs` says that it is time."""
        todo, lines, size = self._todo, self.lines, 0
        if not todo:
            with self._lock:  # what comes from now on waits for the next turn
                self.taken_count = self.put_count
                todo.extend(self._queue.values())
                self._queue.clear()
                self.weight, self.is_soft = 0, False
                if outputs:  # together, so that a call is always told before its output
                    self._due, self.outputs = self.outputs, self._due
        line, call, plain = self._frames.line, self.view.call, self._peer and not self._states
        while todo and size < BATCH:
            report = todo.popleft()
            for update in call(report) if plain else self._updates(report):
                try:
                    made = line(update)
                except CallsheetError:
                    made = self._small_line(update)
                lines.append(made)
                size += len(made)
        if self._due and not todo:
            self._fill_outputs()

    def _fill_outputs(self) -> None:
        for state in self._due.values():
            if self._peer is not None:
                with self._lock:
                    updates = self.view.terminal(state)
                self.lines.extend(map(self._small_line, updates))
        self._due.clear()
        self._say_left_out()

    def _updates(self, report: ToolCallReport) -> list[Any]:
        """Give the updates for a call that may have live output."""
        with self._lock:
            updates = self.view.call(report) if self._peer else self._kept(report)
            self.outputs.pop(report.tool_call_id, None)
            self._due.pop(report.tool_call_id, None)
            if report.status.is_final:
                self._states.pop(report.tool_call_id, None)
        self._say_left_out()
        return updates

    def _kept(self, report: ToolCallReport) -> list[Any]:
        """Give a report to whoever takes reports: at its end, with its live output as text."""
        self.lines.append(self.view.shown(report) if report.status.is_final else report)
        return []

    def _small_line(self, update: Update) -> bytes:
        """Give the line of an update, with as much of it as fits."""
        raw: dict[str, Any] = {}
        for key in _LEAVE_OUT:
            raw.pop(key, None)
            try:
                return self._frames.line(raw or update)
            except FrameTooLarge as exc:
                if not raw:
                    raw = dict(as_dict(update))
                    self._faults.count(f"call {raw.get('toolCallId')}: {exc}", cut=1)
        return self._frames.line(raw)

    def _say_left_out(self) -> None:
        view = self.view
        if view.left_out:
            self._faults.count(f"{view.left_out} bytes of output came too fast for a peer", cut=1)
            view.left_out = 0
