"""What those are told who show findings: text for people, JSON, SARIF and JUnit do it in their own ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from callsheet.check.finding import SEVERITIES, Finding, Rule, Severity
from callsheet.check.sources import Problem
from callsheet.check.summary import Summary
from callsheet.observe.model import ObservedCall


class Recording(Struct, kw_only=True):
    """A recording that was checked. `found` counts by severity what is shown of it."""

    path: str
    protocol: int | None = None
    agent: str | None = None
    calls: int = 0
    lines: int = 0
    found: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(SEVERITIES, 0))
    known: int = 0
    """What the baseline knows."""


class Known(Struct, frozen=True):
    """A finding that the baseline knows: in which recording, of which tool, on how many calls."""

    fingerprint: str
    rule: str
    recording: str
    tool: str
    calls: int = 1


class Outcome(Struct, kw_only=True):
    """What checking some recordings gave."""

    rules: tuple[Rule, ...]
    summary: Summary
    recordings: int = 0
    clean: int = 0
    calls: int = 0
    found: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(SEVERITIES, 0))
    known: int = 0
    gone: Sequence[Known] = ()
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def findings(self) -> int:
        """How many there are."""
        return sum(self.found.values())

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings, 2 something could not be read."""
        if self.problems:
            return 2
        return 1 if self.findings else 0


class Teller(Protocol):
    """Is told what is found, as it is found, and shows it."""

    def begin(self, path: str) -> None:
        """A recording is opened."""
        ...

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Something is wrong. `title` is that of the call by now, as the recording has it."""
        ...

    def over(self, call: ObservedCall) -> None:
        """A call is over."""
        ...

    def end(self, recording: Recording) -> None:
        """A recording is read."""
        ...

    def close(self, outcome: Outcome) -> None:
        """All are read."""
        ...


def totals(outcome: Outcome) -> str:
    """Return the line at the end of all."""
    read = f"{count(outcome.recordings, 'recording')}, {count(outcome.calls, 'call')}"
    known = f" {outcome.known:,} more are in the baseline." if outcome.known else ""
    if not outcome.findings:
        return f"{read}: nothing {'new ' if known else ''}found.{known}"
    words = {"error": "error", "warning": "warning", "advice": "piece of advice"}
    parts = [count(number, words[kind]) for kind, number in outcome.found.items() if number]
    return f"{read}: {', '.join(parts)}.{known}"


def count(number: int, thing: str) -> str:
    """Return a number of things."""
    if number == 1:
        return f"1 {thing}"
    plural = thing.replace("piece of", "pieces of") if " of " in thing else f"{thing}s"
    return f"{number:,} {plural}"
