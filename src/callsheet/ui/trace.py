"""A trace: what a recording shows, as calls, turns and messages with their times. Safe to show to anybody.

`trace_of` reads a recording of any agent, whole or in part, and never raises for what is in it. Each call has
what its client knew of it in the end, its frames, the times of its life, how it was approved, and what
`callsheet check` finds wrong with it. Secrets are redacted in all of it.

A recording need not have times. Then lines stand for seconds, and `has_times` is false: the order is true,
and the lengths are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from io import BytesIO
from typing import Any

from msgspec import Struct, field

from callsheet.check.engine import check_stream
from callsheet.check.finding import Finding
from callsheet.check.rules import RULES
from callsheet.observe.events import (
    CallBegan,
    CallClosed,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    SessionUpdated,
    TurnEnded,
    UnreadableLine,
    UpdateApplied,
)
from callsheet.observe.lines import RecordedLine, Sender, read_lines
from callsheet.observe.model import FINAL, Json, ObservedCall, many, obj, text
from callsheet.observe.tracker import Tracker
from callsheet.redaction.redactor import Redactor
from callsheet.report.json import is_list, is_object
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs

MOST_FRAMES = 200
"""Frames of one call that are shown. Of more, those in the middle are left out."""

LONGEST_TEXT = 64 * 1024
"""Characters of one text that are shown."""


class TracedFrame(Struct, rename="camel"):
    """One message about a call."""

    line: int
    time: float
    sender: Sender | None
    message: Json


class Approval(Struct, rename="camel"):
    """A request for permission, and what became of it."""

    asked: float
    answered: float | None = None
    outcome: str | None = None
    option: str | None = None
    has_input: bool = False


class TracedCall(Struct, rename="camel"):
    """One call, as its client knew it in the end."""

    id: str
    session: str
    turn: int | None
    announced: float
    started: float | None = None
    first_output: float | None = None
    ended: float | None = None
    title: str = ""
    name: str = ""
    kind: str = ""
    status: str = ""
    reason: str | None = None
    parent: str | None = None
    input: Any = None
    output: Any = None
    content: list[Any] = field(default_factory=list[Any])
    locations: list[Any] = field(default_factory=list[Any])
    size: int = 0
    updates: int = 0
    approvals: list[Approval] = field(default_factory=list[Approval])
    findings: list[Json] = field(default_factory=list[Json])
    frames: list[TracedFrame] = field(default_factory=list[TracedFrame])
    left_out: int = 0
    """Frames that are not shown."""
    original: int | None = None
    """Behind the tap, the place of the same call among those that the agent sent; set by `page_of`."""


class TracedTurn(Struct, rename="camel"):
    """One turn: a prompt, until its response."""

    session: str
    begun: float
    prompt: str = ""
    ended: float | None = None
    stop: str | None = None
    plan: list[Any] = field(default_factory=list[Any])


class TracedMessage(Struct, rename="camel"):
    """What the agent wrote or thought, between calls."""

    session: str
    time: float
    kind: str
    text: str


class Trace(Struct, rename="camel"):
    """All of a recording."""

    source: str
    agent: str = ""
    client: str = ""
    protocol: int | None = None
    has_times: bool = True
    lines: int = 0
    unreadable: list[str] = field(default_factory=list[str])
    """Which lines could not be read, and why: the first few of them."""
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    """The directories of the sessions."""
    calls: list[TracedCall] = field(default_factory=list[TracedCall])
    turns: list[TracedTurn] = field(default_factory=list[TracedTurn])
    messages: list[TracedMessage] = field(default_factory=list[TracedMessage])
    usage: Json | None = None
    """The last that the agent reported of its tokens and costs."""
    findings: list[Json] = field(default_factory=list[Json])
    """What is wrong with the recording, apart from its calls."""


def trace_of(data: bytes, source: str) -> Trace:
    """Return the trace of a recording."""
    reader = _Reader(source)
    for line in read_lines(BytesIO(data)):
        reader.take(line)
    reader.finish()
    reader.judge(check_stream(BytesIO(data), rules=RULES))
    return reader.trace


def repaired(data: bytes, locale: str | None = None, *, repair: bool = True) -> bytes:
    """Return a recording as the tap would have shown it. Nothing is written to files.

    Args:
        data: The recording.
        locale: The language of titles.
        repair: Whether calls are made whole. If not, only their secrets are redacted.
    """
    settings = TapSettings(locale=locale, repair=repair, bound=repair)
    return b"".join(Repairs(settings, spill=False).repaired(BytesIO(data)))


class _Reader:
    """Folds lines into a trace."""

    def __init__(self, source: str) -> None:
        self.trace: Trace = Trace(source)
        self._tracker: Tracker = Tracker()
        self._redactor: Redactor = Redactor()
        self._calls: dict[int, TracedCall] = {}
        self._observed: list[ObservedCall] = []  # keeps them alive, so that their ids stay theirs
        self._turns: dict[str, TracedTurn] = {}
        self._now: float = 0.0
        self._has_times: bool | None = None

    def take(self, line: RecordedLine) -> None:
        """Take in a line."""
        if self._has_times is None and line.message is not None:
            self._has_times = self.trace.has_times = line.time is not None
        time = line.time if self._has_times else float(line.number)
        self._now = self._now if time is None else max(self._now, time)
        self.trace.lines = line.number
        for event in self._tracker.feed(line):
            self._event(event)

    def finish(self) -> None:
        """Take in that there are no more lines."""
        for event in self._tracker.finish():
            self._event(event)
        connection = self._tracker.connection
        self.trace.agent = self._safe(connection.agent)
        self.trace.client = self._safe(connection.client)
        self.trace.protocol = 2 if connection.is_v2 else 1 if connection.is_v1 else None
        for observed in self._observed:
            self._settle(self._calls[id(observed)], observed)
        if not self.trace.has_times:
            self._use_noted_times()

    def _use_noted_times(self) -> None:
        """Take the times of calls from their notes, where the lines have none but all calls of ours do."""
        noted = [obj(obj(one.fields.get("_meta")).get("callsheet")) for one in self._observed]
        begun = [_epoch(notes.get("startedAt") or notes.get("endedAt")) for notes in noted]
        times = [time for time in begun if time is not None]
        if not noted or len(times) < len(noted):
            return
        first, self.trace.has_times = min(times), True
        for observed, notes, time in zip(self._observed, noted, times, strict=True):
            call, ended = self._calls[id(observed)], _epoch(notes.get("endedAt"))
            call.announced = time - first
            call.started = call.announced if notes.get("startedAt") else None
            call.ended = None if ended is None else max(call.announced, ended - first)
            call.first_output = None
        for turn in self.trace.turns:
            its = [call for call in self.trace.calls if call.turn == self.trace.turns.index(turn)]
            turn.begun = min((call.announced for call in its), default=0.0)
            turn.ended = max((call.ended or call.announced for call in its), default=0.0)

    def judge(self, findings: Iterable[Finding]) -> None:
        """Add each finding to the call that it is about."""
        fixes = {rule.id: rule.fix for rule in RULES}
        for finding in findings:
            shown = {
                "rule": finding.rule,
                "severity": finding.severity,
                "line": finding.line,
                "field": finding.field,
                "message": finding.message,
                "fix": fixes.get(finding.rule, ""),
            }
            call = self._call_at(finding)
            (self.trace.findings if call is None else call.findings).append(shown)

    def _call_at(self, finding: Finding) -> TracedCall | None:
        """Return the call that a finding is about: of several with one id, the one that has its line."""
        same = [
            call
            for call in self.trace.calls
            if call.id == finding.call and finding.session in (None, call.session)
        ]
        holding = [call for call in same if any(one.line == finding.line for one in call.frames)]
        return (holding or same or [None])[0]

    # Events

    def _event(self, event: Any) -> None:
        match event:
            case UnreadableLine():
                self.trace.unreadable.append(f"line {event.line.number}: {event.line.problem}")
            case MessageSeen():
                self._message(event)
            case CallBegan():
                self._begun(event.call)
            case UpdateApplied():
                self._updated(event)
            case PermissionAsked() if event.question.call is not None:
                call = self._begun(event.question.call)
                has_input = bool(event.question.tool_call.get("rawInput"))
                call.approvals.append(Approval(self._now, has_input=has_input))
                self._frame(call, event.line, "agent")
            case PermissionDecided() if event.question.call is not None:
                self._decided(self._begun(event.question.call), event)
            case SessionUpdated():
                self._spoken(event.session.id, event.update)
            case TurnEnded():
                turn = self._turns.pop(event.turn.session.id, None)
                if turn is not None:
                    turn.ended, turn.stop = self._now, event.turn.stop_reason
            case CallClosed():
                self._begun(event.call)
            case _:
                pass

    def _message(self, event: MessageSeen) -> None:
        params = obj(event.message.get("params"))
        session = text(params.get("sessionId")) or ""
        if event.method == "session/prompt" and event.sender != "agent":
            turn = TracedTurn(session, self._now, self._safe(_prompt_text(params)))
            self._turns[session] = turn
            self.trace.turns.append(turn)
        for known in self._tracker.sessions.values():
            self.trace.sessions[known.id] = self._safe(known.cwd or "")

    def _begun(self, observed: ObservedCall) -> TracedCall:
        call = self._calls.get(id(observed))
        if call is None:
            session = observed.session.id
            turns = [n for n, turn in enumerate(self.trace.turns) if turn.session == session]
            call = TracedCall(observed.id, session, turns[-1] if turns else None, self._now)
            self._calls[id(observed)] = call
            self._observed.append(observed)
            self.trace.calls.append(call)
        return call

    def _updated(self, event: UpdateApplied) -> None:
        call, status = self._begun(event.call), event.call.status
        if call.started is None and status == "in_progress":
            call.started = self._now
        if call.first_output is None and event.update.get("content"):
            call.first_output = self._now
        if call.ended is None and status in FINAL:
            call.ended = self._now
        self._frame(call, event.line, "agent")

    def _decided(self, call: TracedCall, event: PermissionDecided) -> None:
        question, answer = event.question, obj(obj(event.line.message).get("result"))
        chosen = text(obj(answer.get("outcome")).get("optionId"))
        for option in many(question.params.get("options")):
            if obj(option).get("optionId") == chosen and call.approvals:
                call.approvals[-1].option = self._safe(text(obj(option).get("name")) or "")
        if call.approvals:
            call.approvals[-1].answered = self._now
            call.approvals[-1].outcome = question.outcome
        self._frame(call, event.line, "client")

    def _spoken(self, session: str, update: Json) -> None:
        kind = text(update.get("sessionUpdate")) or ""
        if kind == "user_message_chunk":  # a session that is loaded
            said = self._safe(text(obj(update.get("content")).get("text")) or "")
            self._turns[session] = turn = TracedTurn(session, self._now, said)
            self.trace.turns.append(turn)
        elif kind == "plan" and session in self._turns:
            self._turns[session].plan = self._safe(many(update.get("entries")))
        elif kind == "usage_update":
            self.trace.usage = self._safe({k: v for k, v in update.items() if k != "sessionUpdate"})
        elif kind.startswith(("agent_message", "agent_thought")):
            said = text(obj(update.get("content")).get("text")) or ""
            short = "thought" if "thought" in kind else "message"
            self._append(TracedMessage(session, self._now, short, said))

    def _append(self, message: TracedMessage) -> None:
        """Add a piece of a message to the one before it, unless there was a call between them."""
        last = self.trace.messages[-1] if self.trace.messages else None
        is_new = last is None or (last.session, last.kind) != (message.session, message.kind)
        if last is None or is_new or any(c.announced > last.time for c in self.trace.calls[-1:]):
            self.trace.messages.append(message)
            last, message = message, TracedMessage("", 0.0, "", "")
        last.text = self._safe(last.text + message.text)[:LONGEST_TEXT]

    def _frame(self, call: TracedCall, line: RecordedLine, sender: Sender) -> None:
        if call.frames and call.frames[-1].line == line.number:
            return
        if len(call.frames) >= MOST_FRAMES:
            del call.frames[MOST_FRAMES // 2]
            call.left_out += 1
        shown = self._safe(_shortened(line.message))
        call.frames.append(TracedFrame(line.number, self._now, line.sender or sender, shown))

    def _settle(self, call: TracedCall, observed: ObservedCall) -> None:
        """Fill in what is known of a call in the end."""
        fields = {**observed.asked, **observed.fields}
        notes = obj(obj(fields.get("_meta")).get("callsheet"))
        call.title = self._safe(text(fields.get("title")) or "")
        call.name = self._safe(observed.name)
        call.kind = text(fields.get("kind")) or ""
        call.status = observed.status or "pending"
        call.reason = text(notes.get("reason"))
        call.parent = text(notes.get("parentId"))
        call.input = self._safe(_shortened(fields.get("rawInput")))
        call.output = self._safe(_shortened(fields.get("rawOutput")))
        call.content = self._safe(_shortened(many(fields.get("content"))))
        call.locations = self._safe(many(fields.get("locations")))
        call.size, call.updates = observed.wire_bytes, observed.updates

    def _safe(self, value: Any) -> Any:
        return self._redactor.value(value)[0] if value else value


def _epoch(noted: Any) -> float | None:
    """Return a time that a note has, as seconds since 1970."""
    try:
        return datetime.fromisoformat(noted).timestamp()
    except (TypeError, ValueError):
        return None


def _prompt_text(params: Json) -> str:
    blocks = [text(obj(block).get("text")) for block in many(params.get("prompt"))]
    return "\n".join(filter(None, blocks))


def _shortened(value: Any) -> Any:
    """Return a value with its long texts cut."""
    if isinstance(value, str):
        rest = len(value) - LONGEST_TEXT
        return (
            value if rest <= 0 else f"{value[:LONGEST_TEXT]}… {rest:,} characters are not shown …"
        )
    if is_object(value):
        return {key: _shortened(one) for key, one in value.items()}
    return [_shortened(one) for one in value] if is_list(value) else value


def paired(before: Trace, after: Trace) -> Iterator[tuple[TracedCall | None, TracedCall | None]]:
    """Yield the calls of a recording beside what the tap makes of them, in order.

    The tap keeps an agent's ids; one that was used twice it numbers (`call_0~2`).
    """
    waiting: dict[tuple[str, str], list[TracedCall]] = {}
    for call in before.calls:
        waiting.setdefault((call.session, call.id), []).append(call)
    for call in after.calls:
        same = waiting.get((call.session, call.id.partition("~")[0])) or waiting.get(
            (call.session, call.id)
        )
        yield (same.pop(0) if same else None), call
    for rest in waiting.values():
        for call in rest:
            yield call, None
