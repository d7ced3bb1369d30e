"""Repair what another agent has reported of a call, in a list of small stages with one job each.

The repair is a pure function of what is known now (`Known`, in `context.py`). So it can be run again
after each update, and returns the same in front of an agent as over a recording. A stage changes the
`CallDraft`, and may rely on what the stages before it have found: the name leads to the input, both lead
to the kind, and all of them to the title.
"""

from __future__ import annotations

from collections.abc import Callable

from callsheet.observe.model import many, text
from callsheet.tap.repair.card_content import contents
from callsheet.tap.repair.context import CallDraft, Known
from callsheet.tap.repair.description import ask_no_less, know_kind, reported_kind
from callsheet.tap.repair.infer_input import restore_input
from callsheet.tap.repair.locations import find_places

from .names import name_tool
from .outcome import outcome
from .titles import say_title

__all__ = ["STAGES", "CallDraft", "Known", "repaired"]

Stage = Callable[[Known, CallDraft], None]

STAGES: tuple[Stage, ...] = (
    name_tool,
    restore_input,
    know_kind,
    outcome,
    contents,
    find_places,
    say_title,
    ask_no_less,
)
"""The stages, in the order in which they run."""


def repaired(known: Known) -> CallDraft:
    """Return what a client is to be sent of a call: what the agent reported, after all stages."""
    draft = as_reported(known)
    for stage in STAGES:
        stage(known, draft)
    return draft


def as_reported(known: Known) -> CallDraft:
    """Return a call as the agent has reported it, also in permission requests; nothing is repaired."""
    reported = {**known.asked, **known.call.fields}
    return CallDraft(
        name=text(reported.get("name")) or "",
        title=text(reported.get("title")) or "",
        kind=reported_kind(known) or text(reported.get("kind")),
        status=known.status or known.call.status or text(known.asked.get("status")),
        content=many(reported.get("content")),
        locations=many(reported.get("locations")),
        raw_input=reported.get("rawInput"),
        raw_output=reported.get("rawOutput"),
    )
