"""The Python peers, timed beside each other in this process (`python -m bench.peers`).

Before anything is timed, the peers' lines are compared: they must say the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, TypeAlias

from . import floor, ours
from .timing import Batch, interleave, repeat

OURS = "callsheet"
VIEW = "callsheet, through a peer's view"
FLOOR = "msgspec alone (the floor)"
SDK = "Python SDK, encoding only"
SDK_CONNECTION = "Python SDK, connection to a null stream"
SDK_SAME = "Python SDK doing the same (tracker, connection)"

Updates: TypeAlias = list[dict[str, Any]]


def time_peers(rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return microseconds per life, by peer and round."""
    expected = updates_of(ours.make_life()())
    with ExitStack() as stack:
        peers = _own_peers(expected)
        if find_spec("acp"):
            peers |= _sdk_peers(stack, [without(update, "name", "_meta") for update in expected])
        return interleave(peers, rounds=rounds, seconds=seconds)


def _own_peers(expected: Updates) -> dict[str, Batch]:
    lives = {FLOOR: floor.make_life(), OURS: ours.make_life(), VIEW: ours.make_life_in_view()}
    for name, life in lives.items():
        check_same(name, life(), expected)
    return {name: repeat(life) for name, life in lives.items()}


def _sdk_peers(stack: ExitStack, expected: Updates) -> dict[str, Batch]:
    from . import sdk_python  # it imports the SDK, which may not be here

    life = sdk_python.make_life()
    check_same(SDK, life(), expected)
    peers = {SDK: repeat(life)}
    for name, tracked in ((SDK_CONNECTION, False), (SDK_SAME, True)):
        sent: list[bytes] = []
        with sdk_python.connection(sent, tracked=tracked) as batch:
            batch(1)
        check_same(name, sent, expected)
        peers[name] = stack.enter_context(sdk_python.connection(tracked=tracked))
    return peers


def updates_of(lines: Sequence[bytes]) -> Updates:
    """Read what the lines of a life say."""
    return [json.loads(line)["params"]["update"] for line in lines]


def check_same(name: str, lines: Sequence[bytes], expected: Updates) -> None:
    """Hold that a peer's lines are whole, carry one id, and say what is expected of them."""
    frames = [json.loads(line) for line in lines]
    updates = updates_of(lines)
    alike = [without(update, "toolCallId") for update in updates] == [
        without(update, "toolCallId") for update in expected
    ]
    whole = all(
        line.endswith(b"\n") and (frame["jsonrpc"], frame["method"]) == ("2.0", "session/update")
        for line, frame in zip(lines, frames, strict=True)
    )
    if not (alike and whole and len({update["toolCallId"] for update in updates}) == 1):
        raise RuntimeError(f"{name}: its lines don't say what callsheet's say; nothing to compare")


def without(update: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return an update without some of its fields."""
    return {key: value for key, value in update.items() if key not in keys}


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.12)
    options = parser.parse_args()
    print(json.dumps(time_peers(options.rounds, options.seconds)))


if __name__ == "__main__":
    _main()
