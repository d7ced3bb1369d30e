"""The commands, by name. Each is imported only to run it, because an editor waits for our start."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from callsheet import __version__

if TYPE_CHECKING:
    from callsheet.cli.start import StartedAgent

START = "Start here: callsheet demo"

GROUPS = {
    "Try it": {
        "demo": ("demo:command", "Watch a poor agent become a good one, in less than ten seconds."),
        "setup": ("setup:command", "Print or write the settings for your editor."),
        "doctor": ("doctor:command", "Show what is installed, found and wrong."),
    },
    "In your editor": {
        "tap": ("tap:tap", "Run any agent with complete, compact and safe reports."),
        "record": ("tap:record", "Run any agent and record its traffic, every byte unchanged."),
        "agent": ("agent:command", "Serve an editor that speaks ACP, on stdin and stdout."),
    },
    "Look at calls": {
        "view": (
            "view:command",
            "Look at a recording or a session: on the terminal, or as one page.",
        ),
        "ui": ("ui:command", "Look at all calls in a web browser, live."),
        "history": ("history:command", "List, search, count, export and prune the stored calls."),
        "collect": ("collect:command", "Collect the calls of many machines in one store."),
        "show": ("show:command", "Show everything known about one call."),
        "replay": ("replay:command", "Replay a session, as an editor would have received it."),
        "check": ("check:command", "Find what is wrong with a recording of tool calls."),
        "repair": ("tap:repair", "Write a recording as the tap would have shown it."),
    },
    "Write tools": {
        "call": ("call:command", "Run one tool and show what it does."),
        "tools": ("tools:command", "List the tools, what they do and their arguments."),
        "lint": ("lint:command", "Find tools that break the result standard."),
    },
}
"""The commands, in groups: `module:name` of each below `callsheet.cli`, and what it does."""


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports one only to run it.

    Args:
        lazy: By their names, `module:name` of each below `callsheet.cli`, and what it does.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        commands = [click.Command(name, short_help=text) for name, (_, text) in lazy.items()]
        super().__init__(*args, commands=commands, **options)
        self._lazy: Mapping[str, tuple[str, str]] = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(self._lazy)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the command that is named."""
        name, known, rest = super().resolve_command(ctx, args)
        if name is not None and known is not None:
            module, _, attribute = self._lazy[name][0].partition(":")
            known = getattr(import_module(f"callsheet.cli.{module}"), attribute)
        return name, known, rest


class AllCommands(LazyGroup):
    """The commands of `callsheet` itself, whose help has them in groups."""

    def format_commands(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands in groups, and which one to begin with."""
        has_colour = "NO_COLOR" not in os.environ
        formatter.write(f"\n{click.style(START, bold=True) if has_colour else START}\n")
        width = max(map(len, self.list_commands(ctx)))
        for title, commands in GROUPS.items():
            with formatter.section(click.style(title, "cyan") if has_colour else title):
                rows = [(name.ljust(width), text) for name, (_, text) in commands.items()]
                formatter.write_dl(rows)


@click.group(
    cls=AllCommands,
    no_args_is_help=False,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    lazy={name: found for group in GROUPS.values() for name, found in group.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="callsheet")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Complete, correct reports of what coding agents do, for any editor that speaks ACP."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), color=ctx.color)


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
