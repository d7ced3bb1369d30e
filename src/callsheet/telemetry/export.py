"""Where spans and figures go: OpenTelemetry's own exporters, set up by its standard variables.

OpenTelemetry logs each failure of an export. Users are told once, in a line, and what can't be sent is
dropped.
The end of a process does not wait for an endpoint that fails.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from callsheet.report.errors import CallsheetError
from callsheet.telemetry import say

GLANCE = 0.02
"""Seconds between two looks at whether what is left has been sent."""


class BadTelemetry(CallsheetError):
    """An `OTEL_*` variable asks for what can't be done, or spans can't be sent."""


class Endpoint(logging.Handler):
    """What is known of the endpoint: it hears what OpenTelemetry logs, and tells the user once."""

    def __init__(self, url: str, *, quiet: bool = False) -> None:
        super().__init__(logging.WARNING)
        self.url: str = url
        self.why: str = "no reason is known"
        self._is_told: bool = quiet
        self.fails: threading.Event = threading.Event()
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of a failure."""
        self.fails.set()
        self.why = " ".join(record.getMessage().split())[:200]
        if not self._is_told:
            self._is_told = True
            say(f"what is sent does not reach {self.url}, and is dropped ({self.why})")


def own_providers() -> tuple[TracerProvider, MeterProvider | None, Callable[[float], bool]]:
    """Return providers that export as the standard variables say, and what stops them by a monotonic time.

    That returns whether all is sent, or known to be lost.

    Raises:
        BadTelemetry: The variables ask for a protocol that there is no exporter for.
    """
    chosen = _names("OTEL_TRACES_EXPORTER", "otlp")
    resource = own_resource()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    endpoint = Endpoint("stderr")
    if "console" in chosen:
        import sys

        # stdout belongs to ACP.
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    if "otlp" in chosen:
        exporter = otlp_exporter()
        endpoint.url = exporter._endpoint  # pyright: ignore[reportPrivateUsage]
        provider.add_span_processor(BatchSpanProcessor(exporter))
    meters = _own_meters(resource)

    def stop() -> None:
        provider.shutdown()
        if meters is not None:
            meters.shutdown()

    def stop_by(until: float) -> bool:
        thread = threading.Thread(target=stop, name="callsheet-spans-end", daemon=True)
        endpoint.fails.clear()  # it may work again
        thread.start()
        while thread.is_alive() and time.monotonic() < until and not endpoint.fails.is_set():
            thread.join(GLANCE)
        return endpoint.fails.is_set() or not thread.is_alive()  # of a failure, users are told

    return provider, meters, stop_by


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


def _own_meters(resource: Resource) -> Any:
    """Return a provider of figures, if the variables name an endpoint for them."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    is_asked = any(os.environ.get(name, "").strip() for name in endpoints)
    if not is_asked or "otlp" not in _names("OTEL_METRICS_EXPORTER", "otlp"):
        return None
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    _check_protocol("METRICS")
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return SdkMeterProvider([reader], resource=resource, shutdown_on_exit=False)


def _names(variable: str, default: str) -> set[str]:
    given = os.environ.get(variable, "").strip() or default
    return {name.strip() for name in given.split(",")}


def _check_protocol(signal: str) -> None:
    general = "OTEL_EXPORTER_OTLP_PROTOCOL"
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", general):
        protocol = os.environ.get(name, "").strip()
        if protocol == "http/protobuf":
            return
        if protocol:
            raise BadTelemetry(
                f"{name}={protocol}: expected http/protobuf, whose port is mostly 4318"
            )
