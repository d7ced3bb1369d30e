"""Renaming that never replaces what is there.

`rename(2)` silently replaces a file that has the new name. Looking first is no help: the file may
come in between. Linux and macOS can be asked to refuse; where they can't, a file gets its second
name by a hard link, which is never replaced either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeAlias

Native: TypeAlias = Callable[[int, bytes, int, bytes], int]

_NO_REPLACE = 1  # RENAME_NOREPLACE of Linux
_EXCLUSIVE = 4  # RENAME_EXCL of macOS
# What systems and file systems say that know no such renaming.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def rename_new(from_fd: int, old: str, to_fd: int, new: str) -> None:
    """Rename an entry of one open directory to a new entry of another.

    Raises `FileExistsError` if there is one of that name, even if it came this very moment.
    """
    if _is_same_entry(from_fd, old, to_fd, new):
        os.rename(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)
        return
    rename = native()
    if rename is not None:
        if rename(from_fd, os.fsencode(old), to_fd, os.fsencode(new)) == 0:
            return
        code = ctypes.get_errno()
        if code not in _UNKNOWN:
            raise OSError(code, os.strerror(code), old, None, new)
    _rename_by_hand(from_fd, old, to_fd, new)


@cache
def native() -> Native | None:
    """Return the system's own renaming that refuses to replace, if it has one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name, flag in (("renameat2", _NO_REPLACE), ("renameatx_np", _EXCLUSIVE)):
        function = getattr(libc, name, None)
        if function is not None:
            function.argtypes = (
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.c_uint,
            )
            return _with_flag(function, flag)
    return None


def _with_flag(function: Callable[..., int], flag: int) -> Native:
    def rename(from_fd: int, old: bytes, to_fd: int, new: bytes) -> int:
        return function(from_fd, old, to_fd, new, flag)

    return rename


def _rename_by_hand(from_fd: int, old: str, to_fd: int, new: str) -> None:
    is_directory = stat.S_ISDIR(os.stat(old, dir_fd=from_fd, follow_symlinks=False).st_mode)
    if not is_directory:
        try:
            os.link(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
        else:
            _unlink_or_undo(from_fd, old, to_fd, new)
            return
    # A directory replaces at most an empty one; that and file systems without links are left to luck.
    with suppress(FileNotFoundError):
        os.stat(new, dir_fd=to_fd, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), old, None, new)
    os.rename(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def _unlink_or_undo(from_fd: int, old: str, to_fd: int, new: str) -> None:
    try:
        os.unlink(old, dir_fd=from_fd)
    except OSError:
        os.unlink(new, dir_fd=to_fd)
        raise


def _is_same_entry(from_fd: int, old: str, to_fd: int, new: str) -> bool:
    """Whether both names are spellings of one entry, on a file system that doesn't tell them apart."""
    if old == new or _plain(old) != _plain(new):
        return False
    try:
        first = os.stat(old, dir_fd=from_fd, follow_symlinks=False)
        second = os.stat(new, dir_fd=to_fd, follow_symlinks=False)
        both = os.path.samestat(os.fstat(from_fd), os.fstat(to_fd))
    except FileNotFoundError:
        return False
    # Two hard links are two entries, and renaming one to the other would do nothing.
    return both and os.path.samestat(first, second) and not _lists(from_fd, old, new)


def _lists(fd: int, *names: str) -> bool:
    """Whether an open directory has all of these names as its own."""
    here = os.open(".", os.O_RDONLY, dir_fd=fd)
    try:
        with os.scandir(here) as entries:
            return set(names) <= {entry.name for entry in entries}
    finally:
        os.close(here)


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
