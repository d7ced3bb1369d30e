"""Calls written out: whole ones as lines of JSON, or what a list shows of them as CSV."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from callsheet.history import Query, Store
from callsheet.report.json import JsonValue

from . import pages
from .finding import calls_text
from .listing import with_session
from .machines import as_object, as_whole_object, json_text
from .opening import Nothing, Trouble, run

COLUMNS = (
    "id", "session", "tool", "title", "kind", "status", "reason", "at", "durationMs", "bytes",
)  # fmt: skip

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class Export(NamedTuple):
    """What is written out, and where to."""

    query: Query
    session: str | None
    limit: int | None
    format: str
    output: str | None
    url: str | None


def write_out(wanted: Export) -> int:
    """Write calls out, and give the exit code. No history is no calls."""

    async def work(store: Store) -> int:
        query = await with_session(store, wanted.query, wanted.session)
        with _target(wanted.output) as stream:
            count = 0
            lines = _rows if wanted.format == "csv" else _objects
            async for line in lines(store, query, wanted.limit):
                stream.write(line)
                count += 1
        if wanted.output is not None:
            count -= wanted.format == "csv"
            click.echo(f"callsheet: {calls_text(count)} in {wanted.output}", err=True)
        return 0

    try:
        return run(wanted.url, work)
    except Nothing as exc:
        if wanted.output is not None or wanted.session is not None:
            raise
        click.echo(f"callsheet: {exc.message}", err=True)
        return 0


async def _objects(store: Store, query: Query, limit: int | None) -> AsyncIterator[str]:
    async for call in pages.calls(store, query, limit):
        yield json_text(as_whole_object(call)) + "\n"


async def _rows(store: Store, query: Query, limit: int | None) -> AsyncIterator[str]:
    yield _row(COLUMNS)
    async for page in pages.heads(store, query, limit):
        for head in page:
            told = as_object(head)
            yield _row([_cell(told[name]) for name in COLUMNS])


class _Line:
    """Takes the one line that a writer makes."""

    text: str = ""

    def write(self, text: str) -> int:
        self.text = text
        return len(text)


def _row(cells: list[str] | tuple[str, ...]) -> str:
    line = _Line()
    csv.writer(line).writerow(cells)
    return line.text


def _cell(value: JsonValue) -> str:
    """Return a cell that no program takes for a formula."""
    if value is None or not isinstance(value, str):
        return "" if value is None else f"{value}"
    text = value.replace("\0", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) else text


@contextmanager
def _target(output: str | None) -> Generator[TextIO]:
    """Return where to write. A file takes its name when it is whole; only its owner may read it."""
    if output is None or output == "-":
        yield sys.stdout
        return
    file = Path(output)
    is_special = file.exists() and not file.is_file()  # such as /dev/stderr, or a named pipe
    half = file if is_special else file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        if not is_special:
            half.touch(mode=0o600)
        with half.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        if not is_special:
            half.replace(file)
    except OSError as exc:
        raise Trouble(f"{output} can't be written: {exc.strerror or exc}") from None
    finally:
        if not is_special:
            half.unlink(missing_ok=True)
