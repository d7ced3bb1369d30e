"""`callsheet show`: all that is known of one call."""

from __future__ import annotations

import click

from .histories.options import history_option


@click.command("show", context_settings={"max_content_width": 100})
@click.argument("call", metavar="ID")
@click.option("--session", metavar="S", help="Its session, where calls of several have this id.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["pretty", "json"]),
    default="pretty",
    show_default=True,
    help="pretty: for people. json: ACP's tool_call, and its terminals.",
)
@click.option("--full", is_flag=True, help="On a terminal, leave nothing out of a long output.")
@history_option
def command(call: str, session: str | None, format_: str, full: bool, url: str | None) -> int:
    """Show all that is known of one call.

    ID is a call's id, its beginning or its end, if no other call has the same, or last.
    """
    from .histories.one import show_call

    return show_call(url, call, session, as_json=format_ == "json", full=full)
