"""Walking a tree as ripgrep does: without what is ignored, never through links, and never into `.git`.

The rules of ignore files are git's, in the way ripgrep reads them, and so are the files: `.rgignore` beats
`.ignore` beats `.gitignore` beats `.git/info/exclude`; within a kind the nearest directory decides, and
within a file the last line that matches. Names are compared as bytes, so paths are matched as text that has
one character for each byte (`as_bytes`).

Ignore files count from the root of the repository down, or, if there is no repository, or one that ignores
the directory that is walked, from that directory down.

`list` and `glob` walk; `grep` has ripgrep walk. Tests hold that both leave out the same files. (Ripgrep can't
list directories, links, or what is ignored, so it can't serve the former.)
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeAlias

from callsheet.tools.errors import NotPermitted
from callsheet.tools.fs.dirfd import LIST, NO_LINK, READ, open_directory
from callsheet.tools.search.globs import GlobError, path_source

KINDS = (".rgignore", ".ignore", ".gitignore", ".git")
"""Names of what holds rules, the strongest first. The last holds `info/exclude`."""
GIT_KINDS = (2, 3)

_MAX_BYTES = 4 << 20
"""Bytes of an ignore file that are read at most."""

_FOLLOWED = READ & ~os.O_NOFOLLOW


def as_bytes(path: str) -> str:
    """Return text with one character for each byte of a path."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


# Rules


class _Rule(NamedTuple):
    """One line of an ignore file, as the source of an expression for names or for paths."""

    source: str
    by_name: bool
    ignores: bool
    only_directories: bool


