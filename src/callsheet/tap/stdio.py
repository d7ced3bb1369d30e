"""Run an agent, and relay bytes between it and the client, which is on this process's stdin and stdout.

`Between` starts the agent and serves until it ends. One thread reads from both sides, hands what it reads
to a `Traffic`, and writes what that has for either side. It waits for pipes and for time in one place
(`poll`), so nothing here needs a lock. The main thread waits for the agent's end, and gets our signals.

An editor waits for the agent's first answers, and importing what makes a tap takes longer than most
agents need for them. So an `Opening` passes on `initialize` and `session/new`, and the results, while the
main thread still imports. The traffic gets them when it is there, before anything else. Nothing that
takes long is imported here.

It behaves as bare pipes would. A side that does not read makes the other one wait, but never its own
direction. The end of either side reaches the other: a reader reads the end of the stream, and a writer
gets a broken pipe.
"""

from __future__ import annotations

import gc
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

from callsheet.processes.child import Child

TYPE_CHECKING = False  # importing it would take longer than the rest
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    Protocol = object

PATIENCE = 0.3
"""Seconds of silence, after the agent's end, after which processes that hold its stdout open are ignored."""

GONE = 2.0
"""Seconds that the agent has to exit on its own when its client is gone."""

SWITCH = 0.0005
"""Seconds that a thread may hold the interpreter. With the default, a message could wait 5 ms."""

PIECE = 1 << 16
"""Bytes that are read in one go, at most: as much as a pipe holds."""


class Traffic(Protocol):
    """What becomes of the bytes that both sides send. Pieces end anywhere.

    Pieces for either side are appended to `to_client` and `to_agent`, from which they are sent, in order.
    """

    to_client: list[bytes]
    to_agent: list[bytes]

    def from_client(self, data: bytes) -> None:
        """Take the next piece of what the client sends; none if there will be no more."""

    def from_agent(self, data: bytes) -> None:
        """Take the next piece of what the agent sends; none if there will be no more."""

    @property
    def wait(self) -> float | None:
        """Seconds until `tick` should be called, if nothing comes before that."""

    def tick(self) -> None:
        """Do what is due by now."""


