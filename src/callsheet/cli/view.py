"""`callsheet view`: a recording or a stored session, on a terminal or as one HTML page."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace
from rich.console import Console, RenderableType
from rich.text import Text

from callsheet.cli.cards.body import end_text
from callsheet.cli.cards.card import ended_card
from callsheet.cli.cards.timeline import facts, timeline
from callsheet.cli.history.lookup import Trouble, find_session, opened
from callsheet.cli.options import history_option, locale_option
from callsheet.cli.output import is_terminal, replacing, visible
from callsheet.history.replay import entries_of
from callsheet.observe.lines import EMPTY_RECORDING, NO_RECORDING, read_lines
from callsheet.report.humanize import bytes_text, plural
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.testing.recordings import fold
from callsheet.ui.trace import origin_keys, paired, repaired, stored_lines, stored_trace, trace_of
from callsheet.ui.traced import Trace, TracedCall

PIPE_WIDTH = 120
FEW = 3
"""Lines that could not be read and are named."""


class Unreadable(click.ClickException):
    """There is nothing to look at."""

    exit_code = 2

    def show(self, file: object = None) -> None:  # noqa: ARG002
        """Write the error to stderr."""
        click.echo(f"callsheet: {self.message}", err=True)


@click.command("view")
@click.argument("source", metavar="RECORDING|SESSION", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="PAGE.html",
    help="Write one HTML page that opens offline; - for stdout.",
)
@click.option(
    "--before", is_flag=True, help="Show it as the agent sent it beside what the tap makes of it."
)
@locale_option
@history_option
def command(
    source: str, output: str | None, before: bool, locale: str | None, history: str | None
) -> int:
    """Look at a recording, or at a session of the history. Secrets are redacted.

    RECORDING is a file that `callsheet record` wrote, messages of ACP line by line, such as those of
    `acpx --format json`, or what Zed copies from its ACP logs; `-` reads from stdin. SESSION is the id of
    a stored session, a part of it, or last. A page holds everything in one file, and is good to attach to
    an issue.

    \b
      callsheet view session.jsonl
      callsheet view session.jsonl --before -o page.html
      callsheet view last -o page.html

    \b
    Exit codes: 0 ok, 1 no such session, 2 unreadable.
    """
    if _is_recording(source):
        data, name = _read(source, output), _name(source)
        original = trace_of(data, name)
        _check_traffic(source, data, original)
        shown = trace_of(repaired(data, locale), name) if before else original
        if before:
            shown.unreadable = original.unreadable
    else:
        if before:
            raise click.UsageError(
                "--before needs a recording: of a session, only what the client saw is stored"
            )
        try:
            with opened(history) as store:
                found = find_session(store, source)
                entries = list(entries_of(store, found.session_id))
                origins = store.origins(origin_keys(entries))
        except Trouble as exc:
            why = exc.message[:1].lower() + exc.message[1:]
            raise Trouble(f"there is no file {visible(source)!r}, and {why}") from None
        original = shown = stored_trace(found, entries, origins)
        data = b"".join(stored_lines(found.session_id, entries, shown.epoch or 0.0))
    if output is not None:
        _write_page(output, shown, original if before else None)
        return 0
    _page(_screens(shown, original if before else None, data, locale))
    return 0


# Reading


def _is_recording(source: str) -> bool:
    is_named = os.sep in source or source.endswith((".jsonl", ".ndjson", ".json", ".log"))
    return source == "-" or is_named or Path(source).exists()


def _name(source: str) -> str:
    """Return what a recording is called, in characters that can be written."""
    return "stdin" if source == "-" else os.fsencode(Path(source).name).decode(errors="replace")


def _read(source: str, output: str | None) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        if output is not None and Path(output).exists() and Path(output).samefile(source):
            text = f"the page would replace the recording, {output}; name another file"
            raise click.UsageError(text)
        return Path(source).read_bytes()
    except IsADirectoryError:
        raise Unreadable(f"{source} is a directory: name one of its recordings") from None
    except OSError as exc:
        raise Unreadable(f"{source}: {exc.strerror}") from None


def _check_traffic(source: str, data: bytes, trace: Trace) -> None:
    """Raise `Unreadable` if there is no traffic in a file."""
    is_acp = trace.agent or trace.client or trace.sessions or trace.protocol
    if is_acp or trace.calls or trace.turns or trace.messages:
        return
    raise Unreadable(f"{source}: {NO_RECORDING if data.strip() else EMPTY_RECORDING}")


# Showing


def _write_page(output: str, shown: Trace, original: Trace | None) -> None:
    from callsheet.ui.page import page_of

    page = page_of(shown, original)
    if output == "-":
        sys.stdout.buffer.write(page)
        return
    try:
        with replacing(output) as stream:
            stream.write(page)
    except OSError as exc:
        raise Unreadable(f"{output} can't be written: {exc.strerror or exc}") from None
    size = f"{plural(len(shown.calls), 'call')}, {bytes_text(len(page))}"
    click.echo(f"{output}: {size}", err=True)
    for problem in shown.unreadable[:FEW]:
        click.echo(f"{output}: not read: {visible(problem)}", err=True)


def _page(screens: Iterator[str]) -> None:
    """Write screens to a pager, or into a pipe."""
    if not is_terminal():
        for screen in screens:
            sys.stdout.write("".join(f"{line.rstrip()}\n" for line in screen.splitlines()))
        return
    flags = os.environ.setdefault("LESS", "-FRX")  # what fits the screen needs no pager
    click.echo_via_pager(screens, color="r" in flags.lower())


def _screens(
    shown: Trace, original: Trace | None, data: bytes, locale: str | None
) -> Iterator[str]:
    """Yield what is shown, piece by piece: nobody waits for the last call to see the first."""
    width = shutil.get_terminal_size().columns - 1 if is_terminal() else PIPE_WIDTH
    console = Console(
        file=io.StringIO(), width=width, force_terminal=is_terminal(), highlight=False
    )

    def drawn(renderable: RenderableType) -> str:
        with console.capture() as capture:
            console.print(renderable)
        return capture.get()

    yield drawn(Text.assemble((visible(shown.source), "bold"), "  ", (facts(shown), "dim")))
    for problem in shown.unreadable[:FEW]:
        yield drawn(Text(f"not read: {visible(problem)}", "red"))
    if len(shown.unreadable) > FEW:
        yield drawn(Text(f"not read: {shown.unreadable[-1]}", "red"))
    pairs = None if original is None else paired(original, shown)
    for row in timeline(shown, width, pairs):
        yield drawn(row)
    if original is None:
        for card in _cards(repaired(data, locale, repair=False), shown, width):
            yield drawn(card)


def _cards(data: bytes, trace: Trace, width: int) -> Iterator[RenderableType]:
    """Yield each call with its content, as an editor would show it."""
    ledger = fold(line.message for line in read_lines(io.BytesIO(data)) if line.message)
    cwd = next(iter(trace.sessions.values()), "")
    traced: defaultdict[str, list[TracedCall]] = defaultdict(list)
    for call in trace.calls:
        traced[call.id].append(call)
    for report in ledger:
        its = traced.get(report.tool_call_id) or traced.get(report.alias or "")
        shown = _as_sent(report, its.pop(0), has_times=trace.has_times) if its else report
        end = ""
        if shown.is_final is not report.is_final:
            end = f"has not ended: the agent left it {end_text(shown)}"
        yield ended_card(shown, ledger.terminal, width, cwd, end=end)


def _as_sent(report: ToolCallReport, call: TracedCall, *, has_times: bool) -> ToolCallReport:
    """Return a report that agrees with the list: it took as long, and one that was left open is open."""
    changes: dict[str, Any] = {}
    notes = dict(report.notes)
    if "durationMs" in notes and has_times:
        notes["durationMs"] = call.took
    if call.ended is None and report.is_final:
        notes.pop("reason", None)
        status = call.status if call.status in ("pending", "paused") else "in_progress"
        changes = {"status": ToolCallStatus(status), "content": report.content[: len(call.content)]}
    return replace(report, meta={**report.meta, "callsheet": notes}, **changes)
