"""`callsheet doctor`: what is installed, what is found on this machine, and what is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import click

from callsheet import __version__
from callsheet.cli.editors import (
    AGENTS,
    EDITORS,
    SERVERS,
    BadSettingsFile,
    Editor,
    is_callsheet,
    missing_scripts,
    parsed,
    tapped_program,
)
from callsheet.cli.output import Page, TableColumn, visible
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import bytes_text, plural
from callsheet.report.json import is_list, is_object

EXTRAS = {
    "nats": "nats-py",
    "otel": "opentelemetry-sdk",
    "postgres": "asyncpg",
    "prices": "genai-prices",
    "ui": "starlette",
}
"""What can be installed beside callsheet, and the package that shows that it is."""

_INSTALLERS = {"/uv/tools/": "uv tool install", "/pipx/": "pipx install --force"}
"""What has installed callsheet, by a part of its path; else it was pip."""

_COLOURS = {"ok": "green", "note": "yellow", "wrong": "red"}
_MARKS = {"ok": "✓", "note": "·", "wrong": "✗"}


class Fact(NamedTuple):
    """One line of the answer. `level` is ok, note (nothing is wrong, but something is not there) or wrong."""

    level: str
    what: str
    text: str


@click.command("doctor")
def command() -> int:
    """Show what is installed, where history and settings are, and which agents and editors were found.

    \b
    Exit codes: 0 nothing is wrong, 1 something is.
    """
    facts = [*_product(), *_settings(), *_history(), *_agents(), *_editors()]
    wrong = sum(fact.level == "wrong" for fact in facts)
    page = Page()
    page.table(
        (TableColumn(), TableColumn(wraps=True)),
        [
            ((f"{_MARKS[level]} {what}", _COLOURS[level]), visible(text))
            for level, what, text in facts
        ],
        header=False,
    )
    page.line()
    what = f"{plural(wrong, 'thing is', 'things are')} wrong" if wrong else "Nothing is wrong"
    page.line((f"{what}.", "bold"))
    return 1 if wrong else 0


def _product() -> Iterator[Fact]:
    yield Fact("ok", "callsheet", f"{__version__}, {Path(__file__).parents[1]}")
    python = f"{platform.python_version()}, {sys.executable}"
    yield Fact("ok", "Python", python)
    system = platform.system()
    is_known = system in ("Linux", "Darwin")
    yield Fact("ok" if is_known else "note", "system", f"{system} {platform.machine()}")
    found = shutil.which("rg", path=os.pathsep.join((str(Path(sys.executable).parent), *_path())))
    yield (
        Fact("ok", "ripgrep", found)
        if found
        else Fact("wrong", "ripgrep", "not found: pip install ripgrep; grep, glob and list need it")
    )
    ways = (way for part, way in _INSTALLERS.items() if part in Path(sys.prefix).as_posix())
    install = next(ways, "pip install")
    for extra, package in EXTRAS.items():
        try:
            yield Fact("ok", extra, f"{package} {version(package)}")
        except PackageNotFoundError:
            yield Fact("note", extra, f"not installed: {install} 'callsheet[{extra}]'")


def _path() -> list[str]:
    return os.environ.get("PATH", os.defpath).split(os.pathsep)


def _settings() -> Iterator[Fact]:
    from callsheet.cli.settings import own_settings, tap_settings, use_rules, user_file

    try:
        found = own_settings()
        tap_settings()
        use_rules()
        place = user_file() if found is None else found.path
        yield Fact(
            "ok", "settings", str(place) + ("" if found else " (no such file: the defaults apply)")
        )
    except (CallsheetError, RuntimeError) as exc:
        yield Fact("wrong", "settings", str(exc))


def _history() -> Iterator[Fact]:
    from callsheet.cli.history.lookup import NoHistory, Trouble, opened
    from callsheet.cli.settings import history_settings
    from callsheet.history.rows import Query
    from callsheet.history.url import is_fleet, store_at

    try:
        url, _ = history_settings()
        if url is None:
            yield Fact("note", "history", "off: calls are not stored")
            return
        if is_fleet(url):
            fleet = store_at(url)
            try:
                fleet.open()
            finally:
                fleet.close()
            yield Fact("ok", "history", f"{fleet.url}: calls are published for a collector")
            return
        with opened(None) as store:
            stats = store.stats(Query())
            room = f", {bytes_text(stats.file_bytes)}" if stats.file_bytes else ""
            yield Fact("ok", "history", f"{store.url}: {plural(stats.calls, 'call')}{room}")
    except NoHistory as exc:
        yield Fact("note", "history", str(exc))
    except (CallsheetError, Trouble, OSError) as exc:
        yield Fact("wrong", "history", str(exc))


def _agents() -> Iterator[Fact]:
    for name, agent in AGENTS.items():
        found = shutil.which(agent.program)
        command = " ".join((agent.program, *agent.arguments))
        if found and agent.program != "npx":
            yield Fact("ok", name, found)
        elif found:
            yield Fact("note", name, f"{command} (npm downloads it when it starts)")
    if not any(shutil.which(agent.program) for agent in AGENTS.values()):
        yield Fact("note", "agents", f"none of {', '.join(AGENTS)} was found on PATH")


def _editors() -> Iterator[Fact]:
    for name, editor in EDITORS.items():
        program = next(filter(None, map(shutil.which, editor.programs)), None)
        file = editor.settings()
        if file is not None and file.exists():
            yield from _editor_with(name, editor, file)
        elif program:
            yield Fact(
                "note",
                editor.title,
                f"{program}; callsheet is not set up in it: callsheet setup {name}",
            )
        else:
            yield Fact("note", editor.title, "not found")


def _editor_with(key: str, editor: Editor, file: Path) -> Iterator[Fact]:
    """Yield which agents in an editor's settings are ours or tapped, and which of them can't be started."""
    try:
        whole = parsed(file.read_bytes().decode())
    except (OSError, UnicodeDecodeError, BadSettingsFile) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        yield Fact("wrong", editor.title, f"{file}: {reason}")
        return
    servers = whole.get(SERVERS) if is_object(whole) else None
    ours: list[str] = []
    broken: set[str] = set()
    for name, entry in servers.items() if is_object(servers) else ():
        given = entry if is_object(entry) else {}
        args = given.get("args")
        command = [given.get("command"), *(args if is_list(args) else ())]
        if not is_callsheet(command):
            continue
        ours.append(name)
        programs = filter(None, (str(command[0]), tapped_program(command)))
        missing = [program for program in programs if not shutil.which(program)]
        for needed in dict.fromkeys((*missing, *missing_scripts(command))):
            broken.add(name)
            text = f"{file}: “{name}” starts {needed}, which does not exist"
            yield Fact("wrong", editor.title, text)
    if not ours:
        yield Fact(
            "note", editor.title, f"{file}: callsheet is not set up in it: callsheet setup {key}"
        )
    elif works := [f"“{name}”" for name in ours if name not in broken]:
        yield Fact("ok", editor.title, f"{file}: {', '.join(works)}")