class Between:
    """Stands between a client and an agent. It starts the agent, and then serves until that ends.

    From the start on, the client's stdin and stdout are its own.

    Args:
        command: The agent's command line. There must be no other thread yet.

    Raises:
        CannotStart: The command can't be run.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.child: Child = Child()
        stdin, stdout = self.child.start(command)
        sys.setswitchinterval(SWITCH)
        self._client: tuple[int, int] = _take_over(0, os.O_RDONLY), _take_over(1, os.O_WRONLY)
        self._agent: tuple[int, int] = stdout, stdin
        self._opening: Opening = Opening(self._client, self._agent)
        self._opening.start()

    def serve(self, traffic: Traffic) -> int:
        """Pass everything on until the agent has ended, and the client has read what it sent last.

        Returns:
            The agent's exit code, or 128 plus the number of the signal that ended it.
        """
        gc.freeze()  # the modules stay, so it need not look for garbage among them
        gc.enable()
        ended, end = os.pipe()
        self._opening.hand_over(traffic)
        relay = Relay(traffic, self._client, self._agent, ended, self.child.end)
        relay.start()
        code = self.child.wait()
        os.close(end)
        while relay.is_alive() and not self.child.told_to_leave:
            relay.join(PATIENCE)
        return code


def warn_user(command: str, text: str) -> None:
    """Write a message of a `callsheet` command for the user to stderr."""
    with suppress(OSError):
        os.write(2, f"callsheet {command}: {text}\n".encode(errors="replace"))


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


OPENING = ("initialize", "session/new")
"""Requests that no traffic changes, nor their results: there are no calls yet."""


class Opening(Thread):
    """Passes on the first requests and their results, as they come, until there is a traffic.

    What is anything else waits for the traffic, and so does all that comes after it.

    Args:
        client: The descriptors to read from the client and to write to it.
        agent: The same for the agent.
    """

    def __init__(self, client: tuple[int, int], agent: tuple[int, int]) -> None:
        super().__init__(daemon=True)
        self._client, self._agent = client, agent
        self._ended, self._end = os.pipe()
        # Whether the client has sent it, what it is, and how much of it was passed on.
        self._pieces: list[tuple[bool, bytes, int]] = []

    def run(self) -> None:
        """Pass on what may be passed on. The end of either side is left for the relay to read."""
        if not all(map(_is_private, self._client)):  # reading or writing could take for ever
            return
        poll = select.poll()
        for descriptor in (self._client[0], self._agent[0], self._ended):
            poll.register(descriptor, select.POLLIN)
        all_is_sent = True
        while all_is_sent:
            descriptor, data, sent = poll.poll()[0][0], b"", 0
            if descriptor != self._ended:
                with suppress(OSError):
                    data = os.read(descriptor, PIECE)
            if not data:
                break
            is_client = descriptor == self._client[0]
            target = self._agent[1] if is_client else self._client[1]
            if _is_opening(data, is_client=is_client) and _can_take(target, data):
                with suppress(OSError):  # nobody reads any more, as the relay will notice
                    sent = os.write(target, data)
            self._pieces.append((is_client, data, sent))
            all_is_sent = sent == len(data)

    def hand_over(self, traffic: Traffic) -> None:
        """Stop, and let a traffic take what was read. What was not passed on by now is for it to send."""
        os.close(self._end)
        self.join()
        os.close(self._ended)
        for is_client, data, sent in self._pieces:
            (traffic.from_client if is_client else traffic.from_agent)(data)
            out = traffic.to_agent if is_client else traffic.to_client
            if sent:
                out[:] = [data[sent:]] if sent < len(data) else []


def _is_opening(data: bytes, *, is_client: bool) -> bool:
    """Whether a piece is one of the first requests, or a result: then it is one of such a request."""
    import json  # while the agent starts

    line, newline, more = data.partition(b"\n")
    try:
        message: Any = json.loads(line) if newline and not more else None
        if is_client:
            return message["method"] in OPENING
        return message.keys() == {"jsonrpc", "id", "result"}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def _can_take(target: int, data: bytes) -> bool:
    """Whether data can be written at once."""
    poll = select.poll()
    poll.register(target, select.POLLOUT)
    return len(data) <= select.PIPE_BUF and poll.poll(0) == [(target, select.POLLOUT)]


class _Way:
    """One direction: from a descriptor, through `take`, to another descriptor.

    `out` is what there is to send. If the target takes no more of it, this direction is blocked:
    nothing is read until all of it is sent.
    """

    def __init__(
        self, source: int, target: int, take: Callable[[bytes], None], out: list[bytes]
    ) -> None:
        self.source: int = source
        """-1 if nothing more comes."""
        self.target: int = target
        """-1 if nothing more can be sent."""
        self.out: list[bytes] = out
        self.is_blocked: bool = False
        self.is_left: bool = False
        """Whether its sender has gone, as far as that can be seen while nothing is read."""
        self.is_changed: bool = True
        """Whether other events are to be watched for from now on."""
        self._take: Callable[[bytes], None] = take
        self._has_ended: bool = False
        if _is_private(target):
            os.set_blocking(target, False)
        if out:  # of the opening
            self.send()

    def read(self) -> None:
        """Take the next piece, or the end."""
        if self.is_blocked:  # it is not to be read now, so this is its end
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
        if not self.out:
            self.stop()

    def send(self) -> None:
        """Send what there is to send, as far as that can be sent now."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        try:
            sent = os.write(self.target, data) if data else 0
        except BlockingIOError:
            sent = 0
        except OSError:  # nobody reads any more
            self.stop()
            return
        if sent < len(data):
            out.append(memoryview(data)[sent:])  # pyright: ignore[reportArgumentType]
        if bool(out) is not self.is_blocked:
            self.is_blocked, self.is_changed = not self.is_blocked, True
        if self.source < 0 and not out:
            self.stop()

    def stop(self) -> None:
        """Close both ends, so that both sides notice."""
        self.out.clear()
        self.is_blocked = False
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

    Args:
        traffic: What becomes of the bytes.
        client: The descriptors to read from the client and to write to it.
        agent: The same for the agent.
        ended: A descriptor that ends when the agent has ended.
        end: Ends the agent.
    """

    def __init__(
        self,
        traffic: Traffic,
        client: tuple[int, int],
        agent: tuple[int, int],
        ended: int,
        end: Callable[[], None],
    ) -> None:
        super().__init__(daemon=True)
        self._traffic: Traffic = traffic
        self._to_agent: _Way = _Way(client[0], agent[1], traffic.from_client, traffic.to_agent)
        self._to_client: _Way = _Way(agent[0], client[1], traffic.from_agent, traffic.to_client)
        self._ended: int = ended
        self._end: Callable[[], None] = end
        self._has_ended: bool = False
        # Seconds to wait for anything, at most.
        self._longest: float | None = None
        self._idle_since: float | None = None
        self._gone_since: float | None = None

    def run(self) -> None:
        """Pass on what comes until the agent has ended, and the client has read all of it."""
        traffic, to_agent, to_client = self._traffic, self._to_agent, self._to_client
        poll = self._watched()
        try:
            while not (self._has_ended and to_client.target < 0):
                if to_agent.is_changed or to_client.is_changed:
                    poll = self._watched()
                wait, events = traffic.wait, None
                if wait is not None and wait <= 0:
                    traffic.tick()
                else:
                    if self._longest is not None:
                        wait = self._longest if wait is None else min(wait, self._longest)
                    events = poll(None if wait is None else wait * 1000)
                    for descriptor, found in events:
                        if descriptor == to_client.source:
                            to_client.read()
                        elif descriptor == to_agent.source:
                            to_agent.read()
                        else:
                            self._react(descriptor, found)
                if to_client.out and not to_client.is_blocked:
                    to_client.send()
                if to_agent.out and not to_agent.is_blocked:
                    to_agent.send()
                if self._has_ended or to_client.target < 0:
                    self._look_around(time.monotonic(), is_idle=events == [])
        finally:
            to_client.end()
            to_client.stop()
            to_agent.stop()

    def _watched(self) -> Callable[[float | None], list[tuple[int, int]]]:
        """Return what waits for what may happen now. The ends of all descriptors are watched for."""
        poll = select.poll()
        if not self._has_ended:
            poll.register(self._ended, select.POLLIN)
        for way in (self._to_agent, self._to_client):
            way.is_changed = False
            if way.source >= 0 and not (way.is_blocked and way.is_left):
                poll.register(way.source, 0 if way.is_blocked else select.POLLIN)
            if way.target >= 0:
                poll.register(way.target, select.POLLOUT if way.is_blocked else 0)
        return poll.poll

    def _react(self, descriptor: int, found: int) -> None:
        if descriptor == self._ended:
            self._has_ended = self._to_agent.is_changed = True
            self._longest = PATIENCE
        for way in (self._to_client, self._to_agent):
            if descriptor == way.target:
                if found & select.POLLOUT:
                    way.send()
                else:  # nobody reads any more
                    way.stop()

    def _look_around(self, now: float, *, is_idle: bool) -> None:
        """Stop waiting for what will not come, and end an agent that stays when its client is gone."""
        to_agent, to_client = self._to_agent, self._to_client
        if self._has_ended:
            if not is_idle or to_client.is_blocked or self._idle_since is None:
                self._idle_since = now
            elif now - self._idle_since >= PATIENCE:
                to_client.end()  # a process that left the agent's group holds its stdout open
                to_client.send()
        elif to_agent.source >= 0 and not to_agent.is_left:
            self._gone_since = self._longest = None
        elif self._gone_since is None:
            self._gone_since, self._longest = now, GONE
        elif now - self._gone_since >= GONE:
            self._gone_since = float("inf")
            self._end()
