"""Repairs all recordings under a directory, and prints a table of findings for docs/explanation/tap.md.

python scripts/tabulate_repairs.py ../shared/recordings
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from callsheet.check.engine import check_stream
from callsheet.report.humanize import bytes_text
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs

SEVERITIES = ("error", "warning", "advice")


def findings(data: bytes) -> Counter[tuple[str, str]]:
    """Count what the checker finds, by severity and rule."""
    return Counter((one.severity, one.rule) for one in check_stream(io.BytesIO(data)))


def agents(root: Path) -> Iterator[tuple[str, list[Path]]]:
    """Return the agents that have recordings, and these."""
    for directory in sorted(path for path in root.iterdir() if path.is_dir()):
        found = sorted(directory.glob("*.jsonl"))
        if found:
            yield directory.name, found


def row(name: str, recordings: list[Path]) -> tuple[str, Counter[tuple[str, str]]]:
    """Return an agent's line of the table, and what is still found."""
    before, after = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    calls = received = sent = hidden = 0
    for path in recordings:
        data = path.read_bytes()
        repairs = Repairs(TapSettings(locale="en"), spill=False)
        repaired = b"".join(repairs.repaired(io.BytesIO(data)))
        before += findings(data)
        after += findings(repaired)
        account = repairs.account
        calls, hidden = calls + account.calls, hidden + account.hidden
        received, sent = received + account.received, sent + account.sent
    cells = [name, str(len(recordings)), str(calls)]
    cells += [" · ".join(str(_of(found, one)) for one in SEVERITIES) for found in (before, after)]
    cells += [f"{bytes_text(received)} → {bytes_text(sent)}", str(hidden)]
    return "| " + " | ".join(cells) + " |", after


def _of(counts: Counter[tuple[str, str]], severity: str) -> int:
    return sum(count for (found, _), count in counts.items() if found == severity)


def main() -> None:
    """Print the table, and what is still found."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(
        "| agent | recordings | calls | errors · warnings · advice, before | after | bytes | secrets |"
    )
    print("|---|---|---|---|---|---|---|")
    left: dict[str, Counter[tuple[str, str]]] = {}
    for name, recordings in agents(Path(sys.argv[1])):
        line, left[name] = row(name, recordings)
        print(line, flush=True)
    print()
    for name, counts in left.items():
        for (severity, rule), count in sorted(counts.items()):
            print(f"{name}: {severity} {rule} {count}")


if __name__ == "__main__":
    main()
