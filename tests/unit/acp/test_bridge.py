"""The bridge, where the two versions differ most: terminals, permission, and what is not its business."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from callsheet import ToolCallContent, ToolCallReport
from callsheet.acp.bridge import Bridge, Untranslatable
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.acp.messages import as_dict
from callsheet.acp.peer import Peer
from callsheet.acp.permission import UnknownInput
from callsheet.acp.plaintext import TEXT_LIMIT, render_text
from callsheet.acp.seen import KEEP_ENDED, KEEP_TERMINALS
from callsheet.acp.view import view_for
from callsheet.report.errors import CorrelationError, LateUpdate
from callsheet.report.events import CallOpened, TerminalChanged, TerminalOutput
from callsheet.report.ledger import Ledger
from callsheet.runtime.ids import new_call_id
from tests.support import schemas

OPTIONS = [{"optionId": "a", "name": "Allow", "kind": "allow_once"}]


def v2_to_v1(**options: Any) -> Bridge:
    return Bridge(2, 1, new_call_id, **options)


def say(bridge: Bridge, *updates: dict[str, Any]) -> list[dict[str, Any]]:
    sent = [out for u in updates for out in bridge.update({"sessionId": "s", "update": u})]
    return [params["update"] for params in sent]


def upsert(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **fields}


def chunk(data: bytes) -> dict[str, Any]:
    encoded = b64encode(data).decode()
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": encoded}


TERMINAL = {"type": "terminal", "terminalId": "t"}


def test_an_upsert_of_a_new_call_is_announced_in_v1() -> None:
    opened, changed = say(v2_to_v1(), upsert(title="x"), upsert(status="in_progress"))
    assert opened["sessionUpdate"] == "tool_call"
    assert changed == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "status": "in_progress",
    }


def test_chunks_become_one_replaced_list_in_v1() -> None:
    item = {"type": "content", "content": {"type": "text", "text": "a"}}
    added = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item}
    *_, last = say(v2_to_v1(), upsert(title="x"), added, added)
    assert last["content"] == [item, item]


def test_a_terminal_travels_in_the_metadata_of_its_call() -> None:
    sent = say(
        v2_to_v1(terminals="meta"),
        {"sessionUpdate": "terminal_update", "terminalId": "t", "cwd": "/w"},
        upsert(title="x", content=[TERMINAL]),
        chunk("é".encode()[:1]),
        chunk("é".encode()[1:]),
        {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 3}},
    )
    assert sent[0]["_meta"]["terminal_info"] == {"terminal_id": "t", "cwd": "/w"}
    assert sent[0]["content"] == [TERMINAL]
    outputs = [update["_meta"].get("terminal_output") for update in sent[1:]]
    assert [output for output in outputs if output] == [{"terminal_id": "t", "data": "é"}]
    assert sent[-1]["_meta"]["terminal_exit"] == {
        "terminal_id": "t",
        "exit_code": 3,
        "signal": None,
    }


def test_output_that_came_before_its_call_is_not_lost() -> None:
    sent = say(v2_to_v1(terminals="meta"), chunk(b"early"), upsert(title="x", content=[TERMINAL]))
    assert "terminal_info" in sent[0]["_meta"]
    assert sent[1]["_meta"]["terminal_output"]["data"] == "early"


def test_nothing_is_sent_for_a_terminal_after_its_call_ended_in_v1() -> None:
    ended = upsert(title="x", content=[TERMINAL], status="failed")
    for mode in ("meta", "text"):
        bridge = v2_to_v1(terminals=mode)
        say(bridge, ended)
        assert say(bridge, chunk(b"late")) == []


def test_a_plain_client_is_shown_the_output_as_text_in_a_fence_that_holds() -> None:
    sent = say(
        v2_to_v1(),
        upsert(title="x", content=[TERMINAL], status="in_progress"),
        chunk(b"\x1b[31m```\r\nred\x1b[0m"),
        upsert(status="completed"),
    )
    assert sent[-1]["status"] == "completed"
    last = [update["content"] for update in sent if "content" in update][-1]
    assert last[0]["content"]["text"] == "````\n```\nred\n````"


def test_live_output_as_text_costs_linear_bytes() -> None:
    bridge = v2_to_v1()
    say(bridge, upsert(title="x", content=[TERMINAL], status="in_progress"))
    spent = total = 0
    for number in range(4000):
        line = f"line {number:06} of the quick brown fox jumps over it\n".encode()
        total += len(line)
        spent += sum(len(str(update)) for update in say(bridge, chunk(line)))
    spent += sum(len(str(update)) for update in say(bridge, upsert(status="completed")))
    assert spent < 4 * total


def test_long_output_says_how_much_was_left_out() -> None:
    ledger = Ledger("s", new_call_id)
    state = ledger.apply(TerminalOutput(terminal_id="t", data="é".encode() * TEXT_LIMIT))
    text = render_text(state)  # type: ignore[arg-type]
    shown = text.count("é") * 2
    assert f"[… {2 * TEXT_LIMIT - shown} bytes left out · 0 lines left out …]" in text
    assert TEXT_LIMIT - 8 <= shown <= TEXT_LIMIT
    assert "\ufffd" not in text


def test_a_terminal_of_the_client_is_passed_on_as_it_is() -> None:
    """In v1 a client may own terminals; of those the ledger knows nothing."""
    ledger = Ledger("s", new_call_id)
    view = view_for(Peer(), ledger.terminal)
    report = ToolCallReport("c", title="x", content=(ToolCallContent.terminal("client-1"),))
    opened = ledger.apply(CallOpened(report))
    (update,) = view.call(opened)  # type: ignore[arg-type]
    assert as_dict(update)["content"] == [{"type": "terminal", "terminalId": "client-1"}]


def test_other_updates_pass_untouched() -> None:
    params = {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "x"},
        },
        "_meta": {"traceparent": "00-1"},
    }
    assert v2_to_v1().update(params) == [params]


def test_trace_context_stays_on_what_is_translated() -> None:
    params = {"sessionId": "s", "update": upsert(title="x"), "_meta": {"traceparent": "00-1"}}
    assert v2_to_v1().update(params)[0]["_meta"] == {"traceparent": "00-1"}


def test_sessions_do_not_see_each_other() -> None:
    bridge = v2_to_v1()
    bridge.update({"sessionId": "one", "update": upsert(title="x")})
    (other,) = bridge.update({"sessionId": "two", "update": upsert(title="y")})
    assert other["update"]["sessionUpdate"] == "tool_call"
    bridge.close("one")
    (again,) = bridge.update({"sessionId": "one", "update": upsert(title="z")})
    assert again["update"]["sessionUpdate"] == "tool_call"


def test_faults_of_the_source_are_typed_errors() -> None:
    bridge = Bridge(1, 2, new_call_id)
    with pytest.raises(CorrelationError, match="never announced"):
        say(bridge, {"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "completed"})
    say(bridge, {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "status": "failed"})
    with pytest.raises(LateUpdate):
        say(bridge, {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "y"})
    for params in ({}, {"sessionId": 3}, [], {"sessionId": "s"}):
        with pytest.raises(InvalidParams):
            bridge.update(params)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(Untranslatable, match="the versions are 1 and 2"):
        Bridge(1, 3, new_call_id)  # type: ignore[arg-type]


def test_a_permission_request_of_v2_announces_its_call_first_in_v1() -> None:
    call = {"toolCallId": "c", "title": "Run ls", "rawInput": {"command": "ls"}, "kind": "execute"}
    params = {
        "sessionId": "s",
        "title": "May I?",
        "subject": {"type": "tool_call", "toolCall": call},
        "options": OPTIONS,
    }
    schemas.check(2, "RequestPermissionRequest", params)
    updates, request = v2_to_v1().permission(params)
    assert [update["update"]["sessionUpdate"] for update in updates] == ["tool_call"]
    assert request["toolCall"]["rawInput"] == {"command": "ls"}
    assert request["options"] == OPTIONS


def test_a_permission_request_of_v1_becomes_one_of_v2() -> None:
    bridge = Bridge(1, 2, new_call_id)
    say(
        bridge,
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "rawInput": {"a": 1}},
    )
    updates, request = bridge.permission(
        {"sessionId": "s", "toolCall": {"toolCallId": "c", "title": "Run ls"}, "options": OPTIONS}
    )
    assert [update["update"]["title"] for update in updates] == ["Run ls"]
    assert request["subject"]["toolCall"]["rawInput"] == {"a": 1}
    assert request["title"] == "Run ls"


def test_a_blind_permission_request_is_not_passed_on() -> None:
    with pytest.raises(UnknownInput):
        Bridge(1, 2, new_call_id).permission(
            {"sessionId": "s", "toolCall": {"toolCallId": "c", "title": "Run"}, "options": OPTIONS}
        )


def test_a_command_of_a_known_call_can_be_asked_about_in_v1() -> None:
    bridge = v2_to_v1()
    say(bridge, upsert(title="x", rawInput={"command": "ls"}))
    subject = {"type": "command", "command": "ls", "cwd": "/", "toolCallId": "c"}
    params = {"sessionId": "s", "title": "Run?", "subject": subject, "options": OPTIONS}
    assert bridge.permission(params)[1]["toolCall"]["toolCallId"] == "c"
    del subject["toolCallId"]
    with pytest.raises(Untranslatable, match="asks about nothing else"):
        bridge.permission(params)


def test_a_replaced_output_starts_anew() -> None:
    ledger = Ledger("s", new_call_id)
    ledger.apply(TerminalOutput(terminal_id="t", data=b"old"))
    state = ledger.apply(TerminalChanged(terminal_id="t", output=None))
    assert (state.output, state.total) == (b"", 0)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["meta", "text"])
def test_a_view_forgets_terminals_and_calls_that_are_long_gone(mode: str) -> None:
    bridge = v2_to_v1(terminals=mode)
    for number in range(700):
        shown = {"type": "terminal", "terminalId": f"t{number}"}
        call = {"sessionUpdate": "tool_call_update", "toolCallId": f"c{number}"}
        say(bridge, {**call, "title": "x", "content": [shown], "status": "failed"})
    _, view = bridge._sessions["s"]
    assert len(view._terminals) <= KEEP_TERMINALS  # type: ignore[attr-defined]
    assert len(view._calls._reports) <= KEEP_ENDED  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "first",
    [{}, {"capabilities": {"cancel": {}}}, {"content": [{"type": "terminal", "terminalId": "t"}]}],
    ids=["plain", "with unknown fields", "with a terminal"],
)
def test_a_growing_list_of_content_costs_linear_bytes_in_v1(first: dict[str, Any]) -> None:
    item = {"type": "content", "content": {"type": "text", "text": "x" * 47}}
    added = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item}
    bridge = v2_to_v1()
    say(bridge, upsert(title="x", status="in_progress", **first))
    spent = sum(len(str(update)) for _ in range(2000) for update in say(bridge, added))
    (end,) = say(bridge, upsert(status="completed"))
    assert len(end["content"]) == 2000, "a terminal that put out nothing is not shown"
    assert spent + len(str(end)) < 5 * 2000 * len(str(item))


def test_steps_that_an_agent_left_out_are_put_in() -> None:
    """ACP has no transition table; what was legal there must not leave a call open for ever."""
    statuses = [u["status"] for u in say(v2_to_v1(), upsert(title="x"), upsert(status="completed"))]
    assert statuses == ["pending", "in_progress", "completed"]
    bridge = Bridge(1, 2, new_call_id)
    opened = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x"}
    say(bridge, {**opened, "status": "in_progress"})
    (update,) = say(bridge, upsert(status="pending", title="again"))
    assert (update["title"], "status" in update) == ("again", False)


def test_a_paused_call_can_be_cancelled() -> None:
    bridge = v2_to_v1()
    say(bridge, upsert(title="x", status="in_progress"), upsert(status="paused"))
    assert [u["status"] for u in say(bridge, upsert(status="cancelled"))] == [
        "in_progress",
        "failed",
    ]


def test_one_huge_chunk_of_output_arrives_whole() -> None:
    data = bytes(range(32, 127)) * 20_000
    sent = say(v2_to_v1(terminals="meta"), upsert(title="x", content=[TERMINAL]), chunk(data))
    assert "".join(u["_meta"]["terminal_output"]["data"] for u in sent[1:]).encode() == data


def test_a_call_announced_at_its_end_brings_all_its_terminals() -> None:
    bridge = v2_to_v1(terminals="meta")
    for name in ("t1", "t2", "t3"):
        say(bridge, {**chunk(name.encode()), "terminalId": name})
    shown = [{"type": "terminal", "terminalId": name} for name in ("t1", "t2", "t3")]
    sent = say(bridge, upsert(title="x", content=shown, status="failed"))
    assert [u.get("status") for u in sent] == ["in_progress", None, "failed"]
    assert sent[0]["_meta"]["terminal_info"] == {"terminal_id": "t1"}
    assert sent[1]["_meta"]["terminal_output"]["data"] == "t1"
    first, *others = sent[0]["content"]  # a client learns of one terminal from an announcement
    assert first == {"type": "terminal", "terminalId": "t1"}
    assert [item["content"]["text"] for item in others] == ["```\nt2\n```", "```\nt3\n```"]


def test_news_of_a_terminal_come_before_the_end_of_its_call() -> None:
    bridge = Bridge(1, 2, new_call_id)
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "status": "in_progress"}
    info = {"terminal_info": {"terminal_id": "t", "cwd": "/"}}
    output = {"terminal_output": {"terminal_id": "t", "data": "bye"}}
    say(bridge, {**call, "content": [TERMINAL], "_meta": info})
    sent = say(bridge, upsert(status="completed", _meta=output))
    assert [u["sessionUpdate"] for u in sent] == ["terminal_output_chunk", "tool_call_update"]


def test_a_terminal_that_was_forgotten_and_speaks_again_begins_anew() -> None:
    bridge = v2_to_v1(terminals="meta")
    say(bridge, upsert(title="x", content=[TERMINAL]), chunk(b"first words"))
    for number in range(300):
        say(bridge, {**chunk(b"noise"), "terminalId": f"other{number}"})
    (again,) = say(bridge, chunk(b"new"))
    assert again["_meta"]["terminal_output"]["data"].endswith("new")


def test_a_call_may_show_more_terminals_than_a_view_remembers() -> None:
    shown = [{"type": "terminal", "terminalId": f"t{number}"} for number in range(700)]
    for mode in ("meta", "text"):
        assert say(v2_to_v1(terminals=mode), upsert(title="x", content=shown))


def test_a_refused_request_leaves_the_client_in_step() -> None:
    """What was not asked was not shown, so the call is still to be announced."""
    bridge = Bridge(1, 1, new_call_id)
    blind = {"sessionId": "s", "toolCall": {"toolCallId": "c", "title": "x"}, "options": OPTIONS}
    with pytest.raises(UnknownInput):
        bridge.permission(blind)
    (update,) = say(bridge, upsert(status="in_progress"))
    assert update["sessionUpdate"] == "tool_call"


def test_a_command_that_the_call_does_not_show_can_not_be_asked_about() -> None:
    bridge = v2_to_v1()
    say(bridge, upsert(title="x", rawInput={"command": "ls"}))
    subject = {"type": "command", "command": "rm -rf /", "cwd": "/", "toolCallId": "c"}
    with pytest.raises(Untranslatable, match="shows what is to be approved"):
        bridge.permission({"sessionId": "s", "title": "?", "subject": subject, "options": OPTIONS})


def test_a_text_client_is_asked_without_terminals() -> None:
    bridge = v2_to_v1()
    say(bridge, chunk(b"out"))
    call = {"toolCallId": "c", "title": "x", "rawInput": {}, "content": [TERMINAL]}
    subject = {"type": "tool_call", "toolCall": call}
    params = {"sessionId": "s", "title": "?", "subject": subject, "options": OPTIONS}
    _, request = bridge.permission(params)
    assert request["toolCall"]["content"][0]["content"]["text"] == "```\nout\n```"


def test_roles_that_v1_does_not_know_are_left_out_for_it() -> None:
    text = {"type": "text", "text": "x", "annotations": {"audience": ["user", "_reviewer"]}}
    (opened,) = say(v2_to_v1(), upsert(title="x", content=[{"type": "content", "content": text}]))
    assert opened["content"][0]["content"]["annotations"] == {"audience": ["user"]}


def test_sessions_of_refused_updates_are_not_kept() -> None:
    bridge = v2_to_v1()
    for number in range(50):
        with pytest.raises(InvalidParams):
            bridge.update({"sessionId": f"s{number}", "update": {"sessionUpdate": 3}})
    assert len(bridge._sessions) == 0
