"""`callsheet check`: what is wrong with recordings of tool calls.

As text, findings are grouped by recording and call, the worst first; advice stands below, once for each rule.
What repeats is folded: of each rule, the findings of a few calls are written out, and the others are counted.
`callsheet.check.output` has the formats for machines.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click

from callsheet import __version__
from callsheet.check.baseline import BadBaseline, Baseline
from callsheet.check.finding import CATEGORIES, SEVERITIES, CheckRule, Finding, Severity, shown
from callsheet.check.output import (
    CheckedRecording,
    CheckOutcome,
    FindingWriter,
    JsonWriter,
    JunitWriter,
    SarifWriter,
    totals,
)
from callsheet.check.rules import RULES
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
from callsheet.check.scorecard import HEADS, LEGEND, Scorecard, markdown, rows
from callsheet.cli.options import rule_options, usage_errors
from callsheet.cli.output import Page, Part, TableColumn, is_terminal, visible
from callsheet.cli.settings import use_rules
from callsheet.observe.lines import read_lines
from callsheet.observe.model import ObservedCall, text
from callsheet.report.humanize import plural
from callsheet.report.json import JsonObject, is_object

FORMATS = ("text", "json", "sarif", "junit", "markdown")
STYLES = {"error": "bold red", "warning": "yellow", "advice": "cyan"}

SHOWN = 3
"""Calls of a recording for which one rule's findings are written out; more are only counted."""

TOOLS = 8
LONGEST_TITLE = 70
LONGEST_EXCERPT = 60
SHORTEST_EXCERPT = 12

NARROW = 76
"""Columns of a terminal below which the score card has only the figures that are `ESSENTIAL`."""
ESSENTIAL = ("calls", "ended", "clean", "faulty", "leaks")

LARGEST_TO_QUOTE = 64 << 20
"""Bytes of a recording that is read once more for excerpts of what is wrong."""

Key = tuple[str | None, str | None, int]
"""A call: its session, its id, and the line on which it begins, because ids are used again."""

_USES = {2: "second use", 3: "third use"}


