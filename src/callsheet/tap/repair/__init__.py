"""Repair what another agent has reported of a call, in a list of small stages with one job each.

The repair is a pure function of what is known now (a `CallDraft`, in `draft.py`). So it can be run again
after each update, and returns the same in front of an agent as over a recording. A stage takes a draft and
returns it or a better one, and may rely on what the stages before it have found: the name leads to the
input, both lead to the kind, and all of them to the title.
"""

from __future__ import annotations

from collections.abc import Callable

from callsheet.observe.model import many, text
from callsheet.tap.repair.card_content import complete_content, is_diff
from callsheet.tap.repair.description import ask_no_less, find_kind, find_title, reported_kind
from callsheet.tap.repair.draft import CallDraft
from callsheet.tap.repair.infer_input import restore_input
from callsheet.tap.repair.locations import find_locations
from callsheet.tap.repair.names import name_tool
from callsheet.tap.repair.outcome import find_outcome

__all__ = ["STAGES", "CallDraft", "repaired"]

Stage = Callable[[CallDraft], CallDraft]

STAGES: tuple[Stage, ...] = (
    name_tool,
    restore_input,
    find_kind,
    find_outcome,
    complete_content,
    find_locations,
    find_title,
    ask_no_less,
)
"""The stages, in the order in which they run."""


def repaired(draft: CallDraft, status: str | None = None) -> CallDraft:
    """Return the next draft of a call: what the agent has reported by now, after all stages."""
    draft = as_reported(draft, status)
    for stage in STAGES:
        draft = stage(draft)
    return draft


def as_reported(before: CallDraft, status: str | None = None) -> CallDraft:
    """Return the next draft of a call, as the agent has reported it by now; nothing is repaired.

    Args:
        before: The draft before it.
        status: The status to assume instead of the reported one, if any.
    """
    call = before.call
    reported = {**call.asked, **call.fields}
    return CallDraft(
        call=call,
        describer=before.describer,
        earlier_input=before.raw_input,
        earlier_diffs=list(filter(is_diff, before.content)) or before.earlier_diffs,
        earlier_title=before.title,
        had_own_title=before.has_own_title,
        name=text(reported.get("name")) or "",
        title=text(reported.get("title")) or "",
        kind=reported_kind(call) or text(reported.get("kind")),
        status=status or call.status or text(call.asked.get("status")),
        content=many(reported.get("content")),
        locations=many(reported.get("locations")),
        raw_input=reported.get("rawInput"),
        raw_output=reported.get("rawOutput"),
    )