def _parse_line(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    ignores = not line.startswith("!")
    if not ignores or line[:2] in ("\\!", "\\#"):
        line = line[1:]
    anchored = line.startswith("/")
    line = line[1:] if anchored else line
    only_directories = line.endswith("/")
    if only_directories:
        line = line[:-1].removesuffix("\\")
    if not line:
        return None
    by_name = not anchored and "/" not in line and line != "**"
    if line.endswith("/**"):
        line += "/*"  # all that is inside, but not the directory itself
    try:
        return _Rule(path_source(as_bytes(line)), by_name, ignores, only_directories)
    except GlobError:
        return None  # as ripgrep does with a line that it can't read


class IgnoreRules:
    """The rules of one ignore file, up to the first line that isn't UTF-8, ready to decide about paths.

    All rules for names are one expression, and so are those for paths. The last rule comes first in them,
    and the name of the group that matched is its number.
    """

    def __init__(self, data: bytes) -> None:
        self._ignores: list[bool] = []
        sources: dict[tuple[bool, bool], list[str]] = defaultdict(list)
        *lines, last = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for line in [*(line.removesuffix(b"\r") for line in lines), last]:
            try:
                rule = _parse_line(line.decode())
            except UnicodeDecodeError:
                break
            if rule is not None:
                source = f"(?P<r{len(self._ignores)}>{rule.source})"
                self._ignores.append(rule.ignores)
                sources[True, rule.by_name].insert(0, source)
                if not rule.only_directories:
                    sources[False, rule.by_name].insert(0, source)
        self._patterns: dict[tuple[bool, bool], re.Pattern[str]] = {
            key: re.compile("|".join(each), re.DOTALL) for key, each in sources.items()
        }

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return whether a path below the file's directory is ignored. None if no rule is about it."""
        number = -1
        for by_name, text in ((True, path[path.rfind("/") + 1 :]), (False, path)):
            pattern = self._patterns.get((is_directory, by_name))
            if pattern is not None and (found := pattern.fullmatch(text)) and found.lastgroup:
                number = max(number, int(found.lastgroup[1:]))
        return None if number < 0 else self._ignores[number]


_Placed: TypeAlias = "tuple[tuple[int, IgnoreRules], ...]"
"""Rules of one kind, the nearest first, and where in a path their directory ends."""


class DirectoryRules(NamedTuple):
    """The rules that hold in one directory. Paths are seen from where rules begin to count."""

    in_repository: bool
    kinds: tuple[_Placed, ...] = ((),) * len(KINDS)

    def enter(self, directory: int, skip: int, names: Collection[str]) -> DirectoryRules:
        """Return what holds in an open directory with these entries, whose path is `skip` characters long."""
        if not any(name in names for name in KINDS):
            return self
        kinds = list(self.kinds)
        for kind, name in enumerate(KINDS):
            if kind in GIT_KINDS and ".git" in names and self.in_repository:
                kinds[kind] = ()  # another repository: the rules around it end here
            if name in names and (data := _read_rules(directory, name)):
                kinds[kind] = ((skip, IgnoreRules(data)), *kinds[kind])
        return self._replace(kinds=tuple(kinds))

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return whether a path is ignored. None if no rule is about it."""
        for placed in self.kinds:
            for skip, rules in placed:
                decided = rules.decide(path[skip:], is_directory)
                if decided is not None:
                    return decided
        return None


def _read_rules(directory: int, name: str) -> bytes:
    """Return what is in an ignore file in an open directory. One that can't be read holds no rules."""
    if name == ".git":
        name = f"{_git_directory(directory)}/info/exclude"
    return _read(directory, name)


def _git_directory(directory: int) -> str:
    """Return where the rules of a repository are: those of a linked worktree are in the main one."""
    line = _read(directory, ".git").partition(b"\n")[0]
    if not line.startswith(b"gitdir: "):
        return ".git"
    linked = os.fsdecode(line[8:])
    common = _read(directory, f"{linked}/commondir").partition(b"\n")[0]
    return os.path.join(linked, os.fsdecode(common)) if common else ".git"  # noqa: PTH118


def _read(directory: int, path: str) -> bytes:
    with suppress(OSError), open(os.open(path, _FOLLOWED, dir_fd=directory), "rb") as file:  # noqa: PTH123
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(_MAX_BYTES)
    return b""


# Scopes


class SearchScope(NamedTuple):
    """A directory, and the ignore rules that hold for it from above."""

    base: str
    prefix: str
    """What comes before paths below the directory, seen from where rules begin to count, as bytes."""
    rules: DirectoryRules


def scope_of(base: str) -> SearchScope:
    """Return a directory, which is absolute and without links, with the rules from above."""
    repository = _repository_of(base)
    if repository is not None:
        rules, path = DirectoryRules(True), ""
        at = Path(repository)
        for name in Path(base).relative_to(at).parts:
            with suppress(OSError, NotPermitted):  # a directory that is gone holds no rules
                fd = open_directory(at)
                try:
                    held = [kind for kind in KINDS if os.path.lexists(at / kind)]
                    rules = rules.enter(fd, len(path), held)
                finally:
                    os.close(fd)
            path += as_bytes(name)
            if rules.decide(path, True):
                break
            path, at = f"{path}/", at / name
        else:
            return SearchScope(base, path, rules)
    return SearchScope(base, "", DirectoryRules(False))


def _repository_of(base: str) -> str | None:
    """Return the root of the repository that a directory is in, as git would find it."""
    ceilings = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    stops = {os.path.realpath(ceiling) for ceiling in ceilings if ceiling}
    directory = base
    while True:
        git = f"{directory.rstrip('/')}/.git"
        if os.path.isfile(git) or os.path.lexists(f"{git}/HEAD"):  # noqa: PTH113
            return directory
        above = os.path.dirname(directory)  # noqa: PTH120
        if above == directory or above in stops:
            return None
        directory = above


# The walk


class WalkEntry(NamedTuple):
    """Something in the tree."""

    path: str
    """As seen from the directory that is walked."""
    entry: os.DirEntry[str]
    is_directory: bool


class Walk:
    """Goes through what is not ignored. Directories come before what is in them.

    More can be asked of the entries until the walk goes on.

    Args:
        base: The directory, absolute and without links.
        hidden: Whether names that begin with a dot count.
        inside: Returns whether to enter a directory, by its path. Without it, all are entered.
        ended: Returns whether to stop.
    """

    def __init__(
        self,
        base: str,
        *,
        hidden: bool = True,
        inside: Callable[[str], object] = lambda _: True,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        self.scope: SearchScope = scope_of(base)
        self._hidden: bool = hidden
        self._inside: Callable[[str], object] = inside
        self._ended: Callable[[], bool] = ended
        top = open_directory(Path(base))
        try:
            self._fds: list[int] = [os.open(".", LIST | NO_LINK, dir_fd=top)]
        finally:
            os.close(top)
        self._names: list[str] = []
        self._known: dict[str, DirectoryRules | None] = {}
        self.ignored: int = 0
        self.unreadable: int = 0

    def __enter__(self) -> Walk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        for fd in self._fds:
            os.close(fd)

    def __iter__(self) -> Iterator[WalkEntry]:
        """Go through the whole tree, but only into directories that `inside` lets in."""
        pending = [("", self.scope.rules)]
        while pending and not self._ended():
            path, rules = pending.pop()
            try:
                found, rules = self._read(path, rules)
            except OSError:
                self.unreadable += 1
                continue
            for each in found:
                yield each
                if each.is_directory and self._inside(each.path):
                    pending.append((each.path, rules))

    def top(self) -> list[WalkEntry]:
        """Return the entries of the directory itself. Raise `OSError` if it can't be read."""
        return self._read("", self.scope.rules)[0]

    def read_link(self, found: WalkEntry) -> str:
        """Return the target of a link. Raise `OSError` if it can't be read."""
        return os.readlink(found.entry.name, dir_fd=self._fds[-1])

    def passes_by(self, path: str) -> bool:
        """Return whether the walk passes by a file that ripgrep has found, or by a directory that it is in.

        Ripgrep forgets some rules from above the directory that it searches.
        """
        try:
            rules = self._rules_in(path.rpartition("/")[0])
        except OSError:  # it is gone, or was replaced by a link
            return True
        return rules is None or self._passes_by(self.scope.prefix + as_bytes(path), False, rules)

    def _rules_in(self, path: str) -> DirectoryRules | None:
        """Return the rules that hold in a directory; None if the walk passes by it."""
        if path in self._known:
            return self._known[path]
        rules: DirectoryRules | None = self.scope.rules
        if path:
            rules = self._rules_in(path.rpartition("/")[0])
            seen = self.scope.prefix + as_bytes(path)
            if rules is not None and self._passes_by(seen, True, rules):
                rules = None
        self._known[path] = rules if rules is None else self._read(path, rules)[1]
        return self._known[path]

    def _read(self, path: str, rules: DirectoryRules) -> tuple[list[WalkEntry], DirectoryRules]:
        directory = self._open(path)
        with os.scandir(directory) as entries:
            each = {entry.name: entry for entry in entries}
        inside = f"{path}/" if path else ""
        seen = self.scope.prefix + as_bytes(inside)
        rules = rules.enter(directory, len(seen), each)
        found = list[WalkEntry]()
        for name, entry in each.items():
            is_directory = entry.is_dir(follow_symlinks=False)
            if name == ".git":
                continue
            if self._passes_by(seen + as_bytes(name), is_directory, rules):
                self.ignored += 1
            else:
                found.append(WalkEntry(inside + name, entry, is_directory))
        return found, rules

    def _passes_by(self, seen: str, is_directory: bool, rules: DirectoryRules) -> bool:
        ignored = rules.decide(seen, is_directory)
        if ignored is None:
            return not self._hidden and seen.startswith(".", seen.rfind("/") + 1)
        return ignored

    def _open(self, path: str) -> int:
        """Open a directory below the base, one name at a time and never through a link.

        The descriptor is valid until the next one is opened, which begins where the two ways part.
        """
        names = path.split("/") if path else []
        same = len(os.path.commonprefix([names, self._names]))  # noqa: RUF071 - they are lists
        del self._names[same:]
        while len(self._fds) > same + 1:
            os.close(self._fds.pop())
        for name in names[same:]:
            self._fds.append(os.open(name, LIST | NO_LINK, dir_fd=self._fds[-1]))
            self._names.append(name)
        return self._fds[-1]
