"""Checks a recording: lines in, findings out, in the order of the lines."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from callsheet.check.finding import Answer, Finding, Rule, Said
from callsheet.check.quoting import safe
from callsheet.check.rules import RULES
from callsheet.observe.events import (
    CallBegan,
    CallClosed,
    CallLeftOpen,
    LargeMessage,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    SessionUpdated,
    TerminalUpdated,
    TurnEnded,
    UnopenedSession,
    UpdateApplied,
    UpdateArrived,
)
from callsheet.observe.lines import RecordedLine, read_lines
from callsheet.observe.model import UsedIds
from callsheet.observe.tracker import Tracker


class Checker:
    """Checks one recording. `clients` are those whose own rules hold, too.

    `on_over` is told of each call that is over, after its findings.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = RULES,
        *,
        clients: Iterable[str] = (),
        on_over: Callable[[CallClosed], None] | None = None,
    ) -> None:
        wanted = set(clients)
        self.watch: Tracker = Tracker()
        self._on_over: Callable[[CallClosed], None] | None = on_over
        self._said: UsedIds = UsedIds()
        self._rules: dict[type, list[tuple[Rule, Callable[[Any], Answer]]]] = {}
        for rule in rules:
            if not rule.clients or wanted.intersection(rule.clients):
                for kind in rule.moment if isinstance(rule.moment, tuple) else (rule.moment,):
                    self._rules.setdefault(kind, []).append((rule, rule.check))

    def feed(self, line: RecordedLine) -> Iterator[Finding]:
        """Take in a line, and give what is wrong with it, and with what is over by it."""
        return self._judge(self.watch.feed(line))

    def finish(self) -> Iterator[Finding]:
        """Return what is wrong with what is over, now that the recording is."""
        return self._judge(self.watch.finish())

    def _judge(self, moments: Iterable[Any]) -> Iterator[Finding]:
        rules, on_over = self._rules, self._on_over
        for moment in moments:
            for rule, check in rules.get(moment.__class__, ()):
                answer = check(moment)
                if answer:
                    yield from self._findings(rule, moment, answer)
            if on_over is not None and moment.__class__ is CallClosed:
                on_over(moment)

    def _findings(self, rule: Rule, moment: Any, answer: Answer) -> Iterator[Finding]:
        session, call, line = _place(moment)
        for said in (answer,) if isinstance(answer, Said) else answer or ():
            if said.once is not None and self._was_said(rule, session, call, said.once):
                continue
            yield Finding(
                rule=rule.id,
                severity=rule.severity,
                session=session and safe(session),
                call=call and safe(call),
                line=line if said.line is None else said.line,
                field=said.field,
                message=safe(said.message),
            )

    def _was_said(self, rule: Rule, session: str | None, call: str | None, once: str) -> bool:
        key = f"{rule.id} {once} {call}"
        if self._said.has(session or "", key):
            return True
        self._said.add(session or "", key)
        return False


def check_stream(stream: BinaryIO, **options: Any) -> Iterator[Finding]:
    """Check a recording that is read from a stream of bytes."""
    checker = Checker(**options)
    for line in read_lines(stream):
        yield from checker.feed(line)
    yield from checker.finish()


@contextmanager
def collecting_seldom() -> Generator[None]:
    """Let Python look for garbage less often: a third of the time went there, with nothing to be found."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _place(moment: Any) -> tuple[str | None, str | None, int]:
    """Return the session, the call and the line that a moment is about."""
    if isinstance(moment, UpdateArrived):
        return moment.session.id, moment.call_id, moment.line.number
    if isinstance(moment, (UpdateApplied, CallBegan)):
        return moment.session.id, moment.call.id, moment.line.number
    if isinstance(moment, (CallClosed, CallLeftOpen)):
        return moment.call.session.id, moment.call.id, moment.line
    if isinstance(moment, (PermissionAsked, PermissionDecided)):
        question = moment.question
        session = question.session.id if question.session else None
        return session, question.call_id, moment.line.number
    if isinstance(moment, TurnEnded):
        return moment.turn.session.id, None, moment.line.number
    if isinstance(moment, (TerminalUpdated, SessionUpdated, UnopenedSession)):
        return moment.session.id, None, moment.line.number
    if isinstance(moment, (MessageSeen, LargeMessage)):
        return moment.session, None, moment.line.number
    line: Any = moment.line
    return None, None, line.number if isinstance(line, RecordedLine) else line
