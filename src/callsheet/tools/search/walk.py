"""Walking a tree as ripgrep does: without what is ignored, never through links, and never into `.git`.

The rules of ignore files are git's, in the way ripgrep reads them, and so are the files: `.rgignore` beats
`.ignore` beats `.gitignore` beats `.git/info/exclude`; within a kind the nearest directory decides, and
within a file the last line that matches. Names are compared as bytes, so paths are matched as text that has
one character for each byte (`as_bytes`).

Ignore files count from the root of the repository down, or from the workspace's if there is no repository,
or one that ignores the workspace. Those above the directory that is walked are weaker than all those in it.

`list` and `glob` walk; `grep` has ripgrep walk, and passes it the rules from above. Tests hold that both
leave out the same files. (Ripgrep can't list directories, links, or what is ignored, so it can't serve
the former.)
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, TypeAlias

from callsheet.tools.fs.dirfd import Descent
from callsheet.tools.search.globs import GlobError, is_literal, path_source

KINDS = (".rgignore", ".ignore", ".gitignore", ".git")
"""Names of what holds rules, the strongest first. The last holds `info/exclude`."""
GIT_KINDS = (2, 3)

_MAX_BYTES = 4 << 20
"""Bytes of an ignore file that are read at most."""


def as_bytes(path: str) -> str:
    """Return text with one character for each byte of a path."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def from_bytes(path: str) -> str:
    """Return a path as Python writes it from text that has one character for each byte."""
    return path if path.isascii() else os.fsdecode(path.encode("latin-1"))


class IgnoreRule(NamedTuple):
    """One line of an ignore file."""

    glob: str
    """Matched against a whole path below the file's directory."""
    ignores: bool
    only_directories: bool

    def below(self, directory: str) -> str:
        """Return the rule as a line for a file further up, from where its directory is `directory`."""
        head = re.sub(r"([\\*?\[\]{}!# ])", r"\\\1", f"{directory}/") if directory else ""
        head = re.sub("[\n\r\udc80-\udcff]", "?", head)  # what can't be written
        tail = "/" if self.only_directories else ""
        return f"{'' if self.ignores else '!'}/{head}{from_bytes(self.glob)}{tail}"


def parse_line(line: str) -> IgnoreRule | None:
    """Parse a line of an ignore file; None if it holds no rule."""
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
    if not anchored and "/" not in line and line != "**":
        line = f"**/{line}"
    if line.endswith("/**"):
        line += "/*"  # all that is inside, but not the directory itself
    return IgnoreRule(as_bytes(line), ignores, only_directories)


def parse(data: bytes) -> list[IgnoreRule]:
    """Parse an ignore file, up to the first line that isn't UTF-8."""
    rules = list[IgnoreRule]()
    *lines, last = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in [*(line.removesuffix(b"\r") for line in lines), last]:
        try:
            rule = parse_line(line.decode())
        except UnicodeDecodeError:
            break
        if rule is not None:
            rules.append(rule)
    return rules


class IgnoreRules:
    """The rules of one file, ready to decide about paths.

    Most rules are plain names, paths or suffixes. Those are looked up in dicts; only what is left is
    matched as an expression, all at once first, since usually nothing matches.
    """

    __slots__ = ("_any", "_names", "_paths", "_rules", "_sources", "_suffixes")

    def __init__(self, rules: Iterable[IgnoreRule]) -> None:
        self._rules: list[IgnoreRule] = list(rules)
        self._names: dict[str, list[int]] = {}
        self._suffixes: dict[str, list[int]] = {}
        self._paths: dict[str, list[int]] = {}
        self._sources: list[tuple[int, re.Pattern[str]]] = []
        for number, rule in enumerate(self._rules):
            self._add(number, rule.glob)
        sources = "|".join(pattern.pattern for _, pattern in self._sources)
        self._any: re.Pattern[str] | None = re.compile(sources, re.DOTALL) if sources else None

    def _add(self, number: int, glob: str) -> None:
        name = glob.removeprefix("**/")
        if is_literal(name):
            if "/" not in name and name is not glob:
                self._names.setdefault(name, []).append(number)
                return
            if name is glob:
                self._paths.setdefault(name, []).append(number)
                return
        if name is not glob and name.startswith("*.") and is_literal(name[1:]) and "/" not in name:
            self._suffixes.setdefault(name[1:], []).append(number)
            return
        try:
            pattern = re.compile(path_source(glob), re.DOTALL)
        except GlobError:
            return  # as ripgrep does with a line that it can't read
        self._sources.append((number, pattern))

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return whether a path below the file's directory is ignored. None if no rule is about it."""
        name = path[path.rfind("/") + 1 :]
        found = [*self._names.get(name, ()), *self._paths.get(path, ())]
        if self._suffixes:
            dot = name.find(".")
            while dot >= 0:
                found += self._suffixes.get(name[dot:], ())
                dot = name.find(".", dot + 1)
        if self._any is not None and self._any.fullmatch(path):
            found += [number for number, pattern in self._sources if pattern.fullmatch(path)]
        if not found:
            return None
        rules = self._rules
        for number in sorted(found, reverse=True):
            if is_directory or not rules[number].only_directories:
                return rules[number].ignores
        return None


