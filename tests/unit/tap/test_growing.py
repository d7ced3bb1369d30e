"""Raw inputs and outputs that grow are not sent again and again."""

from __future__ import annotations

from typing import Any

from callsheet.report.report import ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.tap.hold import STILL, GrowingFields

LONG = "x" * 2000


def report(status: ToolCallStatus = ToolCallStatus.PENDING, **fields: Any) -> ToolCallReport:
    return ToolCallReport("a", "write", status=status, **fields)


def test_an_input_that_grows_waits_until_the_call_moves() -> None:
    growing = GrowingFields()
    first = growing.whole(report(raw_input={"content": LONG}))
    more = report(raw_input={"content": LONG + "y"}, title="Writing a.py")
    shown = growing.without(more, 1.0)
    assert (shown.raw_input, shown.title) == (first.raw_input, "Writing a.py")
    moved = report(ToolCallStatus.IN_PROGRESS, raw_input=more.raw_input)
    assert growing.whole(moved) is moved
    assert growing.due is None


def test_an_input_that_grows_no_more_is_told_after_a_while_and_later_each_time() -> None:
    growing = GrowingFields()
    growing.whole(report(raw_input={"text": LONG}))
    growing.without(report(raw_input={"text": LONG + "y"}), 1.0)
    last = report(raw_input={"text": LONG + "yz"})
    growing.without(last, 2.0)
    assert growing.due == 2.0 + STILL
    assert growing.late(2.5) == []
    assert growing.late(2.0 + STILL) == [last]
    assert growing.due is None
    growing.without(report(raw_input={"text": LONG + "yzz"}), 4.0)
    assert growing.due == 4.0 + 2 * STILL


def test_an_output_is_told_when_the_call_moves() -> None:
    growing = GrowingFields()
    growing.whole(report(ToolCallStatus.IN_PROGRESS))
    for said in ("a", "ab", LONG, "another"):
        shown = growing.without(report(ToolCallStatus.IN_PROGRESS, raw_output=said), 1.0)
        assert shown.raw_output is None
    assert growing.due is None
    ended = report(ToolCallStatus.COMPLETED, raw_output="another")
    assert growing.whole(ended) is ended


def test_what_is_short_new_or_another_is_told_at_once() -> None:
    growing = GrowingFields()
    for given in ({}, {"command": "l"}, {"command": "ls"}, {"command": LONG}, {"path": LONG}):
        told = report(raw_input=given)
        assert growing.without(told, 1.0) is told


def test_a_call_that_has_ended_is_forgotten() -> None:
    growing = GrowingFields()
    growing.whole(report(raw_input={"content": LONG}))
    growing.without(report(raw_input={"content": LONG + "y"}), 1.0)
    growing.whole(report(ToolCallStatus.COMPLETED))
    assert growing.due is None
    again = report(raw_input={"content": LONG + "yz"})
    assert growing.without(again, 2.0) is again
