"""Does each call open once, move as it may, and end?"""

from __future__ import annotations

from callsheet.check.recording.finding import Rule, Said
from callsheet.check.recording.moments import FINAL, Told


def announced_twice(told: Told) -> Said | None:
    """Find a `tool_call` for an id that is taken."""
    if told.kind != "tool_call" or not told.known_before or told.session.is_replaying:
        return None
    call = told.call
    if call is not None and call.announced is None:
        return None  # it was spoken of too early, which is another matter
    before = f", first on line {call.first}" if call is not None else ""
    return Said(f"{told.call_id} is announced again{before}", "update.toolCallId")


def updated_after_its_end(told: Told) -> Said | None:
    """Find an update of a call that has ended."""
    call = told.call
    if call is None or call.ended is None or told.kind == "tool_call":
        return None
    status = told.update.get("status")
    if status is not None and status not in FINAL:
        return None  # that is a move that is not legal
    return Said(
        f"it was {call.status} since line {call.ended}", "update.status" if status else None
    )


RULES = (
    Rule(
        id="lifecycle/announced-twice",
        severity="error",
        moment=Told,
        title="A call is announced twice",
        protocol="An id is used for one call in the whole session. `tool_call` opens it, updates change it.",
        harm="Editors rewrite the first card, so people see one call where there were two.",
        fix="Use a fresh id for each call, also if the model uses its ids again. Change a call by updates.",
        check=announced_twice,
    ),
    Rule(
        id="lifecycle/after-the-end",
        severity="error",
        moment=Told,
        title="A call changes after its end",
        protocol="`completed`, `failed` and `cancelled` are final.",
        harm="Cards that people have read and closed change; histories differ from what was seen.",
        fix="Send everything with the final update, or before it, and nothing afterwards.",
        check=updated_after_its_end,
    ),
)
