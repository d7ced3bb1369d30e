"""What was used, by agent, user, day, model and session: in both engines, and from recordings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from threading import RLock
from typing import Any

import pytest

from callsheet.history import Query, Store
from callsheet.history.call_records import WaitingTurn, to_rows
from callsheet.history.figures import By, Used, unfit
from callsheet.history.filters import parse_filter
from callsheet.history.rows import Origin, SessionRow
from callsheet.history.sink import SessionLog
from callsheet.report.usage import TokenUsage
from callsheet.tap.context import TapSettings
from callsheet.tap.history_import import import_recording
from tests.support.engines import NOON, batch, call, database, engine, postgres, store, url
from tests.support.made_recordings import HERE
from tests.unit.observe.test_usage import sum_by_hand

__all__ = ["database", "engine", "postgres", "store", "url"]

ADA = Origin(user="ada", agent="one", agent_version="1", source="tap")
BOB = Origin(user="bob", agent="one", agent_version="2", source="tap")
DAY = 86400.0


def turn(number: int, origin: Origin, at: float = NOON, **usage: Any) -> WaitingTurn:
    session = SessionRow(session_id=f"s-{origin.user}", created_at=at, updated_at=at, origin=origin)
    used = TokenUsage(**usage)
    return WaitingTurn(session, number, at, f"turn {number}", at + 1, "end_turn", used)


def paid(cost: float, currency: str = "USD", source: str = "agent") -> dict[str, Any]:
    return {"cost": cost, "currency": currency, "cost_source": source}


TURNS = [
    turn(1, ADA, model="a", input_tokens=10, output_tokens=1, total_tokens=20, **paid(0.5)),
    turn(2, ADA, at=NOON + DAY, model="b", input_tokens=5, output_tokens=2, **paid(0.25)),
    turn(3, ADA, at=NOON + DAY, context_used=7, context_size=9),
    turn(4, BOB, model="a", input_tokens=1, output_tokens=1, **paid(3, "EUR")),
    turn(5, BOB, model="a", **paid(0.125, source="estimated")),
]


def fill(store: Store, turns: Iterable[WaitingTurn] = TURNS) -> None:
    store.write(to_rows(list(turns), store.codec))


def by(store: Store, what: By, **query: Any) -> dict[str, Used]:
    return {one.name: one for one in store.used_by(what, Query(**query))}


class Kept:
    """What a log puts: every state of its entries."""

    run: str = "run"

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.states: list[Any] = []

    def put(self, entry: Any) -> None:
        self.states.append(entry)


def test_what_a_turn_has_used_is_its_last_state_in_whatever_order_they_come(store: Store) -> None:
    kept = Kept()
    log = SessionLog(kept, SessionRow(session_id="s"), 0)  # pyright: ignore[reportArgumentType]
    log.begin_turn()
    log.set_usage(TokenUsage(input_tokens=1))
    log.end_turn("end_turn", TokenUsage(input_tokens=2))
    log.set_usage(TokenUsage(input_tokens=3))
    assert len(kept.states) == 4
    for order in permutations(kept.states):
        fill(store, order)  # at once
        for state in order:  # a message that is delivered again may come last
            fill(store, [state])
        assert by(store, "session")["s"].input_tokens == 3
        store.forget("s")


def test_turns_tokens_and_costs_are_added_up_and_what_is_unknown_stays_unknown(
    store: Store,
) -> None:
    fill(store)
    ada, bob = by(store, "user")["ada"], by(store, "user")["bob"]
    assert (ada.turns, ada.counted) == (3, 2)
    assert (ada.input_tokens, ada.output_tokens, ada.total_tokens) == (15, 3, 27)
    assert ada.cached_read_tokens is None
    assert [(cost.currency, cost.amount, cost.turns) for cost in ada.costs] == [("USD", 0.75, 2)]
    assert {str(cost) for cost in bob.costs} == {"3.00 EUR", "≈ $0.1250"}
    assert bob.input_tokens == 1


def test_versions_of_an_agent_are_one_agent(store: Store) -> None:
    fill(store)
    assert [(name, one.turns) for name, one in by(store, "agent").items()] == [("one", 5)]


def test_days_are_in_order_and_models_and_sessions_are_told_apart(store: Store) -> None:
    fill(store)
    days = [(one.name, one.turns) for one in store.used_by("day")]
    assert days == [("2025-06-15", 3), ("2025-06-16", 2)]
    assert {name: one.turns for name, one in by(store, "model").items()} == {"a": 3, "b": 1, "": 1}
    assert {name: one.turns for name, one in by(store, "session").items()} == {
        "s-ada": 3,
        "s-bob": 2,
    }


def test_calls_and_failures_are_counted_with_them(store: Store) -> None:
    fill(store)
    store.write(batch([call(1), call(2, status="failed"), call(3, session="s2")]))
    sessions = by(store, "session")
    assert (sessions["s1"].calls, sessions["s1"].failed) == (2, 1)
    assert sessions["s1"].turns == 0
    assert by(store, "user")[""].calls == 3
    assert by(store, "model")[""].calls == 3


def test_times_sessions_and_who_choose_turns_and_calls(store: Store) -> None:
    fill(store)
    assert by(store, "user", since=NOON + DAY).keys() == {"ada"}
    assert by(store, "user", until=NOON + DAY)["ada"].turns == 1
    assert by(store, "user", session_id="s-bob").keys() == {"bob"}
    terms, _ = parse_filter("user:BO -workspace:nowhere", NOON)
    assert by(store, "day", terms=terms)["2025-06-15"].turns == 2
    assert unfit(Query(terms=terms, since=1.0)) == []
    other, _ = parse_filter("kind:read dur>1s", NOON)
    assert unfit(Query(terms=other, tool="bash", search="x")) == [
        "--tool",
        "--search",
        "kind:",
        "dur:",
    ]


def test_what_sessions_have_used_is_known_at_once(store: Store) -> None:
    fill(store)
    store.write(batch([call(1)]))
    used = store.used_in(["s-ada", "s1", "no such"])
    assert used.keys() == {"s-ada"}
    assert used["s-ada"].summary == "27 tokens, $0.75"


def test_a_cost_that_becomes_known_later_replaces_the_estimate(store: Store) -> None:
    fill(store, [turn(1, ADA, **paid(1, source="estimated"))])
    fill(store, [turn(1, ADA, **paid(2))])
    (cost,) = by(store, "user")["ada"].costs
    assert (cost.amount, cost.estimated, cost.turns) == (2, 0, 1)


def test_of_imported_recordings_the_figures_equal_a_sum_by_hand(store: Store) -> None:
    recordings = [path for path in sorted(HERE.glob("*.jsonl")) if "dupid" not in path.name]
    for path in recordings:
        settings = TapSettings(locale="en")
        import_recording(store, path.read_bytes(), path.name, NOON, settings, spill=False)
    ours = {one.name: one for one in store.used_by("session")}
    assert len(ours) == len(recordings)
    for path in recordings:
        line = next(one for one in path.read_text().splitlines() if '"session/prompt"' in one)
        session = json.loads(line)["msg"]["params"]["sessionId"]
        total, used = sum_by_hand(path), ours[session]
        for name in ("input_tokens", "output_tokens"):
            assert getattr(used, name) == total.get(name)
        own = sum(cost.amount - cost.estimated for cost in used.costs)
        assert own == pytest.approx(total["cost"])


def test_the_same_recording_read_by_a_live_tap_and_offline_stores_the_same(
    store: Store, tmp_path: Path
) -> None:
    """Live, a tap stores what `import` stores: both are one pipeline, driven by two clocks."""
    from callsheet.history.history import History
    from callsheet.tap.context import Context
    from callsheet.tap.history_sink import HistorySink
    from callsheet.tap.pipeline import Pipeline
    from callsheet.tap.stats import Account
    from callsheet.telemetry.prices import estimated

    path = HERE / "claude-agent-acp-0.99.1.mixed-none.jsonl"
    settings = TapSettings(locale="en")
    import_recording(store, path.read_bytes(), path.name, NOON, settings, spill=False)
    place = f"sqlite:///{tmp_path / 'live.sqlite'}"
    sink = HistorySink(lambda: History(place, price=estimated), "agent", pytest.fail)
    pipeline = Pipeline(Context(settings, Account(), spill=False), pytest.fail, sink)
    for raw in path.read_text().splitlines():
        line = json.loads(raw)
        data = json.dumps(line["msg"]).encode() + b"\n"
        send = pipeline.from_client if line["dir"] == "client->agent" else pipeline.from_agent
        pipeline.tick(line["t"])
        send(data, line["t"])
    pipeline.agent_gone(1e6)
    sink.close()
    from callsheet.history import store_at

    live = store_at(place)
    live.open(write=False)
    (theirs,), (ours,) = live.used_by("session"), store.used_by("session")
    live.close()
    assert theirs == ours
    assert ours.turns
