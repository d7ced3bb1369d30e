"""What sort of tool a call is of, where the agent says nothing or `other`."""

from __future__ import annotations

from callsheet.check.recording.values import text
from callsheet.describe.classify import MAX_NAME, declared_kind, plan_of
from callsheet.report.kinds import ToolKind

from .describing import description_of
from .known import Draft, Known

_OTHER = ToolKind.OTHER


def know_kind(known: Known, draft: Draft) -> None:
    """Give the kind that is known. One that the agent tells stays, unless it is `other`."""
    told = declared_kind(draft.kind)
    if told is not None and told != _OTHER:
        return
    found = _asked(known) or _described(known, draft, was_told=told is not None)
    if found is not None and found != draft.kind:
        draft.kind = found
        draft.repaired.add("kind")


def _asked(known: Known) -> str | None:
    kind = declared_kind(text(known.asked.get("kind")))
    return (
        None if kind is None or kind == _OTHER else kind.value if type(kind) is ToolKind else kind
    )


def _described(known: Known, draft: Draft, *, was_told: bool) -> str | None:
    """Give the kind that `describe` finds. Against an agent's own word, more is needed than a guess."""
    found = description_of(known, draft).kind
    if found == _OTHER:
        return None
    if was_told and draft.name and plan_of(draft.name[:MAX_NAME]).step == "words":
        return None
    return found.value if type(found) is ToolKind else found
