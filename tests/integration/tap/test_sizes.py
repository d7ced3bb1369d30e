"""A repaired recording is no larger than the agent's own, but for what was added to it.

What is added is accounted for: a value that the agent never told of the call counts once, a request for
permission and an announcement that was missing may carry the whole call, and each other message that the agent
left out costs its envelope. So a value that
is sent twice where the agent sent it once is found.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import OURS, SHARED
from tests.support.sizes import sized

ENVELOPE = 400
"""Bytes of a message besides what it tells of a call, at most: ids are long, and a request has options."""

PERMISSION = "session/request_permission"


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def told(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return what an agent says of calls: the method, and the fields."""
    for line in data.splitlines():
        read = json.loads(line)
        message = read.get("msg", read)
        params = message.get("params") or {}
        for fields in (params.get("update"), params.get("toolCall")):
            if isinstance(fields, dict) and "toolCallId" in fields:
                yield message["method"], fields


def is_announcement(fields: dict[str, Any]) -> bool:
    return fields.get("sessionUpdate") == "tool_call"


def allowed(before: bytes, after: bytes) -> tuple[int, int]:
    """Return the bytes that are told of calls after repair, and those that may be."""
    known: defaultdict[tuple[bool, str, str], set[str]] = defaultdict(set)
    spent = most = messages = 0
    announced = {fields["toolCallId"] for _, fields in told(before) if is_announcement(fields)}
    for method, fields in told(before):
        messages -= 1
        most += size(fields)
        for key, value in fields.items():
            said = json.dumps(value, sort_keys=True)
            for asks in {False, method == PERMISSION}:
                known[asks, fields["toolCallId"], key].add(said)
    for method, fields in told(after):
        messages += 1
        spent += size(fields)
        for key, value in fields.items():
            said, its = json.dumps(value, sort_keys=True), method == PERMISSION
            is_made_up = is_announcement(fields) and fields["toolCallId"] not in announced
            if is_made_up or said not in known[its, fields["toolCallId"], key]:
                most += size({key: value})
                known[its, fields["toolCallId"], key].add(said)
    return spent, most + ENVELOPE * max(0, messages)


@pytest.mark.parametrize(
    "path",
    [*OURS, *SHARED][sized(0, 2) :: sized(1, 3)],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_a_repaired_recording_grows_by_what_was_added_only(path: Path) -> None:
    before = path.read_bytes()
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    after = b"".join(repairs.repaired(io.BytesIO(before)))
    spent, most = allowed(before, after)
    assert spent <= most
