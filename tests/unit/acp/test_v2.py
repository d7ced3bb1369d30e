"""ACP v2: omitted, null and value said exactly; chunks; git patches."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet import Session, ToolCallContent, ToolCallReport, ToolCallStatus
from callsheet.acp import v1, v2
from callsheet.acp.codec import as_dict
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.peer import Peer
from callsheet.acp.permission import InvalidOption, PermissionOption, UnknownInput
from callsheet.report.content import DiffContent, FileChange, UnknownContent
from callsheet.report.events import CallChanged
from callsheet.report.ledger import Ledger
from callsheet.runtime.clock import new_call_id
from callsheet.testing import Recorder
from tests.unit.acp.test_v1 import a_report

HEAD = {"sessionUpdate": "tool_call_update", "toolCallId": "call_1"}


def changes(report: ToolCallReport, **fields: Any) -> list[dict[str, Any]]:
    seen = report.snapshot()
    report.update(**fields)
    return [as_dict(update) for update in v2.encode(report, seen)]


def test_a_cleared_field_is_null_and_an_unchanged_one_is_omitted() -> None:
    report = a_report(raw_output={"x": 1}, content=["a"])
    cleared = {"title": "", "name": "", "kind": "other", "content": (), "locations": ()}
    (update,) = changes(report, **cleared, raw_input=None)
    assert update == {
        **HEAD,
        **dict.fromkeys(["title", "name", "kind", "content", "locations", "rawInput"]),
        "_meta": {"tool_name": None},
    }


def test_statuses_are_sent_as_they_are() -> None:
    report = a_report(status="in_progress")
    assert changes(report, status="paused") == [{**HEAD, "status": "paused"}]
    changes(report, status="in_progress")
    (ended,) = changes(report, status="cancelled")
    assert ended["status"] == "cancelled"


def test_custom_kinds_are_sent_as_they_are() -> None:
    assert as_dict(v2.announce(a_report(kind="_deploy")))["kind"] == "_deploy"


def test_content_that_grew_is_sent_as_chunks_before_the_end() -> None:
    report = a_report(content=["one"], status="in_progress")
    updates = changes(report, content=["one", "two", "three"], status="completed")
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds == ["tool_call_content_chunk", "tool_call_content_chunk", "tool_call_update"]
    assert updates[1]["content"]["content"]["text"] == "three"
    assert updates[2] == {**HEAD, "status": "completed"}


def test_content_that_changed_otherwise_is_replaced() -> None:
    (update,) = changes(a_report(content=["one", "two"]), content=["one", "2", "three"])
    assert len(update["content"]) == 3


def test_metadata_is_patched_by_key() -> None:
    ledger = Ledger("s", new_call_id)
    seen = ledger.open("x", meta={"a": 1, "b": 2})
    report = ledger.update(seen.tool_call_id, meta={"a": None, "c": 3})
    (update,) = v2.encode(report, seen)
    assert as_dict(update)["_meta"] == {"a": None, "c": 3}


def test_null_clears_when_read() -> None:
    nulls = dict.fromkeys(["title", "name", "kind", "content", "locations", "rawInput", "_meta"])
    (event,) = v2.decode({**HEAD, **nulls})
    assert isinstance(event, CallChanged)
    assert event.clear_meta
    assert event.fields == {
        "name": "", "title": "", "kind": "other", "content": (), "locations": (), "raw_input": None,
    }  # fmt: skip


def test_an_unknown_status_is_passed_on_until_a_known_one_comes() -> None:
    ledger = Ledger("s", new_call_id)
    seen = ledger.apply(*v2.decode({**HEAD, "status": "_queued", "title": "x"}))
    assert isinstance(seen, ToolCallReport)
    assert seen.status is ToolCallStatus.IN_PROGRESS
    assert as_dict(v2.announce(seen))["status"] == "_queued"
    report = ledger.apply(*v2.decode({**HEAD, "status": "completed"}))
    assert isinstance(report, ToolCallReport)
    assert [as_dict(u)["status"] for u in v2.encode(report, seen)] == ["completed"]


def test_unknown_fields_survive() -> None:
    foreign = {
        **HEAD,
        "status": "pending",
        "kind": "other",
        "title": "x",
        "capabilities": {"cancel": {}},
        "content": [
            {"type": "diff", "changes": [], "future": 1},
            {
                "type": "diff",
                "changes": [
                    {"operation": "_chmod", "path": "/a", "mode": "755", "oldPath": "/x"},
                    {"operation": "modify", "path": "/b", "fileType": "binary", "_meta": {"a": 1}},
                ],
                "patch": {"format": "_ed", "text": "1d"},
            },
            {"type": "terminal", "terminalId": "t", "future": 1},
        ],
    }
    (event,) = v2.decode(foreign)
    report = Ledger("s", new_call_id).apply(event)
    assert isinstance(report, ToolCallReport)
    assert as_dict(v2.announce(report)) == foreign
    assert isinstance(report.content[0], UnknownContent)


def test_a_foreign_patch_is_kept_to_the_letter() -> None:
    patch = "diff --git /a /a\nindex 1..2 100644\n--- /a\n+++ /a\n@@ -7 +7 @@ def f():\n-x\n+y\n"
    raw = {
        "type": "diff",
        "changes": [{"operation": "modify", "path": "/a"}],
        "patch": {"format": "git_patch", "text": patch},
    }
    (item,) = v2.decode_items([raw])
    assert isinstance(item, DiffContent)
    assert (item.changes[0].old_text, item.changes[0].new_text) == ("x\n", "y\n")
    assert v2.encode_items([item]) == [raw]


def test_binary_and_moved_files_are_said_without_text() -> None:
    diff = ToolCallContent.diffs(
        FileChange(path="/a.png", file_type="binary", mime_type="image/png"),
        FileChange(path="/c", operation="move", old_path="/b"),
    )
    (item,) = v2.encode_items([diff])
    assert item["changes"] == [
        {"operation": "modify", "path": "/a.png", "fileType": "binary", "mimeType": "image/png"},
        {"operation": "move", "path": "/c", "oldPath": "/b"},
    ]
    assert item["patch"]["text"] == "diff --git /b /c\nrename from /b\nrename to /c\n"


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        ({**HEAD, "toolCallId": None}, "tool call id"),
        ({**HEAD, "title": []}, "title: expected text"),
        ({**HEAD, "content": [3]}, "content: expected an object"),
        ({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c"}, "content: expected an object"),
        ({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "%"}, "not base64"),
        ({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": "1"}}, "exit code"),
        ({"sessionUpdate": "terminal_update", "terminalId": "t", "cwd": "x"}, "not absolute"),
        ({"sessionUpdate": None}, "sessionUpdate"),
    ],
)  # fmt: skip
def test_a_malformed_update_says_what_is_wrong(update: Any, problem: str) -> None:
    with pytest.raises(InvalidParams, match=problem):
        v2.decode(update)


ALLOW = PermissionOption("allow", "Allow", "allow_once", {"a": 1}, {"future": 1})


def test_a_permission_request_shows_the_whole_call() -> None:
    report = a_report(raw_input={"command": "ls"})
    params = v2.encode_permission("s", report, [ALLOW])
    assert params["title"] == report.title
    assert params["subject"]["toolCall"]["rawInput"] == {"command": "ls"}
    assert params["subject"]["toolCall"]["toolCallId"] == "call_1"
    option = {
        "optionId": "allow",
        "name": "Allow",
        "kind": "allow_once",
        "_meta": {"a": 1},
        "future": 1,
    }
    assert params["options"] == [option]


def test_nobody_approves_blind() -> None:
    with pytest.raises(UnknownInput, match="call_1"):
        v2.encode_permission("s", a_report(raw_input=None), [ALLOW])


def test_custom_kinds_of_options_are_for_v2_alone() -> None:
    later = PermissionOption("later", "Ask me later", "_later")
    v2.encode_permission("s", a_report(), [later])
    with pytest.raises(InvalidOption, match="_later"):
        v1.encode_permission("s", a_report(), [later])


@pytest.mark.parametrize("cancels", [True, False])
async def test_a_call_can_be_cancelled_by_a_client_from_its_announcement_to_its_end(cancels):
    recorder = Recorder(Peer(version=2, cancels=cancels))
    async with Session("s", on_update=recorder, peer=recorder.peer) as session:
        async with session.call("bash", {"command": "ls"}) as call:
            await session.flush()
            call.start()
            await session.flush()
            call.succeed("done")
    said = [one.get("capabilities", "nothing") for one in recorder.updates]
    told = [{"cancel": {}}, "nothing", None] if cancels else ["nothing"] * 3
    assert said == told
