"""`--explain`: what a rule holds people to, and why."""

from __future__ import annotations

from callsheet.check.finding import CheckRule

from .page import STYLES, Page


def explain(page: Page, rules: tuple[CheckRule, ...]) -> None:
    """Say of each rule what the protocol says, why people suffer, how to fix it, and show an example."""
    for number, rule in enumerate(rules):
        if number:
            page.blank()
        client = f", with --client {' or '.join(rule.clients)}" if rule.clients else ""
        page.line(
            (rule.id, "bold"),
            (f"  {rule.severity}", STYLES[rule.severity]),
            (client, "dim"),
        )
        page.line((f"{rule.title}.", ""))
        page.blank()
        facts = (("Protocol", rule.protocol), ("Why", rule.harm), ("Fix", rule.fix))
        for name, said in facts:
            page.line((f"{name + ':':10}", "bold"), (said, ""), hang=10)
        if rule.example:
            page.blank()
            page.line(("Example:", "bold"))
            for line in rule.example.splitlines():
                page.line((line, "dim"), indent=2, hang=2)
