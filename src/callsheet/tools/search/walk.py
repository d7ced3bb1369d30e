"""Walking a tree as ripgrep does: without what is ignored, never through links, and never into `.git`.

Ignore files count from the root of the repository down, or from the workspace's if there is no
repository, or one that ignores the workspace. Those above the directory that is walked are weaker
than all those in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, TypeAlias

from callsheet.tools.fs.dirfd import Descent

from .ignore import GIT_KINDS, KINDS, Rule, Rules, as_bytes, read_rules

_Ranked: TypeAlias = "tuple[tuple[int, Rules], ...]"
"""Rules, and where in a path their directory ends. The strongest come first."""

_HELD = frozenset(KINDS)


class Scope(NamedTuple):
    """A directory, and from where on ignore files count for what is in it."""

    top: str
    below: str
    """The directory itself, seen from `top`. Empty if it is the same."""
    in_repository: bool

    @property
    def base(self) -> str:
        """The directory itself."""
        return os.path.join(self.top, self.below) if self.below else self.top  # noqa: PTH118


def scope_of(base: str, roots: Iterable[str]) -> Scope:
    """Find from where on ignore files count for a directory."""
    holding = [root for root in roots if base == root or base.startswith(root.rstrip("/") + "/")]
    top = min(holding, key=len, default=base)
    repository = _repository_of(base)
    if repository is not None and not _is_ignored(top, repository):
        return Scope(repository, _below(repository, base), in_repository=True)
    return Scope(top, _below(top, base), in_repository=False)


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
    """Whether a repository ignores a directory in it, or one that this is in."""
    below = _below(repository, top) if top.startswith(repository.rstrip("/") + "/") else ""
    names = below.split("/") if below else []
    paths = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
    with Walk(Scope(repository, "", in_repository=True), hidden=True) as walk:
        return any(walk.is_left_out(path, is_directory=True) for path in paths)


def _below(top: str, path: str) -> str:
    return path[len(top) :].lstrip("/")


def rules_above(scope: Scope) -> list[tuple[int, str, list[Rule]]]:
    """Read the ignore files above a directory: kind, directory seen from the top, and rules."""
    if not scope.below:
        return []
    found = list[tuple[int, str, list[Rule]]]()
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


class Level:
    """The rules that hold in one directory."""

    __slots__ = ("_above", "_kinds", "_ranked", "_stops")

    def __init__(self, kinds: Sequence[_Ranked], above: _Ranked, stops: bool) -> None:
        self._kinds: Sequence[_Ranked] = kinds
        self._above: _Ranked = above
        self._ranked: _Ranked = (*(each for kind in kinds for each in kind), *above)
        self._stops: bool = stops

    @classmethod
    def first(cls, scope: Scope) -> Level:
        """Return what holds above a directory."""
        kinds: list[_Ranked] = [()] * len(KINDS)
        for kind, directory, rules in rules_above(scope):
            kinds[kind] = ((len(as_bytes(directory)), Rules(rules)), *kinds[kind])
        above = tuple(each for kind in kinds for each in kind)
        return cls([()] * len(KINDS), above, scope.in_repository)

    def enter(self, directory: int, skip: int, names: Iterable[str]) -> Level:
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
                kinds[kind] = ((skip, Rules(own)), *kinds[kind])
        return Level(kinds, self._above, self._stops)

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return whether a path, seen from the top, is ignored. None if no rule is about it."""
        for skip, rules in self._ranked:
            decided = rules.decide(path[skip:], is_directory)
            if decided is not None:
                return decided
        return None


class Found(NamedTuple):
    """Something in the tree."""

    path: str
    """As seen from the directory that is walked."""
    entry: os.DirEntry[str]
    is_directory: bool


class Walk:
    """Goes through what is not ignored. Directories come before what is in them.

    More can be asked of the entries until the walk goes on.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        hidden: bool,
        inside: Callable[[str], object] | None = None,
        ended: Callable[[], bool] | None = None,
    ) -> None:
        self._scope: Scope = scope
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

    def __iter__(self) -> Iterator[Found]:
        """Go through the whole tree, but only into directories that `inside` lets in."""
        pending = [("", Level.first(self._scope))]
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

    def top(self) -> list[Found]:
        """Return what is in the directory itself. Raises `OSError` if it can't be read."""
        return self._read("", Level.first(self._scope))[0]

    def read_link(self, found: Found) -> str:
        """Return where a link leads. Raises `OSError`."""
        return self._descent.read_link(found.entry.name)

    def is_left_out(self, path: str, *, is_directory: bool = False) -> bool:
        """Whether a walk passes by something, though it enters the directory that it is in."""
        level = Level.first(self._scope)
        names = path.split("/")
        with suppress(OSError):  # a directory that is gone holds no rules
            for count in range(len(names)):
                at = "/".join(names[:count])
                fd = self._descent.enter(at)
                held = [kind for kind in KINDS if _is_in(fd, kind)]
                level = self._level(at, level, held)
        return self._leaves_out(path, path[path.rfind("/") + 1 :], is_directory, level)

    def _read(self, path: str, level: Level) -> tuple[list[Found], Level]:
        each = self._descent.entries(path)
        level = self._level(path, level, [entry.name for entry in each])
        found = list[Found]()
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
                found.append(Found(inner, entry, is_directory))
        return found, level

    def _level(self, path: str, level: Level, names: Iterable[str]) -> Level:
        seen = "/".join(part for part in (self._scope.below, path) if part)
        skip = len(as_bytes(seen)) + 1 if seen else 0
        return level.enter(self._descent.enter(path), skip, names)

    def _leaves_out(self, path: str, name: str, is_directory: bool, level: Level) -> bool:
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
