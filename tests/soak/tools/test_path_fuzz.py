"""No path argument, however it is written, leads a tool out of the workspace.

Outside of the workspace there are canaries: files whose content, and one whose name, must never be seen in
a result or a recording, and which must stay as they are, to the byte and to the time of their last change.
Every built-in tool that takes a path is led there in every way we know: by dots, by links, by devices, by
odd names, and by links that are put in the way between the check of a path and its use.

A tool that fails here does real harm, so one that changes things is only ever led to our own canaries:
arguments that could be read as any other place of this machine are left out for it.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from os.path import expandvars
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callsheet import Session, ToolResult
from callsheet.testing import Recorder, assert_every_call_ended, assert_standard
from callsheet.tools.tool import Tool
from callsheet.tools.workspace import Workspace
from tests.support.sizes import fewer, sized

SECRET = secrets.token_hex(16)
"""Stands in every canary."""

NAME = secrets.token_hex(16)
"""Is the name of a file that no path argument names."""

PATIENCE = 10.0
"""Seconds after which a tool counts as one that hangs."""


class World:
    """A workspace with traps in it, and canaries around it."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self.outside = self.base / "outside"
        self.inside = self.base / "ws"
        self.socket = socket.socket(socket.AF_UNIX)
        self.renew()

    def renew(self) -> None:
        """Make everything anew."""
        shutil.rmtree(self.outside, ignore_errors=True)
        (self.outside / "dir/deep").mkdir(parents=True)
        names = (
            "canary.txt",
            "dir/canary.txt",
            "dir/file.txt",
            "dir/deep/canary.txt",
            f"dir/{NAME}",
        )
        for name in names:
            (self.outside / name).write_text(f"{SECRET}\nold\n")
        (self.outside / ".gitignore").write_text(f"# {SECRET}\n")
        self.build()
        self.before = self.snapshot()

    def build(self) -> None:
        """Make the workspace anew."""
        shutil.rmtree(self.inside, ignore_errors=True)
        ws = self.inside
        (ws / "dir/sub").mkdir(parents=True)
        for name in ("file.txt", "dir/file.txt", "dir/sub/file.txt"):
            (ws / name).write_text("inside\nold\n")
        links = {
            "to_file": "../outside/canary.txt",
            "to_file_absolute": str(self.outside / "canary.txt"),
            "to_dir": "../outside/dir",
            "to_dir_absolute": str(self.outside),
            "chain": "chain1",
            "chain1": "dir/../chain2",
            "chain2": "to_dir/deep",
            "loop": "loop1",
            "loop1": "loop",
            "itself": "itself",
            "dangling": "nowhere",
            "dangling_out": "../outside/new.txt",
            "dangling_dir": "../outside/new/deep",
            "up": "..",
            "root": "/",
            "proc_root": "/proc/self/root",
            "proc_cwd": "/proc/self/cwd",
            "proc_mem": "/proc/self/environ",
            "zero": "/dev/zero",
            "tty": "/dev/tty",
            "stdin": "/dev/stdin",
            "inner": "dir/sub",
            "inner_file": "dir/file.txt",
            "~": "../outside",
            "dir/up2": "../../outside",
            "dir/inner_up": "../to_file",
        }
        for name, target in links.items():
            (ws / name).symlink_to(target)
        os.mkfifo(ws / "fifo")
        os.mkfifo(ws / "dir/fifo")
        self.socket.close()
        self.socket = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(ws)  # the name of a socket is short
        try:
            self.socket.bind("socket")
        finally:
            os.chdir(here)

    def snapshot(self) -> dict[str, tuple[Any, ...]]:
        """Return everything around the workspace as it is."""
        around = sorted(entry.name for entry in self.base.iterdir())
        found: dict[str, tuple[Any, ...]] = {"/": tuple(around)}
        for path in [self.outside, *sorted(self.outside.rglob("*"))]:
            seen = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else None
            state = (seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_nlink)
            found[str(path)] = (*state, content)
        return found

    def joined(self, text: str) -> str:
        """Return a path from the workspace's directory, with all its dots."""
        return text if text.startswith("/") else f"{self.inside}/{text}"

    def is_ours(self, text: str) -> bool:
        """Whether a path means a place of these tests, however it is read, even wrongly."""
        cut = text.split("\0")[0]
        home = os.path.expanduser(cut)  # noqa: PTH111 - it may be no path at all
        readings = {
            *(cut, cut.strip(), unquote(cut), cut.replace("\\", "/")),
            *(home, normalize("NFKC", cut), expandvars(cut), cut.partition("://")[2]),
        }
        joined = [self.joined(reading) for reading in readings]
        meant = {*map(os.path.normpath, joined), *map(os.path.realpath, joined)}
        return all(self.base in Path(path).parents for path in meant)

    def is_inside(self, text: str, entry: bool) -> bool:
        """Whether a path leads into the workspace, found out in another way than the tools do."""
        if "\0" in text:
            return False
        if entry:
            head, last = os.path.split(self.joined(text).rstrip("/"))
            real = Path(os.path.realpath(head), last)
        else:
            real = Path(os.path.realpath(self.joined(text)))
        return self.inside == real or self.inside in real.parents

    def run(
        self, tool: str, arguments: dict[str, Any], *, is_steady: bool = True
    ) -> ToolResult | None:
        """Run a tool in the workspace, and hold that nothing got out and nothing in.

        Where paths are not steady, nobody can say beforehand where they lead.
        """
        paths = {
            path.name: path.entry
            for path in tool_named(tool).paths
            if path.name in arguments and is_steady
        }
        if tool in CHANGING and not all(self.is_ours(arguments[name]) for name in paths):
            return None
        # Before the tool runs: it may take away the link that led there.
        inside = {name: self.is_inside(arguments[name], entry) for name, entry in paths.items()}
        recorder = Recorder()

        async def run() -> ToolResult:
            async with Session(
                cwd=self.inside, on_update=recorder, permission="allow", strict=True
            ) as session:
                return await session.run(tool, arguments, timeout=PATIENCE)

        result = asyncio.run(run())
        after, before = self.snapshot(), self.before
        if after != before:
            self.renew()  # one tool's fault should not be seen in the next one
        assert after == before, f"{tool} {arguments!r} changed what is outside"
        said = json.dumps(result.to_dict(), ensure_ascii=False).encode(errors="surrogatepass")
        shown = b"".join(recorder.lines)
        for canary in (SECRET, NAME):
            assert canary.encode() not in said, f"{tool} {arguments!r} tells of a canary: {result}"
            assert canary.encode() not in shown, f"{tool} {arguments!r} reports a canary"
        assert result.metadata.get("error_code") != "timeout", f"{tool} {arguments!r} hangs"
        assert result.metadata.get("exception") is None, f"{tool} {arguments!r}: {result}"
        if result.success:
            let_out = [name for name in paths if not inside[name]]
            assert not let_out, f"{tool} {arguments!r} was let outside by {let_out}"
        assert_standard(result)
        assert_every_call_ended(recorder)
        return result


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as base, pytest.MonkeyPatch.context() as patch:
        made = World(Path(base))
        patch.setenv("HOME", str(made.outside))
        yield made
        made.socket.close()


