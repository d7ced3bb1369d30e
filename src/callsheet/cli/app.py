"""The commands, by name. Each is imported only to run it, because an editor waits for our start."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from callsheet import __version__

if TYPE_CHECKING:
    from callsheet.cli.start import StartedAgent

COMMANDS = {
    "agent": "Serve an editor that speaks ACP, on stdin and stdout.",
    "call": "Run one tool and show what it does.",
    "tools": "List the tools: what they do and what they take.",
    "history": "List the calls that were made, and look after them.",
    "show": "Show all that is known of one call.",
    "replay": "Replay a session, as an editor would have received it.",
    "demo": "Watch a real agent at work: a client and an agent over stdio, as cards.",
    "tap": "Stand in front of any agent: complete, slim and safe reports.",
    "repair": "Write a recording as the tap would have shown it.",
    "record": "Run any agent and record its traffic, every byte untouched.",
    "check": "Find what is wrong with a recording of tool calls.",
    "lint": "Find tools that break the result standard.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the module of the command that is named, and return its `command`."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and import_module(f"callsheet.cli.{name}").command, rest


@click.group(
    cls=LazyGroup,
    commands=[click.Command(name, short_help=text) for name, text in COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="callsheet")
def app() -> None:
    """Complete, correct reports of what coding agents do, for any editor that speaks ACP."""


def run(started: StartedAgent | None = None) -> int:
    """Run what the arguments name, and return the exit code.

    Args:
        started: The agent that was started ahead of `tap` or `record`; these find it as `ctx.obj`.
    """
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(errors="replace")  # a terminal that lacks a character shows a mark
    try:
        return app(obj=started, standalone_mode=False) or 0
    except click.exceptions.Abort:
        return 130
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
