"""A link that takes the place of a directory, while tools work in it, leads none of them out of the workspace.

A process of its own swaps them all the time: the directory itself, one in it, and a file.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session, ToolResult
from callsheet.tools.files.dirfd import NO_LINK
from tests.support.processes import linux
from tests.support.sizes import sized

ROUNDS = sized(1500, 24)
SECRET = "zebra"
"""What stands outside only, in lines and in names."""

pytestmark = [linux, pytest.mark.skipif(not NO_LINK, reason="links can't be told apart here")]

_SWAP = """
import ctypes, os, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
pairs = [(-100, one.encode(), -100, other.encode(), 2) for one, other in
         zip(sys.argv[1::2], sys.argv[2::2])]
print("ready", flush=True)
while os.getppid() != 1:
    for pair in pairs:
        if exchange(*pair):
            raise OSError(ctypes.get_errno(), "can't swap")
        for _ in range(300):
            pass
"""


@contextmanager
def swapping(*pairs: tuple[Path, Path]) -> Iterator[None]:
    paths = [str(path) for pair in pairs for path in pair]
    command = [sys.executable, "-I", "-S", "-c", _SWAP, *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                pytest.skip("this system can't swap two names at once")
            yield
            assert process.poll() is None
        finally:
            process.kill()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    inside, outside = tmp_path / "inside", tmp_path / "beyond"
    for top, word in ((inside / "d", "inside"), (outside, SECRET)):
        (top / "sub").mkdir(parents=True)
        for number in range(5):
            (top / f"{word}-{number}.txt").write_text(f"{word} line\n" * 3)
            (top / "sub" / f"{word}-{number}.txt").write_text(f"{word} line\n")
            (top / f"same-{number}.txt").write_text(f"\n{word} line\n")
            (top / "sub" / f"same-{number}.txt").write_text(f"{word} line\n")
    (inside / "link").symlink_to(outside)
    (inside / "d" / "sub-link").symlink_to(outside / "sub")
    (inside / "file-link").symlink_to(outside / "same-0.txt")
    return inside


@contextmanager
def one_swap(inside: Path, which: int) -> Iterator[None]:
    pair = [
        (inside / "d", inside / "link"),
        (inside / "d" / "sub", inside / "d" / "sub-link"),
        (inside / "d" / "same-0.txt", inside / "file-link"),
    ][which]
    with swapping(pair):
        yield


def leaks(result: ToolResult) -> bool:
    return SECRET in "\n".join((result.output, str(result.error), str(result.metadata)))


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "grep for what is outside": ("grep", {"pattern": "zeb.a", "path": "d"}),
    "grep for all": ("grep", {"pattern": "line", "path": "d", "context": 2}),
    "grep with a glob": ("grep", {"pattern": "line", "glob": "**/*.txt"}),
    "grep in a file": ("grep", {"pattern": "line", "path": "d/same-0.txt"}),
    "grep from above": ("grep", {"pattern": "zeb.a"}),
    "list": ("list", {"path": "d"}),
    "list further down": ("list", {"path": "d/sub"}),
    "glob": ("glob", {"pattern": "**/*.txt"}),
    "glob further down": ("glob", {"pattern": "*", "path": "d/sub"}),
    "bash": ("bash", {"command": "cat same-0.txt *-1.txt", "cwd": "d"}),
    "bash further down": ("bash", {"command": "cat *-1.txt", "cwd": "d/sub"}),
}


@pytest.mark.parametrize("which", [0, 1, 2], ids=["directory", "inner", "file"])
@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("bash")])
async def test_nothing_from_outside_is_seen(workspace: Path, name: str, which: int) -> None:
    tool, arguments = CALLS[name]
    rounds = max(1, ROUNDS // (1 if tool != "grep" else 2))
    async with Session("s", cwd=workspace, strict=True) as session:
        with one_swap(workspace, which):
            results = [await session.run(tool, arguments) for _ in range(rounds)]
    assert sum(map(leaks, results)) == 0
    if arguments.get("pattern") == "zeb.a":
        assert {result.metadata.get("total_matches", 0) for result in results} == {0}


@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith("bash")])
async def test_no_command_is_run_outside(workspace: Path, name: str) -> None:
    """Where a command goes by itself is its own affair; so only its directory is swapped, or one above it."""
    tool, arguments = CALLS[name]
    code = {"command": "pwd -P; cat *-1.txt"} | {"cwd": arguments["cwd"]}
    async with Session("s", cwd=workspace, strict=True) as session:
        with one_swap(workspace, 0 if arguments["cwd"] == "d" else 1):
            results = [await session.run(tool, code) for _ in range(max(1, ROUNDS // 4))]
    assert sum(SECRET in result.output for result in results) == 0


async def test_without_a_storm_all_is_found(workspace: Path) -> None:
    async with Session("s", cwd=workspace, strict=True) as session:
        found = await session.run("grep", {"pattern": "line", "path": "d"})
        assert (found.metadata["total_matches"], found.metadata["files_matched"]) == (30, 20)
        names = await session.run("glob", {"pattern": "**/*.txt"})
        assert names.metadata["results_count"] == 20
