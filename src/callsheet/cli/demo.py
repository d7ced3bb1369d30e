"""`callsheet demo`: one real file is read, and its reports are shown as they go over the wire.

Both ends are real. The agent's end makes reports out of the read and writes lines; the editor's end
reads those lines and shows what it knows after each. Into a pipe go the bare lines.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from rich.console import Console, Group
from rich.highlighter import JSONHighlighter
from rich.panel import Panel
from rich.text import Text

import callsheet.report.status as example
from callsheet import Session, ToolCallLocation, ToolCallReport, ToolKind
from callsheet.report.ledger import Ledger
from callsheet.runtime.ids import new_call_id
from callsheet.wire import v1
from callsheet.wire.jsonrpc import LineReader, Notification

LINES = 12
WIDEST = 88

MARKS = {"pending": "○", "in_progress": "◐", "completed": "●", "failed": "✗"}
COLOURS = {"pending": "yellow", "in_progress": "cyan", "completed": "green", "failed": "red"}


@click.command()
def command() -> None:
    """Show the life of one real tool call, as it goes over the wire."""
    lines = read_a_file(Path(example.__file__))
    if not sys.stdout.isatty():
        for line in lines:
            click.echo(line, nl=False)
        return
    console = Console(width=min(WIDEST, Console().width))
    console.print(
        "\nA tool reads a file. This is what its editor is sent, and what it knows then.\n"
    )
    for number, (line, report) in enumerate(watch(lines), start=1):
        console.print(message_panel(number, line, console.width - 4))
        console.print(card(report))


def read_a_file(path: Path) -> list[bytes]:
    """The agent's end: read the beginning of a file, and give the lines that its client is sent."""
    lines: list[bytes] = []
    asyncio.run(_read(path, lines.append))
    return lines


async def _read(path: Path, send: Callable[[bytes], None]) -> None:
    title, raw = f"Reading {path.name} (lines 1–{LINES})", {"path": str(path), "limit": LINES}
    place = ToolCallLocation(str(path), 1)
    async with (
        Session("demo", on_update=send) as session,
        session.call("read", raw, title=title, kind=ToolKind.READ, locations=[place]) as call,
    ):
        call.start()
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as exc:
            call.fail(f"{exc.strerror}: {path}")
            return
        shown = "\n".join(text.splitlines()[:LINES])
        facts = {"total_lines": text.count("\n"), "size_bytes": len(text.encode())}
        call.succeed(f"```python\n{shown}\n```", raw=facts)


def watch(lines: Iterable[bytes]) -> Iterator[tuple[bytes, ToolCallReport]]:
    """The editor's end: read lines, and give what is known of the call after each."""
    reader, ledger = LineReader(), Ledger("demo", new_call_id)
    for line in lines:
        for message in reader.feed(line):
            if isinstance(message, Notification):
                for event in v1.decode(message.params["update"]):
                    report = ledger.apply(event)
                    if isinstance(report, ToolCallReport):
                        yield line, report


def message_panel(number: int, line: bytes, width: int) -> Panel:
    """Show a message as it went over the wire, cut at the width: it has no words to break at."""
    title = f"message {number} · {len(line):,} bytes"
    text = JSONHighlighter()(line.decode().rstrip())
    rows = text.divide(range(width, len(text), width))
    return Panel(Group(*rows), title=title, title_align="left", border_style="dim")


def card(report: ToolCallReport) -> Group:
    """Show a call as an editor might."""
    status = report.status.value
    place = report.locations[-1]
    head = Text.assemble(
        ("  " + MARKS[status], COLOURS[status]), f" {status}  ", (report.title, "bold")
    )
    facts = f"{report.kind} · {place.path}:{place.line}"
    if "durationMs" in report.notes:
        facts += f" · {report.notes['durationMs']} ms"
    return Group(head, Text(f"    {facts}\n", style="dim", overflow="ellipsis", no_wrap=True))
