"""ACP v1: complete announcements, smallest updates, and what v1 can't say said all the same."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from msgspec import UNSET

from callsheet import ToolCallContent, ToolCallLocation, ToolCallReport
from callsheet.acp import v1
from callsheet.acp.codec import UpdateFrames, as_dict
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.permission import InvalidOption, PermissionOption, UnknownInput
from callsheet.report.content import FileChange, UnknownContent
from callsheet.report.errors import InvalidId, InvalidValue, LateUpdate
from callsheet.report.events import CallChanged, CallOpened
from callsheet.report.status import ToolCallStatus
from tests.support import schemas


def a_report(**fields: Any) -> ToolCallReport:
    return ToolCallReport(
        **{
            "tool_call_id": "call_1",
            "name": "edit",
            "title": "Editing a.py",
            "kind": "edit",
            "locations": (ToolCallLocation("/a.py", 3),),
            "raw_input": {"path": "/a.py"},
            **fields,
        }
    )


def change(report: ToolCallReport, **fields: Any) -> dict[str, Any] | None:
    seen = report.snapshot()
    report.update(**fields)
    update = v1.update(report, seen)
    return None if update is None else as_dict(update)


def test_an_announcement_is_complete() -> None:
    report = a_report(content=(ToolCallContent.text("hi"),), meta={"vendor": 1})
    assert as_dict(v1.announce(report)) == {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_1",
        "title": "Editing a.py",
        "name": "edit",
        "kind": "edit",
        "status": "pending",
        "content": [{"type": "content", "content": {"type": "text", "text": "hi"}}],
        "locations": [{"path": "/a.py", "line": 3}],
        "rawInput": {"path": "/a.py"},
        "_meta": {"tool_name": "edit", "vendor": 1},
    }


@pytest.mark.parametrize("field", ["toolCallId", "title"])
def test_the_schema_check_fails_when_a_required_field_is_dropped(field: str) -> None:
    update = as_dict(v1.announce(a_report()))
    del update[field]
    with pytest.raises(AssertionError, match="not valid ACP v1"):
        schemas.check_update(1, update)


def test_a_broken_encoder_is_caught_wherever_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check sits behind every encoder, so no test has to remember it."""
    monkeypatch.setattr(v1, "_stand_in_title", lambda report: UNSET)
    with pytest.raises(AssertionError, match="not valid ACP v1"):
        v1.announce(a_report(title=""))


def test_the_schemas_are_the_real_thing() -> None:
    """They refuse what real clients refuse: an unknown status, a number for a title."""
    for wrong in (
        {"status": "cancelled"},
        {"title": 3},
        {"kind": "_x"},
        {"content": [{"type": "?"}]},
    ):
        with pytest.raises(AssertionError):
            schemas.check_update(1, {**as_dict(v1.announce(a_report())), **wrong})
    with pytest.raises(jsonschema_rs.ValidationError):
        schemas.validator(2, "ToolCallLocation").validate({"path": "/a", "line": 0})


def test_only_what_changed_is_sent() -> None:
    assert change(a_report(), status="in_progress") == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_1",
        "status": "in_progress",
    }


def test_nothing_is_sent_when_values_are_equal_but_not_the_same() -> None:
    assert change(a_report(), raw_input={"path": "/a.py"}, title="Editing " + "a.py") is None


@pytest.mark.parametrize(
    ("field", "old", "new", "key"),
    [
        ("content", ["a", "b"], ["a", "c"], "content"),
        ("locations", ["/a", "/b"], ["/a", "/c"], "locations"),
        ("raw_input", {"a": [1, 2]}, {"a": [1, 3]}, "rawInput"),
        ("raw_output", [1, {"x": 1}], [1, {"x": 2}], "rawOutput"),
        ("raw_output", {"ok": True}, {"ok": 1}, "rawOutput"),
        ("raw_output", [0], [False], "rawOutput"),
    ],
)
def test_a_change_inside_a_list_of_the_same_length_counts(
    field: str, old: Any, new: Any, key: str
) -> None:
    update = change(a_report(**{field: old}), **{field: new})
    assert update is not None
    assert set(update) == {"sessionUpdate", "toolCallId", key}


