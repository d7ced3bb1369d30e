"""`callsheet record`: any agent's traffic, recorded while every byte is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from callsheet.tap.recording import record

if TYPE_CHECKING:
    from callsheet.cli.start import StartedAgent


@click.command("record", context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Where to record to; one that is there is replaced. In a directory, each run gets a file.",
)
@click.argument("agent", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.pass_obj
def command(started: StartedAgent | None, output: str, agent: tuple[str, ...]) -> int:
    """Run any ACP agent and record its traffic, passing every byte on untouched.

    Put it in front of the agent's command in an editor's settings:

    \b
      callsheet record -o FILE -- my-agent --acp

    A recording holds all that went over the wire, secrets too. Only you can read the file; look at it
    before you give it to others. Exits as the agent does.
    """
    if output == "-":
        raise click.UsageError("stdout is the client's: name a file, such as -o traffic.jsonl")
    between = started.claim(agent) if started is not None else None
    return record(agent, output, between=between)
