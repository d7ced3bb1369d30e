"""Recognize files that make other programs run something: hooks, and settings of editors, shells and agents.

The permission mode `edits` does not cover them: the user is asked about a change to one. `triggers.toml` has
the list.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from unicodedata import category, normalize

import msgspec
from msgspec import Struct

from callsheet.tools.invocation import in_thread

from .workspace import Workspace

MAX_ENTRIES = 20_000
"""Maximum number of entries that are examined. A larger directory is assumed to contain a trigger."""

_GIT = ".git"


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of one sort, and why they are here."""

    why: str
    names: tuple[str, ...]
    example: str


@cache
def groups() -> tuple[Group, ...]:
    """Return the list."""
    text = files("callsheet.tools").joinpath("triggers.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["group"], tuple[Group, ...])


@cache
def _matcher() -> Callable[[str], object]:
    names = (translate(name.casefold()) for group in groups() for name in group.names)
    return re.compile("|".join(names)).match


def is_trigger_name(name: str) -> bool:
    """Return whether a file of this name, or what is in such a directory, makes a program run something."""
    plain = "".join(sign for sign in normalize("NFKC", name) if category(sign) != "Cf")
    plain = (
        plain.partition(":")[0].rstrip(". ").casefold()
    )  # some file systems ignore these parts of a name
    return _matcher()(plain) is not None


async def changes_trigger(paths: Iterable[Path], workspace: Workspace) -> bool:
    """Return whether one of these resolved paths is a trigger, is inside one, or contains one.

    The location of the workspace itself does not matter, unless it is inside a `.git` directory.
    """
    for path in paths:
        if _GIT in map(str.casefold, path.parts):
            return True
        if any(map(is_trigger_name, _below(path, workspace))):
            return True
        if not path.is_symlink() and path.is_dir() and await in_thread(partial(_has_trigger, path)):
            return True
    return False


def _below(path: Path, workspace: Workspace) -> tuple[str, ...]:
    """Return the name of the workspace's directory, and the parts of the path below it."""
    roots = [root for root in workspace.roots if path == root or root in path.parents]
    if not roots:
        return path.parts[1:]
    root = max(roots, key=lambda root: len(root.parts))
    return root.name, *path.relative_to(root).parts


def _has_trigger(directory: Path) -> bool:
    count = 0
    for _, directories, names in os.walk(directory):
        count += len(directories) + len(names)
        if count > MAX_ENTRIES or any(map(is_trigger_name, (*directories, *names))):
            return True
    return False
