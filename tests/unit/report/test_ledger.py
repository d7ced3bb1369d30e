"""The ledger: one id space, correlation, links, and a memory that stays bounded."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from callsheet import ToolCallContent, ToolCallLocation, ToolCallReport, ToolCallStatus
from callsheet.report import ids
from callsheet.report.errors import (
    CorrelationError,
    InvalidId,
    InvalidValue,
    LateUpdate,
    OwnedReport,
    ReportError,
)
from callsheet.report.events import (
    CallChanged,
    CallOpened,
    ContentAppended,
    ExitStatus,
    TerminalChanged,
    TerminalOutput,
)
from callsheet.report.ids import is_ours
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import KEEP_OUTPUT, TerminalState
from callsheet.runtime.clock import new_call_id
from tests.support.sizes import sized


def a_ledger(**options: Any) -> Ledger:
    return Ledger("sess_7", new_call_id, **options)


def finish(ledger: Ledger, key: str) -> None:
    ledger.update(key, "in_progress")
    ledger.update(key, "completed")


def test_a_call_is_found_by_id_and_by_alias() -> None:
    ledger = a_ledger()
    report = ledger.open("bash", notes={"alias": "toolu_01"})
    assert is_ours(report.tool_call_id)
    assert ledger["toolu_01"] is ledger[report.tool_call_id]
    assert "toolu_01" in ledger
    assert report.notes["alias"] == "toolu_01"


def test_an_unknown_id_is_named_with_its_session() -> None:
    ledger = a_ledger()
    for action in (
        lambda: ledger["call_x"],
        lambda: ledger.update("call_x", "completed"),
        lambda: ledger.apply(ContentAppended(tool_call_id="call_x", item="a")),  # type: ignore[arg-type]
    ):
        with pytest.raises(CorrelationError, match=r"call_x.*sess_7") as caught:
            action()
        assert caught.value.tool_call_id == "call_x"
        assert caught.value.session_id == "sess_7"


def test_a_taken_id_gets_a_fresh_one_and_stays_findable_as_an_alias() -> None:
    ledger = a_ledger()
    first = ledger.apply(CallOpened(ToolCallReport("bash:0", title="one")))
    assert isinstance(first, ToolCallReport)
    finish(ledger, "bash:0")
    second = ledger.apply(CallOpened(ToolCallReport("bash:0", title="two")))
    assert isinstance(second, ToolCallReport)
    assert first.tool_call_id == "bash:0"
    assert is_ours(second.tool_call_id)
    assert ledger["bash:0"].title == "two"
    assert ledger.counts.collisions == 1
    ledger.apply(CallChanged(tool_call_id="bash:0", fields={"status": "in_progress"}))
    assert ledger[second.tool_call_id].status is ToolCallStatus.IN_PROGRESS


def test_an_id_is_never_used_again_not_even_when_its_call_has_left() -> None:
    ledger = a_ledger(keep_reports=0)
    for number in range(1000):
        ledger.open("bash", tool_call_id=f"call_{number}")
        ledger.update(f"call_{number}", "failed")
    assert len(ledger) < 64
    for number in range(900):
        report = ledger.open("bash", tool_call_id=f"call_{number}")
        assert report.tool_call_id != f"call_{number}"
    assert ledger.counts.collisions == 900


def test_one_of_our_own_ids_is_never_used_again() -> None:
    ledger = a_ledger(keep_reports=0)
    own = []
    for _ in range(100):
        own.append(ledger.open("bash").tool_call_id)
        ledger.update(own[-1], "failed")
    assert own[0] not in ledger
    assert ledger.open("bash", tool_call_id=own[0]).tool_call_id != own[0]


def test_no_new_id_is_taken_for_a_used_one() -> None:
    ledger = a_ledger(keep_reports=0)
    for number in range(20_000):
        ledger.open("x", tool_call_id=f"old_{number}")
        ledger.update(f"old_{number}", "failed")
    for number in range(2000):
        ledger.open("x", tool_call_id=f"new_{number}")
    assert ledger.counts.collisions == 0


def test_an_alias_can_not_hide_a_call_of_ours() -> None:
    ledger = a_ledger()
    first = ledger.open("bash")
    ledger.open("read", notes={"alias": first.tool_call_id})
    assert ledger[first.tool_call_id].name == "bash"


@pytest.mark.parametrize("bad", ["", "a\nb", 3, "x" * 300])
def test_ids_from_outside_are_validated(bad: Any) -> None:
    ledger = a_ledger()
    with pytest.raises(InvalidId):
        ledger.open("bash", tool_call_id=bad)
    assert len(ledger) == 0


def test_what_is_refused_leaves_the_ledger_as_it_was() -> None:
    ledger = a_ledger()
    report = ledger.open("bash")
    for fields in ({"kind": "x"}, {"raw_output": b""}, {"locations": ["x"]}, {"nope": 1}):
        with pytest.raises(ReportError):
            ledger.update(report.tool_call_id, "in_progress", **fields)
        assert ledger[report.tool_call_id] is report


def test_a_final_state_is_final_also_when_the_call_has_left() -> None:
    ledger = a_ledger(keep_reports=0)
    late = CallChanged(tool_call_id="c1", fields={"title": "x"}, upsert=True)
    ledger.apply(late)
    finish(ledger, "c1")
    with pytest.raises(LateUpdate, match="completed"):
        ledger.apply(late)
    for _ in range(40):
        finish(ledger, ledger.open("bash").tool_call_id)
    with pytest.raises(CorrelationError, match="ended long ago"):
        ledger.apply(late)
    assert "c1" not in ledger


def test_ended_calls_stay_for_a_while_and_then_leave() -> None:
    ledger = a_ledger(keep_reports=10)
    keys = []
    for number in range(200):
        keys.append(ledger.open("bash", notes={"alias": f"toolu_{number}"}).tool_call_id)
        finish(ledger, keys[-1])
    assert "toolu_0" not in ledger
    known = [key for key in keys if key in ledger]
    assert known == keys[-len(known) :]
    assert 10 <= len(known) <= 50


def test_open_calls_never_leave() -> None:
    ledger = a_ledger(keep_reports=1)
    key = ledger.open("server").tool_call_id
    for _ in range(500):
        finish(ledger, ledger.open("bash").tool_call_id)
    ledger.update(key, "in_progress")
    assert [report.tool_call_id for report in ledger if not report.is_final] == [key]


def test_reports_come_in_the_order_they_were_opened() -> None:
    ledger = a_ledger()
    keys = [ledger.open("bash").tool_call_id for _ in range(50)]
    finish(ledger, keys[7])
    assert [report.tool_call_id for report in ledger] == keys


def test_memory_stays_flat_over_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small form of the million calls in bench/, with every kind of link in use."""
    monkeypatch.setattr(ids, "MOST_USED", 1000)

    def run(ledger: Ledger, begin: int, end: int) -> int:
        parent = ledger.open("task").tool_call_id
        for number in range(begin, end):
            report = ledger.open(
                "bash",
                tool_call_id=f"foreign_{number}",
                notes={"alias": f"alias_{number}", "parentId": parent},
                raw_input={"command": f"echo {number}"},
            )
            ledger.update(report.tool_call_id, "in_progress")
            ledger.update(report.tool_call_id, "completed", content=["x" * 200])
        ledger.update(parent, "failed")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        ledger = a_ledger(keep_reports=200)
        first = run(ledger, 0, 2_500)
        last = run(ledger, 2_500, sized(30_000, 7_500))
    finally:
        tracemalloc.stop()
    assert last < first * 1.3