@click.command()
@click.argument("paths", nargs=-1, metavar="RECORDING…", type=click.Path())
@click.option(
    "--client",
    "clients",
    multiple=True,
    type=click.Choice(CLIENTS),
    help="Also find what this client would display wrongly. May be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    help="The form of the output. markdown: the score card, for a README or a comment.",
)
@rule_options(lambda: [*CATEGORIES, *(rule.id for rule in RULES)])
@click.option(
    "--severity",
    "least",
    type=click.Choice(SEVERITIES),
    default="advice",
    help="The lowest severity that is shown and counts for the exit code.",
)
@click.option("--all", "show_all", is_flag=True, help="Also write out repeated findings.")
@click.option("--card", is_flag=True, help="Show only the score card.")
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(),
    help="Show only findings that are not in this file.",
)
@click.option("--update-baseline", is_flag=True, help="Write the findings into that file.")
@click.option("--rules", "listing", is_flag=True, help="List all rules.")
def command(
    paths: tuple[str, ...],
    clients: tuple[str, ...],
    form: str,
    chosen: tuple[str, ...],
    ignored: tuple[str, ...],
    least: str,
    show_all: bool,
    card: bool,
    baseline: str | None,
    update_baseline: bool,
    explaining: str | None,
    listing: bool,
) -> int:
    """Find what is wrong with recordings of tool calls, from the recording alone.

    A RECORDING is a file, a directory with *.jsonl, *.ndjson and *.log files, or - for standard input.
    A RULE is an id (lifecycle/after-the-end) or a category (lifecycle). Exits with 0 if nothing is
    found, 1 if something is, and 2 if something can't be read or the usage is wrong.
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
    if card and form not in ("text", "markdown"):
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
    form: str, rules: tuple[CheckRule, ...], card: bool, show_all: bool, *, has_baseline: bool
) -> FindingWriter:
    write = sys.stdout.write
    if form == "json":
        return JsonWriter(write)
    if form == "sarif":
        return SarifWriter(write, rules, version=__version__, has_baseline=has_baseline)
    if form == "junit":
        return JunitWriter(write, rules)
    if form == "markdown" or card:
        return CardWriter(Page(), form)
    return TextWriter(Page(), rules, show_all=show_all)


def _settle(outcome: CheckOutcome, known: Baseline, path: str, update: bool) -> int:
    """Report what is gone, or write the baseline anew. Return the exit code."""
    if not update:
        if outcome.gone:
            gone = plural(sum(one.calls for one in outcome.gone), "known finding")
            click.echo(
                f"callsheet: {gone} of {visible(path)} can't be found any more; "
                "--update-baseline removes them",
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
    click.echo(f"callsheet: {visible(path)} now has {found}", err=True)
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


# Findings as text


class TextWriter(FindingWriter):
    """Write the findings of each recording when it is read: the worst first, advice last and in short.

    With `show_all`, everything is written out.
    """

    def __init__(self, page: Page, rules: tuple[CheckRule, ...], *, show_all: bool = False) -> None:
        self._page: Page = page
        self._fixes: dict[str, str] = {rule.id: rule.fix for rule in rules}
        """How to fix what breaks a rule, until it was shown."""
        self._all: bool = show_all
        self._groups: dict[Key, list[Finding]] = {}
        self._titles: dict[Key, str] = {}
        self._reused: set[Key] = set()
        self._shown: Counter[str] = Counter()
        self._folded: Counter[str] = Counter()
        self._advice: dict[str, list[Finding]] = {}

    def begin(self, path: str) -> None:
        """Forget the last recording."""
        del path
        for one in (self._groups, self._titles, self._reused, self._shown, self._folded):
            one.clear()
        self._advice.clear()

    def found(self, finding: Finding, first: int, fingerprint: str) -> None:
        """Store a finding to be written out, or count it."""
        del fingerprint
        key, rule = (finding.session, finding.call, first), finding.rule
        if finding.severity == "advice" and not self._all:
            self._advice.setdefault(rule, []).extend([] if self._shown[rule] else [finding])
            self._shown[rule] += 1
            return
        is_new = all(one.rule != rule for one in self._groups.get(key, ()))
        if not self._all and (not is_new or self._shown[rule] >= SHOWN):
            self._folded[rule] += 1
            return
        self._shown[rule] += 1
        self._groups.setdefault(key, []).append(finding)

    def over(self, call: ObservedCall) -> None:
        """Store the last title of a call, which is the most informative."""
        key = (call.session.id, call.id, call.first)
        if key in self._groups:
            self._titles[key] = text(call.fields.get("title")) or ""
            if call.is_reused:
                self._reused.add(key)

    def end(self, recording: CheckedRecording) -> None:
        """Write the recording, if there is something to report about it."""
        if not recording.has_messages or not (self._groups or self._advice):
            return
        facts = [visible(shown(recording.agent))] if recording.agent else []
        facts += [f"ACP {recording.protocol}"] if recording.protocol is not None else []
        facts.append(plural(recording.calls, "call"))
        facts += ["cut off in the last line"] if recording.is_cut else []
        self._page.line((visible(recording.path), "bold"), (f"  {', '.join(facts)}", "dim"))
        written = [*self._groups.values(), *self._advice.values()]
        excerpts = _lines_of(recording.path, {one.line for its in written for one in its})
        for key, findings in sorted(
            self._groups.items(), key=lambda item: min(map(_rank, item[1]))
        ):
            self._write_call(key)
            for finding in sorted(findings, key=_rank):
                self._write_finding(recording.path, finding, excerpts.get(finding.line))
        if self._folded:
            more = ", ".join(
                f"{number:,} × {rule}" for rule, number in sorted(self._folded.items())
            )
            self._page.line((f"… and {more} (--all writes them out)", "dim"), indent=2)
        if self._advice:
            self._page.line(("advice", "bold"), indent=2)
        for findings in self._advice.values():
            for finding in findings:
                self._write_finding(recording.path, finding, excerpts.get(finding.line))
        self._page.line()

    def close(self, outcome: CheckOutcome) -> None:
        """Write the score card, and the line at the end."""
        show_totals(self._page, outcome, TOOLS)

    def _write_call(self, key: Key) -> None:
        session, call, first = key
        if call is None:
            name = f"session {visible(session)}" if session else "the recording"
            self._page.line((name, "bold"), indent=2)
            return
        title = self._titles.get(key)
        name = visible(shown(title, LONGEST_TITLE)) if title else "a call without a title"
        uses = sorted(one[2] for one in self._groups if one[:2] == key[:2])
        use = uses.index(first) + 1
        again = f", {_USES.get(use, f'use {use}')}" if use > 1 else ""
        again = again or (", used again" if key in self._reused else "")
        style = "bold" if title else "italic"
        self._page.line((name, style), (f"  {visible(call)}{again}", "dim"), indent=2)

    def _write_finding(self, path: str, finding: Finding, message: JsonObject | None) -> None:
        style, is_advice = STYLES[finding.severity], finding.rule in self._advice
        number = self._shown[finding.rule]
        times = f" ({number:,} times)" if is_advice and number > 1 else ""
        self._page.line(
            (f"{finding.severity:<8}", style),
            (f"{finding.rule}  ", style.removeprefix("bold ")),
            (visible(finding.message), ""),
            (times, "dim"),
            indent=4,
            hang=8,
        )
        place = f"{visible(path)}:{finding.line}"
        field = f"  {visible(finding.field)}" if finding.field else ""
        room = self._page.width - len(f"{place}{field} = ") - 12
        excerpt = _excerpt(message, finding.field, min(room, LONGEST_EXCERPT))
        self._page.line((place, "cyan"), (f"{field}{excerpt}", "dim"), indent=12, wrap=False)
        if fix := "" if is_advice else self._fixes.pop(finding.rule, ""):
            self._page.line(("fix: ", "green"), (fix, ""), indent=12)


def _rank(finding: Finding) -> tuple[int, int]:
    """Return where a finding stands: by its severity, then by its line."""
    return SEVERITIES.index(finding.severity), finding.line


def _lines_of(path: str, wanted: set[int]) -> dict[int, JsonObject]:
    """Return the messages on some lines of a recording, for excerpts; none of what is large or no file."""
    found: dict[int, JsonObject] = {}
    with suppress(OSError):
        if Path(path).is_file() and Path(path).stat().st_size <= LARGEST_TO_QUOTE:
            with Path(path).open("rb") as stream:
                for line in read_lines(stream):
                    if line.number in wanted and line.message is not None:
                        found[line.number] = line.message
    return found


def _excerpt(message: JsonObject | None, field: str | None, room: int) -> str:
    """Return what stands in a field that breaks a rule, cut and without secrets; nothing without room."""
    value: Any = message
    names = (field or "").split(".")
    if names[0] == "update":
        names = ["params", *names]
    for name in names:
        value = value.get(name) if is_object(value) else None
    if value is None or room < SHORTEST_EXCERPT:
        return ""
    return f" = {visible(shown(json.dumps(value, ensure_ascii=False), room))}"


# The score card


class CardWriter(FindingWriter):
    """Shows the score card at the end, and nothing before: the other methods do nothing."""

    def __init__(self, page: Page, form: str) -> None:
        self._page: Page = page
        self._form: str = form

    def close(self, outcome: CheckOutcome) -> None:
        """Show the card."""
        if self._form == "markdown":
            sys.stdout.write(markdown(outcome.summary, totals(outcome)))
            return
        show_totals(self._page, outcome)


def show_totals(page: Page, outcome: CheckOutcome, most_tools: int | None = None) -> None:
    """Show the score card, and the line at the end."""
    if outcome.calls:
        show_card(page, outcome.summary, most_tools)
        page.line()
    if outcome.recordings or not outcome.problems:
        page.line((totals(outcome), "yellow" if outcome.findings else "green"))


def show_card(page: Page, summary: Scorecard, most_tools: int | None = None) -> None:
    """Show the score card; of each agent, only the tools that were called most."""
    heads = [n for n, head in enumerate(HEADS) if page.width >= NARROW or head in ESSENTIAL]
    columns = [TableColumn(fills=True)]
    columns += (TableColumn(HEADS[n].upper(), right=True) for n in heads)
    lines: list[list[str | Part]] = []
    for row in rows(summary, most_tools):
        style = "" if row.is_tool else "bold"
        name = (f"  {visible(row.name)}", "cyan") if row.is_tool else (visible(row.name), style)
        lines.append([name, *((row.cells[n], style) for n in heads)])
    page.table(columns, lines)
    if is_terminal():
        page.line((LEGEND, "dim"))


# Rules


def show_rules(page: Page, rules: tuple[CheckRule, ...]) -> None:
    """List rules: how bad it is to break each, what it is called, and what is wrong then."""
    found = [
        ((severity, STYLES[severity]), rule.id, (rule.title, "dim"))
        for severity in SEVERITIES
        for rule in rules
        if rule.severity == severity
    ]
    page.table((TableColumn(), TableColumn(), TableColumn(wraps=True)), found, header=False)


def explain(page: Page, rules: tuple[CheckRule, ...]) -> None:
    """Show for each rule what the protocol demands, the harm of breaking it, the fix, and an example."""
    for rule in rules:
        client = f", with --client {' or '.join(rule.clients)}" if rule.clients else ""
        page.rule(
            (rule.id, "bold"),
            (f"  {rule.severity}", STYLES[rule.severity]),
            (client, "dim"),
            title=rule.title,
            facts=(("Protocol:", rule.protocol), ("Why:", rule.harm), ("Fix:", rule.fix)),
            examples=[("Example:", rule.example)] if rule.example else (),
        )
