"""The transition table, and that it is the only judge."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Reason, ToolCallReport, ToolCallStatus
from callsheet.report.errors import IllegalMove, InvalidReason, InvalidStatus, LateUpdate
from callsheet.report.ledger import Ledger
from callsheet.report.status import MOVES
from callsheet.runtime.clock import new_call_id

S = ToolCallStatus
LEGAL = {
    (S.PENDING, S.IN_PROGRESS), (S.PENDING, S.FAILED), (S.PENDING, S.CANCELLED),
    (S.IN_PROGRESS, S.COMPLETED), (S.IN_PROGRESS, S.FAILED), (S.IN_PROGRESS, S.CANCELLED),
    (S.IN_PROGRESS, S.PAUSED), (S.PAUSED, S.IN_PROGRESS),
}  # fmt: skip
FINAL = {S.COMPLETED, S.FAILED, S.CANCELLED}


def test_the_table_holds_the_agreed_moves_and_no_others() -> None:
    assert {(old, new) for old in S for new in MOVES[old]} == LEGAL


@pytest.mark.parametrize(("old", "new"), list(product(S, S)))
def test_every_pair_is_judged_by_the_table(old: S, new: S) -> None:
    report = ToolCallReport("call_1", title="x", status=old)
    before = report.snapshot()
    if (old, new) in LEGAL or (old is new and old not in FINAL):
        report.update_status(new)
        assert report.status is new
    else:
        with pytest.raises(LateUpdate if old in FINAL else IllegalMove) as caught:
            report.update_status(new)
        assert report == before
        assert "call_1" in str(caught.value)
        assert old.value in str(caught.value)


def test_an_illegal_move_names_the_ways_that_are_open() -> None:
    report = ToolCallReport("call_1", title="x")
    with pytest.raises(IllegalMove, match="it may go to cancelled, failed, in_progress"):
        report.update_status("completed")


@given(st.lists(st.sampled_from(S), max_size=12))
def test_a_refused_move_changes_nothing_and_a_legal_one_always_works(moves: list[S]) -> None:
    ledger = Ledger("s", new_call_id)
    report = ledger.open("read", title="x", raw_input={"a": 1})
    for new in moves:
        old = report
        legal = (old.status, new) in LEGAL or (old.status is new and old.status not in FINAL)
        try:
            report = ledger.update(report.tool_call_id, new, title="y", raw_output=1)
        except IllegalMove:
            assert not legal
            assert ledger[report.tool_call_id] == old
            assert ledger.counts.ended == (1 if old.status in FINAL else 0)
        else:
            assert legal
            assert report.status is new


@pytest.mark.parametrize("status", ["done", "COMPLETED", "", None, 3, True])
def test_an_unknown_status_is_refused_by_name(status: object) -> None:
    report = ToolCallReport("call_1", title="x")
    before = report.snapshot()
    with pytest.raises(InvalidStatus, match="use one of pending, in_progress, paused"):
        report.update_status(status)  # type: ignore[arg-type]
    assert report == before


def test_a_cancelled_call_always_says_why() -> None:
    report = ToolCallReport("call_1", title="x")
    report.update_status("cancelled")
    assert report.reason is Reason.CANCELLED


def test_a_reason_is_kept_in_the_notes() -> None:
    report = ToolCallReport("call_1", title="x")
    report.update_status("failed", Reason.DENIED)
    assert report.meta == {"callsheet": {"reason": "denied"}}
    assert report.reason is Reason.DENIED


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("failed", "cancelled"),
        ("cancelled", "denied"),
        ("failed", "bored"),
        ("in_progress", "denied"),
    ],
)
def test_a_reason_that_contradicts_the_status_is_refused(status: str, reason: str) -> None:
    report = ToolCallReport("call_1", title="x")
    before = report.snapshot()
    with pytest.raises(InvalidReason, match=reason):
        report.update_status(status, reason)
    assert report == before


def test_a_call_can_pause_and_go_on_any_number_of_times() -> None:
    report = ToolCallReport("call_1", title="x")
    path = ["in_progress", "paused", "in_progress", "paused", "in_progress", "completed"]
    for _, new in pairwise(["pending", *path]):
        report.update_status(new)
    assert report.is_final
