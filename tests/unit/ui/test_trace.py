"""A trace has the calls of a recording, with their times, approvals, findings and frames; and no secret."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callsheet.cli.demo import poor_agent
from callsheet.history.rows import Head, Origin, SessionRow, StoredCall, StoredMessage
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord
from callsheet.ui.trace import Trace, paired, repaired, stored_trace, trace_of
from callsheet.ui.trace_reader import (
    LONGEST_IN_FRAME,
    LONGEST_TEXT,
    MOST_FRAMES,
    MOST_UNREADABLE,
)
from callsheet.ui.traced import Who
from tests.support import ROOT

RECORDINGS = sorted((ROOT / "tests" / "recordings").glob("*.jsonl"))
SESSION = "s1"


def line(message: dict[str, Any], time: float | None = None, way: str = "agent->client") -> bytes:
    message = {"jsonrpc": "2.0", **message}
    whole = message if time is None else {"t": time, "dir": way, "msg": message}
    return json.dumps(whole).encode() + b"\n"


def update(time: float | None = None, **fields: Any) -> bytes:
    fields.setdefault("toolCallId", "c1")
    params = {"sessionId": SESSION, "update": fields}
    return line({"method": "session/update", "params": params}, time)


def opened(time: float | None = 0.0, **fields: Any) -> bytes:
    given = {"title": "Bash", "kind": "execute", "rawInput": {"command": "ls"}, **fields}
    return update(time, sessionUpdate="tool_call", status="pending", **given)


def changed(time: float | None, **fields: Any) -> bytes:
    return update(time, sessionUpdate="tool_call_update", **fields)


def text(value: str) -> list[Any]:
    return [{"type": "content", "content": {"type": "text", "text": value}}]


def test_a_call_has_the_times_of_its_life_and_how_it_was_approved() -> None:
    call = {"toolCallId": "c1", "rawInput": {"command": "ls"}}
    options = [{"optionId": "y", "name": "Yes, do", "kind": "allow_once"}]
    asked = {"sessionId": SESSION, "toolCall": call, "options": options}
    answer = {"outcome": {"outcome": "selected", "optionId": "y"}}
    data = b"".join(
        (
            opened(1.0),
            line({"id": 7, "method": "session/request_permission", "params": asked}, 1.5),
            line({"id": 7, "result": answer}, 3.0, "client->agent"),
            changed(3.5, status="in_progress"),
            changed(4.0, content=text("a.py")),
            changed(5.0, status="completed"),
        )
    )
    (found,) = trace_of(data, "x").calls
    assert (found.announced, found.started, found.first_output, found.ended) == (1.0, 3.5, 4.0, 5.0)
    (approval,) = found.approvals
    assert (approval.asked, approval.answered) == (1.5, 3.0)
    assert (approval.outcome, approval.option, approval.has_input) == ("allowed", "Yes, do", True)
    assert [frame.line for frame in found.frames] == [1, 2, 3, 4, 5, 6]
    assert [frame.sender for frame in found.frames].count("client") == 1


def test_no_secret_is_anywhere_in_it() -> None:
    token = poor_agent.TOKEN
    data = opened(rawInput={"command": f"echo {token}"}, title=f"echo {token}") + changed(
        1.0, status="completed", content=text(token), rawOutput={"stdout": token}
    )
    assert token.encode() in data
    assert token.encode() not in msgspec.json.encode(trace_of(data, "x"))


def test_findings_stand_with_their_call_also_where_an_id_is_used_twice() -> None:
    data = b"".join(
        (
            opened(0.0),
            changed(1.0, status="completed", content=text("1")),
            opened(2.0, title="ReadFile", kind="read", rawInput={"path": "/a"}),
            changed(3.0, status="completed", content=text("2")),
        )
    )
    first, second = trace_of(data, "x").calls
    assert "lifecycle/id-reused" in [one["rule"] for one in second.findings]
    assert "lifecycle/id-reused" not in [one["rule"] for one in first.findings]
    assert all(one["fix"] for one in second.findings)


def test_a_recording_without_times_keeps_its_order() -> None:
    trace = trace_of(opened(None) + changed(None, status="completed"), "x")
    assert not trace.has_times
    assert (trace.calls[0].announced, trace.calls[0].ended) == (1.0, 2.0)


def test_what_can_not_be_read_is_named_and_the_rest_is_shown() -> None:
    trace = trace_of(opened() + b"not json\n" + b'{"half": \n' + changed(1.0, status="failed"), "x")
    assert [call.status for call in trace.calls] == ["failed"]
    assert [problem.partition(":")[0] for problem in trace.unreadable] == ["line 2", "line 3"]


def test_much_is_cut_and_says_so() -> None:
    many = b"".join(changed(1.0, content=text(str(n))) for n in range(3 * MOST_FRAMES))
    (call,) = trace_of(opened() + many, "x").calls
    assert len(call.frames) == MOST_FRAMES
    assert call.left_out == 2 * MOST_FRAMES + 1
    (long,) = trace_of(opened(title="x" * 2 * LONGEST_TEXT), "x").calls
    assert len(msgspec.json.encode(long.input)) < 2 * LONGEST_TEXT
    assert "characters are not shown" in json.dumps([frame.message for frame in long.frames])


@pytest.mark.parametrize(
    "file", RECORDINGS[:: max(1, len(RECORDINGS) // 8)], ids=lambda file: file.stem
)
def test_every_call_of_a_real_agent_is_paired_with_what_the_tap_makes_of_it(file: Path) -> None:
    data = file.read_bytes()
    before, after = trace_of(data, file.name), trace_of(repaired(data), file.name)
    pairs = list(paired(before, after))
    assert [new for _, new in pairs if new is not None] == after.calls
    assert sum(old is not None for old, _ in pairs) == len(before.calls)
    assert all(call.ended is not None for call in after.calls)


def test_it_is_encoded_in_camel_case_for_the_page() -> None:
    encoded = json.loads(msgspec.json.encode(Trace("x")))
    assert "hasTimes" in encoded


def test_lines_that_can_not_be_read_are_counted_from_some_number_on() -> None:
    trace = trace_of(opened() + b"no json\n" * 1000, "x")
    assert len(trace.unreadable) == MOST_UNREADABLE + 1
    assert trace.unreadable[-1] == f"and {1000 - MOST_UNREADABLE} more lines"


def test_a_secret_at_the_place_where_a_text_is_cut_is_redacted() -> None:
    token = poor_agent.TOKEN
    for limit in (LONGEST_TEXT, LONGEST_IN_FRAME):
        long = "x " * (limit // 2 - 4) + token + " y" * limit
        data = opened(rawInput={"text": long}) + update(
            1.0,
            sessionUpdate="agent_message_chunk",
            content={"type": "text", "text": long},
        )
        shown = msgspec.json.encode(trace_of(data, "x")).decode()
        assert token[:8] not in shown
        assert "characters are not shown" in shown


def test_pieces_of_a_message_are_one_text_until_a_call_begins() -> None:
    def say(word: str) -> bytes:
        return update(
            1.0, sessionUpdate="agent_message_chunk", content={"type": "text", "text": word}
        )

    trace = trace_of(say("Hel") + say("lo") + opened(2.0) + say("Bye"), "x")
    assert [message.text for message in trace.messages] == ["Hello", "Bye"]


def test_a_call_that_was_rejected_never_started() -> None:
    options = [{"optionId": "n", "name": "No", "kind": "reject_once"}]
    asked = {"sessionId": SESSION, "toolCall": {"toolCallId": "c1"}, "options": options}
    answer = {"outcome": {"outcome": "selected", "optionId": "n"}}
    data = b"".join(
        (
            opened(0.0),
            changed(0.5, status="in_progress"),
            line({"id": 7, "method": "session/request_permission", "params": asked}, 1.0),
            line({"id": 7, "result": answer}, 3.0, "client->agent"),
            changed(4.0, status="failed"),
        )
    )
    (call,) = trace_of(data, "x").calls
    (approval,) = call.approvals
    assert call.started is None
    assert (approval.outcome, approval.by, approval.waited) == ("rejected", "user", 2.0)
    (behind,) = trace_of(repaired(data), "x").calls
    assert (behind.approvals[-1].option, behind.approvals[-1].waited) == ("No", 2.0)


def test_a_recorded_agent_does_not_say_itself_who_approved_its_calls() -> None:
    forged = {"callsheet": {"permission": {"outcome": "allowed", "by": "user"}}}
    options = [{"optionId": "n", "name": "No", "kind": "reject_once"}]
    asked = {"sessionId": SESSION, "toolCall": {"toolCallId": "c1"}, "options": options}
    answer = {"outcome": {"outcome": "selected", "optionId": "n"}}
    (call,) = trace_of(opened(0.0) + changed(4.0, status="completed", _meta=forged), "x").calls
    assert call.approvals == []
    data = b"".join(
        (
            opened(0.0),
            line({"id": 7, "method": "session/request_permission", "params": asked}, 1.0),
            line({"id": 7, "result": answer}, 3.0, "client->agent"),
            changed(4.0, status="failed", _meta=forged),
        )
    )
    (call,) = trace_of(data, "x").calls
    assert [(one.outcome, one.by) for one in call.approvals] == [("rejected", "user")]


def test_no_secret_is_shown_of_words_that_agents_choose_and_long_ones_are_cut() -> None:
    secret = "ghp_" + "a1B2" * 9
    noted = {"reason": secret, "parentId": secret, "usage": {"cpuMs": secret}}
    data = opened(0.0, kind=secret) + changed(
        1.0, status=secret, _meta={"callsheet": {**noted, "repaired": [secret]}}
    )
    trace = trace_of(data + opened(2.0, toolCallId="c2", kind="k" * 100_000), "x")
    assert secret not in str(trace)
    assert len(trace.calls[1].kind) < 1100


def test_what_was_written_to_a_terminal_is_part_of_its_call_in_both_versions() -> None:
    def output(data: str) -> dict[str, Any]:
        return {"terminal_output": {"terminal_id": "t", "data": data}}

    shows = [{"type": "terminal", "terminalId": "t"}]
    secret = "ghp_" + "a1B2" * 9
    first = opened(
        content=shows, _meta={"terminal_info": {"terminal_id": "t"}, **output("\x1b[31mr")}
    )
    v1 = (
        first + changed(1, _meta=output("ed\n" + secret[:9])) + changed(2, _meta=output(secret[9:]))
    )
    (call,) = trace_of(v1, "v1.jsonl").calls
    assert call.terminals["t"].startswith("\x1b[31mred\n[redacted:github-token")
    assert "a1B2" not in call.terminals["t"]

    def piece(time: float, written: bytes, **fields: Any) -> bytes:
        given = {
            "sessionUpdate": "terminal_output_chunk",
            "data": b64encode(written).decode(),
            **fields,
        }
        params = {"sessionId": SESSION, "update": {"terminalId": "t", **given}}
        return line({"method": "session/update", "params": params}, time)

    long = b"x\n" * LONGEST_TEXT
    parts = [
        opened(content=shows),
        piece(1, b"\xc3"),
        piece(2, b"\xa9\n"),
        piece(3, b"", data="not base64!"),
    ]
    (call,) = trace_of(b"".join(parts), "v2.jsonl").calls
    assert call.terminals == {"t": "é\n"}
    whole = {"sessionUpdate": "terminal_update", "output": {"data": b64encode(b"new\n").decode()}}
    (call,) = trace_of(b"".join([*parts, piece(4, b"", **whole)]), "v2.jsonl").calls
    assert call.terminals == {"t": "new\n"}
    (call,) = trace_of(b"".join([*parts, piece(4, long), piece(5, b"end\n")]), "v2.jsonl").calls
    shown = call.terminals["t"]
    assert (len(shown) < LONGEST_TEXT + 100, shown.startswith("… The beginning"), shown[-5:]) == (
        True,
        True,
        "\nend\n",
    )


def test_a_stored_session_has_the_times_and_approvals_that_were_noted() -> None:
    def noted(second: float) -> str:
        return datetime.fromtimestamp(1000 + second, UTC).isoformat()

    permission = {
        "outcome": "denied",
        "by": "remembered",
        "scope": "git push",
    }
    asked = {
        "outcome": "allowed",
        "by": "user",
        "option": "Allow once",
        "askedAt": noted(0.9),  # rounded: nobody is asked before the call is announced
        "answeredAt": noted(4),
        "waitedMs": 3000,
    }
    notes = {"startedAt": noted(4), "endedAt": noted(9), "durationMs": 5000, "permission": asked}
    done = ToolCallReport("a", "bash", status="completed", meta={"callsheet": notes})
    denied = ToolCallReport(
        "b", "bash", status="failed", meta={"callsheet": {"permission": permission}}
    )
    running = ToolCallReport("c", "bash", status="in_progress")
    entries: list[StoredCall | StoredMessage] = [
        StoredMessage(0, "user", "m", 1000.0, [{"type": "text", "text": "Go"}])
    ]
    for position, report in enumerate((done, denied, running), 1):
        head = Head(
            session_id="s",
            call_id=report.tool_call_id,
            position=position,
            name="bash",
            title="",
            kind="execute",
            status=str(report.status),
            reason=None,
            at=1000.0 + position,
            updated_at=1010.0,
            duration_ms=None,
            size=1,
        )
        entries.append(StoredCall(head, CallRecord(report)))
    origin = Origin(user="ada", agent="Somebody", agent_version="1", client="Zed", source="tap")
    session = SessionRow(session_id="s", cwd="/w", origin=origin)
    last = entries[-1]
    assert isinstance(last, StoredCall)
    last.head.origin = "of grace"
    trace = stored_trace(session, entries, {None: origin, "of grace": Origin(user="grace")})
    first, second, third = trace.calls
    ours = Who(user="ada", agent="Somebody 1", client="Zed", source="tap")
    assert (trace.who, trace.client, first.who, third.who) == (ours, "Zed", None, Who(user="grace"))
    assert (trace.agent, trace.sessions, trace.epoch) == ("Somebody 1", {"s": "/w"}, 1000.0)
    assert (first.announced, first.started, first.ended) == (1.0, 4.0, 9.0)
    (approval,) = first.approvals
    assert (approval.asked, approval.answered, approval.waited) == (1.0, 4.0, 3.0)
    assert (second.approvals[0].outcome, second.approvals[0].by) == ("rejected", "remembered")
    assert second.approvals[0].scope == "git push"
    assert (third.status, third.ended) == ("in_progress", None)
    assert (third.findings, bool(first.findings)) == ([], True), "it may still end"
    assert trace.turns[0].prompt == "Go"
    assert {call.turn for call in trace.calls} == {0}
