"""Screen the lines of a large recording in a second process, ahead of the checker.

Some rules judge a message by itself (`CheckRule.screen`): by its schema, for secrets, odd characters and
paths. They take a third of the time, so they are applied to a large recording by a second process, on another
core. It writes one byte for each line: the version of the protocol in which none of these rules finds
anything, or 0. If that version is spoken, the checker leaves these rules out; else it applies them as ever.

The checker never waits for the other process. So if that is late or fails, this takes time, and changes no
finding. It ends with its pipe, at the latest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from callsheet.check.engine import RuleIndex, rare_garbage_collection
from callsheet.check.rules import RULES
from callsheet.observe.events import MessageSeen, PermissionAsked, TerminalUpdated, UpdateArrived
from callsheet.observe.lines import RecordedLine, read_lines
from callsheet.observe.model import Json, ObservedConnection, ObservedSession, obj
from callsheet.observe.rpc import RequestTracker, question_of
from callsheet.observe.tracker import CALLS, TERMINALS
from callsheet.redaction.redactor import Redactor, Settings

if TYPE_CHECKING:
    import subprocess

LARGE = 32_000_000
"""Bytes of a recording from which on a second process is worth its start."""

_BATCH = 256
"""Lines whose verdicts are written together."""


@contextmanager
def screened(stream: BinaryIO, size: int) -> Generator[Iterator[int]]:
    """Yield the verdicts on the lines of a recording, without an end; 0 for those that are not known.

    Args:
        stream: The recording, opened at its beginning.
        size: Its size in bytes; 0 if it is not a file.
    """
    child = _start(stream) if size >= LARGE and (os.cpu_count() or 1) > 1 else None
    if child is None or child.stdout is None:
        yield repeat(0)
        return
    with child:
        try:
            os.set_blocking(child.stdout.fileno(), False)
            yield _verdicts(child.stdout.fileno())
        finally:
            child.kill()


def _start(stream: BinaryIO) -> subprocess.Popen[bytes] | None:
    """Start the second process; None if the stream is no file, or the system has no means for it."""
    import subprocess  # only for what is large

    try:
        recording = stream.fileno()
        child = subprocess.Popen(
            [sys.executable, "-m", "callsheet.check.screening", str(recording)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[recording],
        )
    except (OSError, ValueError, AttributeError):
        return None
    with suppress(BrokenPipeError), cast("BinaryIO", child.stdin) as settings:
        settings.write(msgspec.json.encode(Redactor.settings))
    return child


def _verdicts(pipe: int) -> Iterator[int]:
    """Yield the verdict on each line in turn, or 0 where it has not arrived yet."""
    late = 0  # lines that were passed without their verdicts
    while True:
        try:
            arrived = os.read(pipe, 1 << 16)
        except BlockingIOError:
            arrived = b""
        passed = arrived[late:]
        late = max(0, late - len(arrived))
        yield from passed
        if not passed:
            late += 1
            yield 0


# In the second process


def screen(lines: Iterable[RecordedLine]) -> Iterator[int]:
    """Yield the verdicts on lines."""
    rules = RuleIndex(rule for rule in RULES if rule.screen is not None)
    connection, requests = ObservedConnection(version=1), RequestTracker()
    for line in lines:
        message = line.message
        if message is None or line.sender is None:
            yield 0
            continue
        agreed = obj(message.get("result")).get("protocolVersion")
        if type(agreed) is int and 0 < agreed < 256:
            connection = ObservedConnection(version=agreed)
        params = obj(message.get("params"))
        seen = requests.seen(line, message, line.sender, connection, params)
        if "id" in message:
            requests.note(seen, params)
        is_clean = not any(
            rule.screen(event)  # pyright: ignore[reportOptionalCall]
            for event in (seen, *_more_events(seen, params))
            for rule, _ in rules.of(event)
        )
        yield cast("int", connection.version) if is_clean else 0


def _more_events(seen: MessageSeen, params: Json) -> Iterator[Any]:
    """Yield the other events of a message as if nothing were known: then rules find the most."""
    line, connection = seen.line, seen.connection
    if seen.method == "session/request_permission":
        yield PermissionAsked(line, connection, question_of(line, None, params, None))
        return
    update = obj(params.get("update"))
    kind = update.get("sessionUpdate")
    if kind in CALLS:
        session = ObservedSession("", connection)
        yield UpdateArrived(line, session, "", None, kind, update, known_before=False)
    elif kind in TERMINALS:
        session = ObservedSession("", connection)
        yield TerminalUpdated(line, session, "", update, is_known=False)


class _Recording:
    """Reads the checker's open file from its beginning, without moving the checker's own position."""

    def __init__(self, file: int) -> None:
        self._file: int = file
        self._offset: int = 0

    def read(self, size: int) -> bytes:
        data = os.pread(self._file, size, self._offset)
        self._offset += len(data)
        return data


def main() -> None:
    """Write the verdicts on the recording that is open under the number that is the argument."""
    Redactor.settings = msgspec.json.decode(sys.stdin.buffer.read(), type=Settings)
    recording = cast("BinaryIO", _Recording(int(sys.argv[1])))
    batch = bytearray()
    with rare_garbage_collection():
        for verdict in screen(read_lines(recording)):
            batch.append(verdict)
            if len(batch) == _BATCH:
                os.write(1, batch)
                batch.clear()
    os.write(1, batch)


if __name__ == "__main__":
    main()
