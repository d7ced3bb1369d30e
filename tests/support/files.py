"""Files for the tests of tools: workspaces, and trees to search in, with odd names and ignore files."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


def shown(output: str) -> list[str]:
    """Return the lines of an output without their numbers, and without what is said at the end."""
    return [line.partition("→")[2] for line in output.split("\n")[:-1]]


@contextmanager
def without_rights() -> Iterator[Path]:
    """Return a directory to somebody who may not do everything, and be that one meanwhile.

    Whoever that is may not be able to reach the modules and programs that root has installed: a test
    has to have used before what it uses then (`reachable`, for programs).
    """
    is_root = os.geteuid() == 0
    directory = Path(tempfile.mkdtemp(dir=_public_place() if is_root else None)).resolve()
    before = tempfile.tempdir
    if is_root:
        tempfile.tempdir = "/tmp"  # where everybody may write
        directory.chmod(0o755)
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield directory
    finally:
        tempfile.tempdir = before
        if is_root:
            os.seteuid(0)
        for path in (directory, *directory.rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(directory)


@contextmanager
def reachable(program: str) -> Iterator[str]:
    """Return a copy of a program that everybody can run."""
    directory = Path(tempfile.mkdtemp(dir=_public_place()))
    try:
        directory.chmod(0o755)
        copy = directory / Path(program).name
        shutil.copyfile(program, copy)
        copy.chmod(0o755)
        yield str(copy)
    finally:
        shutil.rmtree(directory)


def _public_place() -> str:
    """Return a directory for temporary files that everybody can reach."""
    for place in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")):
        steps = (place.resolve(), *place.resolve().parents)
        if os.access(place, os.W_OK) and all(step.stat().st_mode & 1 for step in steps):
            return str(place)
    pytest.skip("there is no directory for temporary files that everybody can reach")


NAMES = [
    *("a", "b", "ab", "a.py", "b.py", "c.txt", "build", "Build", "x y", "é", "[z]", "a{b", "#h"),
    *("!bang", "-d", ".hid", ".x.py", "foo.bar.py", "nl\nx", "tr ", "back\\s", "star*"),
    os.fsdecode(b"\xff\xfe.py"),
]
PLAIN = ["a", "b", "ab", "a.py", "build", "foo.bar.py", ".hid", "c.txt", "é", "x\\ y", "\\[z\\]"]
ESCAPED = ["tr\\ ", "\\!bang", "\\#h", "back\\\\s", "star\\*", "a\\{b"]
STARRED = [
    *("*", "*.py", "a*", "*b", "?", "a?", "??", "[ab]", "[!a]", "[a-c]*", "*.p?", "*a*", "b*.py"),
    *("*.*", "[^b]*", "*[a]", "x*y", ".*", "*.txt", "f*.*.py", "[]a]", "[a-]"),
]
# Git takes braces for plain characters, and stars that don't stand alone for those that do.
UNLIKE_GIT = ["{a,b}", "*.{py,txt}", "{build,ab}", "**a", "a**"]
ODD = ["", "#c", "  ", "/", "*", "**", "a  ", "[", "**/", "/**", "a//b", "//a", "a/**/"]


class Trees:
    """Makes trees. The same seed makes the same tree."""

    def __init__(self, seed: int, *, like_git: bool = False) -> None:
        self.chance = random.Random(seed)
        self._unlike = PLAIN if like_git else UNLIKE_GIT

    def fill(self, directory: Path, kinds: list[str], depth: int = 0) -> None:
        """Fill a directory with files, directories and links, and with ignore files of these kinds."""
        chance = self.chance
        for name in chance.sample(NAMES, chance.randint(1, 6)):
            path = directory / name
            if depth < 3 and chance.random() < 0.5:
                path.mkdir()
                self.fill(path, kinds, depth + 1)
            elif chance.random() < 0.05:
                path.symlink_to(".")
            else:
                path.write_bytes(self.content())
        for kind in kinds:
            if chance.random() < 0.25:
                rules = [self.rule() for _ in range(chance.randint(1, 4))]
                end = chance.choice(["", "\n"])
                (directory / kind).write_text("\n".join(rules) + end, "utf-8", newline="")

    def repository(self, directory: Path) -> None:
        """Make a directory the root of a repository, with rules of its own."""
        info = directory / ".git" / "info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "exclude").write_text(f"{self.rule()}\n{self.rule()}\n", "utf-8")
        (directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    def content(self) -> bytes:
        """Return the content of a file: few words, so that some are found."""
        chance = self.chance
        words = ["foo", "Foo", "bar", "é", "É", " ", "\t", "x" * 400, "-", "9", "foobar", "\r"]
        lines = [
            "".join(chance.choices(words, k=chance.randint(0, 5)))
            for _ in range(chance.randint(0, 9))
        ]
        data = "\n".join(lines).encode() + chance.choice([b"", b"\n"])
        kind = chance.random()
        if kind < 0.05:
            return data + b"\0"
        if kind < 0.1:
            return b"\xef\xbb\xbf" + data
        if kind < 0.15:
            return b"\xff\xfe" + data.decode().encode("utf-16-le")
        return data + b"\xff foo\n" if kind < 0.2 else data

    def rule(self) -> str:
        """Return a line of an ignore file."""
        chance = self.chance
        if chance.random() < 0.05:
            return chance.choice(ODD)
        parts = [self._component() for _ in range(chance.choice([1, 1, 1, 2, 2, 3]))]
        head = chance.choice(["", "", "", "/"])
        negated = "!" if chance.random() < 0.25 else ""
        return f"{negated}{head}{'/'.join(parts)}{chance.choice(['', '', '', '/'])}"

    def glob(self) -> str:
        """Return a glob."""
        parts = [self._component() for _ in range(self.chance.choice([1, 1, 2, 3]))]
        return "/".join(parts)

    def _component(self) -> str:
        choices = [PLAIN, STARRED, ESCAPED, ["**"], self._unlike]
        return self.chance.choice(self.chance.choices(choices, [8, 8, 1, 2, 1])[0])
