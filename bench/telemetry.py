"""What OpenTelemetry spans cost a call: its own thread, and the thread that makes the spans.

The calls are of a session whose tool answers a word, or a page of two thousand characters, with a client at
a callback. Each round runs them without a sink for spans, and with one, in turns: CPU time of the thread
that runs the tools, which is what a tool waits for; and that of the thread that makes spans, with the SDK's
own work on them, up to an exporter that does nothing. The network is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
from time import process_time, thread_time

from callsheet import Session, tool

from .pipes import run_module
from .table import Claim, Figures, Subject
from .timing import summarise
from .work import PATH, TEXT

PROCESSES = 5
ROUNDS = 9
CALLS = 1000
LIMIT = 12
"""Microseconds that a call's own thread may take longer."""

Took = dict[str, dict[str, list[float]]]
"""CPU microseconds per call, by tool, column and round."""


async def word(path: str) -> str:
    """Say something short."""
    return path[-2:]


async def page(path: str) -> str:
    """Say something long."""
    return TEXT if path else ""


def measure() -> Subject:
    """Time both, in several processes."""
    took: Took = {}
    for _ in range(PROCESSES):
        found = run_module("bench.telemetry", f"--rounds={ROUNDS}", timeout=300)
        for name, columns in found.items():
            for column, values in columns.items():
                took.setdefault(name, {}).setdefault(column, []).extend(values)
    rows: list[tuple[str, ...]] = []
    claims: list[Claim] = []
    figures: Figures = {}
    for name, columns in took.items():
        found = {column: summarise(values) for column, values in columns.items()}
        pairs = zip(columns["with"], columns["without"], strict=True)
        added = summarise([one - other for one, other in pairs])
        cells = (f"{found[column].median:.1f}" for column in ("without", "with"))
        spans = f"{found['spans'].median:.1f}"
        rows.append((f"a tool that answers a {name}", *cells, f"{added.median:.1f}", spans))
        text = f"spans of calls that answer a {name}: added to the call's own thread"
        claims.append(Claim(text, added.median, LIMIT, unit=" µs"))
        figures[name] = {
            **{f"{column}_cpu_microseconds": one.rounded() for column, one in found.items()},
            "added_cpu_microseconds": added.rounded(),
        }
    notes = [
        f"CPU time per call; {PROCESSES} processes, in each {ROUNDS} rounds of {CALLS} calls, in turns;"
        " what is added is the median of the rounds' own differences",
        "the thread that makes spans works beside the tools: nobody waits for it",
    ]
    head = ("a call with spans", "without", "with", "added", "span thread")
    return Subject("Telemetry, µs of CPU per call", head, rows, claims, notes, figures)


# In a process of its own


async def _time(name: str, rounds: int) -> dict[str, list[float]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

    from callsheet.telemetry.otel import OtelSink

    class Nowhere(SpanExporter):
        def export(self, spans: object) -> None:  # type: ignore[override]
            del spans

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Nowhere()))
    took: dict[str, list[float]] = {"without": [], "with": [], "spans": []}
    sink = OtelSink(provider, agent="bench")
    tools = [tool(word), tool(page)]
    async with (
        Session(tools=tools, builtin=False, on_update=len) as plain,
        Session(tools=tools, builtin=False, on_update=len, sinks=[sink]) as spanned,
    ):
        for turn in range(rounds + 1):
            both = [("without", plain), ("with", spanned)]
            for column, session in both if turn % 2 else reversed(both):
                gc.collect()
                began, began_all = thread_time(), process_time()
                for _ in range(CALLS):
                    await session.run(name, {"path": PATH})
                own = thread_time() - began
                sink.flush(60)
                others = process_time() - began_all - (thread_time() - began)
                if turn:  # the first round warms up
                    took[column].append(own / CALLS * 1e6)
                    if column == "with":
                        took["spans"].append(others / CALLS * 1e6)
    return took


def main() -> None:
    """Time one process, and print what it took as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    gc.freeze()
    print(json.dumps({one: asyncio.run(_time(one, rounds)) for one in ("word", "page")}))


if __name__ == "__main__":
    main()
