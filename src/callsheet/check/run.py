"""Checks recordings one after another, and tells what is found. What can't be read is told, not raised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import BinaryIO

from callsheet.check.baseline import Baseline, fingerprint_of
from callsheet.check.engine import Checker, collecting_seldom
from callsheet.check.finding import Finding, Rule
from callsheet.check.sources import Problem, Source, why
from callsheet.check.summary import Summary, tool_of
from callsheet.check.telling import Outcome, Recording, Teller
from callsheet.observe.events import CallClosed
from callsheet.observe.lines import read_lines
from callsheet.observe.model import ObservedCall, text

CLIENTS = ("zed", "toad", "acpx")
"""Rules were chosen by client before; here all that are given hold."""

Opened = Callable[[Source, BinaryIO], BinaryIO]
"""Is given each stream, and gives one to read instead: for those who count bytes."""


def check_all(
    sources: Iterable[Source | Problem],
    rules: Collection[Rule],
    tellers: Collection[Teller],
    *,
    baseline: Baseline | None = None,
    fingerprints: bool = False,
    opened: Opened | None = None,
) -> Outcome:
    """Check recordings, and give what came of it. Tellers are told on the way, but not to close.

    They are given fingerprints if that is asked for, or if there is a baseline.
    """
    outcome = Outcome(rules=tuple(rules), summary=Summary(rules))
    if fingerprints and baseline is None:
        baseline = Baseline()
    for source in sources:
        if isinstance(source, Problem):
            outcome.problems.append(source)
            continue
        try:
            with source.open() as stream, collecting_seldom():
                run = _Run(source.path, outcome, tellers, baseline)
                run.check(opened(source, stream) if opened else stream)
        except OSError as exc:
            if isinstance(exc, BrokenPipeError):
                raise  # nobody reads what we write
            outcome.problems.append(Problem(source.path, why(exc)))
    outcome.gone = baseline.gone({rule.id for rule in rules}) if baseline else ()
    return outcome


class _Run:
    """The check of one recording."""

    def __init__(
        self,
        path: str,
        outcome: Outcome,
        tellers: Collection[Teller],
        baseline: Baseline | None,
    ) -> None:
        self._recording: Recording = Recording(path=path)
        self._outcome: Outcome = outcome
        self._tellers: Collection[Teller] = tellers
        self._baseline: Baseline | None = baseline
        self._checker: Checker = Checker(outcome.rules, clients=CLIENTS, on_over=self._over)

    def check(self, stream: BinaryIO) -> None:
        """Read it to its end. What was found until it can't be read any further is told as well."""
        recording = self._recording
        self._outcome.summary.begin()
        if self._baseline is not None:
            self._baseline.begin(recording.path)
        for teller in self._tellers:
            teller.begin(recording.path)
        try:
            with collecting_seldom():
                for line in read_lines(stream):
                    for finding in self._checker.feed(line):
                        self._found(finding)
        except BrokenPipeError:
            raise
        except OSError:
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        recording, watch = self._recording, self._checker.watch
        for finding in self._checker.finish():
            self._found(finding)
        recording.protocol = watch.connection.version
        recording.agent = watch.connection.agent or None
        recording.calls, recording.lines = watch.calls, watch.line
        self._outcome.recordings += 1
        self._outcome.calls += watch.calls
        self._outcome.clean += not any(recording.found.values())
        for teller in self._tellers:
            teller.end(recording)

    def _over(self, over: CallClosed) -> None:
        self._outcome.summary.over(over)
        for teller in self._tellers:
            teller.over(over.call)

    def _found(self, finding: Finding) -> None:
        outcome, recording = self._outcome, self._recording
        outcome.summary.found(finding)
        call = self._call(finding)
        title = (text(call.fields.get("title")) or "") if call else ""
        fingerprint = ""
        if self._baseline is not None:
            fingerprint, is_known = self._compared(self._baseline, finding, call, title)
            if is_known:
                recording.known += 1
                outcome.known += 1
                return
        recording.found[finding.severity] += 1
        outcome.found[finding.severity] += 1
        for teller in self._tellers:
            teller.found(finding, title, fingerprint)

    def _compared(
        self, baseline: Baseline, finding: Finding, call: ObservedCall | None, title: str
    ) -> tuple[str, bool]:
        """Return a finding's fingerprint, and whether it is known."""
        path, tool = self._recording.path, tool_of(call) if call else ""
        agent = self._checker.watch.connection.agent
        cwd = (call.session.cwd or "") if call else ""
        fingerprint = fingerprint_of(finding, path, agent, tool, title, cwd)
        return fingerprint, baseline.knows(finding, fingerprint, path, tool)

    def _call(self, finding: Finding) -> ObservedCall | None:
        session = self._checker.watch.sessions.get(finding.session or "")
        return session.calls.get(finding.call or "") if session is not None else None
