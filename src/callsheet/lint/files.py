"""Files as they are: found in directories, read in their own encoding, written back as they were."""

from __future__ import annotations

import io
import os
import re
import stat
import tempfile
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".eggs",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        "__pycache__",
        "node_modules",
    }
)
"""Directories that hold no code of the project's own."""

_NEWLINE = re.compile(r"\r\n|\r|\n")


class Unreadable(Exception):
    """A path that can't be read, or not be written. Says why."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that was read: its text with plain newlines, and all that's needed to write it back."""

    path: Path
    text: str
    raw: bytes
    encoding: str
    newline: str


def python_files(path: Path, tell: Callable[[Path, str], None]) -> Iterator[Path]:
    """Return a file itself, or the Python files below a directory, sorted; `tell` what can't be read."""
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            yield path
            return
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        tell(path, f"{exc.strerror}: {path}")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED and not Path(entry, "pyvenv.cfg").exists():
                yield from python_files(Path(entry), tell)
        elif entry.name.endswith(".py") and entry.is_file():
            yield Path(entry)


def read(path: Path) -> TextFile:
    """Read a file of Python code. Raises `Unreadable`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreadable(f"not a regular file: {path}")
        raw = path.read_bytes()
    except OSError as exc:
        raise Unreadable(f"{exc.strerror}: {path}") from exc
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as exc:
        raise Unreadable(f"not text in its encoding: {path}: {exc}") from exc
    newlines = _NEWLINE.findall(text)
    newline = max(set(newlines), key=newlines.count, default="\n")
    return TextFile(path, _NEWLINE.sub("\n", text), raw, encoding, newline)


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if there is none to be read."""
    try:
        return read(path).text
    except Unreadable:
        return None


def encode(file: TextFile, text: str) -> bytes:
    """Return the bytes of a new text of a file, in its encoding; lines that stay keep their newlines."""
    old = file.raw.decode(file.encoding)
    if "\r" not in old:
        return text.encode(file.encoding)
    return _with_newlines(old, text, file.newline).encode(file.encoding)


def _with_newlines(old: str, new: str, newline: str) -> str:
    """Return the lines of `new` that stand in `old` the newlines they have there, and others `newline`."""
    ends = _NEWLINE.findall(old)
    if len(set(ends)) == 1:
        return new.replace("\n", newline)
    before, after = _NEWLINE.split(old), new.split("\n")
    chosen = [newline] * len(after)
    for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        kept = ends[block.a : block.a + block.size]
        chosen[block.b : block.b + len(kept)] = kept
    chosen[-1] = ""
    return "".join(line + end for line, end in zip(after, chosen, strict=True))


def write(file: TextFile, text: str) -> None:
    """Put a new text into a file, whole or not at all; its mode stays. Raises `Unreadable`."""
    target = Path(os.path.realpath(file.path))
    try:
        if target.read_bytes() != file.raw:
            raise Unreadable(f"changed while it was linted, so it was left alone: {file.path}")
        if not os.access(target, os.W_OK):
            raise Unreadable(f"not to be written: {file.path}")
        _replace(target, encode(file, text))
    except UnicodeEncodeError as exc:
        raise Unreadable(f"can't be written as {file.encoding}: {file.path}") from exc
    except OSError as exc:
        raise Unreadable(f"{exc.strerror}: {file.path}") from exc


def _replace(target: Path, data: bytes) -> None:
    """Write a new file beside the old one, then let it take its place."""
    mode = stat.S_IMODE(target.stat().st_mode)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
