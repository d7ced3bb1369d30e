"""`callsheet agent`: the ACP agent on stdio."""

from __future__ import annotations

import click


@click.command("agent")
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    default="1",
    help="The newest version of ACP to speak.",
)
@click.option(
    "--permission",
    type=click.Choice(["ask", "allow", "deny"]),
    default="ask",
    help="What happens to calls that need permission.",
)
@click.option("--locale", help="The language of titles.")
def command(protocol: str, permission: str, locale: str | None) -> int:
    """Serve an editor that speaks ACP, on stdin and stdout."""
    from callsheet.agent.agent import AgentSettings
    from callsheet.agent.brains.palette import Palette
    from callsheet.agent.serve import serve

    settings = AgentSettings(
        brain=Palette,
        protocol=2 if protocol == "2" else 1,
        permission=permission,  # pyright: ignore[reportArgumentType] - click has checked it
        locale=locale,
    )
    return serve(settings)
