"""The checker: lines in, findings out, in the order of the lines.

The tracker (`callsheet.observe.tracker`) makes events of lines; each event goes to the rules that are
registered for its type, and each violation becomes a finding at the event's place.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from callsheet.check.finding import CheckRule, Finding, Violation, Violations, safe
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
from callsheet.observe.model import SeenIds
from callsheet.observe.tracker import Tracker


class RecordingChecker:
    """Checks one recording.

    Args:
        rules: The rules to apply.
        clients: The clients whose own rules apply, too.
        on_over: Called for each call that is closed, after its findings.
    """

    def __init__(
        self,
        rules: Iterable[CheckRule] = RULES,
        *,
        clients: Iterable[str] = (),
        on_over: Callable[[CallClosed], None] | None = None,
    ) -> None:
        wanted = set(clients)
        self.tracker: Tracker = Tracker()
        self._on_over: Callable[[CallClosed], None] | None = on_over
        self._reported: SeenIds = SeenIds()
        self._rules: dict[type, list[tuple[CheckRule, Callable[[Any], Violations]]]] = {}
        for rule in rules:
            if not rule.clients or wanted.intersection(rule.clients):
                for kind in rule.events:
                    self._rules.setdefault(kind, []).append((rule, rule.check))

    def feed(self, line: RecordedLine) -> Iterator[Finding]:
        """Take in a line, and yield what is wrong with it, and with what has ended by it."""
        return self._findings(self.tracker.feed(line))

    def finish(self) -> Iterator[Finding]:
        """Yield what is wrong with what has ended, now that the recording has."""
        return self._findings(self.tracker.finish())

    def _findings(self, events: Iterable[Any]) -> Iterator[Finding]:
        rules, on_over = self._rules, self._on_over
        for event in events:
            for rule, check in rules.get(event.__class__, ()):
                violations = check(event)
                if violations:
                    yield from self._placed(rule, event, violations)
            if on_over is not None and event.__class__ is CallClosed:
                on_over(event)

    def _placed(self, rule: CheckRule, event: Any, violations: Violations) -> Iterator[Finding]:
        """Make findings of what a rule reports about an event."""
        session, call, line = _place(event)
        for one in (violations,) if isinstance(violations, Violation) else violations or ():
            if one.once is not None and self._was_reported(rule, session, call, one.once):
                continue
            yield Finding(
                rule=rule.id,
                severity=rule.severity,
                session=session and safe(session),
                call=call and safe(call),
                line=line if one.line is None else one.line,
                field=one.field,
                message=safe(one.message),
            )

    def _was_reported(
        self, rule: CheckRule, session: str | None, call: str | None, once: str
    ) -> bool:
        key = f"{rule.id} {once} {call}"
        if self._reported.has(session or "", key):
            return True
        self._reported.add(session or "", key)
        return False


def check_stream(stream: BinaryIO, **options: Any) -> Iterator[Finding]:
    """Check a recording.

    Args:
        stream: The recording's bytes.
        **options: `rules` and `clients`, as `RecordingChecker` takes them.

    Returns:
        The findings, as the recording is read.
    """
    checker = RecordingChecker(**options)
    for line in read_lines(stream):
        yield from checker.feed(line)
    yield from checker.finish()


@contextmanager
def rare_garbage_collection() -> Generator[None]:
    """Let the garbage collector run less often: it took a third of the time, and found nothing."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _place(event: Any) -> tuple[str | None, str | None, int]:
    """Return the session, the call and the line that an event is about."""
    if isinstance(event, UpdateArrived):
        return event.session.id, event.call_id, event.line.number
    if isinstance(event, (UpdateApplied, CallBegan)):
        return event.session.id, event.call.id, event.line.number
    if isinstance(event, (CallClosed, CallLeftOpen)):
        return event.call.session.id, event.call.id, event.line
    if isinstance(event, (PermissionAsked, PermissionDecided)):
        question = event.question
        session = question.session.id if question.session else None
        return session, question.call_id, event.line.number
    if isinstance(event, TurnEnded):
        return event.turn.session.id, None, event.line.number
    if isinstance(event, (TerminalUpdated, SessionUpdated, UnopenedSession)):
        return event.session.id, None, event.line.number
    if isinstance(event, (MessageSeen, LargeMessage)):
        return event.session, None, event.line.number
    line: Any = event.line
    return None, None, line.number if isinstance(line, RecordedLine) else line
