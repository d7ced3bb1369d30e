"""A receiver of OTLP over HTTP: it decodes what it is sent, and may be slow or refuse it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE = 30.0


class GotSpan(NamedTuple):
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    status: int
    status_text: str
    start: int
    end: int
    kind: int
    state: str


def value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)


def attributes_of(pairs: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


def spans_of(request: Any) -> list[GotSpan]:
    return [
        GotSpan(
            span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
            attributes_of(span.attributes), span.status.code, span.status.message,
            span.start_time_unix_nano, span.end_time_unix_nano, span.kind, span.trace_state,
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]  # fmt: skip


class OtlpReceiver:
    """What arrived. `status` is what is answered, after `delay` seconds."""

    def __init__(self) -> None:
        self.status: int = 200
        self.delay: float = 0.0
        self.requests: int = 0
        self.bodies: list[bytes] = []
        self.spans: list[GotSpan] = []
        self.resources: list[dict[str, Any]] = []
        self.points: dict[str, list[tuple[dict[str, Any], float]]] = {}
        self.released: Event = Event()
        self.url: str = ""

    def take(self, path: str, body: bytes) -> None:
        self.bodies.append(body)
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            self.resources += [
                attributes_of(one.resource.attributes) for one in request.resource_spans
            ]
            self.spans += spans_of(request)
        elif path == "/v1/metrics":
            request = ExportMetricsServiceRequest.FromString(body)
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        self._take_metric(metric)

    def _take_metric(self, metric: Any) -> None:
        if metric.WhichOneof("data") == "histogram":
            points = [(point.attributes, point.count) for point in metric.histogram.data_points]
        else:
            points = [(point.attributes, point.as_int) for point in metric.sum.data_points]
        self.points[metric.name] = [(attributes_of(pairs), number) for pairs, number in points]

    # What tests ask

    def wait(self, count: int = 1) -> list[GotSpan]:
        """Return the spans once there are so many."""
        until = time.monotonic() + PATIENCE
        while len(self.spans) < count and time.monotonic() < until:
            time.sleep(0.02)
        assert len(self.spans) >= count, [span.name for span in self.spans]
        return self.spans

    def tools(self) -> list[GotSpan]:
        return [span for span in self.spans if span.name.startswith("execute_tool")]

    def agents(self) -> list[GotSpan]:
        return [span for span in self.spans if span.name.startswith("invoke_agent")]

    def one(self, name: str) -> GotSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def holds(self, text: str) -> bool:
        return any(text.encode() in body for body in self.bodies)


@contextmanager
def otlp_receiver(**settings: Any) -> Generator[OtlpReceiver]:
    """Run a receiver on loopback."""
    got = OtlpReceiver()
    for name, value in settings.items():
        setattr(got, name, value)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.requests += 1
            if got.delay:
                got.released.wait(got.delay)
            if got.status == 200:
                got.take(self.path, body)
            self.send_response(got.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    got.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield got
    finally:
        got.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
