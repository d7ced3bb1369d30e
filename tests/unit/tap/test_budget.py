"""A budget: the turn that spends it is stopped, the client is told why, and further prompts are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.telemetry.budget import BadBudget, parse_budget
from tests.support.made_recordings import SESSION, Message, announced, asked
from tests.support.tap_harness import Tapped, told, updates

WHY = "_Stopped: this session has cost $2.50, and its budget is $2.00._\n\n"
UNKNOWN = "What a turn has cost in USD was not reported"


def update(said: Message) -> Message:
    params = {"sessionId": SESSION, "update": said}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def cost(amount: float, currency: str = "USD") -> Message:
    spent = {"amount": amount, "currency": currency}
    return update({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": spent})


def state(name: str, **more: Any) -> Message:
    return update({"sessionUpdate": "state_update", "state": name, **more})


def prompt(key: Any = 3, session: str = SESSION) -> Message:
    params = {"sessionId": session, "prompt": []}
    return {"jsonrpc": "2.0", "id": key, "method": "session/prompt", "params": params}


def answer(key: Any = 2, **result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": key, "result": {"stopReason": "end_turn", **result}}


def chunks(messages: list[Message]) -> list[str]:
    found = [one for one in updates(messages) if one["sessionUpdate"] == "agent_message_chunk"]
    return [one["content"]["text"] for one in found]


def asked_in(messages: list[Message]) -> list[Message]:
    return [one for one in messages if one.get("method") == "session/request_permission"]


def cancels(tap: Tapped) -> int:
    """How often the agent was asked to cancel, since the last look."""
    said = [json.loads(line) for line in tap.to_agent]
    tap.to_agent.clear()
    return sum(one.get("method") == "session/cancel" for one in said)


@pytest.mark.parametrize("version", [1, 2])
def test_the_turn_that_spends_it_is_stopped(version: int) -> None:
    tap = Tapped(version, budget="2.00")
    if version == 2:
        tap.agent({"jsonrpc": "2.0", "id": 2, "result": {"messageId": "m"}}, state("running"))
    tap.agent(announced(status="in_progress"), cost(1.5))
    assert chunks(tap.heard()) == []
    assert cancels(tap) == 0
    tap.agent(cost(2.5))
    assert chunks(tap.heard()) == [WHY]
    assert cancels(tap) == 1
    tap.agent(cost(2.6))  # it needs a while to stop
    assert (chunks(tap.heard()), cancels(tap)) == ([], 0)
    end = answer(stopReason="cancelled") if version == 1 else state("idle", stopReason="cancelled")
    heard = tap.agent(end).heard()
    assert heard[-1] == end
    late = tap.wait(60).heard()  # in v2, calls may go on when a turn has ended
    assert told([*heard, *late]) == [("c1", "failed" if version == 1 else "cancelled")]
    assert all("toolCallId" in one for one in updates(late))


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_does_not_stop_is_ended_for_the_client(version: int) -> None:
    tap = Tapped(version, budget="2.00")
    if version == 2:
        tap.agent({"jsonrpc": "2.0", "id": 2, "result": {"messageId": "m"}}, state("running"))
    tap.agent(announced(status="in_progress"), cost(2.5))
    assert chunks(tap.heard()) == [WHY]
    assert tap.wait(4.9).heard() == []
    heard = tap.wait(0.3).heard()
    assert [status for _, status in told(heard)] == ["failed" if version == 1 else "cancelled"]
    if version == 1:
        assert heard[-1] == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}
        assert tap.agent(answer()).heard() == []  # what comes late is the second response
        assert tap.agent(answer(99)).heard() == [answer(99)]
    else:
        assert heard[-1] == state("idle", stopReason="cancelled")


def test_further_prompts_are_refused_and_other_sessions_are_not() -> None:
    tap = Tapped(budget="2 usd").agent(cost(2.5), answer())
    tap.heard(), tap.to_agent.clear()
    heard = tap.client(prompt("p")).heard()
    assert tap.to_agent == []
    assert heard == [
        {
            "jsonrpc": "2.0",
            "id": "p",
            "error": {
                "code": -32001,
                "message": "Budget spent: This session has cost $2.50, and its budget is $2.00. "
                "Begin a new session, or raise --budget.",
            },
        }
    ]
    assert tap.client(prompt(9, "other")).heard() == []
    assert len(tap.to_agent) == 1


def test_costs_of_turns_add_up() -> None:
    tap = Tapped(budget="2.00").agent(cost(1.5), answer()).client(prompt())
    assert tap.agent(cost(1.9)).heard()
    assert cancels(tap) == 0
    assert chunks(tap.agent(cost(2.5)).heard()) == [WHY]
    assert cancels(tap) == 1


def test_ten_turns_at_a_tenth_of_it_spend_it() -> None:
    tap = Tapped(budget="2.00")
    for number in range(10):
        assert cancels(tap) == 0
        tap.agent(cost(0.2 * (number + 1)), answer(number + 2)).client(prompt(number + 3))
    assert "$2.00, and its budget is $2.00" in tap.heard()[-1]["error"]["message"]


def test_what_a_rejected_prompt_reports_does_not_count_the_turn_that_runs_again() -> None:
    tap = Tapped(budget="2.00").client(prompt(3)).agent(cost(0.9))
    usage = {"inputTokens": 1000, "outputTokens": 0, "totalTokens": 1000}
    quota = {"quota": {"model_usage": [{"model": "gpt-5", "token_count": usage}]}}
    tap.agent(answer(3, usage=usage, _meta=quota), cost(1.5))
    assert (chunks(tap.heard()), cancels(tap)) == ([], 0)
    tap.agent(cost(2.0))
    assert cancels(tap) == 1


def test_a_prompt_that_waits_for_the_stopped_turn_is_stopped_as_well() -> None:
    tap = Tapped(budget="2.00").client(prompt(3)).agent(cost(2.5))
    assert cancels(tap) == 1
    tap.agent(answer(2, stopReason="cancelled"))
    assert cancels(tap) == 1
    tap.heard()
    assert tap.wait(6).heard() == [answer(3, stopReason="cancelled")]


def test_a_budget_holds_with_an_estimated_cost_and_says_that_it_is_one() -> None:
    usage = {"inputTokens": 1_000_000, "outputTokens": 0, "totalTokens": 1_000_000}
    used = {"quota": {"model_usage": [{"model": "gpt-5", "token_count": usage}]}}
    tap = Tapped(budget="1.00").agent(answer(usage=usage, _meta=used))
    assert chunks(tap.heard()) == []
    error = tap.client(prompt()).heard()[0]["error"]["message"]
    assert "≈ $1.25" in error


@pytest.mark.parametrize(
    "said",
    [[], [cost(3.0, "EUR")], [update({"sessionUpdate": "usage_update", "used": 1, "size": 2})]],
    ids=["nothing", "another currency", "context"],
)
def test_where_no_cost_is_reported_the_user_is_told_once(said: list[Message]) -> None:
    tap = Tapped(budget="2.00").agent(*said, answer())
    heard = tap.heard()
    assert [UNKNOWN in one for one in chunks(heard)] == [True]
    assert heard[-1] == answer()
    assert [UNKNOWN in one for one in tap.faults] == [True]
    tap.client(prompt()).agent(answer(3))
    assert chunks(tap.heard()) == []
    assert cancels(tap) == 0


@pytest.mark.parametrize("version", [1, 2])
def test_nobody_can_approve_a_call_of_a_turn_that_was_stopped(version: int) -> None:
    tap = Tapped(version, budget="2.00")
    if version == 2:
        tap.agent({"jsonrpc": "2.0", "id": 2, "result": {"messageId": "m"}}, state("running"))
    tap.agent(announced(), asked())
    key = tap.heard()[-1]["id"]
    tap.to_agent.clear()
    tap.agent(cost(2.5))
    chosen = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    tap.client({"jsonrpc": "2.0", "id": key, "result": chosen})
    tap.agent({**asked(), "id": "p2"})
    assert asked_in(tap.heard()) == []
    cancel, *answers = (json.loads(line) for line in tap.to_agent)
    assert cancel["method"] == "session/cancel"
    assert answers == [
        {"jsonrpc": "2.0", "id": one, "result": {"outcome": {"outcome": "cancelled"}}}
        for one in (key, "p2")
    ]
    heard = tap.wait(6).heard()
    assert [status for _, status in told(heard)] == ["failed" if version == 1 else "cancelled"]
    over = state("idle", stopReason="cancelled")
    assert heard[-1] == (answer(stopReason="cancelled") if version == 1 else over)


def test_of_a_turn_that_the_user_cancels_no_cost_is_expected() -> None:
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
    tap = Tapped(budget="2.00").client(cancel).agent(answer(stopReason="cancelled"))
    assert (chunks(tap.heard()), tap.faults) == ([], [])
    tap.client(prompt()).agent(cost(2.5))
    assert cancels(tap) == 2  # the user's, and the tap's


def test_a_question_that_waits_to_be_shown_is_not_shown_any_more() -> None:
    tap = Tapped(budget="2.00").agent(asked())
    assert asked_in(tap.heard()) == []
    heard = tap.agent(cost(2.5)).wait(6).heard()
    assert asked_in(heard) == []
    assert heard[-1] == answer(stopReason="cancelled")


def test_without_a_budget_nothing_is_counted() -> None:
    tap = Tapped().agent(cost(1e6), answer())
    assert chunks(tap.heard()) == []
    assert cancels(tap) == 0


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [("2.00", 2, "USD"), ("$0.5", 0.5, "USD"), ("5 EUR", 5, "EUR"), ("100credits", 100, "CREDITS")],
)
def test_amounts_are_read_as_people_write_them(text: str, amount: float, currency: str) -> None:
    found = parse_budget(text)
    assert (found.amount, found.currency) == (amount, currency)


@pytest.mark.parametrize(
    "text", ["2,00", "-1", "abc", "", "0", "0.00", "nan", "inf", "1e3", "2 $", "9" * 400]
)
def test_wrong_amounts_are_refused_and_the_error_says_what_would_be_right(text: str) -> None:
    with pytest.raises(
        BadBudget, match=r"expected an amount above 0, such as 2\.00 \(US dollars\) or"
    ):
        parse_budget(text)
