"""`callsheet demo`: a real agent and a real client over stdio, shown as cards.

`project` makes what they work on, `scenes` says what is done, `stage` does it and shows it. Then
`checks` looks at the traffic that was recorded, `tally` counts it, `summary` shows both, and
`editors` says how to go on.
"""

from __future__ import annotations

import sys

import click

from callsheet.describe.locales import LOCALES


@click.command()
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    default="1",
    show_default=True,
    help="The version of ACP to speak.",
)
@click.option("--locale", help=f"The language of titles: {', '.join(LOCALES)}.")
def command(protocol: str, locale: str | None) -> int:
    """Watch a real agent at work: a client and an agent over stdio, as cards.

    It takes about ten seconds, in a directory of its own that is removed afterwards. No model and no
    network are needed.

    \b
    Exit codes: 0 ok, 1 a check over the traffic failed, 2 bad usage, 130 interrupted.
    """
    known = {name.partition("_")[0] for name in LOCALES}
    if locale is not None and locale.replace("-", "_").partition("_")[0].lower() not in known:
        raise click.BadParameter(
            f"{locale!r}: expected one of {', '.join(LOCALES)}", param_hint="'--locale'"
        )
    from .stage import run

    return run(2 if protocol == "2" else 1, locale, sys.stdout)
