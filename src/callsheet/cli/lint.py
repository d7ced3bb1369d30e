"""`callsheet lint`: report tools that break at import, or break the result standard, as text or as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from callsheet.cli.options import rule_options, usage_errors
from callsheet.cli.output import Page, visible, write_json
from callsheet.cli.settings import lint_settings
from callsheet.lint import RULES, LintFinding, LintRule, Outcome, lint_paths
from callsheet.lint.linter import CannotLint
from callsheet.report.humanize import plural

NAMES = {name for rule in RULES for name in (rule.id, rule.category)}


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH…", type=click.Path(path_type=Path))
@click.option("--fix", is_flag=True, help="Rewrite results built by hand to use the helpers.")
@rule_options(lambda: NAMES)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def command(
    paths: tuple[Path, ...],
    fix: bool,
    chosen: tuple[str, ...],
    ignored: tuple[str, ...],
    explaining: str | None,
    form: str,
) -> int:
    """Find tools that break at import, or break the result standard. Code is parsed, never imported.

    A RULE is an id (result/by-hand) or a category (result). Settings are in [tool.callsheet.lint] of the
    nearest pyproject.toml: select, ignore, exclude. Exits with 0 if nothing is found, 1 if
    findings are left, 2 if something can't be read or parsed.
    """
    if explaining is not None:
        for rule in RULES if explaining == "all" else _chosen((explaining,)):
            facts = ("Why:", rule.why), ("Fix:", rule.fix)
            examples = ("Bad:", rule.bad), ("Good:", rule.good)
            Page().rule((rule.id, "bold"), title=rule.title, facts=facts, examples=examples)
        return 0
    if not paths:
        raise click.UsageError("name what to lint: callsheet lint PATH…")
    with usage_errors():
        settings, base = lint_settings()
    dropped = _listed("ignore", ignored, settings.ignore)
    wanted = _listed("select", chosen, settings.select) or RULES
    rules = tuple(rule for rule in wanted if rule not in dropped)
    outcome = lint_paths(paths, rules=rules, fix=fix, exclude=settings.exclude, base=base)
    if form == "json":
        write_json(_as_json(outcome, rules))
    elif outcome.files:
        _show(Page(), outcome)
    elif not outcome.problems:
        named = ", ".join(map(visible, map(str, paths)))
        click.echo(f"callsheet: there are no Python files in {named}", err=True)
    for problem in outcome.problems:
        click.echo(f"callsheet: {_place(problem)}{visible(problem.message)}", err=True)
    return outcome.exit_code


def _listed(key: str, named: tuple[str, ...], settings: Sequence[str]) -> tuple[LintRule, ...]:
    """Return the rules that are named on the command line, else those of the settings."""
    if named or not settings:
        return _chosen(named)
    try:
        return _chosen(tuple(settings))
    except click.UsageError as exc:
        raise click.UsageError(f"[tool.callsheet.lint] {key}: {exc.message}") from None


def _chosen(named: tuple[str, ...]) -> tuple[LintRule, ...]:
    """Return the rules that are named by id or category. Refuse what is no rule."""
    words = {word.strip().rstrip("/") for text in named for word in text.split(",")} - {""}
    for word in sorted(words - NAMES):
        near = difflib.get_close_matches(word, NAMES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        ids = ", ".join(rule.id for rule in RULES)
        raise click.UsageError(f"there is no rule {word!r}{hint}; there are {ids}")
    return tuple(rule for rule in RULES if words & {rule.id, rule.category})


def _show(page: Page, outcome: Outcome) -> None:
    """Show what was found, where, and what to do; `--explain` tells why."""
    for finding in sorted(outcome.findings, key=lambda one: (one.path, one.line, one.column)):
        place, mark = _place(finding), "" if finding.new is None else " [--fix]"
        parts = (place, "bold"), (finding.rule, "red"), (f" {visible(finding.message)}", "")
        page.line(*parts, wrap=False)
        page.line((f"fix: {visible(finding.fix)}", ""), (mark, "cyan"), indent=4)
    for finding in outcome.fixed:
        new = visible(finding.fix).removeprefix("write ")
        parts = (_place(finding), ""), ("fixed", "green"), (f" {finding.rule}: {new}", "")
        page.line(*parts, wrap=False)
    if outcome.findings or outcome.fixed:
        page.line()
    counts = [f"{plural(len(outcome.fixed), 'finding')} fixed"] if outcome.fixed else []
    if outcome.findings:
        fixable = sum(finding.new is not None for finding in outcome.findings)
        hint = f", of which --fix can fix {fixable}" if fixable else ""
        counts.append(f"{plural(len(outcome.findings), 'finding')}{hint}")
    text = ", ".join(counts) or "nothing found"
    style = "yellow" if outcome.findings else "green"
    page.line((f"{plural(outcome.files, 'file')}: {text}.", style))


def _place(one: LintFinding | CannotLint) -> str:
    return f"{visible(one.path)}:" + (f"{one.line}:{one.column}: " if one.line else " ")


def _as_json(outcome: Outcome, rules: tuple[LintRule, ...]) -> dict[str, object]:
    return {
        "files": outcome.files,
        "rules": [rule.id for rule in rules],
        "findings": [finding.to_dict() for finding in outcome.findings],
        "fixed": [finding.to_dict() for finding in outcome.fixed],
        "problems": [asdict(problem) for problem in outcome.problems],
    }
