"""The lines that peers get, in all scenes.

Times are those of a clock that stands still unless a scene lets time pass. What no public setting fixes is
replaced: ids of calls, batches and spill files by their order of appearance, and measured usage by zeros.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from .files import Items, decoded
from .parts import FakeClock, Peer, Recorder, Session, forget_marks
from .scenes import CPU_MS, RSS_KB, SCENES, Scene
from .surroundings import surroundings, without_place

PEERS = {
    "v1": Peer(),
    "v1 with terminals": Peer(terminals="meta"),
    "v2": Peer(version=2),
    "v1 with all options": Peer(
        terminals="meta",
        owns_terminals=True,
        progress="content",
        titles="markdown",
        cancels=True,
        parent_keys=("parentToolCallId", "claudeCode"),
    ),
    "v2 with all options": Peer(
        version=2, progress="meta", titles="either", cancels=True, parent_keys=("claudeCode",)
    ),
}
FILES = tuple(f"lines/{name}" for name in SCENES)

_ID = re.compile(r"(call|batch|term|terminal|sess)_[0-7][0-9A-HJKMNP-TV-Z]{25}")
_SPILL = re.compile(r"spill-[0-9a-f]{32}")
_USAGE = re.compile(rf'"usage":\{{"cpuMs":(?!{CPU_MS},)\d+,"maxRssKb":(?!{RSS_KB}\}})\d+\}}')


def make(file: str) -> Items:
    """Return the lines of one scene, for each peer."""
    scene = SCENES[file.removeprefix("lines/")]
    items: Items = {}
    with surroundings() as place:
        for name, peer in PEERS.items():
            forget_marks()
            lines = asyncio.run(_play(scene, peer))
            text = decoded(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))
            items[name] = _normalised(text, place)
    return items


async def _play(scene: Scene, peer: Peer) -> list[bytes]:
    """Play a scene in a session with one peer. Return what the peer got, and what it was asked."""
    clock, recorder = FakeClock(), Recorder(peer)

    async def answer(question: Any) -> Any:
        asked = {"method": "session/request_permission", "params": question.params(peer.version)}
        recorder.lines.append(json.dumps(asked, ensure_ascii=False).encode())
        return scene.answer

    session = Session(
        "sess_golden",
        cwd="/home/golden/app",
        sinks=[recorder],
        clock=clock,
        on_permission=None if scene.answer is None else answer,
        **{"locale": "en", **scene.options},
    )
    async with session:
        await scene.play(session, clock)
        await clock.advance(5)
    return recorder.lines


def _normalised(text: str, place: Path) -> str:
    text = without_place(text, place)
    for pattern in (_ID, _SPILL):
        order: dict[str, str] = {}
        for match in pattern.finditer(text):
            kind = re.split("[_-]", match[0])[0]
            order.setdefault(match[0], f"{kind}-{len(order) + 1}")
        text = pattern.sub(lambda match, order=order: order[match[0]], text)
    return _USAGE.sub('"usage":{"cpuMs":0,"maxRssKb":0}', text)
