"""List what becomes of each method and each update over the bridge, in the document that explains it.

The document says where by pairs of marks. `--check` writes nothing, and fails where a list is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from callsheet.tap.bridging.table import OTHER_UPDATES, V1_AGENT, V2_AGENT, Row, Table

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "tap-bridge.md"
TABLES = {1: V1_AGENT, 2: V2_AGENT}


def listed(table: Table, agent: int) -> str:
    """Return the lists of one direction."""
    updates = {f"`{kind}`": row for kind, row in table.updates.items()}
    parts = {
        "The client calls": {f"`{method}`": row for method, row in table.client.items()},
        "The agent calls": {f"`{method}`": row for method, row in table.agent.items()},
        "The agent tells (`session/update`)": {**updates, "any other": OTHER_UPDATES[agent]},
    }
    return "\n\n".join(_part(title, rows) for title, rows in parts.items())


def _part(title: str, rows: dict[str, Row]) -> str:
    lines = [f"| {title} | what becomes of it | how, or why not |", "|---|---|---|"]
    lines += [f"| {name} | {row.deed} | {row.words} |" for name, row in rows.items()]
    return "\n".join(lines)


def with_lists(text: str) -> str:
    """Return the document with the lists as they should be."""
    for agent, table in TABLES.items():
        begin = f"<!-- an agent of v{agent}: listed by `make diagrams` -->"
        end = f"<!-- /an agent of v{agent} -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{listed(table, agent)}\n{end}{after}"
    return text


def main() -> None:
    """List, or check."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if text == with_lists(text):
        return
    if "--check" in sys.argv:
        sys.exit("the tables in docs/tap-bridge.md are stale; run `make diagrams`")
    DOCUMENT.write_text(with_lists(text), encoding="utf-8")
    print("listed anew: docs/tap-bridge.md")


if __name__ == "__main__":
    main()
