"""`callsheet history export`: calls as lines of JSON, as CSV, or as OpenTelemetry spans."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import chain, islice

import click

from callsheet.cli.history.lists import call_object, json_text
from callsheet.cli.history.lookup import (
    PAGE_WHOLE,
    Trouble,
    all_heads,
    opened,
    whole_calls,
    with_origins,
    with_session,
)
from callsheet.cli.history.otlp import otlp_lines, send_spans
from callsheet.cli.options import filters, format_option, history_option, limit_option
from callsheet.cli.output import replacing
from callsheet.history import Query, Store
from callsheet.history.call_records import exported
from callsheet.history.rows import FACTS
from callsheet.report.humanize import plural
from callsheet.report.json import JsonValue

_COLUMNS = (
    "id", "session", "tool", "title", "kind", "status", "reason", "at", "durationMs", "bytes", "cwd", *FACTS,
)  # fmt: skip

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet takes for a formula."""


@click.command("export")
@filters
@format_option(
    "jsonl csv otlp",
    "jsonl: a line for each call, with all of it. csv: what a list shows of it. otlp: OpenTelemetry spans.",
    "jsonl",
)
@click.option("-o", "--output", metavar="FILE", help="Where to; else stdout. It is replaced.")
@click.option(
    "--to",
    "url",
    metavar="URL",
    is_flag=False,
    flag_value="",
    help="Send the spans to http://HOST:4318. Without a URL: where the OTEL_* variables say.",
)
@limit_option("0")
@history_option
def export(
    query: Query,
    session: str | None,
    format_: str,
    output: str | None,
    url: str | None,
    limit: int | None,
    history: str | None,
) -> None:
    """Write calls out, the newest first."""
    if url is not None and (format_ != "otlp" or output is not None):
        raise click.UsageError("--to sends spans: it goes with --format otlp, and without --output")
    as_csv = format_ == "csv"
    with opened(history, empty=None if output is not None or session is not None else "") as store:
        wanted = with_session(store, query, session)
        if url is not None:
            send_spans(store, wanted, limit or None, url or None)
            return
        lines = _FORMATS[format_](store, wanted, limit or None)
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
        what = ("line", "lines") if format_ == "otlp" else ("call", "calls")
        click.echo(f"callsheet: {plural(written - as_csv, *what)} in {output}", err=True)


def _json_lines(store: Store, query: Query, limit: int | None) -> Iterator[str]:
    calls = islice(whole_calls(store, query), limit)
    for found in with_origins(store, calls, lambda call: call.head, PAGE_WHOLE):
        yield json_text(exported(*found)) + "\n"


def _csv_lines(store: Store, query: Query, limit: int | None) -> Iterator[str]:
    heads = with_origins(store, islice(all_heads(store, query), limit), lambda head: head)
    rows = ([_cell(row[name]) for name in _COLUMNS] for row in map(call_object, heads))
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


_FORMATS: dict[str, Callable[[Store, Query, int | None], Iterator[str]]] = {
    "jsonl": _json_lines,
    "csv": _csv_lines,
    "otlp": otlp_lines,
}
