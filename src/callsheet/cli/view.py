"""`callsheet view`: a recording or a stored session, on a terminal or as one HTML page."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from callsheet.cli.cards.card import COLOURS, ended_card, mark
from callsheet.cli.history.lookup import find_session, opened
from callsheet.cli.options import history_option, locale_option
from callsheet.cli.output import is_terminal, replacing, visible
from callsheet.cli.replay import stored_lines
from callsheet.observe.lines import read_lines
from callsheet.report.humanize import bytes_text, plural, short_duration
from callsheet.report.status import ToolCallStatus
from callsheet.testing.recordings import fold
from callsheet.ui.trace import Trace, TracedCall, paired, repaired, trace_of

PIPE_WIDTH = 120

BAR = 40
"""Columns of the timeline."""


class Unreadable(click.ClickException):
    """There is nothing to look at."""

    exit_code = 2


@click.command("view")
@click.argument("source", metavar="RECORDING|SESSION")
@click.option("-o", "--output", metavar="PAGE.html", help="Write one HTML page that opens offline.")
@click.option(
    "--before", is_flag=True, help="Show it as the agent sent it beside what the tap makes of it."
)
@locale_option
@history_option
def command(
    source: str, output: str | None, before: bool, locale: str | None, history: str | None
) -> int:
    """Look at a recording, or at a session of the history. Secrets are redacted.

    SESSION is the id of a stored session, a part of it, or last. A page holds everything in one file, and
    is good to attach to an issue.

    \b
      callsheet view session.jsonl
      callsheet view session.jsonl --before -o page.html
      callsheet view last -o page.html

    \b
    Exit codes: 0 ok, 1 no such session, 2 unreadable.
    """
    data, name = _read(source, history)
    shown = trace_of(repaired(data, locale) if before else data, name)
    original = trace_of(data, name) if before else None
    if not (shown.calls or shown.turns or shown.messages):
        raise Unreadable(f"{source}: there is no ACP traffic in it")
    if output is not None:
        from callsheet.ui.page import page_of

        page = page_of(shown, original)
        with replacing(output) as stream:
            stream.write(page)
        click.echo(
            f"{output}: {plural(len(shown.calls), 'call')}, {bytes_text(len(page))}", err=True
        )
        return 0
    width = shutil.get_terminal_size().columns - 1 if is_terminal() else PIPE_WIDTH
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=is_terminal(), highlight=False)
    _overview(console, shown, original)
    if original is None:
        _cards(console, repaired(data, locale, repair=False), shown)
    os.environ.setdefault("LESS", "-FRX")  # what fits the screen needs no pager
    click.echo_via_pager(screen.getvalue(), color=is_terminal())
    return 0


def _read(source: str, history: str | None) -> tuple[bytes, str]:
    """Return the bytes of a recording, or of a stored session as a client would be sent it, and its name."""
    path = Path(source)
    if path.is_file() or os.sep in source or source.endswith((".jsonl", ".ndjson", ".log")):
        try:
            return path.read_bytes(), path.name
        except OSError as exc:
            raise Unreadable(f"{source}: {exc.strerror}") from None
    with opened(history) as store:
        found = find_session(store, source)
        return b"".join(stored_lines(store, found.session_id)), found.session_id


def _overview(console: Console, trace: Trace, original: Trace | None) -> None:
    """Show what the recording is, and its calls in order, with bars that show when they ran."""
    ends = [call.ended or call.announced for call in trace.calls]
    facts = [
        trace.agent or "an unknown agent",
        f"ACP {trace.protocol}" if trace.protocol else "ACP",
        plural(len(trace.calls), "call"),
        plural(sum(call.ended is None for call in trace.calls), "call") + " open",
        plural(sum(len(call.findings) for call in trace.calls), "finding"),
    ]
    console.print(Text(visible(trace.source), "bold"), Text(visible(" · ".join(facts)), "dim"))
    for problem in trace.unreadable[:3]:
        console.print(Text(f"not read: {visible(problem)}", "red"))
    table = Table(box=None, pad_edge=False, header_style="dim", show_header=original is not None)
    table.expand = True
    table.add_column("" if original is None else "AS THE AGENT SENT IT", ratio=1, no_wrap=True)
    if original is not None:
        table.add_column("BEHIND THE TAP", ratio=1, no_wrap=True)
    width = BAR if original is None else BAR // 2
    table.add_column("TOOK", justify="right", no_wrap=True, min_width=7)
    table.add_column("", no_wrap=True, min_width=width)
    begin, end = (min(c.announced for c in trace.calls), max(ends)) if ends else (0.0, 0.0)
    pairs = [(None, call) for call in trace.calls] if original is None else paired(original, trace)
    for old, call in pairs:
        shown = call or old
        assert shown is not None
        time = ""
        if shown.ended is not None and trace.has_times:
            time = short_duration((shown.ended - shown.announced) * 1000)
        bar = _bar(shown, begin, end, width)
        titles = [_title(call)] if original is None else [_title(old), _title(call)]
        table.add_row(*titles, Text(time, "dim"), bar)
    console.print(table)


def _title(call: TracedCall | None) -> Text:
    if call is None:
        return Text("")
    text = Text(f"{mark(call.status)} ", _colour(call), overflow="ellipsis")
    text.append(visible(call.title or call.name or call.id), "bold default")
    wrong = len(call.findings)
    return text.append(f"  {plural(wrong, 'finding')}", "red") if wrong else text


def _bar(call: TracedCall, begin: float, end: float, width: int) -> Text:
    """Return when a call ran, as a part of a line."""
    scale = width / ((end - begin) or 1.0)
    first = min(width - 1, int((call.announced - begin) * scale))
    last = min(width, max(first + 1, round(((call.ended or end) - begin) * scale)))
    return Text(" " * first + "━" * (last - first), _colour(call))


def _colour(call: TracedCall) -> str:
    try:
        return COLOURS[ToolCallStatus(call.status)]
    except ValueError:
        return "yellow"


def _cards(console: Console, data: bytes, trace: Trace) -> None:
    """Show each call with its content, as an editor would."""
    ledger = fold(line.message for line in read_lines(io.BytesIO(data)) if line.message)
    cwd = next(iter(trace.sessions.values()), "")
    for report in ledger:
        console.print(ended_card(report, ledger.terminal, console.width, cwd))
