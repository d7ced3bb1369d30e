"""All rules, one file for each of their categories' themes. A rule is a small pure function of one moment."""

from __future__ import annotations

from callsheet.check.finding import Rule
from callsheet.check.rules import (
    asking,
    client_acpx,
    client_toad,
    client_zed,
    complete_diffs,
    complete_input,
    complete_outcome,
    complete_places,
    complete_titles,
    endings,
    lifecycle,
    order,
    recording,
    safety,
    schema,
    size,
    traffic,
)

RULES: tuple[Rule, ...] = (
    *lifecycle.RULES,
    *endings.RULES,
    *order.RULES,
    *asking.RULES,
    *complete_titles.RULES,
    *complete_input.RULES,
    *complete_places.RULES,
    *complete_diffs.RULES,
    *complete_outcome.RULES,
    *client_zed.RULES,
    *client_toad.RULES,
    *client_acpx.RULES,
    *size.RULES,
    *safety.RULES,
    *schema.RULES,
    *recording.RULES,
    *traffic.RULES,
)
