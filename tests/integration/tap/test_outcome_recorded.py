"""In what real agents have told, the checker finds nothing any more about how calls end and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.check.rules import RULES
from callsheet.describe import Describer
from callsheet.observe.events import CallClosed, PermissionAsked, UpdateApplied
from callsheet.observe.lines import parse_line
from callsheet.observe.model import ObservedCall
from callsheet.observe.tracker import Tracker
from callsheet.tap.repair import CallDraft, repaired
from tests.support import RECORDINGS as ALL_RECORDINGS

RECORDINGS = sorted(ALL_RECORDINGS.rglob("*.jsonl"))
OURS = (
    "complete/exit-code",
    "complete/error-as-success",
    "complete/result-in-raw-output",
    "complete/failed-without-reason",
    "lifecycle/cancelled-but-completed",
)
CHECKS = [rule.check for rule in RULES if rule.id in OURS]


def told(path: Path) -> list[tuple[CallClosed, CallDraft]]:
    """Return all calls of a recording as they end, and as they are put right."""
    watch, drafts = Tracker(), dict[int, CallDraft]()
    ends: list[tuple[CallClosed, CallDraft]] = []
    describer = Describer("/code")

    def see(moments: Any) -> None:
        for moment in moments:
            call: ObservedCall | None = None
            if isinstance(moment, UpdateApplied):
                call = moment.call
            elif isinstance(moment, PermissionAsked):
                call = moment.question.call
            if call is not None:
                drafts[id(call)] = repaired(CallDraft(call=call, describer=describer))
            elif isinstance(moment, CallClosed) and id(moment.call) in drafts:
                ends.append((moment, drafts[id(moment.call)]))

    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        see(watch.feed(parse_line(number, line)))
    see(watch.finish())
    return ends


def as_sent(over: CallClosed, draft: CallDraft) -> CallClosed:
    """Return a call as a client of v1 would hear of it."""
    call = over.call
    call.status = "failed" if draft.status == "cancelled" else draft.status
    call.statuses = [(call.status or "", line) for _, line in call.statuses]
    call.fields |= {"content": draft.content, "kind": draft.kind}
    return over


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_nothing_is_found_any_more(path: Path) -> None:
    ends = told(path)
    assert ends
    for over, draft in ends:
        said = [check(as_sent(over, draft)) for check in CHECKS]
        assert not any(said), (over.call.id, said)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_nothing_that_was_shown_at_the_end_is_lost(path: Path) -> None:
    ended = [(over, draft) for over, draft in told(path) if over.call.ended is not None]
    for over, draft in ended:
        for item in over.call.fields.get("content") or []:
            bare = {key: value for key, value in item.items() if key != "oldText" or value}
            blank = item.get("content", {}).get("text") == ""
            assert blank or any(bare.items() <= kept.items() for kept in draft.content)


def test_what_they_report_wrongly_is_known_by_count() -> None:
    changed = {
        path.stem: [draft.reason for _, draft in told(path) if "status" in draft.repaired]
        for path in RECORDINGS
    }
    assert {name: reasons for name, reasons in changed.items() if reasons} == {
        "gemini-cli-0.61.0.cancel_parallel-none": ["cancelled"],
        "opencode-1.18.33.fail_cmd-none": ["exit_code", "exit_code"],
        "opencode-1.18.33.mixed-none": ["exit_code"],
        "opencode-1.18.33.cancel-none": ["cancelled"],
        "cline-3.0.65.parts-none": ["exit_code", "tool_error"],
        "mistral-vibe-3.0.2.fail_cmd-none": ["exit_code"],
    }