# Reading ignore files


def read_rules(directory: int, kind: int) -> list[IgnoreRule]:
    """Read the ignore file of a kind in an open directory. One that can't be read holds no rules."""
    path = KINDS[kind]
    if kind == len(KINDS) - 1:
        path = f"{_git_directory(directory)}/info/exclude"
    return parse(_read(directory, path))


def _git_directory(directory: int) -> str:
    """Return where the rules of a repository are: those of a linked worktree are in the main one."""
    line = _read(directory, ".git", limit=4096).partition(b"\n")[0]
    if not line.startswith(b"gitdir: "):
        return ".git"
    linked = os.fsdecode(line[8:])
    common = _read(directory, f"{linked}/commondir", limit=4096).partition(b"\n")[0]
    return os.path.join(linked, os.fsdecode(common)) if common else ".git"  # noqa: PTH118


def _read(directory: int, path: str, limit: int = _MAX_BYTES) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0), dir_fd=directory)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


# Scopes

_Ranked: TypeAlias = "tuple[tuple[int, IgnoreRules], ...]"
"""Rules, and where in a path their directory ends. The strongest come first."""

_HELD = frozenset(KINDS)


class SearchScope(NamedTuple):
    """A directory, and from where on ignore files count for what is in it."""

    top: str
    below: str
    """The directory itself, seen from `top`. Empty if it is the same."""
    in_repository: bool

    @property
    def base(self) -> str:
        """The directory itself."""
        return os.path.join(self.top, self.below) if self.below else self.top  # noqa: PTH118


def scope_of(base: str, roots: Iterable[str]) -> SearchScope:
    """Return from where on ignore files count for a directory.

    Args:
        base: The directory, absolute and without links.
        roots: The directories of the workspace.
    """
    holding = [root for root in roots if base == root or base.startswith(root.rstrip("/") + "/")]
    top = min(holding, key=len, default=base)
    repository = _repository_of(base)
    if repository is not None and not _is_ignored(top, repository):
        return SearchScope(repository, _below(repository, base), in_repository=True)
    return SearchScope(top, _below(top, base), in_repository=False)


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


def _is_ignored(top: str, repository: str) -> bool:
    """Return whether a repository ignores a directory in it, or one that this is in."""
    below = _below(repository, top) if top.startswith(repository.rstrip("/") + "/") else ""
    names = below.split("/") if below else []
    paths = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
    with Walk(SearchScope(repository, "", in_repository=True), hidden=True) as walk:
        return any(walk.is_left_out(path, is_directory=True) for path in paths)


def _below(top: str, path: str) -> str:
    return path[len(top) :].lstrip("/")


def rules_above(scope: SearchScope) -> list[tuple[int, str, list[IgnoreRule]]]:
    """Read the ignore files above a directory: kind, directory seen from the top, and rules."""
    if not scope.below:
        return []
    found = list[tuple[int, str, list[IgnoreRule]]]()
    names = scope.below.split("/")[:-1]
    with Descent(scope.top) as descent, suppress(OSError):
        for count in range(len(names) + 1):
            directory = "/".join(names[:count])
            fd = descent.enter(directory)
            each = [(kind, read_rules(fd, kind)) for kind in range(len(KINDS))]
            found += [
                (kind, f"{directory}/" if count else "", rules) for kind, rules in each if rules
            ]
    return found


# The walk


