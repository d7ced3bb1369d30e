"""Runs the subjects one after the other, prints them, and writes `bench/results.json`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from . import (
    adapters,
    agent_start,
    agent_turn,
    checking,
    dashboards,
    executing,
    fleet,
    history_ingest,
    history_life,
    history_lookup,
    imports,
    inspector,
    life,
    life_pipe,
    machine,
    million,
    reading,
    redaction,
    searching,
    slow_peers,
    streaming,
    tap_latency,
    tapping,
    telemetry,
)
from .table import Subject, show, show_claims

RESULTS = Path(__file__).with_name("results.json")
SUBJECTS: dict[str, Callable[[argparse.Namespace], Subject]] = {
    "life": lambda _: life.measure(),
    "life_pipe": lambda _: life_pipe.measure(),
    "streaming": lambda _: streaming.measure(),
    "slow_peers": lambda _: slow_peers.measure(),
    "redaction": lambda _: redaction.measure(),
    "executing": lambda _: executing.measure(),
    "adapters": lambda _: adapters.measure(),
    "reading": lambda _: reading.measure(),
    "agent_start": lambda _: agent_start.measure(),
    "agent_turn": lambda _: agent_turn.measure(),
    "searching": lambda _: searching.measure(),
    "history_ingest": lambda _: history_ingest.measure(),
    "history_lookup": lambda _: history_lookup.measure(),
    "history_life": lambda _: history_life.measure(),
    "fleet": lambda _: fleet.measure(),
    "inspector": lambda _: inspector.measure(),
    "dashboards": lambda _: dashboards.measure(),
    "checking": lambda options: checking.measure(options.megabytes),
    "tapping": lambda _: tapping.measure(),
    "tap_latency": lambda _: tap_latency.measure(),
    "telemetry": lambda _: telemetry.measure(),
    "imports": lambda _: imports.measure(),
    "million": lambda options: million.measure(options.calls),
}


def main() -> None:
    """Run what was asked for. A missed claim is said, and is no error."""
    options = _options()
    facts = machine.facts()
    print("  ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    done: dict[str, Subject] = {}
    for name in options.only or SUBJECTS:
        done[name] = SUBJECTS[name](options)
        show(done[name])
    show_claims(done.values())
    if options.only or (options.calls, options.megabytes) != (million.CALLS, checking.MEGABYTES):
        print("Not the whole bench: results.json stays as it was.")
        return
    results = {"machine": facts, **{name: subject.figures() for name, subject in done.items()}}
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print("Written: bench/results.json")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Callsheet and its peers.")
    parser.add_argument(
        "only", nargs="*", metavar="subject", help=f"run just these: {', '.join(SUBJECTS)}"
    )
    parser.add_argument(
        "--calls", type=int, default=million.CALLS, help="how many calls go through one ledger"
    )
    parser.add_argument(
        "--megabytes", type=int, default=checking.MEGABYTES, help="how big a recording is checked"
    )
    options = parser.parse_args()
    if unknown := set(options.only) - set(SUBJECTS):
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    return options


if __name__ == "__main__":
    main()
