"""Findings as JUnit's XML, which every CI shows: a suite for each recording, a test for each rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from xml.sax.saxutils import escape, quoteattr

from callsheet.check.as_json import told
from callsheet.check.finding import Finding, Rule
from callsheet.check.telling import Outcome, Recording, count
from callsheet.observe.model import ObservedCall

SHOWN = 50
"""Findings of one rule in one recording that are written out. The others are counted."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JunitTeller:
    """Writes suites as recordings are read."""

    def __init__(self, write: Callable[[str], object], rules: Collection[Rule]) -> None:
        self._write: Callable[[str], object] = write
        self._rules: Collection[Rule] = rules
        self._lines: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="callsheet check">\n')

    def begin(self, path: str) -> None:
        """Begin a suite."""
        del path
        self._lines, self._counts = {}, Counter()

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Keep a line of what is found."""
        del title, fingerprint
        self._counts[finding.rule] += 1
        lines = self._lines.setdefault(finding.rule, [])
        if len(lines) < SHOWN:
            parts = (f"line {finding.line}", finding.call, finding.field, finding.message)
            lines.append(": ".join(part for part in parts if part))

    def over(self, call: ObservedCall) -> None:
        """Need not be told."""

    def end(self, recording: Recording) -> None:
        """Write a suite."""
        name = _attribute(told(recording.path))
        tests, failures = len(self._rules), len(self._counts)
        self._write(
            f'<testsuite name={name} tests="{tests}" failures="{failures}" errors="0" skipped="0">\n'
        )
        for rule in self._rules:
            case = f"<testcase classname={name} name={_attribute(rule.id)}"
            failure = self._failure(rule)
            self._write(f"{case}>{failure}</testcase>\n" if failure else f"{case}/>\n")
        self._write("</testsuite>\n")

    def close(self, outcome: Outcome) -> None:
        """Write what could not be read, and the end."""
        if outcome.problems:
            number = len(outcome.problems)
            self._write(
                f'<testsuite name="unreadable" tests="{number}" failures="0" errors="{number}"'
                ' skipped="0">\n'
            )
            for problem in outcome.problems:
                case = f"<testcase classname={_attribute(told(problem.path))} name={_attribute('read')}>"
                error = f"<error message={_attribute(problem.message)}/>"
                self._write(f"{case}{error}</testcase>\n")
            self._write("</testsuite>\n")
        self._write("</testsuites>\n")

    def _failure(self, rule: Rule) -> str:
        number = self._counts[rule.id]
        if not number:
            return ""
        lines = list(self._lines[rule.id])
        if number > len(lines):
            lines.append(f"… and {number - len(lines):,} more")
        message = _attribute(f"{rule.title} ({count(number, 'finding')})")
        body = escape(_clean("\n".join((*lines, f"fix: {rule.fix}"))))
        return f'<failure message={message} type="{rule.severity}">{body}</failure>'


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Take out what XML has no way to say."""
    return _NOT_IN_XML.sub("�", text)
