"""Recordings: lines that a sink or a client has received, folded into calls, and checked.

`Recorder` is a sink for a session of your own. `Recording` holds what went between a client and an agent,
both ways; it can be checked by the rules of `callsheet check`, saved, and read again. `updates_in`, `fold`
and `assert_every_call_ended` accept either, a file, or an iterable of lines or messages.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import msgspec

from callsheet.acp import v1, v2
from callsheet.acp.peer import Peer
from callsheet.observe.lines import Direction, RecordedLine, encode_line, read_lines
from callsheet.observe.model import FINAL
from callsheet.report.json import JsonObject, is_object
from callsheet.report.ledger import Ledger
from callsheet.runtime.clock import new_call_id

if TYPE_CHECKING:
    from callsheet.check.finding import Finding


class Frame(NamedTuple):
    """One line of a client's traffic. `in` is what the agent wrote; `at` is in seconds since its start.

    Where nobody knows them, as in plain lines, they are empty and None.
    """

    way: Literal["in", "out", ""]
    line: bytes
    at: float | None = None


class Recorder:
    """A sink that stores the lines that it receives.

    Args:
        peer: The client to play: its version and capabilities decide how updates are encoded.
    """

    def __init__(self, peer: Peer | None = None) -> None:
        self.peer: Peer | None = peer or Peer()
        self.lines: list[bytes] = []

    def send(self, items: deque[Any]) -> None:
        """Store the lines."""
        self.lines.extend(items)
        items.clear()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    @property
    def updates(self) -> list[JsonObject]:
        """The updates, in order."""
        return list(updates_in(self))

    def fold(self) -> Ledger:
        """Return the calls as a client sees them now."""
        return fold(self)


Recorded: TypeAlias = "Recorder | Recording | str | Path | Iterable[Any]"
"""A recorder, a recording or a file; or frames, lines, messages, params or updates."""


def updates_in(recorded: Recorded, session: str | None = None) -> Iterator[JsonObject]:
    """Yield the updates in messages, params or bare updates, of one session or of all. Skip all else."""
    for frame in _frames(recorded):
        message = json.loads(frame.line) if frame.line.strip() else None
        if is_object(message) and is_object(message.get("msg")):
            message = message["msg"]
        if is_object(message) and "method" in message:
            message = message.get("params") if message["method"] == "session/update" else None
        if is_object(message) and session in (None, message.get("sessionId")):
            update = message["update"] if is_object(message.get("update")) else message
            if "sessionUpdate" in update:
                yield update


def _frames(recorded: Recorded) -> Iterator[Frame]:
    if isinstance(recorded, Recorder):  # a sink has received only the agent's lines
        yield from [Frame("in", line) for line in recorded.lines]
    elif isinstance(recorded, Recording):
        yield from recorded.frames
    elif isinstance(recorded, (str, Path)):
        with Path(recorded).open("rb") as lines:
            yield from map(_frame, lines)
    else:
        yield from map(_frame, recorded)


def _frame(item: Any) -> Frame:
    if isinstance(item, Frame):
        return item
    if isinstance(item, str):
        item = item.encode()
    return Frame("", item if isinstance(item, bytes) else msgspec.json.encode(item))


def fold(recording: Recorded, *, version: int | None = None, session: str | None = None) -> Ledger:
    """Return the calls as a client sees them at the end of a recording.

    Args:
        recording: The recording.
        version: The version of ACP. Default: inferred from the updates. A `Recorder` has its own.
        session: The session whose calls are returned. Default: those of all sessions.
    """
    updates = list(updates_in(recording, session))
    if version is None:
        is_v1 = any(update["sessionUpdate"] == "tool_call" for update in updates)
        version = 1 if is_v1 or not updates else 2
    if isinstance(recording, Recorder) and recording.peer is not None:
        version = recording.peer.version
    ledger = Ledger("recording", new_call_id, keep_reports=1 << 30, keep_terminals=1 << 30)
    for update in updates:
        for event in (v1 if version == 1 else v2).decode(update):
            ledger.apply(event)
    return ledger


def assert_every_call_ended(recording: Recorded, at_least: int = 1) -> dict[str, list[str]]:
    """Assert that every call of a recording was announced, ended once, and had no update after its end.

    Args:
        recording: The recording.
        at_least: How many calls it must have, so that an empty recording does not pass.

    Returns:
        The statuses of each call, by its id.

    Raises:
        AssertionError: A call did not end properly, or there are too few.
    """
    updates = [one for one in updates_in(recording) if isinstance(one.get("toolCallId"), str)]
    is_v1 = any(one["sessionUpdate"] == "tool_call" for one in updates)
    calls: dict[str, list[str]] = {}
    for update in updates:
        key, status = update["toolCallId"], update.get("status")
        if is_v1 and key not in calls and update["sessionUpdate"] != "tool_call":
            raise AssertionError(f"call {key}: an update comes before its announcement: {update}")
        statuses = calls.setdefault(key, [])
        if statuses and statuses[-1] in FINAL:
            raise AssertionError(f"call {key}: an update comes after its end: {update}")
        if isinstance(status, str):
            statuses.append(status)
    for key, statuses in calls.items():
        if not statuses or statuses[-1] not in FINAL:
            raise AssertionError(f"call {key} never ended; it was {' → '.join(statuses) or 'seen'}")
    if len(calls) < at_least:
        raise AssertionError(f"the recording has {len(calls)} calls; expected {at_least} or more")
    return calls


_WAYS: dict[str, Direction] = {"in": "agent->client", "out": "client->agent"}


class Recording:
    """The traffic between a client and an agent.

    async with AgentClient(["my-agent"], recording=recording) as client:
        ...
    assert recording.check() == []
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        """The lines of both, in order."""
        self.found: list[Finding] = []
        """The findings of the last `check`."""
        self._began: float = time.monotonic()

    @classmethod
    def of(cls, recorded: Recorded) -> Self:
        """Return a recording of what a sink has received, of a file, or of lines or messages."""
        made = cls()
        made.frames.extend(_frames(recorded))
        return made

    # Recording

    def add(self, way: Literal["in", "out"], line: bytes) -> None:
        """Record a line: `in` is what the agent wrote."""
        self.frames.append(Frame(way, line, time.monotonic() - self._began))

    def agent(self, line: bytes) -> None:
        """Record a line of the agent. Can be passed as a session's `on_update`."""
        self.add("in", line)

    # What is in it

    @property
    def lines(self) -> list[RecordedLine]:
        """The lines: each has its `number`, `message`, `sender` and `time`, or a `problem`."""
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
        """Check the recording by the rules of `callsheet check`.

        Args:
            select: Rules or categories to check. Default: all.
            ignore: Rules or categories to skip.
            clients: Clients (zed, toad, acpx) whose own rules apply, too.

        Returns:
            The findings. Their line numbers are those of the file that `save` writes.
        """
        from callsheet.check.engine import check_stream
        from callsheet.check.runner import choose, named

        asked = _names(clients)
        rules = choose(chosen=named(_names(select)), ignored=named(_names(ignore)), clients=asked)
        # Rules about a client that are selected by name hold without the client being named.
        held = {*asked, *(client for rule in rules for client in rule.clients)}
        self.found = list(check_stream(BytesIO(self.to_bytes()), rules=rules, clients=held))
        return list(self.found)

    def to_bytes(self) -> bytes:
        """Return the recording as the content of a file."""
        return b"".join(self._parts())

    def save(self, path: str | Path) -> Path:
        """Write the recording to a file that only its owner can read, and return its path.

        A file that exists is replaced.
        """
        path = Path(path)
        path.unlink(missing_ok=True)
        path.touch(0o600)
        with path.open("wb") as file:
            file.writelines(self._parts())
        return path

    def _parts(self) -> Iterator[bytes]:
        for frame in self.frames:
            if not frame.way:
                yield frame.line.rstrip(b"\r\n") + b"\n"
            else:
                for line in frame.line.split(b"\n"):
                    yield from encode_line(frame.at, _WAYS[frame.way], line)


def _names(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
