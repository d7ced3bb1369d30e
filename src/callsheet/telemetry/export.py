"""Where spans and figures go: OpenTelemetry's own exporters, set up by its standard variables.

OpenTelemetry logs each failure of an export. Users are told once, in a line, and what can't be sent is
dropped. The end of a process does not wait for an endpoint that fails.

Python 3.12 starts no thread once the main thread has ended, which in a short process may come before anything
here. So a thread that is needed at the end is started at the beginning, and where that is too late, what it
would do is done in place: all spans are sent in one batch at the end, and not again if that fails.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from math import inf

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
)

from callsheet.report.errors import CallsheetError
from callsheet.telemetry import exporters, say


class BadTelemetry(CallsheetError):
    """An `OTEL_*` variable asks for what can't be done, or spans can't be sent."""


_SENDERS = (
    "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.sdk.metrics._internal.export",
)
"""Those whose warnings are of what can't be sent. Others doubt an attribute, or a client's `tracestate`."""


class Endpoint(logging.Handler):
    """What is known of the endpoint: it hears what OpenTelemetry logs, and tells the user once."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(logging.WARNING)
        self.spans: str = ""
        self.figures: str = ""
        self.why: str = "no reason is known"
        self.is_set_up: bool = quiet
        self._is_told: bool = quiet
        self.done: threading.Event = threading.Event()
        """Set when there is nothing to wait for: all is sent, or can't be."""
        self.give_up: list[Callable[..., object]] = []
        """Called when something can't be sent: exporters don't try again where that delays the end."""
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of a failure, or of a variable that is wrong."""
        if record.name.startswith("opentelemetry.util"):
            record.args = ("(hidden)",)  # of a header, which may be a key
        text = " ".join(record.getMessage().split())[:200]
        if not self.is_set_up:
            say(text)
        elif record.name.startswith(_SENDERS):
            self.why = text
            self.done.set()
            while self.give_up:
                self.give_up.pop()()  # this logs a warning as well
            if not self._is_told:
                self._is_told = True
                url = self.figures if "metric" in record.name else self.spans
                say(f"what is sent does not reach {url}, and is dropped ({text})")


def own_providers() -> tuple[TracerProvider, MeterProvider | None, Callable[[float], bool]]:
    """Return providers that export as the standard variables say, and what stops them by a monotonic time.

    That returns whether all is sent, or known to be lost.

    Raises:
        BadTelemetry: The variables ask for a protocol that there is no exporter for.
    """
    endpoint, resource = Endpoint(), own_resource()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    readers: list[PeriodicExportingMetricReader] = []
    for name in _chosen("TRACES"):
        if name == "otlp":
            exporter = otlp_exporter()
            endpoint.spans = exporter._endpoint  # pyright: ignore[reportPrivateUsage]
        else:
            exporter = ConsoleSpanExporter(out=sys.stderr)  # stdout belongs to ACP
        provider.add_span_processor(_processor(exporter, endpoint))
    for name in _chosen("METRICS"):
        if name == "otlp":
            _check_protocol("METRICS")
            figures = OTLPMetricExporter()
            endpoint.figures = figures._endpoint  # pyright: ignore[reportPrivateUsage]
        else:
            figures = ConsoleMetricExporter(out=sys.stderr)
        readers.append(_reader(figures, endpoint))
    meters = MeterProvider(readers, resource, shutdown_on_exit=False) if readers else None
    endpoint.is_set_up = True

    ending = threading.Event()

    def stop() -> None:
        ending.wait()
        try:
            provider.shutdown()
            if meters is not None:
                if not is_beside:
                    meters.force_flush()  # else a thread of the reader does it
                meters.shutdown()
        finally:
            endpoint.done.set()

    def stop_by(until: float) -> bool:
        endpoint.done.clear()  # it may work again
        ending.set()
        if not is_beside:
            stop()
        # Of a failure, users are told.
        return endpoint.done.wait(max(0.0, until - time.monotonic()))

    try:
        threading.Thread(target=stop, name="callsheet-spans-stop", daemon=True).start()
        is_beside = True
    except RuntimeError:
        is_beside = False
    return provider, meters, stop_by


class LastBatch(SpanProcessor):
    """Sends all spans when it is shut down: where no thread can be started any more, that is soon."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter: SpanExporter = exporter
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span, if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._spans.append(span)

    def shutdown(self) -> None:
        """Send the spans."""
        self._exporter.export(self._spans)
        self._exporter.shutdown()


def _processor(exporter: SpanExporter, endpoint: Endpoint) -> SpanProcessor:
    try:
        return BatchSpanProcessor(exporter)
    except RuntimeError:  # no thread can be started
        endpoint.give_up.append(exporter.shutdown)
        return LastBatch(exporter)


def _reader(exporter: MetricExporter, endpoint: Endpoint) -> PeriodicExportingMetricReader:
    try:
        return PeriodicExportingMetricReader(exporter)
    except RuntimeError:  # no thread can be started: the figures are sent at the end
        endpoint.give_up.append(exporter.shutdown)  # pyright: ignore
        return PeriodicExportingMetricReader(exporter, export_interval_millis=inf)


def _chosen(signal: str) -> set[str]:
    """Return the exporters that the variables name, and say which there are none of."""
    found = exporters(signal)
    if others := sorted(found - {"otlp", "console"}):
        say(f"OTEL_{signal}_EXPORTER={','.join(others)}: expected otlp, console or none")
    return found.difference(others)


def otlp_exporter(url: str | None = None) -> OTLPSpanExporter:
    """Return the exporter to a URL, such as http://127.0.0.1:4318, or to where the variables say.

    Raises:
        BadTelemetry: The variables ask for another protocol, or the URL is none.
    """
    if url is None:
        _check_protocol("TRACES")
        return OTLPSpanExporter()
    if not url.startswith(("http://", "https://")):
        raise BadTelemetry(f"{url!r}: expected a URL such as http://127.0.0.1:4318")
    path = "" if url.rstrip("/").endswith("/v1/traces") else "/v1/traces"
    return OTLPSpanExporter(url.rstrip("/") + path)


def own_resource() -> Resource:
    """Return what the spans of this process are of. The standard variables may say otherwise."""
    # Not `Resource.create`, which starts a thread: that is not possible when a process ends.
    mine = {
        "service.name": "callsheet",
        "service.version": version("callsheet"),
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": version("opentelemetry-sdk"),
    }
    return Resource(mine).merge(OTELResourceDetector().detect())


def _check_protocol(signal: str) -> None:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(name, "").strip()
        if protocol == "http/protobuf":
            return
        if protocol:
            raise BadTelemetry(f"{name}={protocol}: expected http/protobuf, mostly on port 4318")
