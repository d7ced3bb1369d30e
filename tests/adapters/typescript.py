"""The official TypeScript SDK as a client of what the adapters have recorded."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from callsheet.testing.recordings import Recorded, updates_in
from tests.adapters.replayed_agent import SESSION
from tests.clients import scenes
from tests.support import ROOT


async def hold_fold(recordings: Iterable[Recorded], place: Path) -> set[str]:
    """Hold that a client on the SDK sees the same calls in recordings as we do, and return their statuses."""
    played: list[dict[str, Any]] = []
    for number, lines in enumerate(recordings):
        path = place / f"{number}.jsonl"
        messages = [
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {"sessionId": SESSION, "update": update},
            }
            for update in updates_in(lines)
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in messages), encoding="utf-8")
        played.append({"name": str(number), "prompt": str(path)})
    spec = {
        "command": [sys.executable, "-m", "tests.adapters.replayed_agent"],
        "cwd": str(ROOT),
        "scenes": played,
        "patience": scenes.PATIENCE,
    }
    client = await asyncio.to_thread(
        subprocess.run,
        ["node", scenes.FOLDER / "sdk_v1.mjs"],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        timeout=scenes.PATIENCE + 20,
        check=False,
    )
    assert (client.returncode, client.stderr) == (0, "")
    seen = scenes.Seen(1, place, json.loads(client.stdout))
    assert len(seen.data["scenes"]) == len(played)
    assert seen.data["lost"] == []
    scenes.hold_traffic(seen)
    return {call["status"] for call in seen.calls.values()}
