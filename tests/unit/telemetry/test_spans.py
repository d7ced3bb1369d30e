"""What is in spans, with a provider in this process."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import (  # pyright: ignore[reportMissingTypeStubs]
    gen_ai_attributes,
)
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanContext

from callsheet import Session
from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage
from callsheet.telemetry.otel import OtelSink
from callsheet.telemetry.spans import CAPTURE

START = "2025-06-15T12:00:00.000Z"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def ids(context: SpanContext | None) -> tuple[int, int, bool] | None:
    return None if context is None else (context.trace_id, context.span_id, context.is_remote)


def span_of_turn(
    provider: TracerProvider, exporter: InMemorySpanExporter, reason: str, usage: TokenUsage
) -> ReadableSpan:
    sink = OtelSink(provider, session_id="s", agent="worker", version="1")
    sink.begin_turn()
    sink.end_turn(reason, usage)
    assert sink.flush()
    (span,) = exporter.get_finished_spans()
    return span


@pytest.mark.parametrize(
    ("into", "total"), [(1000, 10_100), (1000, None), (10_000, 10_100)], ids=str
)
def test_what_was_cached_is_in_the_input_once(
    provider: TracerProvider, exporter: InMemorySpanExporter, into: int, total: int | None
) -> None:
    usage = TokenUsage(
        input_tokens=into, output_tokens=100, cached_read_tokens=9000, total_tokens=total, model="m"
    )
    found = span_of_turn(provider, exporter, "end_turn", usage).attributes or {}
    assert found["gen_ai.usage.input_tokens"] == 10_000
    assert found["gen_ai.usage.cache_read.input_tokens"] == 9000
    assert found["gen_ai.usage.output_tokens"] == 100
    assert found["gen_ai.request.model"] == "m"


def test_tokens_that_nobody_has_reported_are_left_out(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    found = span_of_turn(provider, exporter, "end_turn", TokenUsage(cost=0.5, currency="USD"))
    names = {name for name in found.attributes or {} if "usage" in name or "token" in name}
    assert names == set()


def test_what_a_call_does_in_a_later_turn_is_still_below_it(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    def report(key: str, status: ToolCallStatus, parent: str | None = None) -> None:
        meta = {} if parent is None else {"callsheet": {"parentId": parent}}
        made = ToolCallReport(tool_call_id=key, name=key, status=status, meta=meta)
        sink.send(deque([CallRecord(made)]))

    sink = OtelSink(provider, session_id="s")
    sink.begin_turn("1")
    report("outer", ToolCallStatus.IN_PROGRESS)
    sink.end_turn("end_turn")
    sink.begin_turn("2")
    report("inner", ToolCallStatus.COMPLETED, "outer")
    report("outer", ToolCallStatus.COMPLETED)
    report("other", ToolCallStatus.COMPLETED)
    sink.end_turn("end_turn")
    assert sink.flush()
    found = {
        span.name: (ids(span.context), ids(span.parent)) for span in exporter.get_finished_spans()
    }
    first, second = (
        ids(span.context) for span in exporter.get_finished_spans() if "agent" in span.name
    )
    assert found["execute_tool outer"][1] == first
    assert found["execute_tool inner"][1] == found["execute_tool outer"][0]
    assert found["execute_tool other"][1] == second


ODD: list[dict[str, Any]] = [
    {"startedAt": "9999-12-31T00:00:00Z"},
    {"startedAt": "1900-01-01T00:00:00Z", "endedAt": "1900-01-02T00:00:00Z"},
    {"startedAt": START, "durationMs": 1e308},
    {"startedAt": START, "durationMs": 1e15},
    {"startedAt": START, "durationMs": -5},
    {"startedAt": 5, "endedAt": []},
    {"redactions": 10**30},
    {"parentId": 7, "alias": [1], "batchId": {}},
    {"permission": {"outcome": {}, "by": [1], "waitedMs": 10**30}, "usage": {"cpuMs": 10**30}},
    {"repaired": [None, {}, 5], "startedAt": START, "durationMs": True},
]


@pytest.mark.parametrize("notes", ODD, ids=str)
def test_odd_notes_of_an_agent_lose_no_span(
    provider: TracerProvider, exporter: InMemorySpanExporter, notes: dict[str, Any]
) -> None:
    figures = InMemoryMetricReader()
    sink = OtelSink(provider, session_id="s", meter_provider=MeterProvider([figures]))
    for meta in ({"callsheet": notes}, {}):
        made = ToolCallReport(
            tool_call_id="c", name="t", status=ToolCallStatus.COMPLETED, meta=meta
        )
        sink.send(deque([CallRecord(made)]))
    assert sink.flush()
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["execute_tool t"] * 2
    assert encode_spans(spans).ByteSize()
    data = figures.get_metrics_data()
    assert data is not None
    assert encode_metrics(data).ByteSize()


async def test_names_are_those_of_the_conventions_or_under_one_name_of_ours(
    provider: TracerProvider, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    sink = OtelSink(provider, session_id="s", agent="worker", version="1")
    async with Session("s", sinks=[sink], builtin=False) as session:
        sink.begin_turn()
        async with session.call("outer", {"a": 1}) as outer:
            async with outer.call("inner", kind="read") as inner:
                inner.succeed("done")
            outer.fail("no", reason="tool_error")
        await session.flush()
        counts = dict.fromkeys(
            ("input_tokens", "output_tokens", "cached_read_tokens", "cached_write_tokens",
             "thought_tokens", "context_used", "context_size"), 5,
        )  # fmt: skip
        used = TokenUsage(**counts, total_tokens=25, model="m", cost=1.0, currency="USD")
        sink.end_turn("error", used)
    assert sink.flush()
    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} == {
        "execute_tool outer",
        "execute_tool inner",
        "invoke_agent worker",
    }
    names = {name for span in spans for name in span.attributes or {}}
    assert {name for name in names if name not in known} == {
        name for name in names if name.startswith("callsheet.")
    }
    assert {"gen_ai.tool.call.arguments", "gen_ai.usage.reasoning.output_tokens"} <= names
