"""`callsheet tap`: stands in front of any agent and makes its reports complete, slim and safe."""

from __future__ import annotations

import click

from callsheet.tap.context import TapSettings
from callsheet.tap.live import say, tap

from .keeping import keeping
from .redaction import use_rules_or_exit
from .taps import apart, known, told


def _refuse_protocol_to(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Say what to do instead: editors' settings may still have the option."""
    del context, option
    if value is not None:
        raise click.UsageError(
            "--protocol-to was removed: the tap no longer translates between versions of ACP. "
            "Leave it out, and start the agent in the version that the editor speaks; "
            "the tap speaks 1 and 2, whichever they agree on."
        )


@click.command("tap", context_settings={"max_content_width": 100, "allow_interspersed_args": False})
@click.option(
    "--history",
    metavar="URL",
    help="Where calls are kept: sqlite:///PATH, postgresql://…, or off. Else CALLSHEET_HISTORY says it.",
)
@click.option(
    "--record",
    metavar="FILE",
    help="Record what the editor sees, without secrets. In a directory, each run gets a file.",
)
@click.option(
    "--report", metavar="FILE", help="Where to tell at the end what was done. Else stderr."
)
@click.option(
    "--protocol-to",
    hidden=True,
    expose_value=False,
    callback=_refuse_protocol_to,
)
@click.option("--locale", metavar="xx", help="The language of titles, such as de or pt_BR.")
@click.option(
    "--no-repair", is_flag=True, help="Leave the agent's reports as they are, but for secrets."
)
@click.option("--no-redact", is_flag=True, help="Show secrets in the clear.")
@click.option("--no-bound", is_flag=True, help="Let messages be as long as they are.")
@click.argument("agent", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
def command(
    history: str | None,
    record: str | None,
    report: str | None,
    locale: str | None,
    no_repair: bool,
    no_redact: bool,
    no_bound: bool,
    agent: tuple[str, ...],
) -> int:
    """Stand in front of any ACP agent, and make its reports of tool calls complete, slim and safe.

    Put it in front of the agent's command in an editor's settings:

    \b
      callsheet tap -- my-agent --acp

    Exits as the agent does.
    """
    from callsheet.agent.startup import BadStart

    if record == "-" or report == "-":
        raise click.UsageError("stdout is the client's: name a file, such as traffic.jsonl")
    apart(recording=record, report=report)
    settings = TapSettings(
        repair=not no_repair,
        redact=not no_redact,
        bound=not no_bound,
        locale=known(locale),
    )
    use_rules_or_exit()
    try:
        kept = keeping(history)
    except BadStart as exc:
        raise click.UsageError(str(exc)) from None
    code, account = tap(agent, settings, history=kept, record=record)
    if account is not None:
        told(account, report, say)
    return code
