"""The middle and the end of a huge file: read in flat memory, and no more of it than must be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.files import shown

MIDDLE, SIZE = 256 << 20, 640 << 20


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A large file that is mostly holes: a thousand lines, a thousand in the middle, two at the end."""
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        file.writelines(b"head %d\n" % n for n in range(1000))
        file.seek(MIDDLE)
        file.write(b"\n")
        file.writelines(b"middle %d\n" % n for n in range(1000))
        file.seek(SIZE)
        file.write(b"\nlast but one\nlast\n")
    return path


_READ_HUGE = """
import asyncio, json, re, sys
from pathlib import Path
from callsheet import Session

def fact(file, name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self", file).read_text())[1])

async def main():
    async with Session("s", cwd=sys.argv[1]) as session:
        await session.run("read", {"path": "small.txt"})
        facts = []
        for offset in map(int, sys.argv[2:]):
            memory, had = fact("status", "VmHWM"), fact("io", "rchar")
            result = await session.run("read", {"path": "huge.log", "offset": offset, "limit": 200})
            facts.append({
                "output": result.output,
                "metadata": dict(result.metadata),
                "read": fact("io", "rchar") - had,
                "grown": (fact("status", "VmHWM") - memory) * 1024,
            })
        print(json.dumps(facts))

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count reads")
def test_the_middle_of_a_huge_file_is_read_in_flat_memory(huge: Path) -> None:
    (huge.parent / "small.txt").write_text("a\n")
    command = [sys.executable, "-c", _READ_HUGE, str(huge.parent), "1", "1502", "-2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
    top, middle, tail = json.loads(done.stdout)
    assert top["read"] < 4_000_000
    assert shown(middle["output"]) == [f"middle {n}" for n in range(500, 700)]
    assert middle["metadata"]["total_lines"] is None
    assert "(lines 1,502–1,701 of a file of 671 MB; continue with offset=1702)" in middle["output"]
    assert MIDDLE <= middle["read"] < MIDDLE + 4_000_000, "nothing behind the wanted lines is read"
    assert shown(tail["output"]) == ["last but one", "last"]
    assert tail["metadata"]["end_line"] == tail["metadata"]["total_lines"] == 2004
    assert max(part["grown"] for part in (top, middle, tail)) < 12_000_000
