"""The text output of `callsheet check`: findings, the score card, and rules.

Findings are grouped by recording and call. What repeats is folded: of each rule, the findings of a few calls
are written out, and the others are counted. The formats for machines are in `callsheet.check`.
"""

from __future__ import annotations

import sys
from collections import Counter

from callsheet.check.finding import SEVERITIES, CheckRule, Finding, shown
from callsheet.check.output import CheckedRecording, CheckOutcome, FindingWriter, totals
from callsheet.check.scorecard import HEADS, Scorecard, markdown, rows
from callsheet.cli.output import Page, new_table, visible
from callsheet.observe.model import ObservedCall, text
from callsheet.report.humanize import plural

STYLES = {"error": "bold red", "warning": "yellow", "advice": "cyan"}

SHOWN = 3
"""Calls of a recording for which one rule's findings are written out; more are only counted."""

TOOLS = 8
LONGEST_TITLE = 70

Key = tuple[str | None, str | None]
"""A call: its session and its id."""


class TextWriter(FindingWriter):
    """Write the findings of each recording when it is read. With `show_all`, nothing is folded."""

    def __init__(self, page: Page, rules: tuple[CheckRule, ...], *, show_all: bool = False) -> None:
        self._page: Page = page
        self._fixes: dict[str, str] = {rule.id: rule.fix for rule in rules}
        """How to fix what breaks a rule, until it was shown."""
        self._all: bool = show_all
        self._has_folded: bool = False
        self._groups: dict[Key, list[Finding]] = {}
        self._titles: dict[Key, str] = {}
        self._shown: Counter[str] = Counter()
        self._folded: Counter[str] = Counter()

    def begin(self, path: str) -> None:
        """Forget the last recording."""
        del path
        for one in (self._groups, self._titles, self._shown, self._folded):
            one.clear()

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Store a finding to be written out, or count it."""
        del fingerprint
        key, rule = (finding.session, finding.call), finding.rule
        is_new = all(one.rule != rule for one in self._groups.get(key, ()))
        if not self._all and (not is_new or self._shown[rule] >= SHOWN):
            self._folded[rule] += 1
            return
        self._shown[rule] += 1
        self._groups.setdefault(key, []).append(finding)
        self._titles[key] = title or self._titles.get(key, "")

    def over(self, call: ObservedCall) -> None:
        """Store the last title of a call, which is the most informative."""
        key, title = (call.session.id, call.id), text(call.fields.get("title"))
        if key in self._titles and title:
            self._titles[key] = title

    def end(self, recording: CheckedRecording) -> None:
        """Write the recording, if there is something to report about it."""
        if not self._groups:
            return
        facts = [visible(shown(recording.agent))] if recording.agent else []
        facts += [f"ACP {recording.protocol}"] if recording.protocol is not None else []
        facts.append(plural(recording.calls, "call"))
        self._page.line((visible(recording.path), "bold"), (f"  {', '.join(facts)}", "dim"))
        for key, findings in sorted(
            self._groups.items(), key=lambda item: min(one.line for one in item[1])
        ):
            self._write_call(*key, self._titles[key])
            for finding in sorted(findings, key=lambda finding: finding.line):
                self._write_finding(finding)
        for rule, number in sorted(self._folded.items()):
            self._has_folded = True
            self._page.line((f"… and {number:,} more of {rule}", "dim"), indent=2)
        self._page.line()

    def close(self, outcome: CheckOutcome) -> None:
        """Write the score card, and the line at the end."""
        if self._has_folded:
            self._page.line(("--all writes out what is folded.", "dim"))
            self._page.line()
        show_totals(self._page, outcome, TOOLS)

    def _write_call(self, session: str | None, call: str | None, title: str) -> None:
        if call is None:
            name = f"session {visible(session)}" if session else "the recording"
            self._page.line((name, "bold"), indent=2)
            return
        name = visible(shown(title, LONGEST_TITLE)) if title else "a call without a title"
        style = "bold" if title else "italic"
        self._page.line((name, style), (f"  {visible(call)}", "dim"), indent=2)

    def _write_finding(self, finding: Finding) -> None:
        style = STYLES[finding.severity]
        place = f"{visible(finding.field)}: " if finding.field else ""
        self._page.line(
            (f"line {finding.line} ", "dim"),
            (f"{finding.severity} ", style),
            (finding.rule, style.removeprefix("bold ")),
            (f" {place}", "dim"),
            (visible(finding.message), ""),
            indent=4,
        )
        if fix := self._fixes.pop(finding.rule, ""):
            self._page.line(("fix: ", "green"), (fix, ""), indent=8)


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
    page.line((totals(outcome), "yellow" if outcome.findings else "green"))


def show_card(page: Page, summary: Scorecard, most_tools: int | None = None) -> None:
    """Show the score card; of each agent, only the tools that were called most."""
    from rich.table import Column
    from rich.text import Text

    columns = [Column("", no_wrap=True, overflow="ellipsis", ratio=1, min_width=10)]
    columns += [Column(head.upper(), justify="right", no_wrap=True) for head in HEADS]
    table = new_table(*columns, expand=page.is_terminal)
    for row in rows(summary, most_tools):
        name = f"  {visible(row.name)}" if row.is_tool else visible(row.name)
        style = "" if row.is_tool else "bold"
        table.add_row(Text(name, "cyan" if row.is_tool else style), *row.cells, style=style)
    page.print(table)


# Rules


def show_rules(page: Page, rules: tuple[CheckRule, ...]) -> None:
    """List rules: how bad it is to break each, what it is called, and what is wrong then."""
    from rich.table import Column

    table = new_table(Column(), Column(no_wrap=True), Column(), expand=False, show_header=False)
    for severity in SEVERITIES:
        for rule in (rule for rule in rules if rule.severity == severity):
            table.add_row(f"[{STYLES[severity]}]{severity}", rule.id, f"[dim]{rule.title}")
    page.print(table)


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
