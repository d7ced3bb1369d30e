"""Requests for permission that come before what they ask about is told: they wait for it, for a moment."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from callsheet.tap.offline import Repairs
from callsheet.tap.settings import TapSettings

from .made_recordings import (
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
from .tapped import Message, Tapped, kinds

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


def test_people_are_asked_about_what_is_told_right_after() -> None:
    tap = begun().agent(announced(without=("rawInput", "name"), **BARE))
    assert tap.heard() == []
    heard = tap.agent(updated(rawInput=KNOWN, status="in_progress")).heard()
    assert kinds(heard) == ["tool_call", "tool_call_update", REQUEST]
    assert question(heard)["rawInput"] == KNOWN
    assert "rm -rf made" in question(heard)["title"]
    assert heard[0]["params"]["update"]["rawInput"] == KNOWN


def test_what_is_never_told_is_waited_for_no_longer_than_a_moment() -> None:
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
def test_one_that_tells_something_is_asked_at_once(fields: dict[str, Any]) -> None:
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
        ANSWER,
    ],
    ids=["question", "withdrawn", "vendor", "turn"],
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


def test_two_wait_for_their_own_words() -> None:
    first, second = asked("c1", **BARE), {**asked("c2", **BARE), "id": "p2"}
    tap = Tapped().agent(first, second)
    assert tap.heard() == []
    heard = tap.agent(announced("c2", **{**BARE, "rawInput": KNOWN})).heard()
    (two,) = [one for one in heard if one.get("id") == "p2"]
    assert two["params"]["toolCall"]["rawInput"] == KNOWN
    heard += tap.wait(1).heard()
    assert [one["id"] for one in heard if "id" in one] == ["p1", "p2"]


@pytest.mark.parametrize("line", [decided("yes"), CANCEL], ids=["answer", "cancel"])
def test_what_a_client_says_comes_after_the_question(line: Message) -> None:
    """In a recording the answer may follow at once, for it did not wait there."""
    tap = begun()
    tap.may_fail = True
    heard = tap.client(line).heard()
    assert kinds(heard) == ["tool_call", REQUEST]


def test_in_a_recording_it_is_asked_before_it_is_answered() -> None:
    said = [("agent", asked(**BARE)), ("client", decided("yes")), ("agent", announced(**BARE))]
    lines = [
        {"t": 1 + number / 1000, "dir": f"{who}->{OTHER[who]}", "msg": message}
        for number, (who, message) in enumerate([*_opening(), *said])
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    told = [json.loads(line)["msg"] for line in repairs.repaired(io.BytesIO(data))]
    asks, answers = (
        next(place for place, one in enumerate(told) if one.get("id") == "p1" and name in one)
        for name in ("method", "result")
    )
    assert asks < answers


def _opening() -> list[tuple[str, Message]]:
    return [("client" if "method" in one else "agent", one) for one in opening()]


def test_one_whose_call_ends_meanwhile_is_asked_before_that() -> None:
    tap = begun()
    heard = tap.agent(completed()).heard()
    assert kinds(heard)[:2] == ["tool_call", REQUEST]
    assert heard[-1]["params"]["update"]["status"] == "completed"


def test_an_agent_that_is_gone_has_asked_all_the_same() -> None:
    tap = begun()
    tap.may_fail = True
    heard = tap.gone().heard()
    assert kinds(heard)[:2] == ["tool_call", REQUEST]
    assert heard[-1]["params"]["update"]["status"] == "failed"


def test_without_repair_nothing_waits() -> None:
    assert kinds(begun(repair=False).heard()) == [REQUEST]


def test_a_request_that_can_t_be_made_whole_passes_as_it_came() -> None:
    odd = asked(**BARE)
    odd["params"]["options"] = None
    tap = Tapped()
    tap.may_fail = True
    heard = tap.agent(odd).wait(1).heard()
    assert [one for one in heard if one.get("method") == REQUEST] == [odd]
