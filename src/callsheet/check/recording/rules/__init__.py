"""All rules, one file for each of their categories' themes. A rule is a small pure function of one moment."""

from __future__ import annotations

from callsheet.check.recording.finding import Rule

from . import asking, endings, lifecycle, order, recording, safety, schema, size, traffic

RULES: tuple[Rule, ...] = (
    *lifecycle.RULES,
    *endings.RULES,
    *order.RULES,
    *asking.RULES,
    *size.RULES,
    *safety.RULES,
    *schema.RULES,
    *recording.RULES,
    *traffic.RULES,
)
