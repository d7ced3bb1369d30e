"""The text output of `callsheet check`: findings, the score card, and rules.

Findings are grouped by recording and call. What repeats is folded: of each rule, the findings of a few calls
are written out, and the others are counted. The formats for machines are in `callsheet.check`.
"""

from __future__ import annotations

import sys
from collections import Counter

from msgspec import Struct, field

from callsheet.check.finding import SEVERITIES, CheckRule, Finding, shown
from callsheet.check.output import CheckedRecording, CheckOutcome, FindingWriter, count, totals
from callsheet.check.scorecard import HEADS, Scorecard, markdown, rows
from callsheet.cli.output import Page, new_table, visible
from callsheet.observe.model import ObservedCall, text

STYLES = {"error": "bold red", "warning": "yellow", "advice": "cyan"}

SHOWN = 3
"""Calls of a recording for which one rule's findings are written out; more are only counted."""

TOOLS = 8
LONGEST_TITLE = 70

Key = tuple[str | None, str | None]
"""A call: its session and its id."""


class _Group(Struct):
    """What is written out of one call, and of each rule how many more findings there are in it."""

    title: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])
    more: Counter[str] = field(default_factory=Counter[str])


class TextWriter:
    """Write the findings of each recording when it is read. With `show_all`, nothing is folded."""

    def __init__(self, page: Page, rules: tuple[CheckRule, ...], *, show_all: bool = False) -> None:
        self._page: Page = page
        self._rules: dict[str, CheckRule] = {rule.id: rule for rule in rules}
        self._all: bool = show_all
        self._explained: set[str] = set()
        self._has_folded: bool = False
        self._groups: dict[Key, _Group] = {}
        self._shown: Counter[str] = Counter()
        self._folded: Counter[str] = Counter()

    def begin(self, path: str) -> None:
        """Forget the last recording."""
        del path
        self._groups, self._shown, self._folded = {}, Counter(), Counter()

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Store a finding to be written out, or count it."""
        del fingerprint
        key, rule = (finding.session, finding.call), finding.rule
        group = self._groups.get(key)
        if group is not None and title:
            group.title = title
        if not self._all and group and any(one.rule == rule for one in group.findings):
            group.more[rule] += 1
        elif not self._all and self._shown[rule] >= SHOWN:
            self._folded[rule] += 1
        else:
            self._shown[rule] += 1
            self._groups.setdefault(key, _Group(title)).findings.append(finding)

    def over(self, call: ObservedCall) -> None:
        """Store the last title of a call, which is the most informative."""
        group = self._groups.get((call.session.id, call.id))
        title = text(call.fields.get("title"))
        if group is not None and title:
            group.title = title

    def end(self, recording: CheckedRecording) -> None:
        """Write the recording, if there is something to report about it."""
        if not self._groups:
            return
        self._head(recording)
        for key, group in sorted(
            self._groups.items(), key=lambda item: min(one.line for one in item[1].findings)
        ):
            self._group(key, group)
        for rule, number in sorted(self._folded.items()):
            self._has_folded = True
            self._page.line((f"… and {number:,} more of {rule} in other calls", "dim"), indent=2)
        self._page.blank()

    def close(self, outcome: CheckOutcome) -> None:
        """Write the score card, and the line at the end."""
        if self._has_folded:
            self._page.line(("--all writes out what is folded.", "dim"))
            self._page.blank()
        show_totals(self._page, outcome, TOOLS)

    def _head(self, recording: CheckedRecording) -> None:
        facts = [visible(shown(recording.agent))] if recording.agent else []
        facts += [f"ACP {recording.protocol}"] if recording.protocol is not None else []
        facts.append(count(recording.calls, "call"))
        self._page.line((visible(recording.path), "bold"), (f"  {', '.join(facts)}", "dim"), hang=2)

    def _group(self, key: Key, group: _Group) -> None:
        session, call = key
        if call is not None:
            title = shown(group.title, LONGEST_TITLE) if group.title else "a call without a title"
            self._page.line(
                (visible(title), "bold" if group.title else "italic"),
                (f"  {visible(call)}", "dim"),
                indent=2,
                hang=2,
            )
        else:
            name = f"session {visible(session)}" if session else "the recording"
            self._page.line((name, "bold"), indent=2)
        for finding in sorted(group.findings, key=lambda finding: finding.line):
            self._finding(finding, group.more[finding.rule])

    def _finding(self, finding: Finding, more: int) -> None:
        style = STYLES[finding.severity]
        place = f"{visible(finding.field)}: " if finding.field else ""
        self._page.line(
            (f"line {finding.line} ", "dim"),
            (f"{finding.severity} ", style),
            (finding.rule, style.removeprefix("bold ")),
            (f" {place}", "dim"),
            (visible(finding.message), ""),
            indent=4,
            hang=4,
        )
        if more:
            self._page.line((f"… and {more:,} more in this call", "dim"), indent=8)
        if finding.rule not in self._explained:
            self._explained.add(finding.rule)
            fix = self._rules[finding.rule].fix if finding.rule in self._rules else ""
            self._page.line(("fix: ", "green"), (fix, ""), indent=8, hang=5)


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
        page.blank()
    page.line((totals(outcome), "yellow" if outcome.findings else "green"))


def show_card(page: Page, summary: Scorecard, most_tools: int | None = None) -> None:
    """Show the score card; of each agent, only the tools that were called most."""
    from rich.text import Text

    table = new_table(page.width)
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1, min_width=10)
    for head in HEADS:
        table.add_column(head.upper(), justify="right", no_wrap=True)
    for row in rows(summary, most_tools):
        name = f"  {visible(row.name)}" if row.is_tool else visible(row.name)
        style = "" if row.is_tool else "bold"
        table.add_row(Text(name, "cyan" if row.is_tool else style), *row.cells, style=style)
    page.print(table)


# Rules


def show_rules(page: Page, rules: tuple[CheckRule, ...]) -> None:
    """List rules: what each is called, and how bad it is to break it."""
    wide = max((len(rule.id) for rule in rules), default=0)
    for severity in SEVERITIES:
        for rule in (rule for rule in rules if rule.severity == severity):
            page.line(
                (f"{severity:8}", STYLES[severity]),
                (f"{rule.id:{wide}}  ", ""),
                (rule.title, "dim"),
                hang=wide + 10,
            )


def explain(page: Page, rules: tuple[CheckRule, ...]) -> None:
    """Show for each rule what the protocol demands, the harm of breaking it, the fix, and an example."""
    for number, rule in enumerate(rules):
        if number:
            page.blank()
        client = f", with --client {' or '.join(rule.clients)}" if rule.clients else ""
        page.line(
            (rule.id, "bold"),
            (f"  {rule.severity}", STYLES[rule.severity]),
            (client, "dim"),
        )
        page.line((f"{rule.title}.", ""))
        page.blank()
        facts = (("Protocol", rule.protocol), ("Why", rule.harm), ("Fix", rule.fix))
        for name, text_ in facts:
            page.line((f"{name + ':':10}", "bold"), (text_, ""), hang=10)
        if rule.example:
            page.blank()
            page.line(("Example:", "bold"))
            for line in rule.example.splitlines():
                page.line((line, "dim"), indent=2, hang=2)
