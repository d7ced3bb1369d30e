"""Findings in words, for those whose test has failed by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from callsheet.check.finding import SEVERITIES, Finding
from callsheet.check.output import count
from callsheet.check.rules import RULES


def told(findings: Sequence[Finding]) -> Iterator[str]:
    """Return each finding with its line, call and rule; and what to do about it, once for each rule."""
    fixes = {rule.id: rule.fix for rule in RULES}
    for finding in findings:
        yield f"line {finding.line}{_where(finding)}: {finding.severity} {finding.rule}"
        yield f"  {finding.message}"
        fix = fixes.pop(finding.rule, None)
        if fix is not None:
            yield f"  To mend it: {fix}"


def summed_up(findings: Sequence[Finding]) -> str:
    """Return how many there are."""
    by = Counter(finding.severity for finding in findings)
    parts = ", ".join(f"{by[one]} {one}" for one in SEVERITIES if by[one])
    return f"{count(len(findings), 'finding')} ({parts})"


def _where(finding: Finding) -> str:
    field = f", {finding.field}" if finding.field else ""
    return f", call {finding.call}{field}" if finding.call else field
