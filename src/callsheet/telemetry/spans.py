"""Spans and figures of turns and calls, by OpenTelemetry's GenAI semantic conventions.

What the conventions have no name for is under `callsheet.`. Arguments, results, and the titles made from them
are content, which is only sent where `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for it. It is
redacted already, as all that a report holds.

A call's span is made when the call has ended, so its parent's may not exist yet. That does no harm: its id is
known (`trace_ids`). A tracer asks an `IdGenerator` for ids: the maker itself, which answers what it has set.
"""

from __future__ import annotations

import os
from datetime import datetime
from importlib.metadata import version
from typing import Any

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.span import TraceState

from callsheet.limits.text import bound_text
from callsheet.report.content import DiffContent, TextContent
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage
from callsheet.telemetry.otel import TurnScope
from callsheet.telemetry.prices import billed
from callsheet.telemetry.trace_ids import call_span_id

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = ("true", "1", "span_only", "span_and_event")

LONGEST = 1 << 14
"""Bytes of arguments, and of a result, that are sent at most: what waits to be sent is in memory."""

MOST_NAMES = 200
"""Names of tools that have figures of their own. An agent may make up any number of them."""

LONGEST_CALL, MOST_REDACTIONS = 1e11, 1 << 31
"""Milliseconds, and a count, that are still believed where an agent reports them."""

# As the conventions want them for the durations of tools, in seconds.
_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]

_TOKENS = {
    "cached_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cached_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "thought_tokens": "gen_ai.usage.reasoning.output_tokens",
    "total_tokens": "callsheet.usage.total_tokens",
    "model": "gen_ai.request.model",
    "cost": "callsheet.cost",
    "currency": "callsheet.cost.currency",
    "cost_source": "callsheet.cost.source",
    "context_used": "callsheet.context.used",
    "context_size": "callsheet.context.size",
}

Attributes = dict[str, Any]


class SpanMaker(IdGenerator):
    """Makes spans of turns and calls, and counts them. It belongs to one thread.

    Args:
        tracer_provider: The provider whose processors get the spans.
        meter_provider: Where the figures go. Default: the process's, if it has set one.
    """

    def __init__(
        self, tracer_provider: TracerProvider, meter_provider: MeterProvider | None = None
    ) -> None:
        self.captures: bool = os.environ.get(CAPTURE, "").strip().lower() in _CAPTURES
        self._tracer: Any = tracer_provider.get_tracer("callsheet", version("callsheet"))
        self._tracer.id_generator = self
        self._trace_id: int = 1
        self._span_id: int = 1
        meter = (meter_provider or get_meter_provider()).get_meter(
            "callsheet", version("callsheet")
        )
        self._names: set[str] = set()
        self._duration = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            "s",
            "How long tools ran.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._calls = meter.create_counter("callsheet.calls", "{call}", "Calls that have ended.")
        self._failures = meter.create_counter("callsheet.failures", "{call}", "Calls that failed.")
        self._redactions = meter.create_counter(
            "callsheet.redactions", "{secret}", "Secrets that were redacted in reports."
        )

    def generate_trace_id(self) -> int:
        """Return the id of the trace that is begun."""
        return self._trace_id

    def generate_span_id(self) -> int:
        """Return the id of the span that is begun."""
        return self._span_id

    # Turns

    def begin(self, scope: TurnScope) -> None:
        """Start the span of a turn, so that it is decided whether it is sampled."""
        own, parent, context = scope.context, scope.parent, Context()
        if parent is not None:
            state = TraceState.from_header([parent.state] if parent.state else [])
            flags = trace.TraceFlags(parent.flags)
            context = _below(SpanContext(parent.trace_id, parent.span_id, True, flags, state))
        self._trace_id, self._span_id = own.trace_id, own.span_id
        scope.span = self._tracer.start_span(
            f"invoke_agent {scope.agent}".strip(),
            context,
            SpanKind.INTERNAL,
            _known(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.conversation.id": scope.session_id,
                    "gen_ai.agent.name": scope.agent,
                    "gen_ai.agent.version": scope.version,
                    "callsheet.turn": scope.key,
                }
            ),
            start_time=scope.began,
        )

    def end(self, scope: TurnScope) -> None:
        """End the span of a turn."""
        span: Span = scope.span
        agent = {"gen_ai.agent.name": scope.agent, "gen_ai.agent.version": scope.version}
        span.update_name(f"invoke_agent {scope.agent}".strip())  # it may be known only now
        span.set_attributes(_known(agent))
        if scope.stop_reason:
            span.set_attribute("callsheet.stop_reason", scope.stop_reason)
        if scope.stop_reason == "error":
            span.set_attribute("error.type", "_OTHER")
            span.set_status(Status(StatusCode.ERROR))
        if scope.usage is not None:
            span.set_attributes(_usage(scope.usage))
        span.end(max(scope.ended, scope.began))

    # Calls

    def call(self, record: CallRecord, scope: TurnScope, seen: int) -> None:
        """Make the span of a call that has ended.

        Args:
            record: The call.
            scope: The turn that it belongs to.
            seen: When it ended, in nanoseconds, if it does not say so itself.
        """
        report, above = record.report, scope.span.get_span_context()
        if report.parent_id is not None:
            span_id = call_span_id(scope.session_id, scope.key, report.parent_id)
            flags, state = above.trace_flags, above.trace_state
            above = SpanContext(above.trace_id, span_id, False, flags, state)
        began, ended = _times(report, seen)
        attributes = self._attributes(record, scope)
        self._span_id = call_span_id(scope.session_id, scope.key, report.tool_call_id)
        self._count(report, (ended - began) / 1e9)
        span: Span = self._tracer.start_span(
            f"execute_tool {report.name or 'unknown'}",
            _below(above),
            SpanKind.INTERNAL,
            attributes,
            start_time=began,
        )
        if report.status is ToolCallStatus.FAILED:
            span.set_status(Status(StatusCode.ERROR, attributes["error.type"]))
        span.end(ended)

    def _attributes(self, record: CallRecord, scope: TurnScope) -> Attributes:
        report, notes = record.report, record.report.notes
        decision, repaired = notes.get("permission"), notes.get("repaired")
        used = notes.get("usage")
        made: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": report.name or "unknown",
            "gen_ai.tool.call.id": report.tool_call_id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": scope.session_id,
            "gen_ai.agent.name": scope.agent,
            "callsheet.kind": str(report.kind),
            "callsheet.status": str(report.status),
            "callsheet.parent.id": report.parent_id,
            "callsheet.batch.id": notes.get("batchId"),
            "callsheet.alias": report.alias,
            "callsheet.redactions": notes.get("redactions"),
        }
        if is_object(decision):
            made["callsheet.permission.outcome"] = decision.get("outcome")
            made["callsheet.permission.by"] = decision.get("by")
            made["callsheet.permission.waited_ms"] = decision.get("waitedMs")
        if is_list(repaired):
            made["callsheet.repaired"] = [str(one) for one in repaired]
        if is_object(used):
            made["callsheet.cpu_ms"] = used.get("cpuMs")
        if report.status is ToolCallStatus.FAILED:
            made["error.type"] = _error_type(report)
        if self.captures:
            made["callsheet.title"] = report.title
            made["gen_ai.tool.call.arguments"] = _json_text(report.raw_input)
            made["gen_ai.tool.call.result"] = _result(record)
        return _known(made)

    def _count(self, report: ToolCallReport, seconds: float) -> None:
        name = report.name or "unknown"
        if name not in self._names and len(self._names) >= MOST_NAMES:
            name = "_OTHER"
        self._names.add(name)
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        self._calls.add(1, {**tool, "callsheet.status": str(report.status)})
        if report.status is ToolCallStatus.FAILED:
            tool["error.type"] = _error_type(report)
            self._failures.add(1, tool)
        if "startedAt" in report.notes:
            self._duration.record(seconds, tool)
        hidden = report.notes.get("redactions")
        if isinstance(hidden, int) and 0 < hidden <= MOST_REDACTIONS:
            self._redactions.add(hidden, {"gen_ai.tool.name": name})


