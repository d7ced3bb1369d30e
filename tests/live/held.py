"""What live tests hold of every scene, and how they are set."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.runtime.spill_store import SpillStore
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from callsheet.testing.recordings import Recorded, Recording, updates_in
from tests.live import stage as fronts
from tests.live.agents import AGENTS
from tests.live.scenes import SCENES, Outcome, fold
from tests.live.stage import Stage, staged
from tests.support.processes import linux, new_token

live = pytest.mark.skipif(
    not os.environ.get("CALLSHEET_LIVE"), reason="`make live` installs real agents and runs this"
)
marks = [linux, live]

ENDED = ("completed", "failed")
_SPILLED = re.compile(r'file://[^"]*/spill-[^"]*')
"""Where what is cut is kept whole."""

WORK = ("fs/", "terminal/")
"""Methods by which an agent has the client do something: what is written in them is done as it is written."""


def set_stage(name: str, front: fronts.Front, place: Path) -> Iterator[Stage]:
    """Set the stage for an agent. Whatever happens on it, nothing runs on after it."""
    agent = AGENTS[name]
    if not agent.is_installed and os.environ.get("CI") != "true":
        pytest.skip(f"{agent.package} {agent.version} could not be installed here")
    with staged(agent, front, place, new_token()) as stage:
        try:
            yield stage
        finally:
            stage.end()


async def play(stage: Stage, scene: str) -> Outcome:
    """Play a scene. Whatever it was, no process is left, and the model was asked nothing odd."""
    outcome = await SCENES[scene](stage)
    assert outcome.left == [], f"left behind: {outcome.left}"
    odd = [one for one in stage.model.strayed if "Error" in one]
    assert odd == [], f"asked of the model: {odd}"
    return outcome


def errors(source: Recorded) -> list[str]:
    """Return the errors that the checker finds."""
    found = Recording.of(source).check()
    return [f"{one.rule}: {one.message}" for one in found if one.severity == "error"]


def hold(stage: Stage, outcome: Outcome) -> None:
    """What the client saw, and what was recorded of it, is free of errors, and every call has ended."""
    assert outcome.client is not None
    for source in (outcome.client.recording, stage.seen):
        found = errors(source)
        assert found == [], f"in {source}: {found}"
    open_ = [call for call in outcome.calls.values() if call.get("status") not in ENDED]
    assert open_ == [], f"never ended: {open_}"
    if stage.front.said != stage.front.seen:
        repaired_as_seen(stage)


def repaired_as_seen(stage: Stage) -> None:
    """What the client saw is what `callsheet repair` makes of what the agent said."""
    repaired = io.BytesIO()
    with stage.said.open("rb") as said:
        repairs = Repairs(TapSettings(), SpillStore(stage.root / "spill"))
        repaired.writelines(repairs.repaired(said))
    (stage.recordings / "repaired.jsonl").write_bytes(repaired.getvalue())
    made, seen = (_calls(stage.recordings / name) for name in ("repaired.jsonl", stage.front.seen))
    assert made == seen


def _calls(path: Path) -> dict[str, dict[str, Any]]:
    """Return the calls of a recording, as they are in the end, but for times and the names of files."""
    calls = fold(update for update in updates_in(path) if "toolCallId" in update)
    for call in calls.values():
        call["_meta"] = call.get("_meta", {}).get("callsheet", {}).get("reason")
    return json.loads(_SPILLED.sub("", json.dumps(calls)))


def reasons(outcome: Outcome) -> list[Any]:
    """Return why the calls have ended as they have."""
    metas = [call.get("_meta", {}).get("callsheet", {}) for call in outcome.calls.values()]
    return [meta.get("reason") for meta in metas]


def shown(outcome: Outcome) -> bytes:
    """Return all that the client was shown. What it was given to do is not for showing."""
    assert outcome.client is not None
    lines = outcome.client.lines
    return b"".join(line for line in lines if not _method(line).startswith(WORK))


def _method(line: bytes) -> str:
    return str(json.loads(line).get("method", ""))
