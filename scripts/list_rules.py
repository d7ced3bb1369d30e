"""List the rules of `callsheet check` in the document that explains it.

The document says where by a pair of marks. `--check` writes nothing, and fails where the list is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from callsheet.check.finding import CATEGORIES, CheckRule
from callsheet.check.rules import RULES

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "check.md"
BEGIN, END = "<!-- rules: listed by `make diagrams` -->", "<!-- /rules -->"


def table(rules: tuple[CheckRule, ...] = RULES) -> str:
    """Return the table, in the order of the categories."""
    lines = ["| rule | severity | what is wrong | why it matters |", "|---|---|---|---|"]
    for category in CATEGORIES:
        for rule in (rule for rule in rules if rule.category == category):
            cells = (f"`{rule.id}`", rule.severity, rule.title, rule.harm)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Return the document with the table as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    """List, or check."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if text == with_table(text):
        return
    if "--check" in sys.argv:
        sys.exit("the table of rules in docs/check.md is stale; run `make diagrams`")
    DOCUMENT.write_text(with_table(text), encoding="utf-8")
    print("listed anew: docs/check.md")


if __name__ == "__main__":
    main()