def _usage(usage: TokenUsage) -> Attributes:
    used: Attributes = {named: getattr(usage, name) for name, named in _TOKENS.items()}
    for name in ("input_tokens", "output_tokens"):  # these two have all kinds of tokens in them
        if getattr(usage, name) is not None:
            used[f"gen_ai.usage.{name}"] = billed(usage)[name]
    return _known(used)


def _below(parent: SpanContext) -> Context:
    """Return the context of a span's children."""
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _times(report: ToolCallReport, seen: int) -> tuple[int, int]:
    """Return when a call began and ended, in nanoseconds. `seen` is when it was seen to end."""
    notes = report.notes
    began, duration = _nanoseconds(notes.get("startedAt")), notes.get("durationMs")
    if began is not None and isinstance(duration, (int, float)) and 0 <= duration <= LONGEST_CALL:
        ended = began + round(duration * 1e6)  # finer than the milliseconds of the times
    elif (ended := _nanoseconds(notes.get("endedAt"))) is None:
        ended = seen
    began = ended if began is None else began
    return began, max(began, ended)


def _nanoseconds(time: JsonValue) -> int | None:
    """Return a time in nanoseconds since 1970, if OTLP has room for it: else all its batch would be lost."""
    try:
        found = round(datetime.fromisoformat(str(time)).timestamp() * 1000) * 1_000_000
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < 1 << 63 else None


def _error_type(report: ToolCallReport) -> str:
    return str(report.reason or "_OTHER")


def _known(attributes: Attributes) -> Attributes:
    """Return the attributes that have a value, and one that a span takes."""
    return {
        name: value
        for name, value in attributes.items()
        if (isinstance(value, (str, list)) and value) or isinstance(value, (int, float))
    }


# Content


def _json_text(value: JsonValue) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return str(bound_text(text, LONGEST).value)


def _result(record: CallRecord) -> str:
    """Return what a tool has returned: the raw output with what its terminals show, else what is shown."""
    report = record.report
    outputs = [one.tail[-LONGEST:].decode("utf-8", "replace") for one in record.terminals]
    output, raw = "\n".join(filter(None, outputs)), report.raw_output
    if raw is None:
        shown = [item.text for item in report.content if type(item) is TextContent]
        shown += [
            f"{change.operation} {change.path}"
            for item in report.content
            if type(item) is DiffContent
            for change in item.changes
        ]
        return _json_text("\n".join(filter(None, (*shown, output))))
    if output and is_object(raw) and "output" not in raw:
        raw = {**raw, "output": output}
    return _json_text(raw)