# The tools: for each, its arguments made of paths

Arguments = Callable[[str, str], dict[str, Any]]
TOOLS: dict[str, list[Arguments]] = {
    "read": [lambda path, _: {"path": path}],
    "write": [lambda path, _: {"path": path, "content": "written"}],
    "edit": [lambda path, _: {"path": path, "old_text": "old", "new_text": "new"}],
    "list": [lambda path, _: {"path": path}],
    "glob": [
        lambda path, _: {"pattern": "**/*", "path": path},
        lambda path, _: {"pattern": path},
        lambda path, other: {"pattern": f"{path}/*", "path": other},
    ],
    "grep": [
        lambda path, _: {"pattern": ".", "path": path},
        lambda path, other: {"pattern": "old", "path": path, "glob": other},
    ],
    "move": [lambda path, other: {"source": path, "destination": other}],
    "delete": [
        lambda path, _: {"path": path},
        lambda path, _: {"path": path, "recursive": True},
    ],
    "bash": [lambda path, _: {"command": "cat canary.txt; echo x > new.txt", "cwd": path}],
}


CHANGING = ("write", "edit", "move", "delete", "bash")


@cache
def tool_named(name: str) -> Tool:
    """Return a tool of this file's list."""
    found = Session().tools.get(name)
    assert found is not None
    return found


def test_every_builtin_tool_with_a_path_is_led_astray() -> None:
    assert {tool.name for tool in Session().tools if tool.paths} == TOOLS.keys()


# The paths

