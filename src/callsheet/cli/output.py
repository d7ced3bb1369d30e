"""What commands write to: a terminal with its width and colours, or a pipe.

Into a pipe, a line stays one line and has no escape sequence. On a terminal, rich lays text out. Whatever
comes from an agent, a file or a store passes `visible` or `harmless` first: it can neither move the cursor
nor change how other text looks. rich is imported only where a terminal is written to.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console

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


def path_text(path: str, cwd: str) -> str:
    """Return a path relative to a directory, if it is inside of it."""
    return (
        os.path.relpath(path, cwd) if cwd and f"{path}/".startswith(f"{cwd.rstrip('/')}/") else path
    )


# Files


@contextmanager
def replacing(path: str) -> Generator[BinaryIO]:
    """Open a file for writing that takes its name when it is complete, or not at all.

    Only its owner may read it. One that exists is replaced; a special file, such as /dev/null or a named
    pipe, is written as it is. Errors name the path as the user wrote it.
    """
    target = Path(os.path.realpath(path))
    is_special = target.exists() and not target.is_file()
    part = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb", opener=_private) as stream:
            yield stream
        if not is_special:
            part.replace(target)
    except OSError as exc:
        ours = exc.filename is None or str(exc.filename) == str(part)
        raise OSError(exc.errno, exc.strerror, path) if ours else exc from exc
    finally:
        if not is_special:
            part.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# Terminals and pipes


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether a stream is a terminal that can be drawn on. Default: stdout."""
    is_dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return (stream or sys.stdout).isatty() and not is_dumb


def write(text: str) -> None:
    """Write a line to stdout. It may wait in the buffer."""
    sys.stdout.write(f"{text}\n")


def write_json(value: object, stream: TextIO | None = None) -> None:
    """Write a value as JSON: on a terminal over several lines, else in one. Default: to stdout."""
    target = stream or sys.stdout
    indent = 2 if target.isatty() else None
    target.write(f"{json.dumps(value, ensure_ascii=False, indent=indent)}\n")


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


class TableColumn(NamedTuple):
    """A column of a table: its name, its style as rich names it, and how it is set on a terminal."""

    name: str = ""
    style: str = ""
    right: bool = False
    """Whether it is set to the right."""
    fills: bool = False
    """Whether it gets the room that the others leave, and is cut there."""
    wraps: bool = False
    """Whether text that is too long is wrapped."""


class Page:
    """Writes lines and tables to a terminal, where rich lays them out, or plainly into a pipe.

    Args:
        stream: Where to write. Default: stdout.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO = stream or sys.stdout
        self._console: Console | None = console_for(stream) if is_terminal(stream) else None

    @property
    def width(self) -> int:
        """The columns of the terminal; of a pipe, as many as anybody wants."""
        return sys.maxsize if self._console is None else self._console.width

    @property
    def is_terminal(self) -> bool:
        """Whether there is a width to fit, and colours."""
        return self._console is not None

    def line(self, *parts: Part, indent: int = 0, hang: int = 0, wrap: bool = True) -> None:
        """Write a line. What is for copying or clicking, such as a place in a file, must not be wrapped.

        Where it is wrapped, the lines below the first are indented by `hang` more.
        """
        if self._console is None:
            text = "".join(text for text, _ in parts)
            self._stream.write(f"{' ' * indent}{text}".rstrip() + "\n")
            return
        from rich.padding import Padding
        from rich.text import Text

        text = Text.assemble(*parts)
        if wrap and text:
            width = min(WIDEST, self._console.width)
            if hang:
                lines = text.wrap(self._console, max(20, width - indent - hang))
                text = Text("\n" + " " * hang).join(lines)
            padded = Padding(text, (0, 0, 0, indent), expand=False)
            self._console.print(padded, width=width)
        else:
            self._console.print(Text(" " * indent) + text, soft_wrap=True)

    def table(
        self,
        columns: Sequence[TableColumn],
        rows: Iterable[Sequence[str | Part]],
        *,
        header: bool = True,
    ) -> None:
        """Write a table without borders. A cell is a text, which may have several lines, or one with a style.

        Into a pipe, columns are as wide as what is in them, and nothing is cut.
        """
        parts = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
        if self._console is None:
            if header:
                parts.insert(0, [(column.name, "") for column in columns])
            self._plain_table([column.right for column in columns], parts)
            return
        from rich.table import Column, Table
        from rich.text import Text

        set_up = (
            Column(
                column.name,
                style=column.style,
                justify="right" if column.right else "left",
                ratio=1 if column.fills else None,
                no_wrap=not column.wraps,
                overflow="fold" if column.wraps else "ellipsis",
            )
            for column in columns
        )
        table = Table(
            *set_up,
            box=None,
            show_header=header,
            padding=(0, 2, 0, 0),
            pad_edge=False,
            header_style="dim",
        )
        for row in parts:
            table.add_row(*(Text(text, style) for text, style in row))
        width = min(WIDEST, self._console.width)
        # Where there is room for all, numbers stand beside their names; else a column that fills is cut.
        is_narrow = self._console.measure(table).maximum >= width
        table.expand = is_narrow and any(column.fills for column in columns)
        self._console.print(table, width=width)

    def _plain_table(self, right: Sequence[bool], rows: Iterable[Sequence[Part]]) -> None:
        lines = [
            line
            for row in rows
            for line in zip_longest(*(text.split("\n") for text, _ in row), fillvalue="")
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = [
                text.rjust(width) if is_right else text.ljust(width)
                for text, width, is_right in zip(line, widths, right, strict=True)
            ]
            self._stream.write("  ".join(cells).rstrip() + "\n")

    def rule(
        self,
        *heading: Part,
        title: str,
        facts: Iterable[tuple[str, str]],
        examples: Iterable[tuple[str, str]],
    ) -> None:
        """Explain a rule of `callsheet check` or `callsheet lint`. Examples have a name and some lines."""
        self.line(*heading)
        self.line((f"{title}.", ""))
        self.line()
        self.facts(facts, "bold")
        for name, code in examples:
            self.line()
            self.line((name, "bold"))
            self.line((indent(code.rstrip("\n"), "  "), "dim"), wrap=False)
        self.line()

    def facts(self, facts: Iterable[tuple[str, str]], style: str = "dim") -> None:
        """Write names and what is known by them, in two columns. The names get the style."""
        rows = [(name, "\n".join(map(visible, text.split("\n")))) for name, text in facts]
        self.table((TableColumn(style=style), TableColumn(wraps=True)), rows, header=False)
