"""What is known to be wrong, so that only what is new is shown.

A finding is known again by its rule, the name of its recording, the agent without its version, the tool, the
title of the call and the field; but for digits and ids, which are new each time. How often a thing is found
in one call, in which order, and on which line does not matter. How many calls it is found in does.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import Any

import msgspec

from callsheet.check.finding import Finding
from callsheet.check.output import KnownFinding

VERSION = 1
_CHANGING = re.compile(
    r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"  # UUIDs
    r"|(?=\w*\d)(?=\w*[A-Za-z])\w{12,}"  # ids: long, with letters and digits
    r"|\d+"
)


class BadBaseline(ValueError):
    """The file is not a baseline. The message explains why."""


class _BaselineFile(msgspec.Struct, kw_only=True):
    version: int
    findings: list[KnownFinding]


class Baseline:
    """Compares what is found with what is known. One that is empty knows nothing."""

    def __init__(self, known: Iterable[KnownFinding] = ()) -> None:
        self._known: dict[str, KnownFinding] = {one.fingerprint: one for one in known}
        self._calls: Counter[str] = Counter()
        self._found: dict[str, KnownFinding] = {}
        self._seen: dict[tuple[str, str | None, str | None], bool] = {}
        self._recordings: set[str] = set()

    @classmethod
    def read(cls, data: bytes) -> Baseline:
        """Read a file's bytes. Raises `BadBaseline`."""
        try:
            file = msgspec.json.decode(data, type=_BaselineFile)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise BadBaseline(f"it is not a baseline ({exc})") from None
        if file.version != VERSION:
            raise BadBaseline(f"it is a baseline of version {file.version}, not {VERSION}")
        return cls(file.findings)

    def begin(self, path: str) -> None:
        """Begin a recording."""
        self._seen.clear()
        self._recordings.add(name_of(path))

    def knows(self, finding: Finding, fingerprint: str, path: str, tool: str) -> bool:
        """Count a finding, and return whether it is known."""
        key = fingerprint, finding.session, finding.call
        if key not in self._seen:
            self._calls[fingerprint] += 1
            known = self._known.get(fingerprint)
            self._seen[key] = known is not None and self._calls[fingerprint] <= known.calls
            self._found[fingerprint] = KnownFinding(
                fingerprint, finding.rule, name_of(path), tool, self._calls[fingerprint]
            )
        return self._seen[key]

    def gone(self, rules: Collection[str]) -> list[KnownFinding]:
        """Return what is known and was not found again, of what was looked for in what was read."""
        return [
            msgspec.structs.replace(one, calls=one.calls - self._calls[one.fingerprint])
            for one in self._known.values()
            if self._was_looked_for(one, rules) and self._calls[one.fingerprint] < one.calls
        ]

    def updated(self, rules: Collection[str]) -> bytes:
        """Return the file as it should be now. What was not looked for stays in it."""
        others = [one for one in self._known.values() if not self._was_looked_for(one, rules)]
        findings = sorted(
            (*others, *self._found.values()),
            key=lambda one: (one.recording, one.rule, one.tool, one.fingerprint),
        )
        lines = b",\n".join(b"  " + msgspec.json.encode(one) for one in findings)
        return b'{"version": %d, "findings": [\n%s\n]}\n' % (VERSION, lines)

    def _was_looked_for(self, one: KnownFinding, rules: Collection[str]) -> bool:
        return one.recording in self._recordings and one.rule in rules


def fingerprint_of(finding: Finding, path: str, agent: str, tool: str, title: str, cwd: str) -> str:
    """Return what a finding is known by."""
    title = title.replace(cwd, "") if len(cwd) > 1 else title
    parts: list[Any] = [finding.rule, name_of(path), agent.partition(" ")[0], tool]
    parts += [_steady(title), _steady(finding.field or "")]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def name_of(path: str) -> str:
    """Return the name of a recording without what changes from one day to the next."""
    return _steady(PurePath(path).name).encode("utf-8", "replace").decode()


def _steady(text: str) -> str:
    return _CHANGING.sub("#", text[:500])