NAMES = [
    *["file.txt", "dir", "sub", "new.txt", "canary.txt", "outside", "ws", "missing"],
    *["to_file", "to_file_absolute", "to_dir", "to_dir_absolute", "chain", "chain1", "chain2"],
    *["loop", "loop1", "itself", "dangling", "dangling_out", "dangling_dir", "up", "root"],
    *["proc_root", "proc_cwd", "proc_mem", "zero", "tty", "stdin", "inner", "inner_file", "up2"],
    *["inner_up", "fifo", "socket", "~", "~root", "~/canary.txt", "..", "..", ".", "", "..."],
    *["．．", "‥", "..\u200b", "%2e%2e", "..%2f", "..\\", "\\..\\", "\u202e..", "..\u0301", "ſ"],
    *["\0", "..\0", "file.txt\0.png", "\n", "\r", "\x1b[31m", "-", "--", "-rf", "*", "?", "[a]"],
    *["{a,b}", "$HOME", "${HOME}", "`pwd`", "$(pwd)", ";", "|", "'", '"', "\udc80", "é", "e\u0301"],
    *["x" * 255, "x" * 256, "é" * 128, "file://", "file:", "C:", "C:\\", "con", "nul", ".git"],
]


def prefixes(world: World) -> list[str]:
    return [
        "",
        "",
        "",
        "./",
        "/",
        "//",
        f"{world.inside}/",
        f"{world.inside}/../",
        f"{world.outside}/",
        f"{world.outside}",
        f"{world.inside}-x/",
        f"/proc/self/root{world.outside}/",
        f"/proc/self/cwd/../{world.outside}/",
        "/proc/self/cwd/../",
        "/proc/self/fd/0/",
        "/proc/thread-self/root/",
        "/dev/",
        "/dev/fd/",
        "~/",
        "file://",
        "../" * 40,
        "dir/" + "../" * 3,
        "./" * 1000,
        "to_dir/../",
        "up/outside/",
        f"root/{world.outside}/",
        f"proc_root/{world.outside}/",
    ]


@st.composite
def path_texts(draw: st.DrawFn) -> Callable[[World], str]:
    """A path, once it is known where the workspace is."""
    which = draw(st.integers(0, 26))
    names = draw(st.lists(st.sampled_from(NAMES), max_size=5))
    between = draw(st.sampled_from(["/", "/", "/", "//", "/./"]))
    end = draw(st.sampled_from(["", "", "", "/", "//", "/.", "/..", " ", ".", "\0", "/*"]))
    return lambda world: prefixes(world)[which] + between.join(names) + end


ATTACKS = [
    "../outside/canary.txt",
    "{outside}/canary.txt",
    "{outside}",
    "{outside}/new.txt",
    "{outside}/dir",
    "..",
    "/",
    ".",
    "../ws/../outside/dir",
    "to_file",
    "to_file/",
    "to_file_absolute",
    "to_dir",
    "to_dir/",
    "to_dir/.",
    "to_dir/canary.txt",
    "to_dir/../canary.txt",
    "to_dir_absolute/canary.txt",
    "chain",
    "chain/canary.txt",
    "loop",
    "loop/x",
    "itself",
    "dangling",
    "dangling_out",
    "dangling_dir",
    "dangling_dir/x",
    "up/outside/canary.txt",
    "root{outside}/canary.txt",
    "proc_root{outside}/canary.txt",
    "proc_cwd/../outside/canary.txt",
    "/proc/self/root{outside}/canary.txt",
    "/proc/self/cwd/../outside/canary.txt",
    "/proc/self/environ",
    "/dev/zero",
    "/dev/tty",
    "/dev/stdin",
    "zero",
    "tty",
    "stdin",
    "fifo",
    "socket",
    "~/canary.txt",
    "~",
    "$HOME/canary.txt",
    "file://{outside}/canary.txt",
    "{inside}/../outside/canary.txt",
    "{inside}-x/../outside/canary.txt",
    "dir/up2/canary.txt",
    "dir/inner_up",
    "canary.txt\0",
    "\0",
    "",
    " ",
    "x" * 300,
    "x/" * 3000,
    "../" * 1300 + "etc/passwd",
    "\udc80\udcff",
]
INSIDE = ["file.txt", "new.txt", "dir", "dir/file.txt"]


def there(text: str, world: World) -> str:
    return text.replace("{outside}", str(world.outside)).replace("{inside}", str(world.inside))


@pytest.mark.parametrize("tool", TOOLS)
def test_no_known_attack_leads_a_tool_outside(world: World, tool: str) -> None:
    others = [*INSIDE, "to_dir/x", "../outside/x", "dangling_out", "fifo"]
    tried: list[dict[str, Any]] = []  # most tools take one path, and some others come again
    for make in TOOLS[tool]:
        for number, attack in enumerate(ATTACKS):
            other = others[number % len(others)]
            for one, two in ((attack, other), (other, attack)):
                arguments = make(there(one, world), there(two, world))
                if arguments not in tried:
                    tried.append(arguments)
                    if tool in CHANGING or len(tried) == 1:
                        world.build()
                    world.run(tool, arguments)
    assert len(tried) >= len(ATTACKS)