def test_a_new_file_has_old_text_null() -> None:
    item = v1.encode_items([ToolCallContent.diff("/a", None, "x")])[0]
    assert item == {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}


def test_an_overwritten_file_is_not_shown_as_new() -> None:
    item = v1.encode_items([ToolCallContent.diff("/a", "", "x")])[0]
    assert item == {"type": "diff", "path": "/a", "oldText": "", "newText": "x"}


def test_a_deleted_file_is_a_diff_to_nothing() -> None:
    item = v1.encode_items([ToolCallContent.diff("/a", "x", None)])[0]
    assert (item["oldText"], item["newText"]) == ("x", "")
    assert item["_meta"] == {"callsheet": {"change": {"operation": "delete"}}}


def test_several_files_are_one_item_each_and_one_diff_again() -> None:
    diff = ToolCallContent.diffs(
        FileChange.of_texts("/a", None, "x"),
        FileChange(path="/c", operation="move", old_path="/b`b"),
        FileChange(path="/d.png", file_type="binary"),
    )
    encoded = v1.encode_items([diff, ToolCallContent.text("after")])
    assert [item["type"] for item in encoded] == ["diff", "content", "content", "content"]
    assert encoded[1]["content"]["text"] == "move ``/b`b`` → `/c`"
    assert encoded[2]["content"]["text"] == "modify `/d.png` (binary)"
    assert v1.decode_items(encoded) == (diff, ToolCallContent.text("after"))


def test_files_whose_diff_was_torn_apart_stay_readable() -> None:
    diff = ToolCallContent.diffs(
        FileChange.of_texts("/a", "1", "2"), FileChange.of_texts("/b", "1", "2")
    )
    first, second = v1.encode_items([diff])
    assert [i.changes[0].path for i in v1.decode_items([first])] == ["/a"]  # type: ignore[attr-defined]
    assert [i.changes[0].path for i in v1.decode_items([second, first])] == ["/b", "/a"]  # type: ignore[attr-defined]


def test_a_custom_kind_is_other_to_v1() -> None:
    update = as_dict(v1.announce(a_report(kind="_deploy")))
    assert update["kind"] == "other"
    assert update["_meta"]["callsheet"] == {"kind": "_deploy"}


def test_v1_is_never_sent_cancelled_or_paused() -> None:
    report = a_report(status="in_progress")
    assert change(report, status="paused") == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_1",
        "status": "in_progress",
        "_meta": {"callsheet": {"status": "paused"}},
    }
    resumed = change(report, status="in_progress")
    assert resumed is not None
    assert (resumed["status"], resumed["_meta"]) == ("in_progress", {"callsheet": None})
    ended = change(report, status="cancelled")
    assert ended is not None
    assert ended["status"] == "failed"
    assert ended["_meta"]["callsheet"]["reason"] == "cancelled"


def test_a_call_without_title_has_one_in_v1_all_the_same() -> None:
    assert as_dict(v1.announce(a_report(title="")))["title"] == "edit"
    assert as_dict(v1.announce(a_report(title="", name="")))["title"] == "Unknown tool"


def test_content_of_an_unknown_kind_is_kept_whole_and_never_breaks_a_client() -> None:
    item = UnknownContent({"type": "_chart", "points": [1, 2]})
    encoded = v1.encode_items([item])
    assert encoded[0]["content"]["type"] == "text"
    assert v1.decode_items(encoded) == (item,)


def test_a_foreign_call_survives_a_round_trip() -> None:
    foreign = {
        "sessionUpdate": "tool_call",
        "toolCallId": "toolu_1",
        "title": "Read",
        "kind": "read",
        "status": "pending",
        "rawInput": {},
        "futureField": {"a": 1},
        "locations": [{"path": "/a", "line": 2, "column": 4}],
        "content": [
            {
                "type": "content",
                "future": 1,
                "content": {
                    "type": "text",
                    "text": "x",
                    "future": 2,
                    "annotations": {"priority": 1},
                },
            }
        ],
        "_meta": {"claudeCode": {"toolName": "Read"}},
    }
    (event,) = v1.decode(foreign)
    assert isinstance(event, CallOpened)
    assert as_dict(v1.announce(event.report)) == foreign


