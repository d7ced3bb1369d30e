"""`callsheet replay`: a session told again."""

from __future__ import annotations

import click

from .histories.options import history_option


@click.command("replay", context_settings={"max_content_width": 100})
@click.argument("session", metavar="SESSION")
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    default="1",
    show_default=True,
    help="The version of ACP.",
)
@click.option(
    "--terminals",
    type=click.Choice(["text", "meta"]),
    default="text",
    show_default=True,
    help="How a client of version 1 is shown live output: as text, or by _meta.terminal_output.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["acp", "pretty"]),
    default="acp",
    show_default=True,
    help="acp: the session/update lines. pretty: for people.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="N times as fast as it was; without, at once. No pause is longer than 3 s.",
)
@history_option
def command(
    session: str, protocol: str, terminals: str, format_: str, speed: float | None, url: str | None
) -> int:
    """Tell a session again: just the lines that a client is sent when it loads the session.

    SESSION is its id, its beginning or its end, if no other has the same, or last;
    `callsheet history sessions` lists them.
    """
    from .histories.telling import Telling, tell

    return tell(Telling(url, session, int(protocol), terminals, format_ == "pretty", speed))
