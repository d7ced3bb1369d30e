"""The checker: lines in, findings out, in the order of the lines.

The tracker (`callsheet.observe.tracker`) makes events of lines; each event goes to the rules that are
registered for its type, and each violation becomes a finding at the event's place. Findings are passed on
at once, because the state that they are about changes with the next event.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeAlias

from callsheet.check.finding import CheckRule, Finding, Violation, Violations, safe
from callsheet.check.rules import RULES
from callsheet.observe.calls import begins_again
from callsheet.observe.events import (
    CallBegan,
    CallClosed,
    CallEvent,
    LargeMessage,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    SessionEvent,
    TurnEnded,
    UpdateApplied,
    UpdateArrived,
)
from callsheet.observe.lines import RecordedLine, read_lines
from callsheet.observe.model import ObservedCall, SeenIds
from callsheet.observe.tracker import Tracker

Applied: TypeAlias = tuple[tuple[CheckRule, Callable[[Any], Violations]], ...]

_SHAPES = 2048
"""Shapes of events whose rules are remembered. Their field names are the agent's, and may be without end."""


class RuleIndex:
    """Finds the rules that an event goes to: by its type, and by the fields of an update."""

    def __init__(self, rules: Iterable[CheckRule]) -> None:
        self._rules: tuple[CheckRule, ...] = tuple(rules)
        self._by_shape: dict[object, Applied] = {}

    def of(self, event: Any) -> Applied:
        """Return the rules for an event: those that look at no field, or at one that is there."""
        kind = event.__class__
        shape = (kind, *event.update) if kind is UpdateArrived else kind
        found = self._by_shape.get(shape)
        if found is None:
            found = tuple(
                (rule, rule.check)
                for rule in self._rules
                if kind in rule.events
                and not (
                    kind is UpdateArrived and rule.fields and rule.fields.isdisjoint(event.update)
                )
            )
            if len(self._by_shape) >= _SHAPES:
                self._by_shape.clear()
            self._by_shape[shape] = found
        return found


class RecordingChecker:
    """Checks one recording.

    Args:
        rules: The rules to apply.
        clients: The clients whose own rules apply, too.
        on_finding: Called for each finding.
        on_over: Called for each call that is closed, after its findings.
    """

    def __init__(
        self,
        rules: Iterable[CheckRule] = RULES,
        *,
        clients: Iterable[str] = (),
        on_finding: Callable[[Finding], object],
        on_over: Callable[[CallClosed], None] | None = None,
    ) -> None:
        held = [one for one in rules if not one.clients or not set(clients).isdisjoint(one.clients)]
        self.tracker: Tracker = Tracker()
        self._on_finding: Callable[[Finding], object] = on_finding
        self._on_over: Callable[[CallClosed], None] | None = on_over
        self.subject: tuple[ObservedCall | None, int] = (None, 0)
        """The call of the finding that is being reported, and the line on which that call begins.

        An id does not tell which call it is, because agents use ids again. The call is None where it is not
        known yet, and the line 0 where it never will be.
        """
        self._reported: SeenIds = SeenIds()
        self._all: RuleIndex = RuleIndex(held)
        self._unscreened: RuleIndex = RuleIndex(one for one in held if one.screen is None)

    def feed(self, line: RecordedLine, screened: int = 0) -> None:
        """Take in a line, and report what is wrong with it, and with what has ended by it.

        Args:
            line: The line.
            screened: The version of the protocol in which no rule that judges a message by itself finds
                anything in this one; 0 if that is not known.
        """
        seen = self.tracker.connection
        version = seen.spoken if seen.version is None else seen.version
        is_screened = screened and screened == version
        self._judge(self.tracker.feed(line), self._unscreened if is_screened else self._all)

    def finish(self) -> None:
        """Report what is wrong with what has ended, now that the recording has."""
        self._judge(self.tracker.finish(), self._all)

    def _judge(self, events: Iterable[Any], rules: RuleIndex) -> None:
        for event in events:
            for rule, check in rules.of(event):
                violations = check(event)
                if violations:
                    self._report(rule, event, violations)
            if self._on_over is not None and event.__class__ is CallClosed:
                self._on_over(event)

    def _report(self, rule: CheckRule, event: Any, violations: Violations) -> None:
        """Make findings of what a rule reports about an event."""
        session, call, line = _place(event)
        self.subject = _subject(event)
        for one in (violations,) if isinstance(violations, Violation) else violations or ():
            if one.once is not None and self._was_reported(rule, session, call, one.once):
                continue
            finding = Finding(
                rule=rule.id,
                severity=rule.severity,
                session=session and safe(session),
                call=call and safe(call),
                line=line if one.line is None else one.line,
                field=one.field,
                message=safe(one.message),
            )
            self._on_finding(finding)

    def _was_reported(
        self, rule: CheckRule, session: str | None, call: str | None, once: str
    ) -> bool:
        key = f"{rule.id} {once} {call}"
        if self._reported.has(session or "", key):
            return True
        self._reported.add(session or "", key)
        return False


def check_stream(stream: BinaryIO, **options: Any) -> list[Finding]:
    """Check a recording, and return the findings.

    Args:
        stream: The recording's bytes.
        **options: `rules` and `clients`, as `RecordingChecker` takes them.
    """
    found: list[Finding] = []
    checker = RecordingChecker(**options, on_finding=found.append)
    for line in read_lines(stream):
        checker.feed(line)
    checker.finish()
    return found


@contextmanager
def rare_garbage_collection() -> Generator[None]:
    """Let the garbage collector run less often: it took a third of the time, and found nothing."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _subject(event: Any) -> tuple[ObservedCall | None, int]:
    """Return the call that an event is about, and the line on which that call begins."""
    call: ObservedCall | None = None
    if isinstance(event, UpdateArrived):
        call = event.call
        is_new = call is None and not event.known_before
        if is_new or (call is not None and begins_again(call, event.kind, event.update)):
            return None, event.line.number
    elif isinstance(event, (UpdateApplied, CallBegan, CallEvent)):
        call = event.call
    elif isinstance(event, (PermissionAsked, PermissionDecided)):
        call = event.question.call
    return call, call.first if call is not None else 0


def _place(event: Any) -> tuple[str | None, str | None, int]:
    """Return the session, the call and the line that an event is about."""
    match event:
        case UpdateArrived():
            return event.session.id, event.call_id, event.line.number
        case UpdateApplied() | CallBegan():
            return event.session.id, event.call.id, event.line.number
        case CallEvent():
            return event.call.session.id, event.call.id, event.line
        case PermissionAsked() | PermissionDecided():
            session = event.question.session
            return session and session.id, event.question.call_id, event.line.number
        case TurnEnded():
            return event.turn.session.id, None, event.line.number
        case SessionEvent():
            return event.session.id, None, event.line.number
        case MessageSeen() | LargeMessage():
            return event.session, None, event.line.number
        case _:
            line: Any = event.line
            return None, None, line.number if isinstance(line, RecordedLine) else line
