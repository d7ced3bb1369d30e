"""Traffic of real agents: all of it is read; what is refused is what their authors got wrong.

The recordings are of six agents, made with a scripted model: a mixed session, and one in which the
model uses ids again.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callsheet import CallsheetError, ToolCallReport
from callsheet.acp import v1
from callsheet.acp.codec import as_dict
from callsheet.report.errors import CorrelationError, IllegalMove
from callsheet.report.ledger import Ledger
from callsheet.runtime.clock import new_call_id
from tests.support import RECORDINGS, schemas

FILES = sorted(RECORDINGS.glob("*.jsonl"))


def messages(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["msg"] for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_tool_call_message_of_a_real_agent_is_read(file: Path) -> None:
    read = 0
    for message in messages(file):
        params = message.get("params") or {}
        if message.get("method") == "session/update":
            read += len(v1.decode(params["update"]))
    assert read > 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_refused_is_a_fault_of_the_agent(file: Path) -> None:
    """Folded in order, the only faults are calls never announced, and moves that skip or reopen."""
    ledger = Ledger("s", new_call_id)
    faults: Counter[type] = Counter()
    for message in messages(file):
        update = (message.get("params") or {}).get("update")
        for event in v1.decode(update) if update else ():
            try:
                ledger.apply(event)
            except CallsheetError as fault:
                faults[type(fault)] += 1
    assert all(issubclass(fault, (CorrelationError, IllegalMove)) for fault in faults)
    if "dupid" in file.name and not file.name.startswith("fast-agent"):
        assert ledger.counts.collisions + sum(faults.values()) > 0


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_real_announcement_survives_a_round_trip(file: Path) -> None:
    """Read, and written again: the same, but for what we always say (`oldText: null`, the tool's name)."""
    for message in messages(file):
        update = (message.get("params") or {}).get("update") or {}
        if update.get("sessionUpdate") != "tool_call":
            continue
        ledger = Ledger("s", new_call_id)
        report = ledger.apply(v1.decode(update)[0])
        assert isinstance(report, ToolCallReport)
        written = schemas.check_update(1, as_dict(v1.announce(report)))
        ours = {key: value for key, value in written.items() if key in update}
        theirs = {key: value for key, value in update.items() if value not in ([], None)}
        for item in theirs.get("content", ()):
            if item["type"] == "diff":
                item.setdefault("oldText", None)
        ours.get("_meta", {}).pop("tool_name", None)
        assert ours == theirs
