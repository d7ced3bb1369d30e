"""Fold the lines of a recording into a trace.

The tracker says what happens; this keeps what is shown of it. A call is filled in, redacted and let go of
when the tracker closes it, so only open calls are held with all their messages.
"""

from __future__ import annotations

from binascii import a2b_base64
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from callsheet.observe.events import (
    CallBegan,
    CallClosed,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    SessionUpdated,
    TerminalUpdated,
    TurnEnded,
    UnreadableLine,
    UpdateApplied,
)
from callsheet.observe.lines import RecordedLine, Sender
from callsheet.observe.model import FINAL, Json, ObservedCall, many, obj, text
from callsheet.observe.tracker import Tracker
from callsheet.redaction.redactor import Redactor
from callsheet.report.humanize import plural
from callsheet.report.json import is_list, is_object
from callsheet.ui.traced import (
    Approval,
    Trace,
    TracedCall,
    TracedFrame,
    TracedMessage,
    TracedPlan,
    TracedTurn,
    Who,
)

MOST_FRAMES = 200
"""Frames of one call that are shown. Of more, those in the middle are left out."""

MOST_PLANS = 50
"""Plans of one turn that are shown, the last ones."""

MOST_UNREADABLE = 20
"""Lines that could not be read and are named one by one."""

LONGEST_TEXT = 64 * 1024
"""Characters of one text that are shown."""

LONGEST_IN_FRAME = 8 * 1024
"""Characters of one text in a frame: agents send the same output again and again."""

LONGEST_WORD = 1000
"""Characters of what is one word: a kind, a status, a reason."""

OVERLAP = 8 * 1024
"""Characters that are searched for secrets behind the place where a text is cut: half of one is not found."""


MOST_OUTPUT = LONGEST_TEXT + OVERLAP
"""Bytes of a terminal's output that are kept, the last ones."""


class CallInProgress(Struct, eq=False):
    """A call that is not closed yet, with its messages as they came."""

    traced: TracedCall
    frames: list[tuple[RecordedLine, float, Sender]] = field(
        default_factory=list[tuple[RecordedLine, float, Sender]]
    )


