"""A trace: what a recording shows, as calls, turns and messages with their times. Safe to show to anybody.

`trace_of` reads a recording of any agent, whole or in part, and never raises for what is in it. Each call has
what its client knew of it in the end, its frames, the times of its life, how it was approved, and what
`callsheet check` finds wrong with it. Secrets are redacted in all of it, and what is long is cut.
`stored_trace` does the same for a session of the history.

A recording need not have times. Then lines stand for seconds, and `has_times` is false: the order is true,
and the lengths are not.

Each line is read once, and a call's frames are redacted when the call is closed: the time that it takes is
linear in the size of the recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from msgspec.structs import replace

from callsheet.acp.peer import Peer
from callsheet.check.engine import RecordingChecker, rare_garbage_collection
from callsheet.check.finding import Finding
from callsheet.check.rules import RULES
from callsheet.history.replay import Replay
from callsheet.history.rows import StoredCall, StoredMessage
from callsheet.observe.lines import encode_line, read_lines
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from callsheet.ui.trace_reader import TraceReader
from callsheet.ui.traced import Trace, TracedCall, Who

if TYPE_CHECKING:
    from callsheet.history.rows import Origin, SessionRow

MOST_FINDINGS = 100
"""Findings of one call, and of the recording itself, that are shown."""


def trace_of(data: bytes, source: str, *, epoch: float | None = None) -> Trace:
    """Return the trace of a recording.

    Args:
        data: The recording.
        source: What it is called.
        epoch: The time of day at its time 0, in seconds since 1970, if the notes on calls say better when
            they ran than the lines do. It is known of stored sessions.
    """
    reader, findings = TraceReader(source, epoch), list[Finding]()
    checker = RecordingChecker(on_finding=findings.append)
    with rare_garbage_collection():
        for line in read_lines(BytesIO(data)):
            reader.take(line)
            checker.feed(line)
        reader.finish()
        checker.finish()
        _judge(reader, findings)
    return reader.trace


def stored_trace(
    session: SessionRow,
    entries: Sequence[StoredCall | StoredMessage],
    origins: Mapping[str | None, Origin],
) -> Trace:
    """Return the trace of a stored session: each call in its last state, by the times that were noted.

    Args:
        session: The session.
        entries: Its timeline, or a part of that.
        origins: Who made its calls; see `Store.origins`.
    """
    epoch = min((_begun(entry) for entry in entries), default=session.created_at)
    data = b"".join(stored_lines(session.session_id, entries, epoch))
    trace = trace_of(data, session.session_id, epoch=epoch)
    agent = session.origin.agent_name or session.info.get("command") or "callsheet"
    trace.agent, trace.client, trace.protocol = str(agent), session.origin.client_name, None
    trace.sessions[session.session_id] = session.cwd
    trace.who = who(session.origin)
    heads = [entry.head for entry in entries if isinstance(entry, StoredCall)]
    others = {
        head.call_id: origins[head.origin]
        for head in heads
        if origins.get(head.origin, session.origin) != session.origin
    }
    for call in trace.calls:
        if call.ended is None:
            call.findings.clear()  # it may still become what it should be
        if call.id in others:
            call.who = who(others[call.id])
    return trace


def origin_keys(entries: Iterable[StoredCall | StoredMessage]) -> list[str | None]:
    """Return the keys of who made the calls of a timeline."""
    return [entry.head.origin for entry in entries if isinstance(entry, StoredCall)]


def who(origin: Origin) -> Who:
    """Return who made calls, as the page shows it."""
    named = {"agent": origin.agent_name, "client": origin.client_name}
    return Who(user=origin.user, host=origin.host, source=origin.source, **named)


def stored_lines(
    session_id: str, entries: Collection[StoredCall | StoredMessage], epoch: float
) -> Iterator[bytes]:
    """Yield a stored session as a recording whose time 0 is at `epoch`."""
    running = [
        one.head.call_id for one in entries if isinstance(one, StoredCall) and one.head.is_open
    ]
    replay = Replay(session_id, Peer(terminals="meta"), alive=set(running))
    for entry in entries:
        if isinstance(entry, StoredCall):
            # Terminals that a call shows later a client of v1 would be shown as plain text.
            terminals = tuple(replace(one, late=False) for one in entry.record.terminals)
            entry = replace(entry, record=replace(entry.record, terminals=terminals))  # noqa: PLW2901
        for line in replay.lines(entry):
            time = max(0.0, _begun(entry) - epoch)
            yield b"".join(encode_line(time, "agent->client", line.rstrip(b"\n")))


def _begun(entry: StoredCall | StoredMessage) -> float:
    return entry.head.at if isinstance(entry, StoredCall) else entry.at


def repaired(data: bytes, locale: str | None = None, *, repair: bool = True) -> bytes:
    """Return a recording as the tap would have shown it. Nothing is written to files.

    Args:
        data: The recording.
        locale: The language of titles.
        repair: Whether calls are made whole. If not, only their secrets are redacted.
    """
    settings = TapSettings(locale=locale, repair=repair, bound=repair)
    return b"".join(Repairs(settings, spill=False).repaired(BytesIO(data)))


def _judge(reader: TraceReader, findings: Iterable[Finding]) -> None:
    """Add each finding to the call that it is about."""
    trace, fixes = reader.trace, {rule.id: rule.fix for rule in RULES}
    by_id: dict[str, list[TracedCall]] = defaultdict(list)
    for call in trace.calls:
        by_id[call.id].append(call)
    for finding in findings:
        call = reader.by_line.get(finding.line)
        if call is None or call.id != finding.call:
            same = by_id.get(finding.call or "", ())
            call = next((one for one in same if finding.session in (None, one.session)), None)
        found = trace.findings if call is None else call.findings
        if len(found) < MOST_FINDINGS:
            shown = {
                "rule": finding.rule,
                "severity": finding.severity,
                "line": finding.line,
                "field": finding.field,
                "message": finding.message,
                "fix": fixes.get(finding.rule, ""),
            }
            found.append(shown)


def paired(before: Trace, after: Trace) -> Iterator[tuple[TracedCall | None, TracedCall | None]]:
    """Yield the calls of a recording beside what the tap makes of them, in order.

    The tap keeps an agent's ids; one that was used twice it numbers (`call_0~2`).
    """
    waiting: dict[tuple[str, str], list[TracedCall]] = {}
    for call in reversed(before.calls):
        waiting.setdefault((call.session, call.id), []).append(call)
    for call in after.calls:
        same = waiting.get((call.session, call.id.partition("~")[0])) or waiting.get(
            (call.session, call.id)
        )
        yield (same.pop() if same else None), call
    for rest in waiting.values():
        for call in reversed(rest):
            yield call, None
