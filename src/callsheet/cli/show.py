"""`callsheet show`: all that is known of one call."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from callsheet.cli.amounts import ago, local_time
from callsheet.cli.cards.body import TerminalOf, body_of, footer_of
from callsheet.cli.history.formats import whole_object
from callsheet.cli.history.lookup import find_call, run
from callsheet.cli.options import format_option, history_option
from callsheet.cli.output import console_for, is_terminal, path_text, visible, write
from callsheet.history import Query, Store, StoredCall, StoredSession
from callsheet.history.call_records import spills_of
from callsheet.report.humanize import bytes_text, duration_text
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.report.report import ToolCallReport

Fact = tuple[str, str]
"""What it is, and its text, which may have several lines."""


@click.command("show", context_settings={"max_content_width": 100})
@click.argument("call", metavar="ID")
@click.option("--session", metavar="S", help="Its session, where calls of several have this id.")
@format_option(
    "pretty json", "pretty: for people. json: ACP's tool_call, and its terminals.", "pretty"
)
@click.option("--full", is_flag=True, help="On a terminal, leave nothing out of a long output.")
@history_option
def command(call: str, session: str | None, format_: str, full: bool, url: str | None) -> int:
    """Show all that is known of one call.

    ID is a call's id, its beginning or its end, if no other call has the same, or last.
    """

    def work(store: Store) -> int:
        found = find_call(store, call, session)
        its_session = store.session(found.head.session_id)
        if format_ == "json":
            indent = 2 if sys.stdout.isatty() else None
            made = whole_object(found, its_session)
            write(json.dumps(made, ensure_ascii=False, indent=indent))
            return 0
        parent = _parent(store, found)
        facts = list(facts_about(found, its_session, parent, time.time()))
        cwd = its_session.cwd if its_session is not None else ""
        if is_terminal():
            _on_terminal(found, cwd, facts, full=full)
        else:
            _plainly(found, cwd, facts)
        return 0

    return run(url, work)


def _parent(store: Store, call: StoredCall) -> str | None:
    """Return the call that this one is a part of, in words."""
    key = call.record.report.notes.get("parentId")
    if not isinstance(key, str):
        return None
    found = store.heads(Query(session_id=call.head.session_id, call_id=key, limit=1))
    return f"{key}  {found[0].title}" if found else key


# What is known


def facts_about(
    call: StoredCall, session: StoredSession | None, parent: str | None, now: float
) -> Iterator[Fact]:
    """Yield what is known of a call beside its card."""
    head, report = call.head, call.record.report
    notes, cwd = report.notes, session.cwd if session is not None else ""
    yield "id", head.call_id
    title = f"  {session.title}" if session is not None and session.title else ""
    yield "session", head.session_id + title
    if cwd:
        yield "directory", cwd
    yield "tool", f"{head.name or '(without a name)'}, {head.kind}"
    yield "status", f"{head.status}, {head.reason}" if head.reason else head.status
    yield "when", f"{local_time(head.at)}, {ago(head.at, now)}"
    if head.duration_ms is not None:
        yield "took", duration_text(head.duration_ms)
    if used := _used(notes.get("usage")):
        yield "used", used
    yield from _relations(report, parent)
    places = [path_text(p.path, cwd) + (f":{p.line}" if p.line else "") for p in report.locations]
    if places:
        yield "places", "\n".join(places)
    if is_list(repaired := notes.get("repaired")) and repaired:
        yield "repaired", ", ".join(map(str, repaired))
    if redactions := notes.get("redactions"):
        yield "redactions", f"{redactions}"
    yield from _cuts(report)
    if is_object(custom := notes.get("custom")) and custom:
        yield "notes", _json(custom)
    if report.raw_input is not None:
        yield "input", _json(report.raw_input)
    if report.raw_output is not None:
        yield "output", _json(report.raw_output)


def _relations(report: ToolCallReport, parent: str | None) -> Iterator[Fact]:
    notes = report.notes
    for name, key in (("alias", "alias"), ("batch", "batchId")):
        if isinstance(value := notes.get(key), str):
            yield name, value
    if parent is not None:
        yield "part of", parent
    if is_list(others := notes.get("dependsOn")) and others:
        yield "after", "\n".join(map(str, others))


def _used(usage: JsonValue) -> str:
    if not is_object(usage):
        return ""
    cpu, memory = usage.get("cpuMs"), usage.get("maxRssKb")
    parts = [f"{duration_text(cpu)} of cpu"] if isinstance(cpu, (int, float)) else []
    parts += [f"{bytes_text(memory * 1024)} of memory"] if isinstance(memory, (int, float)) else []
    return ", ".join(parts)


def _cuts(report: ToolCallReport) -> Iterator[Fact]:
    """Yield where the whole is of what was cut, and whether it is still there."""
    for path in dict.fromkeys(spills_of(report)):
        try:
            there = bytes_text(Path(path).stat().st_size)
        except OSError:
            there = "is not there any more"
        yield "whole in", f"{path}, {there}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


# Showing


def _terminals(call: StoredCall) -> TerminalOf:
    return {one.terminal_id: one.state() for one in call.record.terminals}.get


def _plainly(call: StoredCall, cwd: str, facts: list[Fact]) -> None:
    report = call.record.report
    write(visible(report.title or report.name or report.tool_call_id))
    for line in body_of(report, _terminals(call), cwd):
        write(line.text.rstrip())
    write(" · ".join(fact.text for fact in footer_of(report, cwd)))
    write("")
    for name, text in facts:
        lines = [visible(line) for line in text.split("\n")]
        write(f"{name}: {lines[0]}")
        for line in lines[1:]:
            write(f"  {line}")


def _on_terminal(call: StoredCall, cwd: str, facts: list[Fact], *, full: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from callsheet.cli.cards.card import MOST_ROWS, ended_card
    from callsheet.cli.cards.terminal import setting_for

    console, most = console_for(), sys.maxsize if full else MOST_ROWS
    setting = setting_for(console, cwd)
    console.print(ended_card(call.record.report, _terminals(call), setting, most))
    console.print()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts:
        lines = [visible(line) for line in text.split("\n")]
        if len(lines) > most:
            left = f"… {len(lines) - most:,} lines left out; --full shows all"
            lines = [*lines[:most], left]
        table.add_row(name, Text("\n".join(lines)))
    console.print(table)
