"""`callsheet lint`: report tools that break the result standard, as text or as JSON."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from pathlib import Path

import click

from callsheet.cli.output import Page, Part, visible, write_json
from callsheet.lint import LintFinding, LintRule, Outcome, lint_paths
from callsheet.lint.rules import names, select
from callsheet.report.humanize import plural


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH…", type=click.Path(path_type=Path))
@click.option("--fix", is_flag=True, help="Rewrite results built by hand into the helpers.")
@click.option("--select", "chosen", multiple=True, metavar="RULE,…", help="Only these rules.")
@click.option("--ignore", "ignored", multiple=True, metavar="RULE,…", help="All but these rules.")
@click.option("--explain", metavar="RULE", help="Explain a rule: why it holds, and how to obey it.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def command(
    paths: tuple[Path, ...],
    fix: bool,
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
        for rule in select(_known((explain,)), frozenset()):
            facts = ("Why:", rule.why), ("Fix:", rule.fix)
            examples = ("Bad:", rule.bad), ("Good:", rule.good)
            Page().rule((rule.id, "bold"), title=rule.title, facts=facts, examples=examples)
        return 0
    if not paths:
        raise click.UsageError("name what to lint: callsheet lint PATH…")
    rules = select(_known(chosen), _known(ignored))
    outcome = lint_paths(paths, rules=rules, fix=fix)
    if form == "json":
        write_json(_as_json(outcome, rules))
    else:
        _show(Page(), outcome)
    for problem in outcome.problems:
        place = _place(problem.path, problem.line, problem.column)
        click.echo(f"callsheet: {place}{visible(problem.message)}", err=True)
    return outcome.exit_code


def _known(named: tuple[str, ...]) -> frozenset[str]:
    """Return the rules and categories that are named, or refuse what is neither."""
    words = [word.strip().rstrip("/") for text in named for word in text.split(",")]
    for word in filter(None, words):
        if word not in names():
            near = difflib.get_close_matches(word, names(), n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(
                f"there is no rule {word!r}{hint}; there are {', '.join(names())}"
            )
    return frozenset(filter(None, words))


def _show(page: Page, outcome: Outcome) -> None:
    explained: set[str] = set()
    last = ""
    for finding in sorted(outcome.findings, key=lambda one: (one.path, one.line, one.column)):
        if last and finding.path != last:
            page.line()
        last = finding.path
        _show_finding(page, finding, explained)
    if outcome.findings:
        page.line()
    for finding in outcome.fixed:
        place = _place(finding.path, finding.line, finding.column)
        new = visible(finding.fix).removeprefix("write ")
        parts = (place, ""), ("fixed", "green"), (f" {finding.rule}: {new}", "")
        page.line(*parts, wrap=False)
    if outcome.fixed:
        page.line()
    page.line(_summary(outcome))


def _show_finding(page: Page, finding: LintFinding, explained: set[str]) -> None:
    """Show a finding; why its rule holds is shown with the first one."""
    page.line(
        (_place(finding.path, finding.line, finding.column), "bold"),
        (finding.rule, "red"),
        (f" {visible(finding.message)}", ""),
        wrap=False,
    )
    if finding.rule not in explained:
        explained.add(finding.rule)
        page.line((f"why: {finding.why}", "dim"), indent=4)
    mark = " [--fix]" if finding.fixable else ""
    page.line((f"fix: {visible(finding.fix)}", ""), (mark, "cyan"), indent=4)


def _summary(outcome: Outcome) -> Part:
    found, files = len(outcome.findings), plural(outcome.files, "file")
    done = f"{plural(len(outcome.fixed), 'finding')} fixed, " if outcome.fixed else ""
    if not found:
        return f"{files}: {done}nothing {'left' if done else 'found'}.", "green"
    where = plural(len({finding.path for finding in outcome.findings}), "file")
    fixable = sum(finding.fixable for finding in outcome.findings)
    hint = f"; --fix can fix {fixable} of them" if fixable else ""
    left = " left" if done else ""
    return f"{files}: {done}{plural(found, 'finding')}{left} in {where}{hint}.", "yellow"


def _place(path: str, line: int | None, column: int | None) -> str:
    return f"{visible(path)}:{line}:{column}: " if line else ""


def _as_json(outcome: Outcome, rules: tuple[LintRule, ...]) -> dict[str, object]:
    return {
        "files": outcome.files,
        "rules": [rule.id for rule in rules],
        "findings": [finding.to_dict() for finding in outcome.findings],
        "fixed": [finding.to_dict() for finding in outcome.fixed],
        "problems": [asdict(problem) for problem in outcome.problems],
    }