def test_an_upsert_opens_an_unknown_call_and_changes_a_known_one() -> None:
    ledger = a_ledger()
    ledger.apply(CallChanged(tool_call_id="c1", fields={"title": "one"}, upsert=True))
    ledger.apply(CallChanged(tool_call_id="c1", fields={"name": "read"}, upsert=True))
    call = ledger["c1"]
    assert (call.title, call.name) == ("one", "read")
    assert ledger.counts.opened == 1


def test_a_report_of_a_ledger_is_changed_by_the_ledger_alone() -> None:
    ledger = a_ledger()
    for report in (
        ledger.open("bash"),
        ledger.apply(CallOpened(ToolCallReport("c", title="x", extra={"future": 1}))),
        ledger.open("bash", tool_call_id="c"),
    ):
        assert isinstance(report, ToolCallReport)
        before = report.snapshot()
        for action in (
            lambda r=report: r.update_status("in_progress"),
            lambda r=report: r.add_content("x"),
            lambda r=report: r.update(title="y"),
        ):
            with pytest.raises(OwnedReport, match=r"ledger\.update"):
                action()
        assert report == before
        before.update_status("in_progress")  # a snapshot is one's own
        changed = ledger.update(report.tool_call_id, "in_progress")
        with pytest.raises(OwnedReport):
            changed.update_status("completed")


def test_a_failed_call_says_why() -> None:
    ledger = a_ledger()
    key = ledger.open("bash").tool_call_id
    ledger.update(key, "in_progress")
    report = ledger.update(key, "failed", reason="exit_code", notes={"durationMs": 3})
    assert report.notes == {"reason": "exit_code", "durationMs": 3}


def test_a_report_given_for_an_id_is_a_typed_error() -> None:
    ledger = a_ledger()
    report = ledger.open("bash")
    with pytest.raises(InvalidId, match="got ToolCallReport"):
        ledger.update(report, "failed")  # type: ignore[arg-type]


