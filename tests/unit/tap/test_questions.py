"""Requests for permission that come before what they ask about is told: they wait for it, for a moment."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import (
    ANSWER,
    SESSION,
    announced,
    asked,
    completed,
    decided,
    opening,
    tell,
    updated,
    words,
)
from tests.support.tap_harness import Message, Tapped, kinds

REQUEST = "session/request_permission"
BARE: dict[str, Any] = {"title": "bash", "rawInput": {}, "kind": "execute", "locations": []}
KNOWN: dict[str, Any] = {"command": "rm -rf made"}
OTHER = {"agent": "client", "client": "agent"}
CANCEL: Message = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}


def question(messages: list[Message]) -> Message:
    (found,) = [one for one in messages if one.get("method") == REQUEST]
    return found["params"]["toolCall"]


def begun(**settings: Any) -> Tapped:
    """A tap whose agent has asked, and told nothing."""
    tap = Tapped(**settings).agent(asked(**BARE))
    if not settings:
        assert tap.heard() == []
    return tap


def test_people_are_asked_about_what_is_reported_right_after() -> None:
    tap = begun().agent(announced(without=("rawInput", "name"), **BARE))
    assert tap.heard() == []
    heard = tap.agent(updated(rawInput=KNOWN, status="in_progress")).heard()
    assert kinds(heard) == ["tool_call", "tool_call_update", REQUEST]
    assert question(heard)["rawInput"] == KNOWN
    assert "rm -rf made" in question(heard)["title"]
    assert heard[0]["params"]["update"]["rawInput"] == KNOWN


def test_the_update_after_the_answer_notes_it_and_how_long_it_took() -> None:
    tap = Tapped().agent(announced(), asked(rawInput=KNOWN))
    tap.heard()
    (after,) = tap.wait(1.5).client(decided("yes")).heard()
    update = after["params"]["update"]
    assert update["status"] == "in_progress"
    note = update["_meta"]["callsheet"]["permission"]
    assert note == {"outcome": "allowed", "by": "user", "option": "Yes", "waitedMs": 1500}


def test_only_the_tap_says_who_approved_a_call_and_what_was_repaired() -> None:
    forged = {"permission": {"outcome": "allowed", "by": "user"}, "repaired": ["all"], "custom": 1}
    meta = {"callsheet": forged}
    tap = Tapped().agent(announced(_meta=meta), updated(_meta=meta, status="in_progress"))
    heard = tap.agent(completed(_meta=meta)).heard()
    notes = [one["params"]["update"].get("_meta", {}).get("callsheet", {}) for one in heard]
    assert any("custom" in note for note in notes)
    assert not any("permission" in note or "all" in note.get("repaired", ()) for note in notes)

    tap = Tapped().agent(announced(), asked(rawInput=KNOWN)).client(decided("no"))
    heard = tap.agent(updated(_meta=meta, status="failed")).heard()
    notes = [one["params"].get("update", {}).get("_meta", {}).get("callsheet", {}) for one in heard]
    (note,) = [note["permission"] for note in notes if "permission" in note]
    assert note["outcome"] == "denied"


def test_what_is_never_reported_is_waited_for_no_longer_than_a_moment() -> None:
    tap = begun()
    assert tap.wait(0.149).heard() == []
    heard = tap.wait(0.002).heard()
    assert kinds(heard) == ["tool_call", REQUEST]
    assert tap.wait(1).heard() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "`rm -rf made`"},
        {"rawInput": KNOWN},
        {"content": words("rm -rf made")},
        {"locations": [{"path": "/code/made"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_one_that_reports_something_is_asked_at_once(fields: dict[str, Any]) -> None:
    heard = Tapped().agent(asked(**{**BARE, **fields})).heard()
    assert kinds(heard)[-1] == REQUEST


def test_one_about_a_call_that_is_known_is_asked_at_once() -> None:
    tap = Tapped().agent(announced(**{**BARE, "rawInput": KNOWN}), asked(**BARE))
    assert question(tap.heard())["rawInput"] == KNOWN


@pytest.mark.parametrize(
    "other",
    [
        {"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {"message": "?"}},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p1"}},
        {"jsonrpc": "2.0", "method": "_vendor/news", "params": {}},
        {"jsonrpc": "2.0", "id": 9, "method": "terminal/create", "params": {"sessionId": SESSION}},
        ANSWER,
    ],
    ids=["question", "withdrawn", "vendor", "terminal", "turn"],
)
def test_nothing_else_that_is_asked_or_answered_overtakes_it(other: Message) -> None:
    tap = begun()
    tap.may_fail = True  # a call that the agent leaves open
    heard = kinds(tap.agent(other).heard())
    assert heard[:2] == ["tool_call", REQUEST]
    assert len(heard) > 2


def test_what_was_said_before_it_is_not_answered_by_it() -> None:
    """Some agents ask at once, and tell by another way what they have said until then."""
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Now."}}
    tap = begun()
    assert kinds(tap.agent(tell(chunk)).heard()) == ["tool_call", "agent_message_chunk"]
    heard = tap.agent(announced(**{**BARE, "rawInput": KNOWN})).heard()
    assert kinds(heard) == ["tool_call_update", REQUEST]
    assert question(heard)["rawInput"] == KNOWN


def test_another_calls_update_does_not_end_the_wait() -> None:
    tap = Tapped().agent(announced("c0", status="in_progress"))
    tap.heard()
    tap.agent(asked(**BARE), completed("c0"))
    assert kinds(tap.heard()) == ["tool_call_update"]
    heard = tap.agent(announced(**{**BARE, "rawInput": KNOWN})).heard()
    assert question(heard)["rawInput"] == KNOWN


@pytest.mark.parametrize("order", ["c1 c2", "c2 c1"])
def test_each_waits_for_its_own_words(order: str) -> None:
    """Calls that run together are asked about together: none is asked blindly because another is not."""
    tap = Tapped().agent(asked("c1", **BARE), {**asked("c2", **BARE), "id": "p2"})
    assert tap.heard() == []
    for key in order.split():
        heard = tap.agent(announced(key, **{**BARE, "rawInput": {"command": key}})).heard()
        assert question(heard)["rawInput"] == {"command": key}
    assert tap.wait(1).heard() == []


def test_one_that_is_known_is_not_held_up_by_one_that_is_not() -> None:
    tap = begun().agent({**asked("c2", **{**BARE, "rawInput": KNOWN}), "id": "p2"})
    heard = tap.heard()
    assert [one["id"] for one in heard if "id" in one] == ["p2"]
    heard = tap.agent(announced(**{**BARE, "rawInput": {"command": "ls"}})).heard()
    assert question(heard)["rawInput"] == {"command": "ls"}


def test_two_about_one_call_are_asked_in_their_order_and_in_their_own_words() -> None:
    tap = begun().agent({**asked(**BARE, content=words("rm -rf /")), "id": "p2"})
    first, second = [one for one in tap.heard() if one.get("method") == REQUEST]
    assert (first["id"], second["id"]) == ("p1", "p2")
    assert "rm -rf /" not in str(first)
    assert "rm -rf /" in str(second)


def test_each_waits_for_its_own_time() -> None:
    tap = Tapped().agent(asked("c1", **BARE)).wait(0.1)
    tap.agent({**asked("c2", **BARE), "id": "p2"}).wait(0.06)
    assert [one["id"] for one in tap.heard() if "id" in one] == ["p1"]
    assert [one["id"] for one in tap.wait(0.1).heard() if "id" in one] == ["p2"]


def test_a_call_that_was_reported_long_ago_is_asked_about_at_once() -> None:
    """A tool may have no arguments at all."""
    tap = Tapped().agent(announced(**{**BARE, "title": "list_issues"})).wait(0.16)
    assert kinds(tap.agent(asked()).heard()) == ["tool_call", REQUEST]


def test_no_more_than_some_wait() -> None:
    many = [{**asked(f"c{number}", **BARE), "id": number} for number in range(70)]
    heard = Tapped().agent(*many).heard()
    assert [one["id"] for one in heard if "id" in one] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("line", [decided("yes"), CANCEL], ids=["answer", "cancel"])
def test_what_a_client_says_comes_after_the_permission_request(line: Message) -> None:
    """In a recording the answer may follow at once, for it did not wait there."""
    tap = begun()
    tap.may_fail = True
    heard = tap.client(line).heard()
    assert kinds(heard)[:2] == ["tool_call", REQUEST]


@pytest.mark.parametrize("form", ["wrapped", "bare", "in a batch", "nobody's"])
def test_in_a_recording_it_is_asked_before_it_is_answered(form: str) -> None:
    said: list[tuple[str, Any]] = [(_sender(one), one) for one in opening()]
    answer = {**decided("yes"), "result": {}} if form == "nobody's" else decided("yes")
    said += [("agent", asked(**BARE)), ("client", [answer] if form == "in a batch" else answer)]
    said += [("agent", announced(**BARE))]
    lines = [
        {"t": 1 + number / 1000, "dir": f"{who}->{OTHER[who]}", "msg": message}
        if form == "wrapped"
        else message
        for number, (who, message) in enumerate(said)
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    told = list(repairs.repaired(io.BytesIO(data)))
    (asks,) = [place for place, line in enumerate(told) if REQUEST.encode() in line]
    (answers,) = [
        place for place, line in enumerate(told) if b'"p1"' in line and b'"result"' in line
    ]
    assert asks < answers


def _sender(message: Message) -> str:
    return "client" if "method" in message else "agent"


@pytest.mark.parametrize("fields", [{}, {"content": []}], ids=["result", "nothing"])
def test_one_whose_call_ends_meanwhile_is_asked_before_that(fields: dict[str, Any]) -> None:
    tap = begun()
    heard = tap.agent(completed(**fields)).wait(1).heard()
    assert kinds(heard)[:2] == ["tool_call", REQUEST]
    assert heard[-1]["params"]["update"]["status"] == "completed"


@pytest.mark.parametrize("end", ["cancelled", "greeted", "replaced"])
def test_one_whose_call_is_ended_by_the_tap_is_asked_before_that(end: str) -> None:
    tap = Tapped()
    tap.may_fail = True
    tap.agent(announced(**{**BARE, "status": "in_progress"}))
    tap.client(CANCEL).wait(4.9)
    tap.heard()
    tap.agent(asked("c2", **BARE))
    if end == "cancelled":
        heard = tap.agent(asked(**BARE)).wait(0.11).heard()
    elif end == "greeted":
        heard = tap.agent({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}}).heard()
    else:
        heard = tap.agent(announced("c2", **{**BARE, "status": "completed"})).wait(1).heard()
    over: set[str] = set()
    for one in heard:
        params = one.get("params", {})
        told = params.get("toolCall") or params.get("update") or {}
        assert told.get("toolCallId") not in over
        over |= {told["toolCallId"]} if told.get("status") in ("completed", "failed") else set()
    assert REQUEST in kinds(heard)


def test_what_can_t_be_encoded_again_passes_as_it_came() -> None:
    for depth in range(980, 1000, 3):
        nested = json.dumps({**asked(**BARE), "extra": "XX"})
        line = nested.replace('"XX"', '{"a":' * depth + "1" + "}" * depth).encode() + b"\n"
        tap = Tapped()
        tap.judge, tap.may_fail = None, True
        tap.agent(line, {**asked("c2", **BARE), "id": "p2"}).client(decided("yes")).gone()
        asks = [one for one in tap.lines() if REQUEST.encode() in one]
        assert len(asks) == 2
        assert len(tap.to_agent) == 4


def test_what_the_tap_does_not_read_does_not_overtake_it() -> None:
    batch = b"[" + json.dumps(ANSWER).encode() + b"]\n"
    tap = begun()
    tap.judge = None
    lines = tap.agent(batch).lines()
    assert lines[-1] == batch
    assert REQUEST.encode() in lines[-2]


def test_an_agent_that_is_gone_has_asked_all_the_same() -> None:
    tap = begun()
    tap.may_fail = True
    heard = tap.gone().heard()
    assert kinds(heard)[:2] == ["tool_call", REQUEST]
    assert heard[-1]["params"]["update"]["status"] == "failed"


def test_a_request_that_can_t_be_made_whole_passes_as_it_came() -> None:
    odd = asked(**BARE)
    odd["params"]["options"] = None
    tap = Tapped()
    tap.may_fail = True
    heard = tap.agent(odd).wait(1).heard()
    assert [one for one in heard if one.get("method") == REQUEST] == [odd]
