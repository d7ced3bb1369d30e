"""What turns have used, read out of everything in which agents report it; and nothing from anything else."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from callsheet.observe.events import TurnBegan
from callsheet.observe.lines import read_lines
from callsheet.observe.model import ObservedTurn
from callsheet.observe.tracker import Tracker
from callsheet.report.usage import TokenUsage
from tests.support.made_recordings import HERE, IDLE, SESSION, SHARED, Message, opening

COUNTS = ("input_tokens", "output_tokens", "total_tokens", "cost")


def turns_in(lines: Iterable[Any]) -> list[ObservedTurn]:
    """Return the turns of a recording, in order."""
    tracker = Tracker()
    return [
        event.turn for line in lines for event in tracker.feed(line) if isinstance(event, TurnBegan)
    ]


def turns_of(
    *messages: Message, version: int = 1, end: Message | None = None
) -> list[ObservedTurn]:
    """Return the turns of a recording in which an agent says something in a turn, and at its end."""
    over = end or ({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})
    told = [*opening(version), *messages, over]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in told)
    return turns_in(read_lines(BytesIO(data)))


def usage_of(*messages: Message, **more: Any) -> TokenUsage:
    return turns_of(*messages, **more)[0].usage


def update(told: Message, meta: Message | None = None) -> Message:
    params: Message = {"sessionId": SESSION, "update": told}
    if meta is not None:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def spent(amount: Any, currency: Any = "USD", **more: Any) -> Message:
    cost = {"amount": amount, "currency": currency}
    return update({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": cost, **more})


def ended(**result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn", **result}}


def prompt(key: int) -> Message:
    params = {"sessionId": SESSION, "prompt": []}
    return {"jsonrpc": "2.0", "id": key, "method": "session/prompt", "params": params}


# On recordings, against a sum by hand

RECORDINGS = [*sorted(HERE.glob("*.jsonl")), *SHARED]
LINE = re.compile(r'"status_line": "([0-9,]+) in, ([0-9,]+) out')


def said_in(path: Path) -> Iterable[Message]:
    """Return the messages of a recording."""
    for raw in path.read_text().splitlines():
        with suppress(ValueError):
            line = json.loads(raw)
            yield line.get("msg", line)


def sum_by_hand(path: Path) -> Counter[str]:
    """Add up what is in the JSON of a recording, agent by agent, with nothing of ours."""
    total: Counter[str] = Counter()
    costs: dict[str, float] = {}
    line: list[str] = []
    for message in said_in(path):
        text, result = json.dumps(message), message.get("result") or {}
        if message.get("method") == "session/prompt":
            line = []
        if '"usage_update"' in text and '"cost"' in text:
            costs[message["params"]["sessionId"]] = message["params"]["update"]["cost"]["amount"]
        line = [one.replace(",", "") for found in LINE.findall(text) for one in found] or line
        if "stopReason" not in result:
            continue
        quota = (result.get("_meta") or {}).get("quota") or {}
        if usage := result.get("usage"):  # claude-agent-acp, opencode
            total["input_tokens"] += usage["inputTokens"]
            total["output_tokens"] += usage["outputTokens"]
            total["total_tokens"] += usage["totalTokens"]
        elif quota:  # gemini-cli
            total["input_tokens"] += quota["token_count"]["input_tokens"]
            total["output_tokens"] += quota["token_count"]["output_tokens"]
        elif line:  # fast-agent
            total["input_tokens"] += int(line[0])
            total["output_tokens"] += int(line[1])
    if costs:
        total["cost"] = sum(costs.values())  # pyright: ignore[reportArgumentType]
    return total


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_on_recordings_the_totals_are_those_of_a_sum_by_hand(path: Path) -> None:
    with path.open("rb") as stream:
        turns = turns_in(read_lines(stream))
    assert turns
    ours = {
        name: sum(getattr(turn.usage, name) or 0 for turn in turns)
        for name in COUNTS
        if any(getattr(turn.usage, name) is not None for turn in turns)
    }
    assert ours == pytest.approx(dict(sum_by_hand(path)))


def test_the_recordings_have_usage_of_several_agents_and_agents_without() -> None:
    """What the sums above are worth: were nothing read, they would be equal, too."""
    kept = {path.name.partition(".")[0]: sum_by_hand(path) for path in sorted(HERE.glob("*mixed*"))}
    assert {name for name, found in kept.items() if found["input_tokens"]} >= {
        "claude-agent-acp-0",
        "fast-agent-0",
        "gemini-cli-0",
    }
    assert not kept["codex-acp-0"]


def test_of_codex_only_the_context_is_known_and_tokens_are_not_zero() -> None:
    with (HERE / "codex-acp-0.16.0.mixed-none.jsonl").open("rb") as stream:
        turns = turns_in(read_lines(stream))
    for turn in turns:
        usage = turn.usage
        assert usage.context_used
        assert usage.context_size
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (None, None, None)
        assert usage.cost is None


# Carriers


def test_usage_in_the_response_is_the_turns_own() -> None:
    usage = {
        "inputTokens": 5,
        "outputTokens": 2,
        "totalTokens": 27,
        "thoughtTokens": 3,
        "cachedReadTokens": 8,
        "cachedWriteTokens": 9,
    }
    assert usage_of(end=ended(usage=usage)) == TokenUsage(
        input_tokens=5,
        output_tokens=2,
        total_tokens=27,
        thought_tokens=3,
        cached_read_tokens=8,
        cached_write_tokens=9,
    )


def test_in_v2_the_idle_state_has_it_and_a_repeated_one_counts_nothing() -> None:
    usage = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
    idle = update({**IDLE["params"]["update"], "stopReason": "end_turn", "usage": usage})
    running = update({"sessionUpdate": "state_update", "state": "running"})
    turns = turns_of(running, idle, idle, version=2, end=idle)
    assert [turn.usage.input_tokens for turn in turns] == [5]


def test_a_status_line_counts_anew_in_each_turn() -> None:
    def line(said: str) -> Message:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}
        return update(chunk, {"field_meta": {"openhands.dev/metrics": {"status_line": said}}})

    first = (line("100 in, 20 out"), line("1,200 in, 40 out, 1 tools (0.3%)"), ended())
    turns = turns_of(*first, prompt(3), line("7 in, 8 out"), end={**ended(), "id": 3})
    found = [(turn.usage.input_tokens, turn.usage.output_tokens) for turn in turns]
    assert found == [(1200, 40), (7, 8)]


def test_the_model_is_the_one_that_was_used_before_the_one_that_is_set() -> None:
    model = {"sessionUpdate": "usage_update", "used": 1, "size": 2, "_meta": {"_claude/model": "b"}}
    options = {
        "sessionUpdate": "config_option_update",
        "configOptions": [{"id": "m", "category": "model", "currentValue": "a"}],
    }
    used = [
        {"model": "few", "token_count": {"input_tokens": 5, "output_tokens": 1}},
        {"model": "most", "token_count": {"totalTokens": 50}},
    ]
    assert usage_of(update(options)).model == "a"
    assert usage_of(update(options), update(model)).model == "b"
    end = ended(_meta={"quota": {"model_usage": used}})
    assert usage_of(update(options), update(model), end=end).model == "most"


# Costs


def test_a_turns_cost_is_what_the_cumulative_cost_has_grown_by() -> None:
    turns = turns_of(
        spent(0.25), spent(0.5), ended(), prompt(3), spent(0.75), end={**ended(), "id": 3}
    )
    assert [turn.usage.cost for turn in turns] == [0.5, 0.25]
    assert {turn.usage.currency for turn in turns} == {"USD"}
    assert {turn.usage.cost_source for turn in turns} == {"agent"}


def test_a_cost_that_shrinks_is_counted_anew() -> None:
    turns = turns_of(spent(0.5), ended(), prompt(3), spent(0.2), end={**ended(), "id": 3})
    assert [turn.usage.cost for turn in turns] == [0.5, 0.2]


def test_what_was_spent_in_another_currency_is_not_counted_again() -> None:
    turns = turns_of(
        spent(5.0), ended(), prompt(3), spent(4.6, "EUR"), spent(4.7, "EUR"),
        end={**ended(), "id": 3},
    )  # fmt: skip
    found = [(turn.usage.cost, turn.usage.currency) for turn in turns]
    assert found == [(5.0, "USD"), (0.1, "EUR")]
    assert turns_of(spent(0.0), spent(0.2, "EUR"))[0].usage.cost == 0.2


def test_a_cost_after_the_turns_end_is_still_that_turns() -> None:
    turns = turns_of(ended(), end=spent(0.5))
    assert [turn.usage.cost for turn in turns] == [0.5]


def test_what_a_loaded_session_has_cost_before_is_no_turns() -> None:
    load = {"id": 7, "method": "session/load", "params": {"sessionId": SESSION, "cwd": "/code"}}
    turns = turns_of(
        ended(), load, spent(3.0), {"id": 7, "result": {}}, prompt(3), spent(3.5),
        end={**ended(), "id": 3},
    )  # fmt: skip
    assert [turn.usage.cost for turn in turns] == [None, 0.5]


def test_what_was_spent_before_a_recording_began_is_not_guessed() -> None:
    lines = [
        prompt(3),
        spent(3.0),
        {**ended(), "id": 3},
        prompt(4),
        spent(3.5),
        {**ended(), "id": 4},
    ]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
    turns = turns_in(read_lines(BytesIO(data)))
    assert [turn.usage.cost for turn in turns] == [None, 0.5]


# What can't be

HOSTILE = [-1, 1e300, 10**400, "5", True, None, [5], {"a": 5}, 2.5]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_impossible_counts_are_left_out(value: Any) -> None:
    found = {"inputTokens": value, "outputTokens": 2, "totalTokens": value}
    quota = {"token_count": {"input_tokens": value}, "model_usage": [{"model": value}, value]}
    usage = usage_of(
        update({"sessionUpdate": "usage_update", "used": value, "size": value, "_meta": value}),
        end=ended(usage=found, _meta={"quota": quota}),
    )
    known = "5" if value == "5" else None
    assert usage == TokenUsage(output_tokens=2, model=known)


@pytest.mark.parametrize("value", [-1, 1e300, 10**400, "5", True, [5], float("nan"), float("inf")])
def test_impossible_costs_are_left_out(value: Any) -> None:
    assert usage_of(spent(value)).cost is None
    assert usage_of(spent(0.5), spent(value)).cost == 0.5


@pytest.mark.parametrize("currency", ["", None, 5, "x" * 100, "a\nb"], ids=repr)
def test_an_amount_of_nothing_is_no_cost(currency: Any) -> None:
    assert usage_of(spent(0.5, currency)).cost is None


@pytest.mark.parametrize("carrier", [None, 5, "x", [], [1], {"a": None}])
def test_carriers_of_any_shape_are_read(carrier: Any) -> None:
    said = [
        update({"sessionUpdate": "usage_update", "cost": carrier}),
        update({"sessionUpdate": "config_option_update", "configOptions": carrier}),
        update({"sessionUpdate": "agent_message_chunk"}, {"field_meta": carrier}),
    ]
    assert usage_of(*said, end=ended(usage=carrier, _meta=carrier)) == TokenUsage()
