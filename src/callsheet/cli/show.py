"""`callsheet show`: all that is known of one call."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from callsheet.cli.amounts import ago, local_time
from callsheet.cli.cards.body import plain_lines
from callsheet.cli.history.lists import whole_object
from callsheet.cli.history.lookup import find_call, opened
from callsheet.cli.options import format_option, history_option
from callsheet.cli.output import Page, console_for, is_terminal, path_text, write, write_json
from callsheet.history import StoredCall, StoredSession
from callsheet.history.call_records import spills_of
from callsheet.report.humanize import duration_text

Fact = tuple[str, str]
"""What it is, and its text, which may have several lines."""

_SHOWN = ("startedAt", "endedAt", "durationMs", "reason", "truncated")
"""Notes of a report that are shown in other words. The others are shown as they are sent."""


@click.command("show")
@click.argument("call", metavar="ID")
@click.option("--session", metavar="S", help="Its session, where calls of several have this id.")
@format_option(
    "pretty json", "pretty: for people. json: ACP's tool_call, and its terminals.", "pretty"
)
@history_option
def command(call: str, session: str | None, format_: str, history: str | None) -> None:
    """Show all that is known of one call.

    ID is a call's id, its beginning or its end, if no other call has the same, or last.
    """
    with opened(history) as store:
        found = find_call(store, call, session)
        its_session = store.session(found.head.session_id)
    if format_ == "json":
        write_json(whole_object(found, its_session))
        return
    _show(found, "" if its_session is None else its_session.cwd)
    page = Page()
    page.line()
    page.facts(facts_about(found, its_session, time.time()))


# What is known


def facts_about(call: StoredCall, session: StoredSession | None, now: float) -> Iterator[Fact]:
    """Yield what is known of a call beside its card."""
    head, report = call.head, call.record.report
    cwd, title = ("", "") if session is None else (session.cwd, session.title)
    yield "id", head.call_id
    yield "session", f"{head.session_id}  {title}" if title else head.session_id
    if cwd:
        yield "directory", cwd
    yield "tool", f"{head.name or '(without a name)'}, {head.kind}"
    yield "status", f"{head.status}, {head.reason}" if head.reason else head.status
    yield "when", f"{local_time(head.at)}, {ago(head.at, now)}"
    if head.duration_ms is not None:
        yield "took", duration_text(head.duration_ms)
    places = [path_text(p.path, cwd) + (f":{p.line}" if p.line else "") for p in report.locations]
    if places:
        yield "places", "\n".join(places)
    for path in dict.fromkeys(spills_of(report)):
        yield "whole in", path if Path(path).exists() else f"{path}, which is not there any more"
    notes = {name: value for name, value in report.notes.items() if name not in _SHOWN}
    for name, value in (
        ("notes", notes),
        ("input", report.raw_input),
        ("output", report.raw_output),
    ):
        if value not in (None, {}):
            yield name, json.dumps(value, ensure_ascii=False, indent=2)


# Showing


def _show(call: StoredCall, cwd: str) -> None:
    """Show a call's card, and leave nothing out of it; in a pipe, what a card shows."""
    report = call.record.report
    terminal_of = {one.terminal_id: one.state() for one in call.record.terminals}.get
    if is_terminal():
        from callsheet.cli.cards.card import ended_card

        console = console_for()
        console.print(ended_card(report, terminal_of, console.width, cwd, sys.maxsize))
        return
    for line in plain_lines(report, terminal_of, cwd):
        write(line)
