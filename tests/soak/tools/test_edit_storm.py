"""A storm of edits that is killed: every file is the old or the new one, whole."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.sizes import sized

FILES = sized(2000, 300)
AT_ONCE = 8
KILLS = sized(4, 2)
LATEST_KILL = sized(200, 80)

OLD = "".join(f"line {n} is old\n" for n in range(150))
NEW = OLD.replace("old", "newer")

_STORM = """
import asyncio, sys
from pathlib import Path
from callsheet import Session

async def main(directory, at_once):
    done = sys.stdout.buffer
    def tell(line):
        if b'"status":"completed"' in line:
            done.write(b".")
            done.flush()
    paths = sorted(Path(directory).glob("*.txt"))
    files = [path.name for path in paths if "newer" not in path.read_text()]
    change = {"old_text": "old", "new_text": "newer", "replace_all": True}
    async with Session("s", cwd=directory, on_update=tell) as session:
        results = await session.run_all(
            [("edit", {"path": name, **change}) for name in files], at_once=at_once
        )
    wrong = [result.output for result in results if not result.success]
    if wrong:
        sys.exit(wrong[0])

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def storm(directory: Path, kill_after: int | None, pause: float = 0) -> None:
    """Edit all files in a process of its own, and kill it when so many are done."""
    command = [sys.executable, "-c", _STORM, str(directory), str(AT_ONCE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if kill_after is None:
            process.stdout.read()
            assert process.wait(60) == 0
            return
        assert len(process.stdout.read(kill_after)) == kill_after
        time.sleep(pause)
        process.kill()
        assert process.wait(10) == -signal.SIGKILL


def count_new(directory: Path) -> int:
    """Count the new files; each other one must be the old one."""
    texts = [path.read_text() for path in directory.glob("*.txt")]
    assert len(texts) == FILES
    torn = [text for text in texts if text not in (OLD, NEW)]
    assert not torn, f"{len(torn)} files are neither old nor new; one has {len(torn[0])} characters"
    return texts.count(NEW)


def test_a_killed_storm_of_edits_leaves_every_file_old_or_new(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    chance = random.Random(pytestconfig.getoption("hypothesis_seed"))  # it is said at the end
    for number in range(FILES):
        (tmp_path / f"{number}.txt").write_text(OLD)
    new = 0
    for kills in range(1, KILLS + 1):
        storm(tmp_path, chance.randrange(20, LATEST_KILL), chance.uniform(0, 0.02))
        before, new = new, count_new(tmp_path)
        assert before < new < FILES, "it was killed in the middle"
        assert len(list(tmp_path.glob(".*"))) <= AT_ONCE * kills
    left = sorted(tmp_path.glob(".*"))
    storm(tmp_path, None)
    assert count_new(tmp_path) == FILES
    assert sorted(tmp_path.glob(".*")) == left, "only a killed process leaves something"
