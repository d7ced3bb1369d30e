"""What an agent wrote before it exited reaches the client whole, however long its last line is.

The same holds for a client that leaves: the agent reads all that it was sent.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.sizes import FULL, sized

PATIENCE = 120
WAYS = [(name, pause) for name in ("tap", "record") for pause in (0.0, 0.001)]
SIZES = sized((1, 30_000_000, 40_000_000, 70_000_000), (1, 12_000_000))

_MAKE = """
def line(size):
    return b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + b"word " * (size // 5) + b'"}}\\n'
"""
_SAYS = (
    _MAKE
    + "import os, sys\nrest = line(int(sys.argv[1]))\nwhile rest: rest = rest[os.write(1, rest):]"
)
_HEARS = (
    "import hashlib, sys, time\nfound = hashlib.sha256()\n"
    "while data := sys.stdin.buffer.read1(1 << 16):\n    found.update(data); time.sleep(0.0005)\n"
    "open(sys.argv[1], 'w').write(found.hexdigest())"
)
_SLOW = """
import os, sys, time
from callsheet.tap.stdio import Between

class Slow:
    wait = None
    def __init__(self): self.to_client, self.to_agent = [], []
    def from_client(self, data): pass
    def from_agent(self, data): time.sleep(0.7); self.to_client.append(data)
    def tick(self): pass

between = Between([sys.executable, "-c", "print('last words')"])
sys.exit(between.serve(Slow()))
"""


def line(size: int) -> bytes:
    made: dict[str, object] = {}
    exec(_MAKE, made)
    return made["line"](size)  # type: ignore[operator]


def command(name: str, folder: Path, *agent: str) -> list[str]:
    options = (
        ["-o", str(folder / "traffic.jsonl")] if name == "record" else ["--report", "/dev/null"]
    )
    return [sys.executable, "-m", "callsheet", name, *options, "--", sys.executable, "-c", *agent]


@pytest.mark.parametrize(
    ("name", "size", "pause"),
    [
        (name, size, pause)
        for name, pause in WAYS
        for size in SIZES
        if FULL or (size > 1) == (pause > 0)
    ],
)
def test_the_last_line_of_an_agent_is_whole(
    name: str, size: int, pause: float, tmp_path: Path
) -> None:
    with subprocess.Popen(
        command(name, tmp_path, _SAYS, str(size)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        found, count = hashlib.sha256(), 0
        while data := process.stdout.read(1 << 16):
            found.update(data)
            count += len(data)
            time.sleep(pause)
        assert process.wait(PATIENCE) == 0
    wanted = line(size)
    assert count == len(wanted)
    assert found.hexdigest() == hashlib.sha256(wanted).hexdigest()


@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in ("tap", "record") for size in SIZES[not FULL :]]
)
def test_the_last_line_of_a_client_is_whole(name: str, size: int, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    process = subprocess.run(
        command(name, tmp_path, _HEARS, str(heard)),
        input=line(size), stdout=subprocess.PIPE, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert process.returncode == 0
    assert heard.read_text() == hashlib.sha256(line(size)).hexdigest()


def test_what_takes_long_to_look_into_is_waited_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SLOW], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"last words\n")
