"""Draw the life of a call out of the transition table, into the documents that show it.

A document says where by a pair of marks. `--check` writes nothing, and fails where a drawing is
stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from callsheet.report.status import MOVES, ToolCallStatus

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/lifecycle.md")
BEGIN, END = "<!-- lifecycle: drawn by `make diagrams` -->", "<!-- /lifecycle -->"


def draw() -> str:
    """Return the table as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR", "    [*] --> pending"]
    for old in ToolCallStatus:
        lines += [f"    {old} --> {new}" for new in ToolCallStatus if new in MOVES[old]]
    lines += [f"    {status} --> [*]" for status in ToolCallStatus if status.is_final]
    return "\n".join([*lines, "```"])


def with_drawing(text: str) -> str:
    """Return a document with the drawing as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{draw()}\n{END}{after}"


def main() -> None:
    """Draw, or check."""
    stale = False
    for name in DOCUMENTS:
        document = ROOT / name
        text = document.read_text(encoding="utf-8")
        if text == with_drawing(text):
            continue
        stale = True
        if "--check" not in sys.argv:
            document.write_text(with_drawing(text), encoding="utf-8")
            print(f"drawn anew: {name}")
    if stale and "--check" in sys.argv:
        sys.exit("a diagram is stale; run `make diagrams`")


if __name__ == "__main__":
    main()
