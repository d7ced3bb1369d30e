"""Stored calls as OpenTelemetry spans, for `callsheet history export --format otlp`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from callsheet.cli.history.lookup import Trouble, whole_calls
from callsheet.history import Query, Store
from callsheet.history.rows import UNKNOWN, StoredCall
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import plural
from callsheet.report.terminal import CallRecord
from callsheet.telemetry import NEEDS, is_installed

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from callsheet.telemetry.otel import TurnScope

REMEMBERED = 1000
"""Turns whose facts are held at once."""

FEW = 20
"""Calls that may have had the id of a parent."""


def otlp_lines(store: Store, query: Query, limit: int | None) -> Iterator[str]:
    """Yield lines of OTLP's JSON. Raise `Trouble` without OpenTelemetry."""
    _check_installed()
    from callsheet.telemetry.backfill import json_line

    for spans in _batches(store, query, limit):
        yield json_line(spans).decode()


def send_spans(store: Store, query: Query, limit: int | None, url: str | None) -> None:
    """Send the spans of calls to a URL, or to where the variables say. Raise `Trouble` if that fails."""
    _check_installed()
    from callsheet.telemetry.backfill import Sender

    sent = 0
    try:
        sender = Sender(url)
        for spans in _batches(store, query, limit):
            sender.send(spans)
            sent += len(spans)
        sender.close()
    except CallsheetError as exc:
        raise Trouble(f"{exc}; {plural(sent, 'span')} arrived before") from None
    click.echo(f"callsheet: {plural(sent, 'span')} sent to {sender.url}", err=True)


def _check_installed() -> None:
    if not is_installed():
        raise Trouble(NEEDS)


def _batches(store: Store, query: Query, limit: int | None) -> Iterator[Sequence[ReadableSpan]]:
    """Yield the spans of calls and of their turns. Each turn has its span once."""
    from callsheet.telemetry.backfill import AT_ONCE, collecting

    maker, collected = collecting()
    scopes: dict[tuple[str, str], TurnScope] = {}
    done: set[int] = set()
    for call in islice(whole_calls(store, query), limit):
        if call.head.is_open:
            continue
        key = call.head.session_id, _turn_of(store, call)
        scope = scopes.get(key)
        if scope is None:
            scope = scopes[key] = _scope(store, call, key[1])
            if len(scopes) > REMEMBERED:
                del scopes[next(iter(scopes))]
            maker.begin(scope)
            if scope.context.span_id not in done:
                done.add(scope.context.span_id)
                maker.end(scope)
        report = replace(call.record.report, tool_call_id=call.own_id)
        record = CallRecord(report, call.record.terminals)
        maker.call(record, scope, _ns(call.head.updated_at))
        if len(spans := collected.get_finished_spans()) >= AT_ONCE:
            yield spans
            collected.clear()
    if spans := collected.get_finished_spans():
        yield spans


def _scope(store: Store, call: StoredCall, turn_key: str) -> TurnScope:
    """Return what is known of the turn that a call belongs to; of its session, if it is in no turn."""
    from callsheet.telemetry.otel import TurnScope
    from callsheet.telemetry.trace_ids import received

    key = call.head.session_id
    session, turn = store.session(key), store.turn(key, turn_key) if turn_key else None
    origin = UNKNOWN if session is None else session.origin
    scope = TurnScope(key, turn_key, origin.agent, origin.agent_version, None, _ns(call.head.at))
    scope.ended = _ns(call.head.updated_at)
    if turn is not None:
        scope.began, scope.ended = _ns(turn.at), _ns(turn.ended_at or call.head.updated_at)
        scope.parent = received({"traceparent": turn.trace})
        scope.stop_reason, scope.usage = turn.stop_reason, turn.usage
    elif session is not None:
        scope.began, scope.ended = _ns(session.created_at), _ns(session.updated_at)
    return scope


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _turn_of(store: Store, call: StoredCall) -> str:
    """Return the turn of a call: if it is part of another one, that call's."""
    parent = call.record.report.parent_id
    if parent is None or not call.turn:
        return call.turn
    # Of those that had this id, it is the one that the same process has reported.
    log, _, _ = call.key.partition(" ")
    query = Query(session_id=call.head.session_id, id_part=parent, limit=FEW)
    same = (one for one in store.calls(query) if one.own_id == parent)
    return next((one.turn for one in same if one.key.partition(" ")[0] == log), call.turn)
