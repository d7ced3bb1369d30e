"""Run an agent, and relay bytes between it and the client, which is on this process's stdin and stdout.

`Between` starts the agent and serves until it ends. One thread reads from both sides, hands what it reads
to a `Traffic`, and writes what that has for either side. It waits for pipes and for time in one place
(`poll`), so nothing here needs a lock. The main thread waits for the agent's end, and gets our signals.

It behaves as bare pipes would. A side that does not read makes the other one wait, but never its own
direction. The end of either side reaches the other: a reader reads the end of the stream, and a writer
gets a broken pipe.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Protocol

from callsheet.processes.child import Child

PATIENCE = 0.3
"""Seconds of silence, after the agent's end, after which processes that hold its stdout open are ignored."""

GONE = 2.0
"""Seconds that the agent has to exit on its own when its client is gone."""

SWITCH = 0.0005
"""Seconds that a thread may hold the interpreter. With the default, a message could wait 5 ms."""

PIECE = 1 << 16
"""Bytes that are read in one go, at most: as much as a pipe holds."""

_NOBODY = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Traffic(Protocol):
    """What becomes of the bytes that both sides send. Pieces end anywhere.

    After each call, `to_client` and `to_agent` are sent, in order, and emptied.
    """

    to_client: list[bytes]
    to_agent: list[bytes]

    def from_client(self, data: bytes) -> None:
        """Take the next piece of what the client sends; none if there will be no more."""
        ...

    def from_agent(self, data: bytes) -> None:
        """Take the next piece of what the agent sends; none if there will be no more."""
        ...

    @property
    def wait(self) -> float | None:
        """Seconds until `tick` should be called, if nothing comes before that."""
        ...

    def tick(self) -> None:
        """Do what is due by now."""
        ...


class Between:
    """Stands between a client and an agent: `start`, then `serve`."""

    def __init__(self) -> None:
        self.child: Child = Child()
        self._stdin: int = -1
        self._stdout: int = -1

    def start(self, command: Sequence[str]) -> None:
        """Start the agent. There must be no other thread yet.

        Raises:
            CannotStart: The command can't be run.
        """
        self._stdin, self._stdout = self.child.start(command)

    def serve(self, traffic: Traffic) -> int:
        """Pass everything on until the agent has ended, and the client has read what it sent last.

        Returns:
            The agent's exit code, or 128 plus the number of the signal that ended it.
        """
        sys.setswitchinterval(SWITCH)
        ended, end = os.pipe()
        relay = Relay(
            traffic,
            _Way(_take_over(0, os.O_RDONLY), self._stdin, traffic.from_client, traffic.to_agent),
            _Way(self._stdout, _take_over(1, os.O_WRONLY), traffic.from_agent, traffic.to_client),
            ended,
            self.child.end,
        )
        relay.start()
        code = self.child.wait()
        os.close(end)
        while relay.is_alive() and not self.child.told_to_leave:
            relay.join(PATIENCE)
        return code


def _take_over(descriptor: int, mode: int) -> int:
    """Return a duplicate of stdin or stdout, and put `/dev/null` in its place.

    The duplicate is then the only one, so that closing it closes the pipe.
    """
    nothing = os.open(os.devnull, mode)
    try:
        ours = os.dup(descriptor)
    except OSError:  # it was closed when this process was started
        return nothing
    os.dup2(nothing, descriptor)
    os.close(nothing)
    return ours


class _Way:
    """One direction: from a descriptor, through `take`, to another descriptor."""

    def __init__(
        self, source: int, target: int, take: Callable[[bytes], None], out: list[bytes]
    ) -> None:
        self.source: int = source
        """-1 if nothing more comes."""
        self.target: int = target
        """-1 if nothing more can be sent."""
        self.is_left: bool = False
        """Whether its sender has gone, as far as that can be seen while nothing is read."""
        self.waiting: deque[memoryview] = deque()
        """What waits to be sent. Nothing more is read until it is empty."""
        self.is_changed: bool = True
        """Whether other descriptors are to be watched from now on."""
        self._take: Callable[[bytes], None] = take
        self._has_ended: bool = False
        self.out: list[bytes] = out
        self._may_block: bool = not _is_private(target)
        if not self._may_block:
            os.set_blocking(target, False)

    def on_source(self, found: int) -> None:
        """Take the next piece, or the end."""
        del found
        if self.waiting:  # it is not to be read now, so this is its end
            self.is_left = self.is_changed = True
            return
        try:
            data = os.read(self.source, PIECE)
        except BlockingIOError:  # an inherited descriptor may be non-blocking, and shared
            return
        except OSError:  # a terminal that was hung up, a socket that was reset
            data = b""
        if data:
            self._take(data)
        else:
            self.end()

    def end(self) -> None:
        """Note that nothing more will come. What waits is still sent."""
        self._close_source()
        if not self._has_ended:
            self._has_ended = True
            self._take(b"")

    def collect(self) -> None:
        """Send what came of it as far as it can be sent at once, and let the rest wait."""
        if self.out:
            data = self.out[0] if len(self.out) == 1 else b"".join(self.out)
            self.out.clear()
            sent = 0 if self.waiting or self._may_block else self._write(data)
            if sent < len(data) and self.target >= 0:
                self.waiting.append(memoryview(data)[sent:])
                self.is_changed = True
        if self.source < 0 and not self.waiting and self.target >= 0:
            self.stop()

    def on_target(self, found: int) -> None:
        """Send more of what waits; if nobody reads any more, stop."""
        if not found & select.POLLOUT:
            self.stop()
            return
        # A pipe that can be written to takes that much without blocking.
        data = self.waiting[0]
        sent = self._write(data[: select.PIPE_BUF] if self._may_block else data)
        if self.waiting:  # else nobody reads any more
            self.waiting[0] = data[sent:]
            if not self.waiting[0]:
                self.waiting.popleft()
                self.is_changed = True

    def _write(self, data: bytes | memoryview) -> int:
        """Write to the target. If nobody reads any more, that is the end of this direction."""
        try:
            return os.write(self.target, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.stop()
            return 0

    def stop(self) -> None:
        """Close both ends, which tells both sides."""
        self.waiting.clear()
        self._close_source()
        if self.target >= 0:
            os.close(self.target)
            self.target, self.is_changed = -1, True

    def _close_source(self) -> None:
        if self.source >= 0:
            os.close(self.source)
            self.source, self.is_changed = -1, True


def _is_private(descriptor: int) -> bool:
    """Whether nobody else uses an open pipe or socket, so that it may be made non-blocking."""
    found = os.fstat(descriptor)
    is_pipe = stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)
    with suppress(OSError):  # stderr, which the agent shares, may be the same
        return is_pipe and not os.path.samestat(found, os.fstat(2))
    return is_pipe