@pytest.mark.parametrize("tool", TOOLS)
@fewer(2, small=5)
@given(text=path_texts(), other=path_texts(), which=st.integers(0, 5))
@example(text=lambda w: "to_dir/canary.txt", other=lambda w: "file.txt", which=0)
def test_no_path_leads_a_tool_outside(
    world: World, tool: str, text: Callable[[World], str], other: Callable[[World], str], which: int
) -> None:
    makes = TOOLS[tool]
    if tool in CHANGING:
        world.build()
    world.run(tool, makes[which % len(makes)](text(world), other(world)))


# A link that is put in the way

EXCHANGE = 2


def exchange(one: Path, other: Path) -> None:
    """Let two entries change places, at one stroke where the system can."""
    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, "renameat2", None)
    if function is None or function(-100, bytes(one), -100, bytes(other), EXCHANGE):
        spare = one.with_name("spare")
        one.rename(spare)
        other.rename(one)
        spare.rename(other)


GOOD: dict[str, dict[str, Any]] = {
    "read": {"path": "dir/file.txt"},
    "write": {"path": "dir/file.txt", "content": "written"},
    "edit": {"path": "dir/file.txt", "old_text": "old", "new_text": "new"},
    "list": {"path": "dir"},
    "glob": {"pattern": "**/*", "path": "dir"},
    "grep": {"pattern": ".", "path": "dir"},
    "move": {"source": "dir/file.txt", "destination": "dir/moved.txt"},
    "delete": {"path": "dir/file.txt"},
    "bash": {"command": "cat file.txt; echo x > new.txt", "cwd": "dir"},
}
# Not the tools that hand a directory to another program, which walks it by itself.
RACED = ("read", "write", "edit", "move", "delete")
CASES: list[tuple[str, dict[str, Any]]] = [
    *[(name, GOOD[name]) for name in RACED],
    ("move", {"source": "file.txt", "destination": "dir/deep/moved.txt"}),
    ("move", {"source": "dir/sub", "destination": "moved"}),
    ("delete", {"path": "dir/sub", "recursive": True}),
    ("delete", {"path": "dir", "recursive": True}),
    ("write", {"path": "dir/new/new.txt", "content": "written"}),
]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_same_tools_do_their_work_inside(world: World, tool: str) -> None:
    """What is held here would hold of a tool that refuses everything, too."""
    world.build()
    result = world.run(tool, GOOD[tool])
    assert result is not None
    assert result.success, result.output


@pytest.mark.parametrize(("tool", "arguments"), CASES)
def test_a_link_put_in_the_way_after_the_check_is_not_followed(
    world: World, tool: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.build()
    (world.inside / "trap").symlink_to("../outside/dir")
    find = Workspace.find

    def found_and_swapped(self: Workspace, *given: Any, **named: Any) -> Path:
        path = find(self, *given, **named)
        if not (world.inside / "dir").is_symlink():
            exchange(world.inside / "dir", world.inside / "trap")
        return path

    monkeypatch.setattr(Workspace, "find", found_and_swapped)
    world.run(tool, arguments, is_steady=False)


FLIP = """
import ctypes, sys
one, other = (path.encode() for path in sys.argv[1:])
rename = ctypes.CDLL(None, use_errno=True).renameat2
print("begun", flush=True)
while True:
    if rename(-100, one, -100, other, 2):
        sys.exit(f"no exchange: {ctypes.get_errno()}")
"""
SECONDS = float(os.environ.get("CALLSHEET_RACE_SECONDS", sized(1.0, 0.25)))


@pytest.mark.parametrize("tool", RACED)
def test_a_link_that_is_swapped_all_the_time_leads_nowhere(world: World, tool: str) -> None:
    """Another process lets a directory and a link to the outside change places, as fast as it can."""
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("this system can't let two entries change places at one stroke")
    world.build()
    (world.inside / "trap").symlink_to("../outside/dir")
    pair = [str(world.inside / "dir"), str(world.inside / "trap")]
    flipping = subprocess.Popen(
        [sys.executable, "-c", FLIP, *pair], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert flipping.stdout is not None
    assert flipping.stderr is not None
    try:
        assert flipping.stdout.readline() == b"begun\n"
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for real in (world.inside / "dir", world.inside / "trap"):
                if not real.is_symlink() and not (real / "file.txt").exists():
                    _put_back(real / "file.txt")
            world.run(tool, GOOD[tool], is_steady=False)
        assert flipping.poll() is None, flipping.stderr.read()
    finally:
        flipping.kill()
        flipping.communicate()


def _put_back(path: Path) -> None:
    """Make the file again that a tool took away, if the path still leads inside."""
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fd = os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=directory)
        os.write(fd, b"inside\nold\n")
        os.close(fd)
    finally:
        os.close(directory)
