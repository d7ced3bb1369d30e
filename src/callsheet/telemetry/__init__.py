"""Telemetry, usage and prices: what others measure and pay by.

`prices` and `budget` know what turns cost. All else makes OpenTelemetry spans and figures of turns and calls,
by the GenAI semantic conventions.

Whoever reports puts an entry into a queue, and goes on. A thread (`otel`) makes spans of the entries
(`spans`) and hands them to OpenTelemetry's own batching and export (`export`). So an endpoint that is slow or
dead disturbs no call. `trace_ids` makes the ids of spans from those of sessions, turns and calls: a call has
the same span, whether it is sent live or later from the history (`backfill`).

OpenTelemetry is imported only where the standard variables switch it on, and then by the thread.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec

TYPE_CHECKING = False  # an editor waits for our start
if TYPE_CHECKING:
    from callsheet.telemetry.otel import OtelSink

NEEDS = "OpenTelemetry is not installed: pip install 'callsheet[otel]'"

_said: set[str] = set()


def exporters(signal: str, environ: Mapping[str, str] = os.environ) -> set[str]:
    """Return the exporters that the standard variables name for `TRACES`, or for `METRICS`."""
    if chosen := environ.get(f"OTEL_{signal}_EXPORTER", "").strip():
        return {name.strip() for name in chosen.split(",")} - {"", "none"}
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return {"otlp"} if any(environ.get(name, "").strip() for name in endpoints) else set()


def is_on(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the standard `OTEL_*` variables ask for spans, or by name for figures alone."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    figures = environ.get("OTEL_METRICS_EXPORTER", "").strip() and exporters("METRICS", environ)
    return bool(figures or exporters("TRACES", environ))


def session_sink(session_id: str, *, agent: str = "", version: str = "") -> OtelSink | None:
    """Return a sink that makes spans of a session's calls, if the environment asks for that.

    Args:
        session_id: The session's id.
        agent: The name of the agent that makes the calls.
        version: Its version.
    """
    if not makes_spans():
        return None
    from callsheet.telemetry.otel import OtelSink

    return OtelSink(session_id=session_id, agent=agent, version=version)


def makes_spans() -> bool:
    """Return whether spans are asked for and can be made. If they can't, the user is told so."""
    if not is_on() or is_installed():
        return is_on()
    say(f"{NEEDS}. No spans are sent.")
    return False


def is_installed() -> bool:
    """Return whether OpenTelemetry's SDK and its exporter are installed."""
    try:
        return all(map(find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")))
    except ImportError:
        return False


def without_password(text: str) -> str:
    """Return a text without the names and passwords in its URLs."""
    return re.sub(r"(?<=//)[^/@\s]*@", "", text)


def say(text: str) -> None:
    """Write a message for the user to stderr, once."""
    text = without_password(text)
    if text not in _said:
        _said.add(text)
        with suppress(OSError, ValueError, AttributeError):  # None if it was closed from the start
            sys.stderr.write(f"callsheet: telemetry: {text}\n")
            sys.stderr.flush()
