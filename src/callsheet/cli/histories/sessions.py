"""The list of sessions."""

from __future__ import annotations

import sys
import time

import click

from callsheet.cli.cards.words import path_text, visible
from callsheet.history import Store, StoredSession

from .finding import all_sessions
from .listing import HOW
from .machines import as_session, json_text
from .opening import Nothing, run
from .screen import is_terminal, write
from .words import ago, utc_time

FEW = 50
"""Sessions that are listed if nobody says how many."""


def show_sessions(url: str | None, limit: int | None, *, as_json: bool) -> int:
    """List the sessions, and give the exit code. A limit of 0 means all."""
    most = FEW + 1 if limit is None else limit or None

    async def work(store: Store) -> int:
        found = [session async for session in all_sessions(store, most)]
        if is_cut := limit is None and len(found) > FEW:
            found.pop()
        if as_json:
            lines = ",\n ".join(json_text(as_session(one)) for one in found)
            write(f"[{lines}]")
        elif not found:
            click.echo(f"callsheet: there is no session in {store.url} yet. {HOW}", err=True)
        elif is_terminal():
            _table(found)
        else:
            for one in found:
                write(_fields(one))
        if is_cut:
            sys.stdout.flush()
            click.echo(
                f"callsheet: these {FEW} were used last; there are more: --limit 0 gives all",
                err=True,
            )
        return 0

    try:
        return run(url, work)
    except Nothing as exc:
        click.echo(f"callsheet: {exc.message}", err=True)
        if as_json:
            write("[]")
        return 0


def _fields(session: StoredSession) -> str:
    fields = (
        session.session_id,
        utc_time(session.updated_at),
        str(session.calls),
        session.cwd,
        session.title,
    )
    return "\t".join(visible(field) for field in fields)


def _table(found: list[StoredSession]) -> None:
    from rich.text import Text

    from .screen import Screen
    from .table import WIDE, fitted, home, shorts

    screen, now = Screen(), time.time()
    keys = {one.session_id: visible(one.session_id) for one in found}
    if screen.width < WIDE:
        keys = {key: visible(short) for key, short in shorts(list(keys)).items()}
    key = max(7, *map(len, keys.values()))
    room = max(12, screen.width - key - 10 - 6 - 3 * 2)
    rows = [Text(f"{'USED':10}  {'CALLS':>6}  {'SESSION':{key}}  IN"[: screen.width], "dim")]
    for one in found:
        where = visible(path_text(one.cwd, "", home()))
        told = screen.looks.dot.join(filter(None, (visible(one.title), where)))
        row = Text.assemble(
            (f"{ago(one.updated_at, now):10}", "dim"),
            f"  {one.calls:>6,}  {keys[one.session_id]:{key}}  ",
            fitted(told, room, screen.looks),
        )
        row.truncate(screen.width)
        row.rstrip()
        rows.append(row)
    screen.print(rows)
