"""One call, with all that is known of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from callsheet.cli.cards.content import TerminalOf, blocks_of
from callsheet.cli.cards.facts import facts_of
from callsheet.cli.cards.words import bytes_text, duration_text, path_text, visible
from callsheet.history import Query, Store, StoredCall, StoredSession
from callsheet.history.call_records import spills_of
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.report.report import ToolCallReport

from .finding import call_meant
from .machines import as_whole_object
from .opening import run
from .screen import is_terminal, write
from .words import ago, local_time

Fact = tuple[str, str]
"""What it is, and what is said of it; several lines may be."""


def show_call(url: str | None, text: str, session: str | None, *, as_json: bool, full: bool) -> int:
    """Show the call that is meant, and give the exit code."""

    async def work(store: Store) -> int:
        call = await call_meant(store, text, session)
        its_session = await store.session(call.head.session_id)
        if as_json:
            indent = 2 if sys.stdout.isatty() else None
            told = as_whole_object(call, its_session)
            write(json.dumps(told, ensure_ascii=False, indent=indent))
            return 0
        parent = await _parent(store, call)
        facts = list(facts_known(call, its_session, parent, time.time()))
        if is_terminal():
            _on_terminal(call, its_session, facts, full=full)
        else:
            _plainly(call, its_session, facts)
        return 0

    return run(url, work)


async def _parent(store: Store, call: StoredCall) -> str | None:
    """Say which call this one is a part of."""
    key = call.record.report.notes.get("parentId")
    if not isinstance(key, str):
        return None
    found = await store.heads(Query(session_id=call.head.session_id, call_id=key, limit=1))
    return f"{key}  {found[0].title}" if found else key


# What is known


def facts_known(
    call: StoredCall, session: StoredSession | None, parent: str | None, now: float
) -> Iterator[Fact]:
    """Return what is said under the card."""
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
    said = [f"{duration_text(cpu)} of cpu"] if isinstance(cpu, (int, float)) else []
    said += [f"{bytes_text(memory * 1024)} of memory"] if isinstance(memory, (int, float)) else []
    return ", ".join(said)


def _cuts(report: ToolCallReport) -> Iterator[Fact]:
    """Say where the whole is of what was cut, and whether it is still there."""
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


def _plainly(call: StoredCall, session: StoredSession | None, facts: list[Fact]) -> None:
    report, cwd = call.record.report, session.cwd if session is not None else ""
    write(visible(report.title or report.name or report.tool_call_id))
    for block in blocks_of(report, _terminals(call), cwd):
        for line in block.lines():
            write(f"{line.lead}{line.text}".rstrip())
    write(" · ".join(fact.text for fact in facts_of(report, cwd)))
    write("")
    for name, text in facts:
        lines = [visible(line) for line in text.split("\n")]
        write(f"{name}: {lines[0]}")
        for line in lines[1:]:
            write(f"  {line}")


def _on_terminal(
    call: StoredCall, session: StoredSession | None, facts: list[Fact], *, full: bool
) -> None:
    from rich.text import Text

    from callsheet.cli.cards.card import MOST_ROWS, Setting, ended_card

    from .screen import Screen
    from .table import home

    screen = Screen()
    cwd = session.cwd if session is not None else ""
    setting = Setting(screen.width, screen.looks, cwd, home(), screen.links)
    most = sys.maxsize if full else MOST_ROWS
    rows = ended_card(call.record.report, _terminals(call), setting, most)
    rows.append(Text())
    wide = max(len(name) for name, _ in facts) + 2
    for name, text in facts:
        lines = [row for line in text.split("\n") for row in _rows(line, screen.width - 2 - wide)]
        if not full and len(lines) > MOST_ROWS:
            left = (
                f"{screen.looks.more} {len(lines) - MOST_ROWS:,} lines left out; --full shows all"
            )
            lines = [*lines[:MOST_ROWS], left]
        for index, line in enumerate(lines):
            lead = "" if index else name
            rows.append(Text.assemble("  ", (lead.ljust(wide), "dim"), line))
    screen.print(rows)


def _rows(line: str, width: int) -> list[str]:
    """Return a line in rows; what is indented stays so."""
    from callsheet.cli.cards.card import chopped

    text = visible(line)
    indent = min(len(text) - len(text.lstrip()), width // 2)
    return [" " * indent + row for row in chopped(text.lstrip(), max(8, width - indent))]
