"""What passes the tap between other things: in order, in its own message, and without secrets."""

from __future__ import annotations

import gc
import json
from io import BytesIO
from typing import Any

import pytest

from callsheet.observe.model import ObservedCall
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import (
    SESSION,
    Message,
    announced,
    asked,
    completed,
    decided,
    opening,
    words,
)
from tests.support.tap_harness import Tapped, kinds, told, updates

SECRET = "ghp_" + "a1B2" * 9
HALF = SECRET[:18]
USAGE: Message = {"sessionUpdate": "usage_update", "used": 1, "size": 2}


def note(update: Message) -> Message:
    params = {"sessionId": SESSION, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(said: str, **more: Any) -> Message:
    content = {"type": "text", "text": said}
    return note({"sessionUpdate": "agent_message_chunk", "content": content, **more})


def said(tap: Tapped) -> str:
    """Return all that the agent was heard saying."""
    shown = [one for one in updates(tap.heard()) if "content" in one]
    return "".join(one["content"]["text"] for one in shown)


def test_calls_that_have_ended_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.observe.calls.KEEP_ENDED", 100)

    def known() -> int:
        gc.collect()
        return sum(type(one) is ObservedCall for one in gc.get_objects())

    before = known()
    tap = Tapped()
    tap.judge = None
    for number in range(200):
        key = f"call-{number}"
        tap.agent(announced(key), completed(key, content=words("x" * 100)))
        tap.lines()
    assert known() - before <= 120


def test_what_a_piece_of_text_has_besides_is_without_secrets() -> None:
    tap = Tapped().agent(chunk("hello", _meta={"env": SECRET}))
    content = {"type": "text", "text": "hi", "annotations": {"note": SECRET}}
    tap.agent(note({"sessionUpdate": "agent_message_chunk", "content": content}))
    heard = tap.heard()
    assert SECRET not in repr(heard)
    assert [one["content"]["text"] for one in updates(heard)] == ["hello", "hi"]
    assert tap.account.hidden == 2


def test_a_text_that_waits_stays_in_its_own_message() -> None:
    tap = Tapped().agent(chunk("see sk", messageId="m1"), chunk("irts", messageId="m2")).wait(1)
    shown = updates(tap.heard())
    by_id = {
        key: "".join(one["content"]["text"] for one in shown if one["messageId"] == key)
        for key in ("m1", "m2")
    }
    assert by_id == {"m1": "see sk", "m2": "irts"}


def test_a_secret_is_hidden_that_is_split_by_an_update_that_nobody_sees() -> None:
    for between in (note(USAGE), chunk("")):
        tap = Tapped().agent(chunk(f"it is {HALF}"), between, chunk(SECRET[18:] + " yes")).wait(1)
        heard = said(tap)
        assert HALF not in heard
        assert SECRET[18:] not in heard
        assert heard.endswith(" yes")


def test_notifications_and_requests_of_an_agent_do_not_overtake_its_words() -> None:
    extension: Message = {"jsonrpc": "2.0", "method": "_zed/thing", "params": {}}
    params = {"sessionId": SESSION, "path": "/code/a"}
    reading: Message = {"jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": params}
    for message in (extension, reading):
        tap = Tapped().agent(chunk(f"it is {HALF}"), message).wait(1)
        assert kinds(tap.heard())[-1] == message["method"]


RUNNING: Message = {"status": "in_progress", "rawInput": {"command": "make"}, "kind": "execute"}


def test_a_permission_request_that_the_agent_takes_back_is_no_denial() -> None:
    tap = Tapped().agent(announced(**RUNNING), asked())
    tap.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p1"}})
    tap.client({"jsonrpc": "2.0", "id": "p1", "result": {"outcome": {"outcome": "cancelled"}}})
    tap.wait(5).agent(completed())
    assert told(tap.heard())[-1] == ("c1", "completed")


def test_a_call_that_is_denied_and_then_allowed_goes_on() -> None:
    tap = Tapped().agent(announced(**RUNNING), asked()).client(decided("no")).wait(1)
    tap.agent(asked()).wait(9).client(decided("yes")).wait(9).agent(completed())
    assert told(tap.heard())[-1] == ("c1", "completed")


def test_what_is_open_in_a_session_that_the_client_closes_is_cancelled() -> None:
    for method in ("session/close", "session/delete"):
        tap = Tapped().agent(announced(**RUNNING))
        tap.client({"jsonrpc": "2.0", "id": 9, "method": method, "params": {"sessionId": SESSION}})
        last = updates(tap.wait(6).heard())[-1]
        assert (last["status"], last["_meta"]["callsheet"]["reason"]) == ("failed", "cancelled")


def test_a_line_that_is_no_message_is_recorded_without_secrets() -> None:
    tap, line = Tapped(), f"debug: token={SECRET} ".encode() + b"\xff\n"
    kept = tap.pipeline.for_recording(line)
    assert SECRET.encode() not in kept
    assert kept.startswith(b"debug: token=")
    assert kept.endswith(b"\xff\n")
    assert tap.agent(line).lines() == [line]


def repaired(*lines: bytes) -> bytes:
    before = [json.dumps(message).encode() for message in opening()]
    recording = b"".join(line + b"\n" for line in (*before, *lines))
    out = b"".join(Repairs(TapSettings(locale="en"), spill=False).repaired(BytesIO(recording)))
    return b"".join(out.splitlines(keepends=True)[len(before) :])


def test_a_line_that_is_broken_within_is_repaired_in_a_recording_as_by_a_tap() -> None:
    line = json.dumps(announced(title="bash", rawInput={"command": f"echo {SECRET}"})).encode()
    for broken in (b"NaN", b'"\\ud83d"', b'"\xff"'):
        out = repaired(line.replace(b'"pending"', b'"pending", "x": ' + broken))
        assert SECRET.encode() not in out
        assert b"Reading a file" in out


def test_a_line_that_is_no_message_stays_in_a_recording_once_without_secrets() -> None:
    batch = json.dumps([announced(), completed()]).encode()
    assert repaired(batch, f"token={SECRET}".encode()).count(b"\n") == 2
    wrapped = json.dumps({"t": 1.5, "dir": "agent->client", "raw": f"token={SECRET}"}).encode()
    (out,) = [json.loads(line) for line in repaired(wrapped).splitlines()]
    assert out["dir"] == "agent->client"
    assert out["raw"].startswith("token=")
    assert SECRET not in out["raw"]
