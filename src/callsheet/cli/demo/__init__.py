"""`callsheet demo`: a real agent and a real client over stdio, shown as cards.

`scenes` has the project they work on and what is done, `stage` plays and shows it, `summary` checks the
traffic with `callsheet.check`, and shows the calls, the checks, and how to go on.
"""

from __future__ import annotations

import sys

import click

from callsheet.cli.options import locale_option, protocol_option


@click.command()
@protocol_option("The version of ACP to speak.")
@locale_option
def command(protocol: str, locale: str | None) -> int:
    """Watch a real agent at work: a client and an agent over stdio, as cards.

    It takes about ten seconds, in a directory of its own that is removed afterwards. No model and no
    network are needed.

    \b
    Exit codes: 0 ok, 1 a check over the traffic failed, 2 bad usage, 130 interrupted.
    """
    from callsheet.cli.demo.stage import run

    return run(2 if protocol == "2" else 1, locale, sys.stdout)