def test_null_means_unchanged() -> None:
    nulls = dict.fromkeys(["title", "kind", "status", "content", "locations", "rawInput", "_meta"])
    (event,) = v1.decode({"sessionUpdate": "tool_call_update", "toolCallId": "c", **nulls})
    assert event == CallChanged(tool_call_id="c")


def test_line_zero_means_no_line() -> None:
    raw = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}
    (event,) = v1.decode({**raw, "locations": [{"path": "/a", "line": 0}]})
    assert isinstance(event, CallOpened)
    assert event.report.locations == (ToolCallLocation("/a"),)


def test_an_unknown_status_counts_as_running_and_is_not_passed_on_to_v1() -> None:
    raw = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "status": "_queued"}
    (event,) = v1.decode(raw)
    assert isinstance(event, CallOpened)
    assert event.report.status is ToolCallStatus.IN_PROGRESS
    assert as_dict(v1.announce(event.report))["status"] == "in_progress"


def test_a_cancelled_status_on_the_wire_is_understood() -> None:
    raw = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "status": "cancelled"}
    (event,) = v1.decode(raw)
    assert isinstance(event, CallOpened)
    assert as_dict(v1.announce(event.report))["status"] == "failed"


def test_updates_about_other_things_give_no_events() -> None:
    assert v1.decode({"sessionUpdate": "agent_message_chunk", "content": {}}) == ()


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        ({"sessionUpdate": "tool_call", "toolCallId": "c"}, "title: is missing"),
        ({"sessionUpdate": "tool_call", "title": "t"}, "tool call id"),
        ({"sessionUpdate": "tool_call", "toolCallId": "c", "title": 3}, "title: expected text"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": {}}, "content: expected a list"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "c", "locations": [{"path": "a"}]}, "not absolute"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": 3}, "_meta: expected an object"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [{"type": "diff", "path": "/a"}]}, "newText"),
        ({"sessionUpdate": 3}, "sessionUpdate"),
        ([], "expected an object"),
    ],
)  # fmt: skip
def test_a_malformed_update_says_what_is_wrong(update: Any, problem: str) -> None:
    with pytest.raises(InvalidParams, match=problem):
        v1.decode(update)


ALLOW = PermissionOption("allow", "Allow", "allow_once")


def test_a_permission_request_shows_the_whole_call() -> None:
    report = a_report(name="bash", kind="execute", raw_input={"command": "rm -rf build"})
    params = v1.encode_permission("s", report, [ALLOW])
    announced = as_dict(v1.announce(report))
    del announced["sessionUpdate"]
    assert params["toolCall"] == announced
    assert params["toolCall"]["rawInput"] == {"command": "rm -rf build"}
    assert params["options"] == [{"optionId": "allow", "name": "Allow", "kind": "allow_once"}]


@pytest.mark.parametrize(
    "options",
    [[], [ALLOW, ALLOW], [PermissionOption("a", "Allow", "allow")]],
    ids=["none", "twice", "unknown kind"],
)
def test_a_request_without_real_choices_is_refused(options: list[PermissionOption]) -> None:
    with pytest.raises(InvalidOption):
        v1.encode_permission("s", a_report(), options)


def test_an_ended_call_can_not_be_asked_about() -> None:
    with pytest.raises(LateUpdate):
        v1.encode_permission("s", a_report(status="failed"), [ALLOW])


def test_two_calls_can_not_be_compared() -> None:
    with pytest.raises(InvalidId, match="two states of one call"):
        v1.update(a_report(), a_report(tool_call_id="call_2"))


def test_no_update_makes_no_line() -> None:
    report = a_report()
    for nothing in (v1.update(report, report), "x", [report]):
        with pytest.raises(InvalidValue, match="expected an update"):
            UpdateFrames("s").line(nothing)  # type: ignore[arg-type]


def test_nobody_approves_blind() -> None:
    with pytest.raises(UnknownInput, match="call_1"):
        v1.encode_permission("s", a_report(raw_input=None), [ALLOW])
    v1.encode_permission("s", a_report(raw_input={}), [ALLOW])
