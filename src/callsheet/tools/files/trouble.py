"""What went wrong with a file, as errors that say it with the path that people know."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from callsheet.tools.errors import InvalidArguments, IOFailed, NotFound, NotPermitted, ToolError
from callsheet.tools.workspace import Workspace

from .opening import may_write

_MOST_NAMES = 5000
"""Names of a directory that are looked at for one that may have been meant."""

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_IMPOSSIBLE = {errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR}


@contextmanager
def explained(path: Path, workspace: Workspace, doing: str) -> Generator[None]:
    """Turn errors of the system into a tool's: "src/a.py can't be read: permission denied"."""
    try:
        yield
    except ToolError as exc:
        exc.metadata.setdefault("file_path", str(path))
        raise
    except FileNotFoundError:
        raise missing(path, workspace) from None
    except OSError as exc:
        raise explain(exc, path, workspace.show(path), doing) from exc


def explain(exc: OSError, path: Path, shown: str, doing: str) -> ToolError:
    """Return the error that says what the system said."""
    why = (exc.strerror or type(exc).__name__).lower()
    number = exc.errno
    if number == errno.ELOOP or (number == errno.ENOTDIR and _has_link(path)):
        why = "a part of its path has become a link meanwhile"
        return NotPermitted(f"{shown} can't be {doing}: {why}", file_path=str(path))
    if number in _FULL:
        why = f"there is no space left on the disk ({why}); nothing was changed"
    kind = IOFailed
    if number in _FORBIDDEN:
        kind = NotPermitted
    elif number in _IMPOSSIBLE:
        kind = InvalidArguments
    if number == errno.EACCES and doing != "read" and not may_write(path.parent):
        why = "its directory may not be written to"
    if number == errno.ENOTDIR:
        why = f"{_not_a_directory(path, shown)} is a file, not a directory"
    return kind(f"{shown} can't be {doing}: {why}", file_path=str(path))


def _has_link(path: Path) -> bool:
    return any(above.is_symlink() for above in path.parents)


def _not_a_directory(path: Path, shown: str) -> str:
    """Return the part of a path that should be a directory and isn't."""
    for above, short in zip(path.parents, Path(shown).parents, strict=False):
        if above.exists() and not above.is_dir():
            return str(short)
    return str(Path(shown).parent)


def missing(path: Path, workspace: Workspace) -> NotFound:
    """Say that a file doesn't exist, which of its directories don't, and what may have been meant."""
    shown, gone = workspace.show(path), path
    while not gone.parent.exists() and gone.parent != gone:
        gone = gone.parent
    near = near_names(gone)
    text = f"{shown} does not exist"
    if gone != path:
        text += f": there is no directory {workspace.show(gone)}"
    if near:
        meant = [workspace.show(gone.parent / name / path.relative_to(gone)) for name in near]
        text += f"; did you mean {_either(meant)}?"
    return NotFound(text, file_path=str(path))


def near_names(path: Path) -> list[str]:
    """Return the names in a path's directory that are most like its own, at most three."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
    wanted = path.name.casefold()
    by_key = {name.casefold(): name for name in names}
    same_stem = [name for key, name in by_key.items() if _stem(key) == _stem(wanted)]
    close = [by_key[key] for key in get_close_matches(wanted, by_key, n=3, cutoff=0.6)]
    return list(dict.fromkeys([*close, *same_stem]))[:3]


def _stem(name: str) -> str:
    return name.lstrip(".").split(".")[0]


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
