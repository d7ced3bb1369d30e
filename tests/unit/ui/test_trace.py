"""A trace has the calls of a recording, with their times, approvals, findings and frames; and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callsheet.cli.demo import poor_agent
from callsheet.ui.trace import LONGEST_TEXT, MOST_FRAMES, Trace, paired, repaired, trace_of
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