class _DirectoryRules:
    """The rules that hold in one directory."""

    __slots__ = ("_above", "_kinds", "_ranked", "_stops")

    def __init__(self, kinds: Sequence[_Ranked], above: _Ranked, stops: bool) -> None:
        self._kinds: Sequence[_Ranked] = kinds
        self._above: _Ranked = above
        self._ranked: _Ranked = (*(each for kind in kinds for each in kind), *above)
        self._stops: bool = stops

    @classmethod
    def first(cls, scope: SearchScope) -> _DirectoryRules:
        """Return what holds above a directory."""
        kinds: list[_Ranked] = [()] * len(KINDS)
        for kind, directory, rules in rules_above(scope):
            kinds[kind] = ((len(as_bytes(directory)), IgnoreRules(rules)), *kinds[kind])
        above = tuple(each for kind in kinds for each in kind)
        return cls([()] * len(KINDS), above, scope.in_repository)

    def enter(self, directory: int, skip: int, names: Iterable[str]) -> _DirectoryRules:
        """Return what holds in an open directory with these entries, whose path is `skip` characters long."""
        held = _HELD.intersection(names)
        if not held:
            return self
        kinds = list(self._kinds)
        for kind, name in enumerate(KINDS):
            own = read_rules(directory, kind) if name in held else ()
            if kind in GIT_KINDS and ".git" in held and self._stops:
                kinds[kind] = ()  # another repository: the rules around it end here
            if own:
                kinds[kind] = ((skip, IgnoreRules(own)), *kinds[kind])
        return _DirectoryRules(kinds, self._above, self._stops)

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return whether a path, seen from the top, is ignored. None if no rule is about it."""
        for skip, rules in self._ranked:
            decided = rules.decide(path[skip:], is_directory)
            if decided is not None:
                return decided
        return None


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
        scope: The directory.
        hidden: Whether names that begin with a dot count.
        inside: Returns whether to enter a directory, by its path. Without it, all are entered.
        ended: Returns whether to stop.
    """

    def __init__(
        self,
        scope: SearchScope,
        *,
        hidden: bool,
        inside: Callable[[str], object] | None = None,
        ended: Callable[[], bool] | None = None,
    ) -> None:
        self._scope: SearchScope = scope
        self._hidden: bool = hidden
        self._inside: Callable[[str], object] | None = inside
        self._ended: Callable[[], bool] | None = ended
        self._descent: Descent = Descent(scope.base)
        self.ignored: int = 0
        self.unreadable: int = 0

    def __enter__(self) -> Walk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._descent.close()

    def __iter__(self) -> Iterator[WalkEntry]:
        """Go through the whole tree, but only into directories that `inside` lets in."""
        pending = [("", _DirectoryRules.first(self._scope))]
        while pending:
            path, level = pending.pop()
            if self._ended is not None and self._ended():
                return
            try:
                found, level = self._read(path, level)
            except OSError:
                self.unreadable += 1
                continue
            for each in found:
                yield each
                if each.is_directory and (self._inside is None or self._inside(each.path)):
                    pending.append((each.path, level))

    def top(self) -> list[WalkEntry]:
        """Return the entries of the directory itself. Raise `OSError` if it can't be read."""
        return self._read("", _DirectoryRules.first(self._scope))[0]

    def read_link(self, found: WalkEntry) -> str:
        """Return the target of a link. Raise `OSError` if it can't be read."""
        return self._descent.read_link(found.entry.name)

    def is_left_out(self, path: str, *, is_directory: bool = False) -> bool:
        """Return whether a walk passes by something, though it enters the directory that it is in."""
        level = _DirectoryRules.first(self._scope)
        names = path.split("/")
        with suppress(OSError):  # a directory that is gone holds no rules
            for count in range(len(names)):
                at = "/".join(names[:count])
                fd = self._descent.enter(at)
                held = [kind for kind in KINDS if _is_in(fd, kind)]
                level = self._level(at, level, held)
        return self._leaves_out(path, path[path.rfind("/") + 1 :], is_directory, level)

    def _read(self, path: str, level: _DirectoryRules) -> tuple[list[WalkEntry], _DirectoryRules]:
        each = self._descent.entries(path)
        level = self._level(path, level, [entry.name for entry in each])
        found = list[WalkEntry]()
        for number, entry in enumerate(each):
            if not number % 1024 and self._ended is not None and self._ended():
                break
            name = entry.name
            if name == ".git":
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            inner = f"{path}/{name}" if path else name
            if self._leaves_out(inner, name, is_directory, level):
                self.ignored += 1
            else:
                found.append(WalkEntry(inner, entry, is_directory))
        return found, level

    def _level(self, path: str, level: _DirectoryRules, names: Iterable[str]) -> _DirectoryRules:
        seen = "/".join(part for part in (self._scope.below, path) if part)
        skip = len(as_bytes(seen)) + 1 if seen else 0
        return level.enter(self._descent.enter(path), skip, names)

    def _leaves_out(self, path: str, name: str, is_directory: bool, level: _DirectoryRules) -> bool:
        below = self._scope.below
        decided = level.decide(as_bytes(f"{below}/{path}" if below else path), is_directory)
        if decided is None:
            return not self._hidden and name.startswith(".")
        return decided


def _is_in(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True
