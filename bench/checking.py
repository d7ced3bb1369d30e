"""How fast a recording is checked: one of a gigabyte, by all rules, beside `jq` and bare schema validation.

It is made of recordings of six real agents (`recordings.jsonl.zst`), again and again, each time with new ids
and times. Memory must not grow with it, but for ids that were used (130,000 at most): a recording of a tenth
of the size is checked for comparison. Each is checked in a process of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import zstandard

from .table import Claim, Figures, Subject

MEGABYTES = 1000
RECORDINGS = Path(__file__).with_name("recordings.jsonl.zst")
ROUNDS = 2
SESSIONS = 10
"""Recordings that follow each other on one connection."""

OURS = "callsheet check, all rules"
SCHEMA = "decode, and validate by jsonschema-rs"
JQ = "jq -c ."
JQ_EMPTY = "jq empty"


def measure(megabytes: int = MEGABYTES) -> Subject:
    """Make the recordings, and time all peers that are here on them."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as folder:
        small, big = Path(folder, "small.jsonl"), Path(folder, "big.jsonl")
        make(small, max(1, megabytes // 10))
        make(big, megabytes)
        peak = _in_python("checked", small)[1]
        took = _timed(big)
        size = big.stat().st_size
    return _subject(took, peak, size)


def _timed(path: Path) -> dict[str, tuple[float, float]]:
    """Return the seconds and the mebibytes of each peer, the best of some rounds."""
    peers: dict[str, Callable[[], tuple[float, float]]] = {
        OURS: lambda: _in_python("checked", path),
        SCHEMA: lambda: _in_python("validated", path),
    }
    if shutil.which("jq"):
        peers[JQ] = lambda: _by_jq("-c", ".", str(path))
        peers[JQ_EMPTY] = lambda: _by_jq("empty", str(path))
    rounds = [{name: run() for name, run in peers.items()} for _ in range(ROUNDS)]
    return {name: min(done[name] for done in rounds) for name in peers}


def _by_jq(*words: str) -> tuple[float, float]:
    begin = perf_counter()
    subprocess.run(["jq", *words], stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - begin, 0.0


def _in_python(work: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.checking", work, str(path)]
    begin = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return perf_counter() - begin, float(done.stdout)


def _subject(took: dict[str, tuple[float, float]], small: float, size: int) -> Subject:
    speeds = {name: size / seconds / 1e6 for name, (seconds, _) in took.items()}
    peak = took[OURS][1]
    rows = [
        (name, f"{speed:,.0f}", f"{took[name][0]:,.1f}", f"{took[name][1]:,.0f}" if took[name][1] else "–")
        for name, speed in sorted(speeds.items(), key=lambda one: -one[1])
    ]  # fmt: skip
    more = "checking, peak memory that ten times the recording takes more"
    claims = [Claim(more, peak - small, 32, unit=" MiB")]
    notes = [
        f"{size / 1e6:,.0f} MB of recording; elapsed seconds, with the start; callsheet uses two cores",
        f"peak memory with a tenth of it: {small:,.0f} MiB",
    ]
    if JQ in speeds:
        claims.append(Claim("checking, callsheet / jq", speeds[OURS] / speeds[JQ], 1.0, True))
    else:
        notes.append("jq is left out: it is not installed")
    kept: Figures = {
        "megabytes": round(size / 1e6),
        "megabytes_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "peak_mebibytes": {"whole": round(peak, 1), "a tenth": round(small, 1)},
    }
    return Subject("Checking", ("reader", "MB/s", "s", "MiB"), rows, claims, notes, kept)


# The recording


def make(path: Path, megabytes: int) -> None:
    """Write a recording of so many megabytes."""
    encode = msgspec.json.Encoder().encode
    left = megabytes * 1_000_000
    with path.open("wb") as file:
        for line in _endless():
            data = encode(line)
            file.write(data + b"\n")
            left -= len(data) + 1
            if left <= 0:
                return


def _endless() -> Iterator[dict[str, Any]]:
    """Return the lines of connections without end: one agent after the other, some sessions each."""
    recordings = sources()
    clock, numbers = 0.0, count(1)
    while True:
        for place, lines in enumerate(recordings):
            yield from _again(lines, f"-{next(numbers)}", clock, says_hello=place % SESSIONS == 0)
            clock += lines[-1]["t"] + 1


def sources() -> list[list[dict[str, Any]]]:
    """Return the recordings. Each begins with `initialize`."""
    data = zstandard.ZstdDecompressor().decompress(RECORDINGS.read_bytes())
    found: list[list[dict[str, Any]]] = []
    for line in map(msgspec.json.decode, data.splitlines()):
        if line["msg"].get("method") == "initialize":
            found.append([])
        found[-1].append(line)
    return found


def _again(
    lines: list[dict[str, Any]], mark: str, clock: float, *, says_hello: bool
) -> Iterator[dict[str, Any]]:
    """Return a recording once more, under other ids and later; with `initialize`, or without."""
    hello = next(line["msg"] for line in lines if line["msg"].get("method") == "initialize")
    for line in lines:
        message = line["msg"]
        answers = line["dir"] == "agent->client" and message.get("id") == hello["id"]
        if not says_hello and (message is hello or (answers and "method" not in message)):
            continue
        yield {**line, "t": clock + line["t"], "msg": marked(message, mark)}


def marked(message: dict[str, Any], mark: str) -> dict[str, Any]:
    """Return a message with new ids: of the request, the session and the call."""
    found = dict(message)
    if "id" in message:
        found["id"] = f"{message['id']}{mark}"
    for name in ("params", "result"):
        if isinstance(message.get(name), dict):
            found[name] = _marked_inside(message[name], mark)
    return found


def _marked_inside(value: dict[str, Any], mark: str) -> dict[str, Any]:
    found = dict(value)
    for name in ("sessionId", "toolCallId", "requestId", "terminalId"):
        if name in value:
            found[name] = f"{value[name]}{mark}"
    for name in ("update", "toolCall"):
        if isinstance(value.get(name), dict):
            found[name] = _marked_inside(value[name], mark)
    return found


# What is timed, in a process of its own


def checked(path: Path) -> int:
    """Check a recording as the command does, and give how many calls there are."""
    from callsheet.check.rules import RULES
    from callsheet.check.runner import RecordingSource, check_all

    source = RecordingSource(str(path), path.stat().st_size, lambda: path.open("rb"))
    plain = [rule for rule in RULES if not rule.clients]  # as without --client
    return check_all([source], plain, ()).calls


def validated(path: Path) -> int:
    """Decode each line and validate its message, and give how many are valid."""
    from callsheet.acp import schemas

    valid = 0
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for line in file:
            message = decode(line)["msg"]
            found = schemas.definition(1, (message.get("method", ""), False))
            valid += found is None or found.is_valid(message["params"])
    return valid


def main() -> None:
    """Do one work on one file, and print the mebibytes that it took."""
    from . import memory

    _, work, path = sys.argv
    {"checked": checked, "validated": validated}[work](Path(path))
    print(memory.peak())


if __name__ == "__main__":
    main()
