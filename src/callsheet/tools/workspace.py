"""Own the workspace: the session's directory and its additional ones, with all links resolved.

`Workspace` resolves paths and checks whether they are inside. `resolve_paths` replaces the paths in a tool's
argument by resolved ones, also in lists, dicts and structs.
`FileMemory` stores the states in which this session's tools have seen files, so that changes that others have
made since are not overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

import msgspec

from callsheet.tools.errors import ExecutionFailed, InvalidArguments, NotPermitted
from callsheet.tools.files.dirfd import kernel_path

MAX_PATH = 4096
MAX_FILES = 10_000
"""Files whose state is remembered."""

_MAX_NAME = 255
_O_PATH: int = getattr(os, "O_PATH", 0) and os.O_PATH | os.O_CLOEXEC


class _EntryMark:
    """Mark a path that refers to the entry itself, not to the target of a link."""


ENTRY = _EntryMark()

Entry: TypeAlias = Annotated[Path, ENTRY]
"""A path whose last part is not followed, if it is a link: it is the link that is moved or deleted."""


class Workspace:
    """The directories that tools may access."""

    def __init__(self, cwd: str, additional: Sequence[str] = ()) -> None:
        self.given_cwd: str = cwd
        given = [cwd, *(os.path.join(cwd, path) for path in additional)]  # noqa: PTH118 - as text
        real = {path: Path(_real(path)) for path in given}
        self.cwd: Path = real[cwd]
        self.roots: tuple[Path, ...] = tuple(dict.fromkeys(real.values()))
        self._given: dict[Path, str] = {real[path]: path for path in reversed(given)}
        self.is_linked: bool = any(str(real) != path for real, path in self._given.items())
        """Whether the client named a directory by a link to it, or on the way to it."""
        # As text: comparing paths is the slower part of looking where a path leads.
        self._inside: tuple[str, ...] = tuple(f"{str(root).rstrip('/')}/" for root in self.roots)

    def holds(self, path: Path) -> bool:
        """Return whether a resolved path is inside the workspace."""
        return f"{path}/".startswith(self._inside)

    def encloses(self, path: Path) -> bool:
        """Return whether a path is one of the directories, or above one, so that tools must not remove it."""
        return any(root == path or path in root.parents for root in self.roots)

    def find(self, text: str | os.PathLike[str], *, entry: bool = False) -> Path:
        """Return the resolved path of a text, also if it is outside of the workspace.

        Args:
            text: The path, absolute or from the session's directory.
            entry: Whether the entry itself is meant, if its last part is a link.

        Raises:
            InvalidArguments: It can't be a path.
        """
        given = os.fspath(text)
        check_path(given)
        # Not by pathlib, which would take out the dots.
        joined = given if given.startswith("/") else f"{self._inside[0]}{given}"
        try:
            if not entry:
                return Path(_real(joined))
            head, last = os.path.split(joined.rstrip("/"))
            if last in ("", ".", ".."):
                raise InvalidArguments(
                    f"path: {given!r} has no name at its end that could be meant"
                )
            return Path(_real(head)) / last
        except OSError as exc:
            raise InvalidArguments(f"path: {_short(given)}: {exc.strerror}") from None

    def as_given(self, path: Path) -> str:
        """Return a path with its root as the client named it, which may have got there through a link."""
        for root in (path, *path.parents):
            if root in self._given:
                below = str(path.relative_to(root))
                given = self._given[root]
                return given if below == "." else os.path.join(given, below)  # noqa: PTH118
        return str(path)

    def show(self, path: str | os.PathLike[str]) -> str:
        """Return a path as it is shown: from the session's directory, if it is inside."""
        shown = os.fspath(path)
        for root in (str(self.cwd), self.given_cwd):
            if shown == root:
                return "."
            if shown.startswith(root.rstrip("/") + "/"):
                return shown[len(root.rstrip("/")) + 1 :]
        return shown


def outside(text: str | os.PathLike[str], path: Path, workspace: Workspace) -> NotPermitted:
    """Return the error for a path that is outside the workspace."""
    given = os.fspath(text)
    leads = "" if given == str(path) else f" leads to {path}, which"
    roots = ", ".join(str(root) for root in workspace.roots)
    return NotPermitted(f"{_short(given)}{leads} is outside the workspace ({roots})")


class _Seen(NamedTuple):
    """A file as it was seen. By its text, if somebody may hold a text of it that is not saved."""

    stamp: tuple[int, ...] | None
    digest: bytes | None


