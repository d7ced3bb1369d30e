"""`callsheet history export`: calls as lines of JSON, or as CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from io import StringIO
from itertools import chain, islice

import click

from callsheet.cli.history.lists import call_object, json_text, whole_object
from callsheet.cli.history.lookup import Trouble, all_heads, opened, whole_calls, with_session
from callsheet.cli.options import filters, format_option, history_option, limit_option
from callsheet.cli.output import replacing
from callsheet.history import Query, Store
from callsheet.report.humanize import plural
from callsheet.report.json import JsonValue

_COLUMNS = (
    "id",
    "session",
    "tool",
    "title",
    "kind",
    "status",
    "reason",
    "at",
    "durationMs",
    "bytes",
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet takes for a formula."""


@click.command("export")
@filters
@format_option(
    "jsonl csv",
    "jsonl: a line for each call, with all of it. csv: what a list shows of it.",
    "jsonl",
)
@click.option("-o", "--output", metavar="FILE", help="Where to; else stdout. It is replaced.")
@limit_option("0")
@history_option
def export(
    query: Query,
    session: str | None,
    format_: str,
    output: str | None,
    limit: int | None,
    history: str | None,
) -> None:
    """Write calls out, the newest first."""
    as_csv = format_ == "csv"
    with opened(history, empty=None if output is not None or session is not None else "") as store:
        wanted = with_session(store, query, session)
        lines = (_csv_lines if as_csv else _json_lines)(store, wanted, limit or None)
        if output is None or output == "-":
            sys.stdout.writelines(lines)
            return
        written = 0
        try:
            with replacing(output) as file:
                for line in lines:
                    file.write(line.encode())
                    written += 1
        except OSError as exc:
            raise Trouble(f"{output} can't be written: {exc.strerror or exc}") from None
        click.echo(f"callsheet: {plural(written - as_csv, 'call')} in {output}", err=True)


def _json_lines(store: Store, query: Query, limit: int | None) -> Iterator[str]:
    for call in islice(whole_calls(store, query), limit):
        yield json_text(whole_object(call)) + "\n"


def _csv_lines(store: Store, query: Query, limit: int | None) -> Iterator[str]:
    heads = map(call_object, islice(all_heads(store, query), limit))
    rows = ([_cell(row[name]) for name in _COLUMNS] for row in heads)
    for row in chain([_COLUMNS], rows):
        line = StringIO()
        csv.writer(line).writerow(row)
        yield line.getvalue()


def _cell(value: JsonValue) -> str:
    """Return a cell that no program takes for a formula."""
    if not isinstance(value, str):
        return "" if value is None else f"{value}"
    text = value.replace("\0", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) else text