class TraceReader:
    """Reads lines into `trace`. `by_line` has the call that each line is about."""

    def __init__(self, source: str, epoch: float | None = None) -> None:
        self.trace: Trace = Trace(source, epoch=epoch)
        # In a recording, a note on who approved a call is the agent's own word. What is stored is ours.
        self._is_stored: bool = epoch is not None
        self.by_line: dict[int, TracedCall] = {}
        self._tracker: Tracker = Tracker()
        self._redactor: Redactor = Redactor()
        self._open: dict[ObservedCall, CallInProgress] = {}
        # The last part of what was written to each terminal, by session and id.
        self._written: dict[tuple[str, str], bytearray] = {}
        self._noted: list[tuple[TracedCall, Json]] = []
        # The turns that run, and the last turn of each session, by its place.
        self._turns: dict[str, TracedTurn] = {}
        self._last_turn: dict[str, int] = {}
        self._message: MessageText | None = None
        self._unreadable: int = 0
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
        self._end_message()
        trace, connection = self.trace, self._tracker.connection
        ids = {call.id for call in trace.calls}
        for call in trace.calls:
            if call.parent not in ids:
                call.parent = self._shown(call.parent)
            for item in call.content:
                key = text(obj(item).get("terminalId"))
                if key is not None and (written := self._written.get((call.session, key))):
                    call.terminals[key] = self._output(written)
        trace.agent = self._safe(connection.agent)
        trace.client = self._safe(connection.client)
        trace.who = Who(agent=trace.agent, client=trace.client)
        trace.protocol = 2 if connection.is_v2 else 1 if connection.is_v1 else None
        for known in self._tracker.sessions.values():
            self._note_session(known.id)
        if self._unreadable > MOST_UNREADABLE:
            rest = self._unreadable - MOST_UNREADABLE
            trace.unreadable.append(f"and {plural(rest, 'more line')}")
        if trace.epoch is None and not trace.has_times:
            self._find_epoch()
        if trace.epoch is not None:
            self._use_noted_times(trace.epoch)
        if self._is_stored:
            for call, notes in self._noted:
                self._approval(obj(self._safe(obj(notes.get("permission")))), call)

    # Notes: what agents that use Callsheet, and the tap, say of a call

    def _find_epoch(self) -> None:
        """Use the times that calls were noted at, where the lines have none, but all calls do."""
        times = [_epoch(notes.get("startedAt") or notes.get("endedAt")) for _, notes in self._noted]
        known = [time for time in times if time is not None]
        if known and len(known) == len(times):
            self.trace.epoch, self.trace.has_times = min(known), True
            for (call, _), time in zip(self._noted, known, strict=True):
                call.announced = time - self.trace.epoch
            for turn in self.trace.turns:
                turn.begun, turn.ended = 0.0, None

    def _use_noted_times(self, epoch: float) -> None:
        """Take the times of calls from their notes, and those of turns from their calls and messages."""
        for call, notes in self._noted:
            started, ended = _epoch(notes.get("startedAt")), _epoch(notes.get("endedAt"))
            call.first_output = None
            call.started = None if started is None else max(call.announced, started - epoch)
            if ended is not None:
                call.ended = max(call.started or call.announced, ended - epoch)
            elif call.ended is not None:
                call.ended = max(call.started or 0.0, call.announced)
        its: dict[int, list[TracedCall]] = {}
        for call in self.trace.calls:
            if call.turn is not None:
                its.setdefault(call.turn, []).append(call)
        for place, turn in enumerate(self.trace.turns):
            calls = its.get(place, [])
            if not self._has_times:
                turn.begun = min((call.announced for call in calls), default=0.0)
            if all(call.ended is not None for call in calls):
                ends = [call.ended or 0.0 for call in calls]
                turn.ended = max([turn.begun, turn.ended or 0.0, *ends])
            else:
                turn.ended = None

    def _approval(self, noted: Json, call: TracedCall) -> None:
        """Note how a call was approved, which the messages of a stored session don't show."""
        if not noted:
            return
        if not call.approvals:
            call.approvals.append(Approval(call.announced, has_input=call.input is not None))
        last = call.approvals[-1]
        outcome, waited = text(noted.get("outcome")), noted.get("waitedMs")
        last.outcome = last.outcome or {"denied": "rejected"}.get(outcome or "", outcome)
        last.option = last.option or text(noted.get("option"))
        last.by, last.scope = text(noted.get("by")) or last.by, text(noted.get("scope"))
        if isinstance(waited, (int, float)):
            last.waited = waited / 1000
        asked, answered = _epoch(noted.get("askedAt")), _epoch(noted.get("answeredAt"))
        if self.trace.epoch is not None and asked is not None:
            last.asked = max(call.announced, asked - self.trace.epoch)
            last.answered = max(last.asked, (answered or asked) - self.trace.epoch)
        elif last.answered is None and last.by in ("mode", "remembered", "settings"):
            last.answered = last.asked

    # Events

    def _event(self, event: Any) -> None:
        match event:
            case UnreadableLine():
                self._not_read(event.line)
            case MessageSeen():
                self._seen(event)
            case CallBegan():
                self._begun(event.call)
            case UpdateApplied():
                self._updated(event)
            case PermissionAsked() if event.question.call is not None:
                call = self._begun(event.question.call)
                has_input = bool(event.question.tool_call.get("rawInput"))
                call.traced.approvals.append(Approval(self._now, has_input=has_input))
                self._frame(call, event.line, "agent")
            case PermissionDecided() if event.question.call is not None:
                self._decided(self._begun(event.question.call), event)
            case TerminalUpdated():
                self._write(event)
            case SessionUpdated():
                self._spoken(event.session.id, event.update)
            case TurnEnded():
                turn = self._turns.pop(event.turn.session.id, None)
                if turn is not None:
                    turn.ended = self._now
                    turn.stop = self._shown(event.turn.stop_reason, limit=LONGEST_WORD)
                    self._turn_usage(turn, obj(obj(event.line.message).get("result")))
            case CallClosed():
                self._closed(event.call)
            case _:
                pass

    def _not_read(self, line: RecordedLine) -> None:
        self._unreadable += 1
        if self._unreadable <= MOST_UNREADABLE:
            self.trace.unreadable.append(f"line {line.number}: {line.problem}")

    def _seen(self, event: MessageSeen) -> None:
        params = obj(event.message.get("params"))
        if event.method == "session/prompt" and event.sender != "agent":
            self._turn(text(params.get("sessionId")) or "", _prompt_text(params))

    def _turn(self, session: str, prompt: str) -> None:
        self._note_session(session)
        self._turns[session] = turn = TracedTurn(session, self._now, self._shown(prompt))
        self._last_turn[session] = len(self.trace.turns)
        self.trace.turns.append(turn)

    def _turn_usage(self, turn: TracedTurn, result: Json) -> None:
        used = obj(result.get("usage"))
        if used:
            turn.usage = used = obj(self._shown(used))
            if self.trace.usage is None or "totalTokens" in self.trace.usage:
                self.trace.usage = {"used": used.get("totalTokens"), **used}

    def _note_session(self, session: str) -> None:
        known = self._tracker.sessions.get(session)
        if not self.trace.sessions.get(session):
            self.trace.sessions[session] = self._safe((known and known.cwd) or "")

    def _begun(self, observed: ObservedCall) -> CallInProgress:
        found = self._open.get(observed)
        if found is None:
            session = observed.session.id
            self._note_session(session)
            call = TracedCall(observed.id, session, self._last_turn.get(session), self._now)
            found = self._open[observed] = CallInProgress(call)
            self.trace.calls.append(call)
            self._end_message()
        return found

    def _updated(self, event: UpdateApplied) -> None:
        found, status = self._begun(event.call), event.call.status
        call = found.traced
        if call.started is None and status == "in_progress":
            call.started = self._now
        if call.first_output is None and event.update.get("content"):
            call.first_output = self._now
        if call.ended is None and status in FINAL:
            call.ended = self._now
        self._frame(found, event.line, "agent")

    def _decided(self, found: CallInProgress, event: PermissionDecided) -> None:
        question, approvals = event.question, found.traced.approvals
        if approvals:
            last = approvals[-1]
            last.option = self._safe(text(question.chosen.get("name")))
            last.answered, last.outcome, last.by = self._now, question.outcome, "user"
            last.waited = self._now - last.asked if self._has_times else None
        self._frame(found, event.line, "client")

    def _spoken(self, session: str, update: Json) -> None:
        kind = text(update.get("sessionUpdate")) or ""
        if kind == "user_message_chunk":  # a session that is loaded, or stored
            self._end_message()
            self._turn(session, text(obj(update.get("content")).get("text")) or "")
        elif kind in ("plan", "plan_update") and session in self._turns:
            entries = many((obj(update.get("plan")) or update).get("entries"))
            plans = self._turns[session].plans
            plans.append(TracedPlan(self._now, self._shown(entries)))
            del plans[:-MOST_PLANS]
        elif kind == "usage_update":
            self.trace.usage = self._safe({k: v for k, v in update.items() if k != "sessionUpdate"})
        elif kind.startswith(("agent_message", "agent_thought")):
            said = text(obj(update.get("content")).get("text")) or ""
            self._say(session, "thought" if "thought" in kind else "message", said)
        if self.trace.epoch is not None and session in self._turns:
            self._turns[session].ended = self._now

    def _write(self, event: TerminalUpdated) -> None:
        """Add to what was written to a terminal, or replace it, as v2 may."""
        update = event.update
        kept = self._written.setdefault((event.session.id, event.terminal_id), bytearray())
        if "output" in update:
            kept.clear()
            update = {**update, **obj(update["output"])}
        data = (text(update.get("data")) or "").encode(errors="replace")
        with suppress(ValueError):
            kept += a2b_base64(data) if "sessionUpdate" in update else data
        if len(kept) > 2 * MOST_OUTPUT:
            del kept[:-MOST_OUTPUT]

    def _output(self, written: bytearray) -> str:
        shown = self._redactor.text(written.decode(errors="replace"))[0]
        if len(written) <= LONGEST_TEXT:
            return shown
        return f"… The beginning is not shown …\n{shown[-LONGEST_TEXT:]}"

    # What the agent writes

    def _say(self, session: str, kind: str, said: str) -> None:
        """Add a piece of a message to the one before it, unless there was a call between them."""
        last = self._message
        if last is None or (last.message.session, last.message.kind) != (session, kind):
            self._end_message()
            last = self._message = MessageText(TracedMessage(session, self._now, kind))
            self.trace.messages.append(last.message)
        last.add(said)

    def _end_message(self) -> None:
        if self._message is not None:
            self._message.message.text = self._shown(*self._message.whole())
            self._message = None

    # Calls

    def _frame(self, call: CallInProgress, line: RecordedLine, sender: Sender) -> None:
        if call.frames and call.frames[-1][0].number == line.number:
            return
        self.by_line[line.number] = call.traced
        if len(call.frames) >= MOST_FRAMES:
            del call.frames[MOST_FRAMES // 2]
            call.traced.left_out += 1
        call.frames.append((line, self._now, line.sender or sender))

    def _closed(self, observed: ObservedCall) -> None:
        """Fill in what is known of a call in the end."""
        found = self._begun(observed)
        del self._open[observed]
        call, fields = found.traced, {**observed.asked, **observed.fields}
        notes = obj(obj(fields.get("_meta")).get("callsheet"))
        call.title = self._shown(text(fields.get("title")) or "")
        call.name = self._safe(observed.name)
        call.kind = self._shown(text(fields.get("kind")) or "", limit=LONGEST_WORD)
        call.status = self._shown(observed.status or "pending", limit=LONGEST_WORD)
        if call.status == "failed" and notes.get("reason") == "cancelled":
            call.status = "cancelled"  # ACP v1 has no such status
        call.reason = self._shown(text(notes.get("reason")), limit=LONGEST_WORD)
        call.parent = text(notes.get("parentId"))
        names = filter(None, map(text, many(notes.get("repaired"))))
        call.repaired = [self._shown(name, limit=LONGEST_WORD) for name in names]
        secrets = notes.get("redactions")
        call.secrets = secrets if isinstance(secrets, int) else 0
        call.usage = obj(self._shown(obj(notes.get("usage")))) or None
        call.input = self._shown(fields.get("rawInput"))
        call.output = self._shown(fields.get("rawOutput"))
        call.content = self._shown(many(fields.get("content")))
        call.locations = self._shown(many(fields.get("locations")))
        call.size, call.updates = observed.wire_bytes, observed.updates
        if call.approvals and all(one.outcome == "rejected" for one in call.approvals):
            call.started = None  # some agents report that it runs before they ask
        for line, time, sender in found.frames:
            message = self._shown(line.message, limit=LONGEST_IN_FRAME)
            call.frames.append(TracedFrame(line.number, time, sender, message))
        self._noted.append((call, notes))

    # What is safe to show

    def _safe(self, value: Any) -> Any:
        return self._redactor.value(value)[0] if value else value

    def _shown(self, value: Any, more: int = 0, limit: int = LONGEST_TEXT) -> Any:
        """Return a value without secrets, its long texts cut. Of a text, `more` characters are not in it."""
        try:
            return self._safe(self._cut(value, more, limit))
        except RecursionError:
            return "(It is nested too deeply to be shown.)"

    def _cut(self, value: Any, more: int, limit: int) -> Any:
        if isinstance(value, str):
            rest = len(value) + more - limit
            if rest <= 0:
                return value
            # Redacted before it is cut: what is left of a secret would not be recognised.
            kept = self._redactor.text(value[: limit + OVERLAP])[0][:limit]
            return f"{kept}… {rest:,} characters are not shown …"
        if is_object(value):
            return {key: self._cut(one, 0, limit) for key, one in value.items()}
        return [self._cut(one, 0, limit) for one in value] if is_list(value) else value


class MessageText:
    """The text of a message that comes in pieces. Of a long one, only the beginning is kept."""

    def __init__(self, message: TracedMessage) -> None:
        self.message: TracedMessage = message
        self._pieces: list[str] = []
        self._length: int = 0
        self._more: int = 0

    def add(self, said: str) -> None:
        """Add a piece."""
        if self._length < LONGEST_TEXT + OVERLAP:
            self._pieces.append(said)
            self._length += len(said)
        else:
            self._more += len(said)

    def whole(self) -> tuple[str, int]:
        """Return the text, and how many more characters there were."""
        return "".join(self._pieces), self._more


def _epoch(noted: Any) -> float | None:
    """Return a time that a note has, as seconds since 1970."""
    try:
        return datetime.fromisoformat(noted).timestamp()
    except (TypeError, ValueError):
        return None


def _prompt_text(params: Json) -> str:
    blocks = [text(obj(block).get("text")) for block in many(params.get("prompt"))]
    return "\n".join(filter(None, blocks))