class FileMemory:
    """The states in which this session's tools have seen files. Safe to use from threads.

    With `by_text`, a file whose text is known counts as changed if its text has changed, saved or not; else
    if its state on disk has.
    """

    def __init__(self, *, by_text: bool = False) -> None:
        self._by_text: bool = by_text
        self._seen: dict[str, _Seen] = {}
        self._lock: Lock = Lock()

    def saw(self, path: Path, found: os.stat_result | None, text: str | None = None) -> None:
        """Store the state in which a file was read or written."""
        stamp = None if found is None else _stamp(found)
        seen = _Seen(stamp, self._digest(text))
        with self._lock:
            self._seen.pop(str(path), None)
            if len(self._seen) >= MAX_FILES:
                self._seen.pop(next(iter(self._seen)))
            self._seen[str(path)] = seen

    def forget(self, path: Path) -> None:
        """Forget a file that was moved or deleted, and everything below it."""
        name = str(path)
        with self._lock:
            for seen in [one for one in self._seen if one == name or one.startswith(name + "/")]:
                del self._seen[seen]

    def check(self, path: Path, text: str | None = None) -> None:
        """Raise if a file was changed since it was seen.

        Args:
            path: The file.
            text: Its current text, if known.

        Raises:
            ExecutionFailed: The file was changed or deleted.
        """
        seen = self._seen.get(str(path))
        if seen is None:
            return
        digest = self._digest(text)
        if digest is not None and seen.digest is not None:
            same = digest == seen.digest
        else:
            try:
                same = _stamp(path.stat()) == seen.stamp
            except FileNotFoundError:
                raise ExecutionFailed(
                    f"{path} was deleted since it was read; look again before changing it",
                    file_path=str(path),
                    changed_since_read=True,
                ) from None
        if not same:
            raise ExecutionFailed(
                f"{path} was changed since it was read; read it again before changing it",
                file_path=str(path),
                changed_since_read=True,
            )

    def _digest(self, text: str | None) -> bytes | None:
        if text is None or not self._by_text:
            return None
        plain = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
        return blake2b(plain, digest_size=16).digest()


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return the state of a file on the disk; it differs if the file has changed."""
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def _real(path: str) -> str:
    """Return a path with all links resolved. The kernel does it at one stroke, if it can be asked.

    `O_PATH` opens nothing: what is there is neither read nor woken.
    """
    try:
        fd = os.open(path, _O_PATH) if _O_PATH else -1
    except OSError:
        fd = -1
    if fd >= 0:
        found = kernel_path(fd)
        os.close(fd)
        if found is not None:
            return found
    return os.path.realpath(path)


def check_path(text: str) -> None:
    """Raise `InvalidArguments` if a text can't be a path."""
    if 0 < len(text) <= _MAX_NAME and text.isascii() and "\0" not in text:
        return
    if "\0" in text:
        raise InvalidArguments("path: a NUL character can't be part of a path")
    if not text:
        raise InvalidArguments('path: it is empty; the session\'s directory is "."')
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidArguments("path: it has characters that can't be part of a path") from None
    longest = max(map(len, raw.split(b"/")))
    if len(raw) >= MAX_PATH or longest > _MAX_NAME:
        raise InvalidArguments(
            f"path: too long ({len(raw)} bytes, its longest name {longest}); "
            f"{MAX_PATH - 1} and {_MAX_NAME} are allowed"
        )


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:120]}…{text[-60:]}"


def resolve_paths(value: Any, resolve: Callable[[str], Path]) -> Any:
    """Return a value with each path in it resolved. What it shares with other values is not changed."""
    if isinstance(value, Path):
        return resolve(str(value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {key: resolve_paths(item, resolve) for key, item in pairs}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [resolve_paths(item, resolve) for item in cast("Sequence[Any]", value)]
        kind = cast("Any", type(cast("object", value)))
        return getattr(kind, "_make", kind)(items)  # a named tuple takes no list
    changed = value
    for name in _field_names(cast("type[Any]", type(value))):
        old = getattr(value, name)
        new = resolve_paths(old, resolve)
        if new != old:
            changed = copy(value) if changed is value else changed
            is_struct = isinstance(value, msgspec.Struct)
            # They set a field even of what is frozen.
            set_field = msgspec.structs.force_setattr if is_struct else object.__setattr__
            set_field(changed, name, new)
    return changed


def _field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a struct, a dataclass or a pydantic model."""
    attributes = ("__struct_fields__", "__dataclass_fields__", "model_fields")
    return tuple(next((found for name in attributes if (found := getattr(kind, name, ()))), ()))
