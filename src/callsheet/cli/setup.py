"""`callsheet setup`: the settings that an editor needs for our agent, or for any agent behind the tap."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import click

from callsheet.cli.editors import (
    ADAPTER,
    AGENTS,
    EDITORS,
    SERVERS,
    AcpAgent,
    BadSettingsFile,
    callsheet_command,
    entry_in,
    from_anywhere,
    missing_scripts,
    tapped_program,
    with_entry,
)
from callsheet.cli.options import command_name
from callsheet.cli.output import replacing, write

BACKUP = ".before-callsheet"


@click.command("setup")
@click.argument("editor", type=click.Choice(list(EDITORS)))
@click.option(
    "--tap",
    "tapped",
    metavar="AGENT",
    help=f"Tap this agent: {', '.join(AGENTS)}, or its whole command in quotes.",
)
@click.option(
    "--write",
    "writes",
    is_flag=True,
    help="Write the settings into the editor's file, and save a backup.",
)
@click.argument("options", nargs=-1, metavar="[-- OPTION…]", type=click.UNPROCESSED)
def command(editor: str, tapped: str | None, writes: bool, options: tuple[str, ...]) -> int:
    """Print an editor's settings for Callsheet's own agent, or for another agent behind the tap.

    Options after -- are passed to `callsheet agent`.

    \b
      callsheet setup zed --tap claude
      callsheet setup jetbrains --tap "my-agent --acp" --write
      callsheet setup zed -- --tools agent.py --handler agent.py:Agent
    """
    chosen = EDITORS[editor]
    if tapped is not None and options:
        raise click.UsageError("--tap takes the agent's whole command, so nothing may follow --")
    name, started, adapter = _own_server(options) if tapped is None else _tapped_server(tapped)
    entry: dict[str, object] = {**chosen.fields, "command": started[0], "args": started[1:]}
    file = chosen.settings()
    if file is None:
        if writes:
            words = ["--tap", tapped] if tapped is not None else ["--", *options] if options else []
            raise click.UsageError(
                f"{chosen.title}'s settings are code: paste what "
                f"`{shlex.join(['callsheet', 'setup', editor, *words])}` prints"
            )
        write(_lua(name, started, adapter))
    elif writes:
        is_new, old = write_entry(file, name, entry)
        done = "Added “{}” to {}" if is_new else "“{}” is already in {}"
        click.echo(f"{done.format(name, chosen.title)}: {file}", err=True)
        click.echo(f"Choose “{name}” in {chosen.title}, then: callsheet history", err=True)
        if is_new and old is not None:
            click.echo(
                f"callsheet: that replaced “{name}”: {json.dumps(old, ensure_ascii=False)}",
                err=True,
            )
    else:
        click.echo(f"# Add this to {_shown(file)}, or run it again with --write", err=True)
        write(json.dumps({SERVERS: {name: entry}}, indent=2, ensure_ascii=False))
    if not any(map(shutil.which, chosen.programs)):
        click.echo(f"callsheet: {chosen.title} was not found on PATH", err=True)
    agent = tapped_program(started)
    if agent is not None and not shutil.which(agent):
        click.echo(f"callsheet: {agent} was not found on PATH, and {name} needs it", err=True)
    for script in missing_scripts(started):
        if script != agent:
            click.echo(f"callsheet: there is no file {script}, which {name} needs", err=True)
    return 0


class EditorEntry(NamedTuple):
    """What an editor is to start: its name as the editor shows it, and its command."""

    name: str
    command: list[str]
    adapter: str
    """What CodeCompanion extends."""


def _own_server(options: tuple[str, ...]) -> EditorEntry:
    """Return our own agent with these options, which are refused as `callsheet agent` would."""
    from callsheet.cli.agent import command as agent_command

    read = agent_command.make_context("callsheet agent", list(options)).params
    handler = str(read["handler"] or "")
    name = command_name([handler.partition(":")[0]]) if handler else "Callsheet"
    command = [*callsheet_command(), "agent", *map(from_anywhere, options)]
    return EditorEntry(name, command, ADAPTER)


def _tapped_server(tapped: str) -> EditorEntry:
    """Return an agent behind the tap: one of those that are known, or a whole command."""
    agent = AGENTS.get(tapped.lower())
    if agent is None:
        try:
            words = shlex.split(tapped)
        except ValueError as exc:
            raise click.UsageError(f"--tap {tapped!r}: {exc}") from None
        if len(words) < 2 and not shutil.which(tapped):
            near = get_close_matches(tapped.lower(), AGENTS, 1)
            hint = f"; did you mean {near[0]}?" if near else f" ({', '.join(AGENTS)})"
            raise click.UsageError(
                f"--tap {tapped!r}: neither a known agent nor an installed command{hint}"
            )
        if words[0] == "callsheet":  # it may not be on PATH
            words = [*callsheet_command(), *words[1:]]
        agent = AcpAgent(command_name(words), words[0], tuple(map(from_anywhere, words[1:])))
    program = os.path.expanduser(agent.program)  # noqa: PTH111 - it may be no path
    program = shutil.which(program) or program
    if os.sep in program:  # an editor starts it from another directory
        program = os.path.abspath(program)  # noqa: PTH100 - links stay as they are named
    command = [*callsheet_command(), "tap", "--", program, *agent.arguments]
    return EditorEntry(f"{agent.title}, tapped", command, agent.adapter)


def write_entry(file: Path, name: str, entry: dict[str, object]) -> tuple[bool, object]:
    """Put an agent into a settings file.

    Returns:
        Whether it was not in it just so, and what was there under its name; None if nothing was.

    What stood there before is kept beside it. No backup is overwritten: the first has what the user wrote.
    """
    try:
        before = file.read_bytes().decode() if file.exists() else ""
        after, old = with_entry(before, name, entry), entry_in(before, name)
        if after == before:
            return False, old
        file.parent.mkdir(parents=True, exist_ok=True)
        if before:
            names = (f"{file.name}{BACKUP}{number}" for number in ("", *range(2, 1000)))
            backups = (file.with_name(one) for one in names)
            shutil.copy2(file, next(one for one in backups if not one.exists()))
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600
        with replacing(str(file)) as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(after.encode())
    except (OSError, UnicodeDecodeError, BadSettingsFile) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise click.ClickException(f"{file}: {reason}; nothing was changed") from None
    return True, old


def _lua(name: str, started: list[str], adapter: str) -> str:
    """Return what avante.nvim and CodeCompanion need. No plugin has an agent of its own by such a name."""
    key = re.sub(r"\W+", "_", name.lower())
    first, *rest = (json.dumps(word, ensure_ascii=False) for word in started)
    return f"""\
-- avante.nvim
provider = "{key}",
acp_providers = {{
  ["{key}"] = {{ command = {first}, args = {{ {", ".join(rest)} }} }},
}},

-- CodeCompanion: of the adapter that is extended, only the sign-in and the messages' form are kept
adapters = {{
  acp = {{
    ["{key}"] = function()
      return require("codecompanion.adapters").extend("{adapter}", {{
        name = "{key}",
        formatted_name = {json.dumps(name, ensure_ascii=False)},
        commands = {{ default = {{ {", ".join((first, *rest))} }} }},
      }})
    end,
  }},
}},"""


def _shown(file: Path) -> str:
    home = str(Path.home())
    return str(file).replace(home, "~", 1) if str(file).startswith(home) else str(file)
