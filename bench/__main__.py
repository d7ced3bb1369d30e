"""Runs the subjects one after the other, prints them, and writes `bench/results.json`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from . import imports, life, machine, million, redaction
from .table import Subject, show, show_claims

RESULTS = Path(__file__).with_name("results.json")
SUBJECTS = ("life", "imports", "redaction", "million")


def main() -> None:
    """Run what was asked for. A missed claim is said, and is no error."""
    options = _options()
    facts = machine.facts()
    print("  ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    done: dict[str, Subject] = {}
    for name in options.only or SUBJECTS:
        done[name] = _run(name, options)
        show(done[name])
    show_claims(done.values())
    if options.only or options.calls != million.CALLS:
        print("Not the whole bench: results.json stays as it was.")
        return
    results = {"machine": facts, **{name: subject.figures() for name, subject in done.items()}}
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print("Written: bench/results.json")


def _run(name: str, options: argparse.Namespace) -> Subject:
    if name == "million":
        return million.measure(options.calls)
    return {"life": life, "imports": imports, "redaction": redaction}[name].measure()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Callsheet and its peers.")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="run just this subject")
    parser.add_argument(
        "--calls", type=int, default=million.CALLS, help="how many calls go through one ledger"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
