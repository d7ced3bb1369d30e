"""`callsheet setup`: the settings that an editor needs for our agent, or for any agent behind the tap."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import click

from callsheet.cli.editors import (
    AGENTS,
    EDITORS,
    SERVERS,
    AcpAgent,
    BadSettingsFile,
    Editor,
    callsheet_command,
    with_entry,
)
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
@click.option("--write", "writes", is_flag=True, help="Write the settings; a backup is kept.")
def command(editor: str, tapped: str | None, writes: bool) -> int:
    """Print the settings for an editor: our own agent, or an agent of yours behind the tap.

    \b
      callsheet setup zed --tap claude
      callsheet setup jetbrains --tap "my-agent --acp" --write
    """
    chosen = EDITORS[editor]
    name, started = _server(tapped)
    entry: dict[str, object] = {**chosen.fields, "command": started[0], "args": started[1:]}
    file = chosen.settings()
    if file is None:
        if writes:
            raise click.UsageError(
                f"{chosen.title}'s settings are a program: paste what `callsheet setup {editor}` prints"
            )
        write(_lua(name, started))
    elif writes:
        write_entry(file, name, entry)
        click.echo(f"{chosen.title} has “{name}” now: {file}", err=True)
    else:
        click.echo(f"# into {_shown(file)}, or add --write", err=True)
        write(json.dumps({SERVERS: {name: entry}}, indent=2, ensure_ascii=False))
    _warn_of_missing(tapped, chosen)
    return 0


def _server(tapped: str | None) -> tuple[str, list[str]]:
    """Return the name of the agent as the editor will show it, and the command that starts it."""
    ours = callsheet_command()
    if tapped is None:
        return "Callsheet", [*ours, "agent"]
    agent = AGENTS.get(tapped.lower())
    if agent is None:
        try:
            words = shlex.split(tapped)
        except ValueError as exc:
            raise click.UsageError(f"--tap {tapped!r}: {exc}") from None
        if len(words) < 2 and not shutil.which(tapped):
            known = ", ".join(AGENTS)
            raise click.UsageError(
                f"--tap {tapped!r}: no known agent ({known}), and no command that is there"
            )
        agent = AcpAgent(Path(words[0]).name, words[0], tuple(words[1:]))
    program = shutil.which(agent.program) or agent.program
    return f"{agent.title}, tapped", [*ours, "tap", "--", program, *agent.arguments]


def write_entry(file: Path, name: str, entry: dict[str, object]) -> None:
    """Put an agent into a settings file; what stood there before is kept beside it."""
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        after = with_entry(before, name, entry)
        file.parent.mkdir(parents=True, exist_ok=True)
        if before:
            shutil.copy2(file, file.with_name(file.name + BACKUP))
        with replacing(str(file)) as stream:
            stream.write(after.encode())
    except (OSError, UnicodeDecodeError, BadSettingsFile) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise click.ClickException(f"{file}: {reason}; nothing was changed") from None


def _lua(name: str, started: list[str]) -> str:
    """Return what avante.nvim and CodeCompanion need."""
    key = name.partition(",")[0].lower().replace("-", "_")
    first, *rest = (json.dumps(word, ensure_ascii=False) for word in started)
    return f"""\
-- avante.nvim
provider = "{key}",
acp_providers = {{
  ["{key}"] = {{ command = {first}, args = {{ {", ".join(rest)} }} }},
}},

-- CodeCompanion
adapters = {{
  acp = {{
    {key} = function()
      return require("codecompanion.adapters").extend("gemini_cli", {{
        name = "{key}",
        commands = {{ default = {{ {", ".join((first, *rest))} }} }},
      }})
    end,
  }},
}},"""


def _warn_of_missing(tapped: str | None, editor: Editor) -> None:
    if not any(map(shutil.which, editor.programs)):
        click.echo(f"callsheet: {editor.title} is not found on this PATH", err=True)
    agent = AGENTS.get((tapped or "").lower())
    if agent is not None and not shutil.which(agent.program):
        click.echo(
            f"callsheet: {agent.program} is not found on this PATH; {agent.title} needs it",
            err=True,
        )


def _shown(file: Path) -> str:
    home = str(Path.home())
    return str(file).replace(home, "~", 1) if str(file).startswith(home) else str(file)
