"""`callsheet check`: what is wrong with recordings of tool calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click

from callsheet import __version__
from callsheet.check.baseline import BadBaseline, Baseline
from callsheet.check.finding import SEVERITIES, CheckRule, Severity
from callsheet.check.output import (
    CheckOutcome,
    FindingWriter,
    JsonWriter,
    JunitWriter,
    SarifWriter,
)
from callsheet.check.runner import (
    CLIENTS,
    UnknownRule,
    check_all,
    choose,
    explained,
    find,
    named,
    why,
)
from callsheet.cli.check_output import CardWriter, TextWriter, explain, show_rules
from callsheet.cli.options import usage_errors
from callsheet.cli.output import Page, visible
from callsheet.cli.settings import use_rules
from callsheet.report.humanize import plural

FORMATS = ("text", "json", "sarif", "junit")


@click.command()
@click.argument("paths", nargs=-1, metavar="RECORDING…")
@click.option(
    "--client",
    "clients",
    multiple=True,
    type=click.Choice(CLIENTS),
    help="Also find what this client would show wrongly. May be repeated.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text")
@click.option("--select", "chosen", multiple=True, metavar="RULE,…", help="Only these rules.")
@click.option("--ignore", "ignored", multiple=True, metavar="RULE,…", help="All but these rules.")
@click.option(
    "--severity",
    "least",
    type=click.Choice(SEVERITIES),
    default="advice",
    help="The least that is shown, and counts for the exit code.",
)
@click.option("--all", "show_all", is_flag=True, help="Write out what repeats, too.")
@click.option(
    "--card",
    type=click.Choice(["text", "markdown"]),
    is_flag=False,
    flag_value="text",
    help="Show the score card only: as text, which is the default, or for a README.",
)
@click.option("--baseline", metavar="FILE", help="Show only what is not known by this file.")
@click.option("--update-baseline", is_flag=True, help="Write what is found into that file.")
@click.option(
    "--explain",
    "explaining",
    metavar="RULE",
    help="Explain a rule, a category, or all.",
)
@click.option("--rules", "listing", is_flag=True, help="List all rules.")
def command(
    paths: tuple[str, ...],
    clients: tuple[str, ...],
    form: str,
    chosen: tuple[str, ...],
    ignored: tuple[str, ...],
    least: str,
    show_all: bool,
    card: str | None,
    baseline: str | None,
    update_baseline: bool,
    explaining: str | None,
    listing: bool,
) -> int:
    """Find what is wrong with recordings of tool calls, from what was recorded alone.

    A RECORDING is a file, a directory with *.jsonl, *.ndjson and *.log files, or - for standard input.
    A RULE is an id (lifecycle/after-the-end) or a category (lifecycle). Exits with 0 if nothing is
    found, 1 if something is, and 2 if something can't be read or was asked for wrongly.
    """
    try:
        if explaining is not None:
            explain(Page(), explained(explaining))
            return 0
        rules = choose(
            chosen=named(chosen),
            ignored=named(ignored),
            clients=clients,
            least=cast("Severity", least),
        )
    except UnknownRule as exc:
        raise click.UsageError(str(exc)) from None
    if listing:
        show_rules(Page(), choose(clients=CLIENTS))
        return 0
    if not paths:
        raise click.UsageError("name a recording: callsheet check RECORDING…, or - for stdin")
    if not rules:
        raise click.UsageError("no rule is left by --select, --ignore and --severity")
    if card and form != "text":
        raise click.UsageError(f"the score card is text: leave out --format {form}")
    if update_baseline and not baseline:
        raise click.UsageError("name the file, too: --baseline FILE --update-baseline")
    with usage_errors():
        use_rules()
    known = read_baseline(baseline, may_be_new=update_baseline) if baseline else None
    writer = _writer(form, rules, card, show_all, has_baseline=known is not None)
    outcome = check_all(
        find(list(paths), sys.stdin.buffer),
        rules,
        [writer],
        baseline=known,
        fingerprints=form == "sarif",
    )
    writer.close(outcome)
    for problem in outcome.problems:
        click.echo(f"callsheet: {visible(problem.path)}: {problem.message}", err=True)
    if known is not None and baseline is not None:
        return _settle(outcome, known, baseline, update_baseline)
    return outcome.exit_code


def _writer(
    form: str, rules: tuple[CheckRule, ...], card: str | None, show_all: bool, *, has_baseline: bool
) -> FindingWriter:
    write = sys.stdout.write
    if form == "json":
        return JsonWriter(write)
    if form == "sarif":
        return SarifWriter(write, rules, version=__version__, has_baseline=has_baseline)
    if form == "junit":
        return JunitWriter(write, rules)
    return CardWriter(Page(), card) if card else TextWriter(Page(), rules, show_all=show_all)


def _settle(outcome: CheckOutcome, known: Baseline, path: str, update: bool) -> int:
    """Report what is gone, or write the baseline anew. Return the exit code."""
    if not update:
        if outcome.gone:
            gone = plural(sum(one.calls for one in outcome.gone), "known finding")
            click.echo(
                f"callsheet: {gone} of {visible(path)} can't be found any more; "
                "--update-baseline forgets them",
                err=True,
            )
            for one in outcome.gone[:10]:
                click.echo(f"  gone: {one.rule} in {visible(one.recording)}", err=True)
        return outcome.exit_code
    try:
        Path(path).write_bytes(known.updated({rule.id for rule in outcome.rules}))
    except OSError as exc:
        raise click.UsageError(f"{path}: {why(exc)}") from None
    found = plural(outcome.findings + outcome.known, "finding")
    click.echo(f"callsheet: {visible(path)} knows {found} now", err=True)
    return 2 if outcome.problems else 0


def read_baseline(path: str, *, may_be_new: bool) -> Baseline:
    """Read a baseline. One that is to be written may not be there yet."""
    try:
        return Baseline.read(Path(path).read_bytes())
    except FileNotFoundError:
        if may_be_new:
            return Baseline()
        raise click.UsageError(f"there is no baseline {path}; --update-baseline makes it") from None
    except (OSError, BadBaseline) as exc:
        raise click.UsageError(f"{path}: {why(exc)}") from None
