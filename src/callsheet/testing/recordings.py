"""Recordings of tool calls: keeping them, folding them, and holding that every call ended."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from callsheet.acp import v1, v2
from callsheet.acp.peer import Peer
from callsheet.report.json import JsonObject, is_object
from callsheet.report.ledger import Ledger
from callsheet.runtime.timing import new_call_id

_FINAL = ("completed", "failed", "cancelled")


class Recorder:
    """A sink that keeps the lines that it is sent, as the peer that it plays would get them."""

    def __init__(self, peer: Peer | None = None) -> None:
        self.peer: Peer | None = peer or Peer()
        self.lines: list[bytes] = []

    def send(self, items: deque[Any]) -> None:
        """Keep the lines."""
        self.lines.extend(items)
        items.clear()

    def close(self) -> None:
        """Nothing was opened."""

    @property
    def updates(self) -> list[JsonObject]:
        """The updates, in order."""
        return list(updates_in(self))

    def fold(self) -> Ledger:
        """Return the calls as a client sees them now."""
        return fold(self)


Recorded: TypeAlias = Recorder | str | Path | Iterable[Any]
"""A recorder; a file of lines; or lines, messages, params or updates."""


def updates_in(recording: Recorded) -> Iterator[JsonObject]:
    """Return the updates of a recording, whatever they are wrapped in. Other messages are left out."""
    for item in _items(recording):
        message = json.loads(item) if isinstance(item, (bytes, bytearray, str)) else item
        if is_object(message) and is_object(message.get("msg")):
            message = message["msg"]
        if is_object(message) and "method" in message:
            message = message.get("params") if message["method"] == "session/update" else None
        if is_object(message) and is_object(message.get("update")):
            message = message["update"]
        if is_object(message) and "sessionUpdate" in message:
            yield message


def _items(recording: Recorded) -> Iterator[Any]:
    if isinstance(recording, Recorder):
        yield from recording.lines
    elif isinstance(recording, (str, Path)):
        with Path(recording).open("rb") as lines:
            yield from (line for line in lines if line.strip())
    else:
        yield from recording


def fold(recording: Recorded, *, version: int | None = None) -> Ledger:
    """Return the calls as a client sees them at the end of a recording."""
    updates = list(updates_in(recording))
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


def calls_in(recording: Recorded) -> dict[str, list[str]]:
    """Return the statuses that each call of a recording was seen in, in order, by its id."""
    calls: dict[str, list[str]] = {}
    for update in updates_in(recording):
        key = update.get("toolCallId")
        if isinstance(key, str) and update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            statuses = calls.setdefault(key, [])
            if isinstance(update.get("status"), str):
                statuses.append(update["status"])
    return calls


def assert_every_call_ended(recording: Recorded, at_least: int = 1) -> dict[str, list[str]]:
    """Hold that every call of a recording was announced, ended once, and that nothing came after.

    A recording with fewer calls than `at_least` fails, too. Gives the statuses of each call, by id.
    """
    calls: dict[str, list[str]] = {}
    ended: set[str] = set()
    updates = list(updates_in(recording))
    announced = {u.get("toolCallId") for u in updates if u["sessionUpdate"] == "tool_call"}
    for number, update in enumerate(updates, 1):
        key = update.get("toolCallId")
        if not isinstance(key, str):
            continue
        if announced and key not in calls and update["sessionUpdate"] != "tool_call":
            raise AssertionError(f"call {key}: update {number} comes before its announcement")
        if key in ended:
            raise AssertionError(f"call {key}: update {number} comes after its end: {update}")
        status = update.get("status")
        statuses = calls.setdefault(key, [])
        if isinstance(status, str):
            statuses.append(status)
        if status in _FINAL:
            ended.add(key)
    for key, statuses in calls.items():
        if key not in ended:
            raise AssertionError(f"call {key} never ended; it was {' → '.join(statuses) or 'seen'}")
    if len(calls) < at_least:
        raise AssertionError(f"the recording has {len(calls)} calls; expected {at_least} or more")
    return calls
