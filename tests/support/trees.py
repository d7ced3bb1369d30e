"""Trees of files to search in, with odd names and ignore files, made from a seed."""

from __future__ import annotations

import os
import random
from pathlib import Path

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