def test_paths_may_be_path_objects() -> None:
    report = a_ledger().open("read", locations=[Path("/a.py")])
    assert report.locations[0].path == "/a.py"
    own = report.snapshot()
    own.add_location(Path("/b.py"), line=3)  # type: ignore[arg-type]
    own.add_location(ToolCallLocation("/c.py", 1), line=4)
    assert [place.line for place in own.locations] == [None, 3, 4]
    assert ToolCallContent.diff(Path("/a"), "x", "y").changes[0].path == "/a"  # type: ignore[arg-type]


def test_a_missing_title_is_the_name() -> None:
    assert a_ledger().open("read_file").title == "read_file"


def test_a_terminal_keeps_the_latest_output_and_counts_it_all() -> None:
    ledger = a_ledger()
    for _ in range(50):
        state = ledger.apply(TerminalOutput(terminal_id="t", data=b"x" * 40_000))
    assert isinstance(state, TerminalState)
    mark = state.mark
    ledger.apply(TerminalOutput(terminal_id="t", data=b"end"))
    assert state.total == 50 * 40_000 + 3
    assert len(state.output) == KEEP_OUTPUT
    assert state.since(mark) == b"end"
    ledger.apply(TerminalChanged(terminal_id="t", output=b"new"))
    assert state.output == b"new"
    assert state.since(mark) == b"new"


def test_terminals_are_bounded_and_the_exited_leave_first() -> None:
    ledger = a_ledger(keep_terminals=3)
    for number in range(5):
        ledger.apply(TerminalChanged(terminal_id=f"t{number}"))
        if number == 1:
            ledger.apply(TerminalChanged(terminal_id="t1", exit_status=ExitStatus(exit_code=0)))
    assert ledger.terminal("t1") is None
    assert [n for n in range(5) if ledger.terminal(f"t{n}")] == [2, 3, 4]


def test_one_key_reaches_one_call_by_every_way() -> None:
    ledger = a_ledger()
    ledger.open("bash", tool_call_id="bash:0", title="one")
    ledger.open("bash", tool_call_id="bash:0", title="two")
    assert ledger["bash:0"].title == "two"
    assert ledger.update("bash:0", "in_progress").title == "two"
    changed = ledger.apply(CallChanged(tool_call_id="bash:0", fields={"name": "sh"}))
    assert isinstance(changed, ToolCallReport)
    assert changed.title == "two"


def test_a_renamed_call_keeps_the_alias_it_came_with() -> None:
    ledger = a_ledger()
    ledger.open("bash", tool_call_id="bash:0")
    second = ledger.open("bash", tool_call_id="bash:0", notes={"alias": "toolu_2"})
    assert ledger["toolu_2"] is second
    assert ledger["bash:0"] is second


def test_a_call_is_found_by_its_latest_alias_alone() -> None:
    ledger = a_ledger(keep_reports=0)
    ledger.open("task", notes={"alias": "a1"})
    key = ledger.open("read").tool_call_id
    for number in range(500):
        ledger.update(key, notes={"alias": f"x{number}"})
    assert "x498" not in ledger
    assert ledger["x499"].tool_call_id == key
    finish(ledger, key)
    for _ in range(100):
        finish(ledger, ledger.open("x").tool_call_id)
    assert key not in ledger
    assert list(ledger._names.aliases) == ["a1"]


def test_older_ids_in_our_format_from_elsewhere_are_taken_as_they_are() -> None:
    ledger = a_ledger()
    old = "call_01ARYZ6S410000000000000000"
    ledger.open("bash")
    assert ledger.open("read", tool_call_id=old).tool_call_id == old


@pytest.mark.parametrize("bad", [None, [], "text", {"callsheet": 3}])
def test_metadata_that_is_no_object_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidValue):
        a_ledger().open("read", meta=bad)


@pytest.mark.parametrize("key", ["kind", "status", "cleared"])
def test_notes_can_not_contradict_the_fields(key: str) -> None:
    with pytest.raises(InvalidValue, match="own fields"):
        a_ledger().open("read", notes={key: "paused"})


def test_what_is_no_event_is_a_typed_error() -> None:
    with pytest.raises(InvalidValue, match="expected an event"):
        a_ledger().apply(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        a_ledger().get([])  # type: ignore[arg-type]


def test_a_call_whose_metadata_is_cleared_is_not_found_by_its_alias_any_more() -> None:
    ledger = a_ledger()
    key = ledger.open("read", notes={"alias": "toolu_1"}).tool_call_id
    ledger.apply(CallChanged(tool_call_id=key, clear_meta=True))
    assert "toolu_1" not in ledger
    assert key in ledger
