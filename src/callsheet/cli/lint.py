"""`callsheet lint`: tools that break the result standard, as text for people or as JSON."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sys
import textwrap
from itertools import groupby
from pathlib import Path

import click

from callsheet.lint import LintFinding, LintRule, Outcome, lint_paths
from callsheet.lint.rules import names, select


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH…", type=click.Path(path_type=Path))
@click.option("--fix", is_flag=True, help="Rewrite results built by hand into the helpers.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing.")
@click.option("--select", "chosen", multiple=True, metavar="RULE,…", help="Only these rules.")
@click.option("--ignore", "ignored", multiple=True, metavar="RULE,…", help="All but these rules.")
@click.option("--explain", metavar="RULE", help="Say why a rule holds and how to obey it.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def command(
    paths: tuple[Path, ...],
    fix: bool,
    diff: bool,
    chosen: tuple[str, ...],
    ignored: tuple[str, ...],
    explain: str | None,
    form: str,
) -> int:
    """Find tools that break the result standard. Code is parsed, never imported.

    A RULE is an id (result/by-hand) or a category (result). Exits with 0 if nothing is found, 1 if
    findings are left, 2 if something can't be read or parsed.
    """
    if explain is not None:
        _explain(_rules_named([explain]))
        return 0
    if not paths:
        raise click.UsageError("name what to lint: callsheet lint PATH…")
    if diff and form == "json":
        raise click.UsageError("--diff shows a patch, which is no JSON: leave one of the two out")
    rules = select(_known(chosen), _known(ignored))
    outcome = lint_paths(paths, rules=rules, fix=fix or diff, write=not diff)
    if form == "json":
        click.echo(json.dumps(_as_json(outcome, rules), indent=2, ensure_ascii=False))
    elif diff:
        _show_diff(outcome)
    else:
        _show(outcome)
    for problem in outcome.problems:
        place = _place(problem.path, problem.line, problem.column)
        click.echo(f"callsheet: {place}{_harmless(problem.message)}", err=True)
    return outcome.exit_code


# Rules


def _known(given: tuple[str, ...]) -> frozenset[str]:
    """Return the rules and categories that are named, or refuse what is neither."""
    words = [word.strip().rstrip("/") for text in given for word in text.split(",")]
    for word in filter(None, words):
        if word not in names():
            near = difflib.get_close_matches(word, names(), n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(
                f"there is no rule {word!r}{hint}; there are {', '.join(names())}"
            )
    return frozenset(filter(None, words))


def _rules_named(given: list[str]) -> tuple[LintRule, ...]:
    return select(_known(tuple(given)), frozenset())


def _explain(rules: tuple[LintRule, ...]) -> None:
    for number, rule in enumerate(rules):
        if number:
            click.echo()
        _say(click.style(rule.id, bold=True) + f": {rule.title}")
        _say(f"\n{_wrap('Why: ' + rule.why)}\n\n{_wrap('Fix: ' + rule.fix)}")
        _say(f"\nBad:\n\n{_indent(rule.bad)}\nGood:\n\n{_indent(rule.good)}")


# Text for people


def _show(outcome: Outcome) -> None:
    found = sorted(outcome.findings, key=lambda finding: finding.path)
    explained: set[str] = set()
    for path, group in groupby(found, key=lambda finding: finding.path):
        for finding in sorted(group, key=lambda finding: (finding.line, finding.column)):
            _show_finding(path, finding, explained)
        click.echo()
    for finding in outcome.fixed:
        place = _place(finding.path, finding.line, finding.column)
        new = _harmless(finding.fix).removeprefix("write ")
        _say(f"{place}{click.style('fixed', fg='green')} {finding.rule}: {new}")
    if outcome.fixed:
        click.echo()
    _say(_summary(outcome))


def _show_finding(path: str, finding: LintFinding, explained: set[str]) -> None:
    """Show a finding; why its rule holds is said with the first one."""
    place = click.style(_place(path, finding.line, finding.column), bold=True)
    _say(f"{place}{click.style(finding.rule, fg='red')} {_harmless(finding.message)}")
    if finding.rule not in explained:
        explained.add(finding.rule)
        _say(click.style(_wrap(f"why: {finding.why}", "    "), dim=True))
    mark = click.style(" [--fix]", fg="cyan") if finding.fixable else ""
    _say(_wrap(f"fix: {_harmless(finding.fix)}", "    ") + mark)


def _show_diff(outcome: Outcome) -> None:
    for diff in outcome.diffs:
        for raw in diff.removesuffix("\n").split("\n"):
            line = _harmless(raw) if sys.stdout.isatty() else raw
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            _say(click.style(line, fg=colour) if colour else line)
    click.echo(_summary(outcome), err=True)


def _summary(outcome: Outcome) -> str:
    found, files = len(outcome.findings), _count(outcome.files, "file")
    done = f"{_count(len(outcome.fixed), 'finding')} mended, " if outcome.fixed else ""
    if not found:
        return click.style(f"{files}: {done}nothing {'left' if done else 'found'}.", fg="green")
    where = _count(len({finding.path for finding in outcome.findings}), "file")
    mendable = sum(finding.fixable for finding in outcome.findings)
    hint = f"; --fix can mend {mendable} of them" if mendable else ""
    left = " left" if done else ""
    return click.style(
        f"{files}: {done}{_count(found, 'finding')}{left} in {where}{hint}.", fg="yellow"
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _place(path: str, line: int | None, column: int | None) -> str:
    return f"{_harmless(path)}:{line}:{column}: " if line else ""


def _harmless(text: str) -> str:
    """Return text of somebody's code or file names so that a terminal shows it, and obeys nothing."""
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)


def _say(text: str) -> None:
    """Print; colours only reach a terminal whose user wants them."""
    click.echo(text, color=None if "NO_COLOR" not in os.environ else False)


def _wrap(text: str, indent: str = "") -> str:
    """Break a text where the terminal ends; into a pipe goes one line."""
    if not sys.stdout.isatty():
        return indent + text
    width = max(40, min(100, shutil.get_terminal_size().columns))
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}     ",
        break_long_words=False,
    )


def _indent(code: str) -> str:
    return textwrap.indent(code, "    ")


# JSON


def _as_json(outcome: Outcome, rules: tuple[LintRule, ...]) -> dict[str, object]:
    return {
        "files": outcome.files,
        "rules": [rule.id for rule in rules],
        "findings": [finding.to_dict() for finding in outcome.findings],
        "fixed": [finding.to_dict() for finding in outcome.fixed],
        "problems": [problem.to_dict() for problem in outcome.problems],
    }
