"""What commands write to: a terminal with its width and colours, or a pipe.

Into a pipe, a line stays one line and has no escape sequence. On a terminal, rich lays text out. Whatever
comes from an agent, a file or a store passes `visible` or `harmless` first: it can neither move the cursor
nor change how other text looks. rich is imported only where a terminal is written to.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that move the cursor, change colours, or reorder the text around them."""

Part = tuple[str, str]
"""A text and its style, as rich names styles."""

WIDEST = 120
"""Columns that text for reading and tables take at most."""


# Safe text


def visible(text: str) -> str:
    """Return text in one line, with a mark in place of each control character."""
    return _CONTROL.sub("�", text.replace("\t", " ").replace("\n", "⏎"))


def harmless(text: str) -> str:
    """Return one line of output: tabs as spaces, and marks as in `visible`."""
    return _CONTROL.sub("�", text.expandtabs(8))


def path_text(path: str, cwd: str, home: str = "") -> str:
    """Return a path in its shortest form: relative to the directory, from home, or whole."""
    for root, begin in ((cwd, ""), (home, "~/")):
        if root and path == root:
            return begin.rstrip("/") or "."
        if root and path.startswith(root.rstrip(os.sep) + os.sep):
            return begin + path[len(root.rstrip(os.sep)) + 1 :]
    return path


def home() -> str:
    """Return the user's home directory; empty if there is none."""
    try:
        return str(Path.home())
    except RuntimeError:
        return ""


# Files


@contextmanager
def replacing(path: str, *, private: bool = True) -> Generator[BinaryIO]:
    """Open a file for writing that takes its name when it is complete, or not at all.

    A special file, such as /dev/null or a named pipe, is written as it is. Errors of opening and renaming
    name the path as the user wrote it.

    Args:
        path: The file. One that exists is replaced.
        private: Whether only its owner may read it; else it has the mode of the old one, or the usual one.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with naming(path):
            stream = target.open("wb", buffering=0)
        with stream:
            yield stream
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with naming(path):
            new = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
            if not private and target.exists():
                part.chmod(target.stat().st_mode & 0o777)
        with open(new, "wb") as stream:  # noqa: PTH123 - a descriptor
            yield stream
        with naming(path):
            part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def naming(path: str) -> Generator[None]:
    """Let an error carry the path that the user wrote."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, path) from exc


# Terminals and pipes


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether a stream is a terminal that can be drawn on. Default: stdout."""
    is_dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return (stream or sys.stdout).isatty() and not is_dumb


def write(text: str) -> None:
    """Write a line to stdout. It may wait in the buffer."""
    sys.stdout.write(f"{text}\n")


def console_for(stream: TextIO | None = None) -> Console:
    """Return rich's console for a terminal, as wide as this one is now. Default: stdout."""
    from rich.console import Console

    # We know that it is a terminal, whatever the environment makes rich guess.
    stream = stream or sys.stdout
    console = Console(file=stream, force_terminal=True, highlight=False, legacy_windows=False)
    fit(console)
    return console


def fit(console: Console) -> None:
    """Set a console's size to that of its terminal, less the last column, so that nothing wraps.

    The terminal itself is asked: stdin, stdout and stderr, where rich would look, may be redirected.
    """
    with suppress(OSError, ValueError):
        columns, rows = os.get_terminal_size(console.file.fileno())
        if columns and rows:
            console.size = (max(2, columns - 1), rows)  # pyright: ignore[reportAttributeAccessIssue]


def new_table(width: int | None, *, show_header: bool = True) -> Table:
    """Return an empty table without borders, for a terminal of this width, or None for a pipe.

    Its column that has a `ratio` gets what the others leave, and is cut; the others are shown whole.
    """
    from rich.table import Table

    return Table(
        box=None,
        show_header=show_header,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
        expand=width is not None,
        width=None if width is None else min(width, WIDEST),
    )


class Page:
    """Writes lines of styled text. `width` is None in a pipe, where lines are not wrapped."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Args: stream: Where to write. Default: stdout."""
        self._stream: TextIO = stream or sys.stdout
        self._console: Console | None = console_for(stream) if is_terminal(stream) else None
        self.width: int | None = None
        if self._console is not None:
            self.width = min(WIDEST, max(20, self._console.width))

    def line(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        """Write a line; where it is wrapped, the further rows are indented by `hang` more."""
        if self._console is None or self.width is None:
            self.unwrapped((" " * indent, ""), *parts)
            return
        from rich.text import Text

        whole = Text.assemble(*parts)
        rows = list(whole.wrap(self._console, max(10, self.width - indent)))
        if len(rows) > 1:
            narrow = max(10, self.width - indent - hang)
            rows[1:] = Text(" ").join(_stripped(rows[1:])).wrap(self._console, narrow)
        for number, row in enumerate(_stripped(rows)):
            row.pad_left(indent + (hang if number else 0))
            self._console.print(row, soft_wrap=True)

    def unwrapped(self, *parts: Part) -> None:
        """Write a line that no newline is put into: a place in it can be clicked, or copied."""
        if self._console is None:
            self._stream.write("".join(text for text, _ in parts).rstrip() + "\n")
            return
        from rich.text import Text

        self._console.print(Text.assemble(*parts), soft_wrap=True)

    def print(self, renderable: RenderableType) -> None:
        """Write one of rich's renderables, such as a table; as plain text into a pipe."""
        if self._console is not None:
            self._console.print(renderable)
            return
        from rich.console import Console

        plain = Console(color_system=None, width=10_000, highlight=False, legacy_windows=False)
        with plain.capture() as captured:
            plain.print(renderable)
        for row in captured.get().splitlines():
            self._stream.write(f"{row.rstrip()}\n")

    def verbatim(self, text: str) -> None:
        """Write lines that are for copying: they are never wrapped, and have no style."""
        self._stream.write(f"{text}\n")

    def blank(self) -> None:
        """Write an empty line."""
        self._stream.write("\n")


def _stripped(rows: list[Text]) -> list[Text]:
    for row in rows:
        row.rstrip()
    return rows
