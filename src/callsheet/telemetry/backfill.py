"""Stored calls as spans: sent to an endpoint, or written as lines of OTLP's JSON.

A span has the ids that it had live, or would have had (`trace_ids`). So what was sent before is not doubled.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import msgspec
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from callsheet.report.json import JsonObject
from callsheet.telemetry import without_password
from callsheet.telemetry.export import BadTelemetry, Endpoint, otlp_exporter, own_resource
from callsheet.telemetry.spans import SpanMaker

AT_ONCE = 256
"""Spans of one line, and of one request."""

_IDS = ("traceId", "spanId", "parentSpanId")


def collecting() -> tuple[SpanMaker, InMemorySpanExporter]:
    """Return a maker of spans, and where they are."""
    collected = InMemorySpanExporter()
    provider = TracerProvider(ALWAYS_ON, own_resource(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(collected))
    return SpanMaker(provider), collected


def json_line(spans: Sequence[ReadableSpan]) -> bytes:
    """Return spans as a line of OTLP's JSON, as its file format has it."""
    made = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in made["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                _write_ids(span)
                for link in span.get("links", ()):
                    _write_ids(link)
    return msgspec.json.encode(made) + b"\n"


def _write_ids(found: JsonObject) -> None:
    """Write ids in hexadecimal: OTLP wants that, where protobuf's JSON has base64."""
    for name in _IDS:
        if name in found:
            found[name] = b64decode(found[name]).hex()


class Sender:
    """Sends spans to an endpoint, and waits until it has taken them.

    Args:
        url: The endpoint. Default: the one that the standard variables name.

    Raises:
        BadTelemetry: The URL is none.
    """

    def __init__(self, url: str | None) -> None:
        exporter: Any = otlp_exporter(url)
        self.url: str = without_password(exporter._endpoint)
        self._exporter: SpanExporter = exporter
        self._endpoint: Endpoint = Endpoint(quiet=True)

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Send spans.

        Raises:
            BadTelemetry: The endpoint has not taken them.
        """
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            why = without_password(self._endpoint.why)
            raise BadTelemetry(f"{self.url} does not take the spans: {why}")

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()
