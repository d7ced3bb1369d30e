"""`callsheet show`: all that is known of one call."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from callsheet.cli.cards.body import plain_lines
from callsheet.cli.history.lookup import find_call, opened
from callsheet.cli.options import format_option, history_option
from callsheet.cli.output import Page, console_for, is_terminal, path_text, write, write_json
from callsheet.history import StoredCall, StoredSession
from callsheet.history.amounts import ago, local_time
from callsheet.history.call_records import exported, spills_of
from callsheet.history.rows import Origin
from callsheet.report.humanize import bytes_text, duration_text, plural
from callsheet.report.json import JsonValue, is_object

Fact = tuple[str, str]
"""What it is, and its text, which may have several lines."""

_ELSEWHERE = frozenset(
    (
        "startedAt",
        "endedAt",
        "durationMs",
        "reason",
        "truncated",
        "page",
        "permission",
        "kind",
        "status",
        "cleared",
    )
)
"""Notes of a report that other facts state, or that are only for clients."""

_WORDS = {
    "alias": "also called",
    "batchId": "batch",
    "dependsOn": "waited for",
    "parentId": "part of",
    "repaired": "repaired",
}


@click.command("show")
@click.argument("call", metavar="ID")
@click.option("--session", metavar="S", help="Its session, where calls of several have this id.")
@format_option(
    "pretty json", "pretty: for people. json: ACP's tool_call, and its terminals.", "pretty"
)
@history_option
def command(call: str, session: str | None, format_: str, history: str | None) -> None:
    """Show everything known about one call.

    ID is a call's id, a unique beginning or end of it, or last.
    """
    with opened(history) as store:
        found = find_call(store, call, session)
        its_session = store.session(found.head.session_id)
        origin = store.origins([found.head.origin])[found.head.origin]
    cwd = "" if its_session is None else its_session.cwd
    if format_ == "json":
        write_json(exported(found, origin, cwd))
        return
    _show(found, cwd)
    page = Page()
    page.line()
    page.facts(facts_about(found, its_session, origin, time.time()))


# What is known


def facts_about(
    call: StoredCall, session: StoredSession | None, origin: Origin, now: float
) -> Iterator[Fact]:
    """Yield what is known of a call beside its card."""
    head, report = call.head, call.record.report
    cwd, title = ("", "") if session is None else (session.cwd, session.title)
    yield "id", head.call_id
    yield "session", f"{head.session_id}  {title}" if title else head.session_id
    if cwd:
        yield "directory", cwd
    yield "who", origin.text
    yield "tool", f"{head.name or '(without a name)'}, {head.kind}"
    yield "status", ", ".join(dict.fromkeys(filter(None, (head.status, head.reason))))
    yield "when", f"{local_time(head.at)}, {ago(head.at, now)}"
    if head.duration_ms is not None:
        yield "took", duration_text(head.duration_ms)
    if permission := permission_text(report.notes.get("permission")):
        yield "permission", permission
    places = [path_text(p.path, cwd) + (f":{p.line}" if p.line else "") for p in report.locations]
    if places:
        yield "places", "\n".join(places)
    for path in dict.fromkeys(spills_of(report)):
        yield "whole in", path if Path(path).exists() else f"{path}, which no longer exists"
    for name, value in report.notes.items():
        if name not in _ELSEWHERE:
            yield from _note(name, value)
    for name, value in (("input", report.raw_input), ("output", report.raw_output)):
        if value not in (None, {}):
            yield name, json.dumps(value, ensure_ascii=False, indent=2)


def _note(name: str, value: Any) -> Iterator[Fact]:
    """Yield a note on a call in words; those of others, which may be anything, as they are."""
    match name, value:
        case "usage", {}:
            cpu, memory = value.get("cpuMs"), value.get("maxRssKb")
            parts = [f"{duration_text(cpu)} of CPU time"] if isinstance(cpu, int | float) else []
            if isinstance(memory, int | float):
                parts.append(f"{bytes_text(memory * 1024)} of memory at most")
            yield "used", ", ".join(parts)
        case "progress", {}:
            steps = [str(value[key]) for key in ("done", "total") if value.get(key) is not None]
            parts = [" of ".join(steps), str(value.get("message") or "")]
            yield "progress", ", ".join(filter(None, parts))
        case (("repaired" | "dependsOn"), [*names]):
            yield _WORDS[name], ", ".join(map(str, names))
        case "redactions", int():
            yield "redacted", plural(value, "secret")
        case "custom", {}:
            for key, its in value.items():
                yield key, _plain(its)
        case _:
            yield _WORDS.get(name, name), _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def permission_text(noted: JsonValue) -> str:
    """Return who or what allowed or denied a call, and after how long; empty if nothing is known of it."""
    if not is_object(noted):
        return ""
    by, option, scope = noted.get("by"), noted.get("option"), noted.get("scope")
    text = str(noted.get("outcome"))
    if by in ("mode", "settings"):
        mode = f" “{option}”" if option else ""
        who = (
            f"mode{mode}"
            if by == "mode"
            else f"settings for the mode{mode}"
            if mode
            else "settings"
        )
        return f"{text} without asking, by the {who}"
    text += " by an earlier answer" if by == "remembered" else " by the user"
    if isinstance(waited := noted.get("waitedMs"), (int, float)):
        text += f", after {duration_text(waited)}"
    text += f", “{option}”" if option else ""
    return text + (f", for {scope}" if scope else "")


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