class Relay(Thread):
    """The thread that passes everything on.

    `ended` is a descriptor that ends when the agent has ended. `end` ends the agent.
    """

    def __init__(
        self,
        traffic: Traffic,
        to_agent: _Way,
        to_client: _Way,
        ended: int,
        end: Callable[[], None],
    ) -> None:
        super().__init__(daemon=True)
        self._traffic: Traffic = traffic
        self._ways: tuple[_Way, _Way] = (to_agent, to_client)
        self._ended: int = ended
        self._end: Callable[[], None] = end
        self._has_ended: bool = False
        self._idle_since: float | None = None
        self._gone_since: float | None = None
        self._poll: select.poll = select.poll()
        # By descriptor, what to wait for, and what to do then.
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}

    def run(self) -> None:
        """Pass on what comes until the agent has ended, and the client has read all of it."""
        traffic, poll = self._traffic, self._poll.poll
        to_agent, to_client = self._ways
        try:
            while not (self._has_ended and to_client.target < 0):
                if to_agent.is_changed or to_client.is_changed:
                    self._watch()
                wait = traffic.wait
                if wait is not None and wait <= 0:
                    traffic.tick()
                    to_agent.collect()
                    to_client.collect()
                    continue
                events = poll(self._patience(wait))
                for descriptor, found in events:
                    self._watched[descriptor][1](found)
                if to_client.out or to_client.source < 0:
                    to_client.collect()
                if to_agent.out or to_agent.source < 0:
                    to_agent.collect()
                if self._has_ended or to_client.target < 0:
                    self._look_around(time.monotonic(), is_idle=not events)
        finally:
            to_client.end()
            for way in self._ways:
                way.stop()

    def _watch(self) -> None:
        """Watch the descriptors from which something is to be read, or to which it is to be written."""
        wanted: dict[int, tuple[int, Callable[[int], None]]] = {}
        if not self._has_ended:
            wanted[self._ended] = select.POLLIN, self._agent_ended
        for way in self._ways:
            way.is_changed = False
            if way.source >= 0 and not (way.waiting and way.is_left):
                wanted[way.source] = (0 if way.waiting else select.POLLIN), way.on_source
            if way.target >= 0:
                wanted[way.target] = (select.POLLOUT if way.waiting else 0), way.on_target
        for descriptor in self._watched.keys() - wanted.keys():
            self._poll.unregister(descriptor)
        for descriptor, (events, _) in wanted.items():
            self._poll.register(descriptor, events)
        self._watched = wanted

    def _agent_ended(self, found: int) -> None:
        del found
        self._has_ended = self._ways[0].is_changed = True

    def _patience(self, wait: float | None) -> float | None:
        """Return the milliseconds until something has to be done, if nothing comes."""
        if self._has_ended or self._gone_since is not None:
            longest = PATIENCE if self._has_ended else GONE
            wait = longest if wait is None else min(wait, longest)
        return None if wait is None else max(0.0, wait * 1000)

    def _look_around(self, now: float, *, is_idle: bool) -> None:
        """Stop waiting for what will not come, and end an agent that stays when its client is gone."""
        to_agent, to_client = self._ways
        if self._has_ended:
            if not is_idle or to_client.waiting or self._idle_since is None:
                self._idle_since = now
            elif now - self._idle_since >= PATIENCE:
                to_client.end()  # a process that left the agent's group holds its stdout open
                to_client.collect()
        elif to_agent.source >= 0 and not to_agent.is_left:
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since >= GONE:
            self._gone_since = float("inf")
            self._end()
