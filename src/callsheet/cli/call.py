"""`callsheet call`: runs one tool and shows what it does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import click

from callsheet.describe.locales import LOCALES, has_locale

from .calls.toolbox import own_tools, registry_of, tool_named
from .calls.values import arguments_from


@click.command(context_settings={"max_content_width": 100})
@click.argument("name", metavar="TOOL")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--json", "given", metavar="{…}", help="Arguments as a JSON object; @FILE or - reads it."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["pretty", "acp", "result"]),
    default="pretty",
    show_default=True,
    help="pretty: for people. acp: the session/update lines. result: the ToolResult as JSON.",
)
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    default="1",
    show_default=True,
    help="The version of ACP for --format acp.",
)
@click.option("--locale", help=f"The language of titles: {', '.join(LOCALES)}.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The directory to work in. Going outside needs your permission.",
)
@click.option("--timeout", type=float, metavar="S", help="Seconds after which the tool is stopped.")
@click.option("--tools", "file", metavar="FILE.py", help="A Python file with tools of your own.")
@click.option(
    "--history", metavar="URL", help="Where the call is kept: sqlite:///PATH, postgresql://…, off."
)
def command(
    name: str,
    pairs: tuple[str, ...],
    given: str | None,
    format_: str,
    protocol: str,
    locale: str | None,
    cwd: str,
    timeout: float | None,
    file: str | None,
    history: str | None,
) -> int:
    """Run one tool and show what it does.

    A VALUE is JSON where that is what the tool asks for (limit=5, ignore_case=true, env='{"A":"1"}'),
    else text. KEY=VALUE wins over --json. `callsheet tools` lists the tools and their arguments.

    You type it, so you permit it: inside --cwd, nothing is asked. What is shown has secrets taken out;
    --format result gives just what the tool gave.

    \b
    Exit codes: 0 ok, 1 the tool failed (or was stopped, because nobody reads its output any more),
    2 bad usage, 130 interrupted.
    """
    _check_options(locale, timeout)
    tools = own_tools(file)
    tool = tool_named(name, registry_of(tools))
    arguments = arguments_from(pairs, given, tool.schema)

    from callsheet.tools.errors import ToolError

    from .calls.keeping import check_flag
    from .calls.running import Format, Plan, check, run
    from .redaction import use_rules_or_exit

    check_flag(history)
    try:
        check(tool, arguments)
    except ToolError as exc:
        raise click.UsageError(str(exc)) from None
    format_ = cast("Format", format_)
    where = str(Path(cwd).absolute())
    use_rules_or_exit(where)
    plan = Plan(tool, arguments, tools, format_, int(protocol), locale, where, timeout, history)
    return run(plan)


def _check_options(locale: str | None, timeout: float | None) -> None:
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise click.BadParameter(f"{timeout:g}: expected seconds above 0", param_hint="'--timeout'")
    if locale is not None and not has_locale(locale):
        raise click.BadParameter(
            f"{locale!r}: expected one of {', '.join(LOCALES)}", param_hint="'--locale'"
        )
