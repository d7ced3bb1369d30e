"""Findings as JSON for machines: one object, as the contract says. A recording's findings wait in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO

import msgspec

from callsheet.check.finding import Finding
from callsheet.check.telling import Outcome, Recording
from callsheet.observe.model import ObservedCall

IN_MEMORY = 4 << 20


class JsonTeller:
    """Writes JSON, a finding a line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write: Callable[[str], object] = write
        self._waiting: IO[bytes] | None = None
        self._recordings: int = 0

    def begin(self, path: str) -> None:
        """Begin a list."""
        del path
        self._waiting = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Keep a finding for the recording's end: how many calls there are is not known before."""
        del title, fingerprint
        assert self._waiting is not None
        self._waiting.write(b",\n  " if self._waiting.tell() else b"\n  ")
        self._waiting.write(encoded(finding))

    def over(self, call: ObservedCall) -> None:
        """Need not be told."""

    def end(self, recording: Recording) -> None:
        """Write the recording."""
        head = {
            "path": told(recording.path),
            "protocol": recording.protocol,
            "agent": recording.agent,
            "calls": recording.calls,
        }
        self._write(",\n" if self._recordings else '{"recordings": [\n')
        self._recordings += 1
        self._write(encoded(head).decode()[:-1] + ', "findings": [')
        assert self._waiting is not None
        with self._waiting as waiting:
            waiting.seek(0)
            for line in waiting:
                self._write(line.decode())
        self._write("]}")

    def close(self, outcome: Outcome) -> None:
        """Write the end."""
        del outcome
        self._write("]}\n" if self._recordings else '{"recordings": []}\n')


def encoded(value: object) -> bytes:
    """Return JSON, in one line."""
    return msgspec.json.encode(value)


def told(path: str) -> str:
    """Return a path as valid Unicode, whatever the file system holds."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
