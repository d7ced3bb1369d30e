"""One call's life: three notifications, from values to lines of bytes. Nothing is sent anywhere.

The call is announced with a place and its input, is in progress, and is completed with 2 KB of
content and the same as raw output. Before anything is timed, the peers' lines are compared: they
must say the same.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from . import floor, ours, sdk_typescript
from .table import Claim, Figures, Subject
from .timing import Batch, Sample, interleave, ratio, repeat, summarise

ROUNDS = 31
SECONDS = 0.15

OURS = "callsheet"
VIEW = "callsheet, through a peer's view"
FLOOR = "msgspec alone (the floor)"
SDK = "Python SDK, encoding only"
SDK_CONNECTION = "Python SDK, connection to a null stream"
TYPESCRIPT = "TypeScript SDK, connection to a null stream"


def measure() -> Subject:
    """Time all peers that are here."""
    lines = ours.make_life()()
    expected = _updates(lines)
    notes = [
        f"{len(lines)} lines, {sum(map(len, lines)):,} bytes; {ROUNDS} rounds of {SECONDS:g} s"
    ]
    with ExitStack() as stack:
        peers = _python_peers(stack, expected, notes)
        took = interleave(peers, rounds=ROUNDS, seconds=SECONDS)
    samples = {name: summarise(values) for name, values in took.items()}
    typescript = _typescript(expected, notes)
    if typescript:
        samples[TYPESCRIPT] = summarise(typescript)
    return _subject(samples, took, notes)


def _python_peers(
    stack: ExitStack, expected: list[dict[str, Any]], notes: list[str]
) -> dict[str, Batch]:
    peers: dict[str, Batch] = {}
    plain: dict[str, Callable[[], list[bytes]]] = {
        FLOOR: floor.make_life(),
        OURS: ours.make_life(),
        VIEW: ours.make_life_in_view(),
    }
    for name, life in plain.items():
        _check(name, life(), expected)
        peers[name] = repeat(life)
    if find_spec("acp") is None:
        notes.append("the Python SDK is left out: agent-client-protocol is not installed")
        return peers
    from . import sdk_python  # it imports the SDK, which may not be here

    life = sdk_python.make_life()
    expected = [_without(update, "name", "_meta") for update in expected]
    _check(SDK, life(), expected)
    sent: list[bytes] = []
    with sdk_python.connection(keep=sent) as batch:
        batch(1)
    _check(SDK_CONNECTION, sent, expected)
    notes.append("the Python SDK's helpers take no name and no _meta, so its lines lack these")
    peers[SDK] = repeat(life)
    peers[SDK_CONNECTION] = stack.enter_context(sdk_python.connection())
    return peers


def _typescript(expected: list[dict[str, Any]], notes: list[str]) -> list[float]:
    reason = sdk_typescript.missing()
    if reason is None:
        try:
            run = sdk_typescript.run(expected, rounds=ROUNDS, seconds=SECONDS)
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            reason = f"it failed ({type(error).__name__})"
        else:
            _check(TYPESCRIPT, run.lines, expected)
            notes.append(f"TypeScript SDK {run.sdk} on node {run.node}, in rounds of its own")
            return run.micros
    notes.append(f"the TypeScript SDK is left out: {reason}")
    return []


def _subject(samples: dict[str, Sample], took: dict[str, list[float]], notes: list[str]) -> Subject:
    ratios = {"callsheet / floor": ratio(took[OURS], took[FLOOR])}
    claims = [Claim("one call's life, callsheet / msgspec alone", ratios["callsheet / floor"], 3)]
    if SDK in took:
        ratios["SDK encoding / callsheet"] = ratio(took[SDK], took[OURS])
        ratios["SDK connection / callsheet"] = ratio(took[SDK_CONNECTION], took[OURS])
        ratios["SDK encoding / floor"] = ratio(took[SDK], took[FLOOR])
        bound = ratios["SDK encoding / floor"]
        notes.append(f"Python SDK encoding / msgspec alone: {bound:.1f}×, the most one could gain")
        gain = ratios["SDK encoding / callsheet"]
        claims.append(Claim("one call's life, Python SDK encoding / callsheet", gain, 15, True))
    kept: Figures = {
        "microseconds_per_life": {
            name: {key: round(value, 2) for key, value in sample._asdict().items()}
            for name, sample in samples.items()
        },
        "ratios": {name: round(value, 3) for name, value in ratios.items()},
    }
    head = ("peer", "µs per life", "min–max", "spread", "× callsheet")
    rows = [_row(name, sample, samples[OURS].median) for name, sample in samples.items()]
    return Subject("One call's life, three notifications", head, rows, claims, notes, kept)


def _row(name: str, sample: Sample, base: float) -> tuple[str, ...]:
    return (
        name,
        f"{sample.median:.1f}",
        f"{sample.low:.1f}–{sample.high:.1f}",
        f"{sample.spread_percent:.0f} %",
        f"{sample.median / base:.2f}",
    )


def _updates(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line)["params"]["update"] for line in lines]


def _check(name: str, lines: list[bytes], expected: list[dict[str, Any]]) -> None:
    """Hold that a peer's lines are whole, carry one id, and say what callsheet's say."""
    frames = [json.loads(line) for line in lines]
    updates = _updates(lines)
    alike = [_without(update, "toolCallId") for update in updates] == [
        _without(update, "toolCallId") for update in expected
    ]
    whole = all(
        line.endswith(b"\n") and (frame["jsonrpc"], frame["method"]) == ("2.0", "session/update")
        for line, frame in zip(lines, frames, strict=True)
    )
    if not (alike and whole and len({update["toolCallId"] for update in updates}) == 1):
        raise RuntimeError(f"{name}: its lines don't say what callsheet's say; nothing to compare")


def _without(update: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in update.items() if key not in keys}
