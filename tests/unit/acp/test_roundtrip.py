"""Any legal life of a call survives the wire: in v1 and in v2.

That every message is valid ACP is checked by the fixture in conftest, for each message that is made
here.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import ToolCallReport, ToolCallStatus, ToolKind
from callsheet.acp import v1, v2
from callsheet.acp.codec import UpdateFrames, as_dict, same
from callsheet.acp.jsonrpc import Notification, decode_line
from callsheet.acp.peer import Peer
from callsheet.acp.views import View, view_for
from callsheet.report.events import CallOpened, Event
from callsheet.report.fields import SETTLE
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import TerminalState
from callsheet.runtime.clock import new_call_id
from tests.support import strategies as some
from tests.support.sizes import fewer
from tests.support.terminals import facts_of

WIRES = {1: v1, 2: v2}


def view_of(version: int, ledger: Ledger) -> View:
    return view_for(Peer(version=version, terminals="meta", progress="meta"), ledger.terminal)


def send(events: list[Event], version: int) -> tuple[Ledger, list[bytes]]:
    """Fold events on the agent's side, and give the lines that the editor is sent."""
    ledger, frames = Ledger("s", new_call_id), UpdateFrames("s")
    view = view_of(version, ledger)
    lines: list[bytes] = []
    for event in events:
        state = ledger.apply(event)
        updates = view.call(state) if isinstance(state, ToolCallReport) else view.terminal(state)
        lines += [frames.line(update) for update in updates]
    lines += [frames.line(update) for update in view.insist(whatever_it_costs=True)]
    return ledger, lines


def updates_in(lines: list[bytes]) -> list[dict[str, Any]]:
    messages = [decode_line(line) for line in lines]
    assert all(isinstance(message, Notification) for message in messages)
    return [message.params for message in messages]  # type: ignore[union-attr]


def receive(lines: list[bytes], version: int) -> Ledger:
    """Fold lines on the editor's side."""
    ledger = Ledger("s", new_call_id)
    for params in updates_in(lines):
        for event in WIRES[version].decode(params["update"]):
            ledger.apply(event)
    return ledger


def same_calls(one: Ledger, other: Ledger) -> None:
    assert [r.tool_call_id for r in one] == [r.tool_call_id for r in other]
    for mine, theirs in zip(one, other, strict=True):
        for field in mine.__struct_fields__:
            assert same(getattr(mine, field), getattr(theirs, field)), field


@pytest.mark.parametrize("version", [1, 2])
@fewer(small=6)
@given(events=some.lives())
def test_any_life_folds_back_to_the_same_report(version: int, events: list[Event]) -> None:
    ledger, lines = send(events, version)
    same_calls(ledger, receive(lines, version))


ALONE: dict[str, tuple[Any, Any, Any]] = {
    "name": ("one", "two", ""),
    "title": ("One", "Two", ""),
    "kind": (ToolKind.READ, ToolKind.EDIT, ToolKind.OTHER),
    "status": (ToolCallStatus.PENDING, ToolCallStatus.IN_PROGRESS, ToolCallStatus.FAILED),
    "content": (("one",), ("two",), ()),
    "locations": (("/one",), ("/two",), ()),
    "raw_input": ({"a": 1}, {"a": 2}, None),
    "raw_output": ({"a": 1}, {"a": 2}, None),
}
"""Two values of each field, and what it is when it is cleared."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", SETTLE)
def test_each_field_is_changed_and_cleared_by_itself(version: int, name: str) -> None:
    wire = WIRES[version]
    one, two, none = ALONE[name]
    start = {"name": "tool", "title": "Title", name: one}
    for later in (two, none):
        seen, report = ToolCallReport("call_1", **start), ToolCallReport("call_1", **start)
        report.update(**{name: later})
        ledger = Ledger("s", new_call_id)
        for update in (*wire.encode(seen), *wire.encode(report, seen)):
            for event in wire.decode(as_dict(update)):
                ledger.apply(event)
        assert same(getattr(ledger["call_1"], name), getattr(report, name))


@pytest.mark.parametrize("version", [1, 2])
@fewer(small=12)
@given(data=st.data())
def test_many_calls_at_once_stay_apart(version: int, data: st.DataObject) -> None:
    lives = [data.draw(some.lives(f"call_{number}")) for number in range(3)]
    mixed: list[Event] = []
    while any(lives):
        life = data.draw(st.sampled_from([life for life in lives if life]))
        mixed.append(life.pop(0))
    ledger, lines = send(mixed, version)
    same_calls(ledger, receive(lines, version))


def terminal_facts(ledger: Ledger) -> tuple[object, ...]:
    state = ledger.terminal("term_1")
    assert isinstance(state, TerminalState)
    return facts_of(state)


@pytest.mark.parametrize("version", [1, 2])
@fewer(small=6)
@given(terminal=some.terminal_lives())
def test_a_terminal_arrives_whole_however_its_output_is_cut(
    version: int, terminal: list[Event]
) -> None:
    opened = CallOpened(ToolCallReport("call_1", title="x", content=(some.terminal_item,)))
    ledger, lines = send([terminal[0], opened, *terminal[1:]], version)
    same_calls(ledger, receive(lines, version))
    assert terminal_facts(ledger) == terminal_facts(receive(lines, version))


@fewer(small=6)
@given(terminal=some.terminal_lives(), events=some.lives())
def test_a_plain_v1_client_is_never_shown_a_terminal_it_does_not_know(
    terminal: list[Event], events: list[Event]
) -> None:
    ledger = Ledger("s", new_call_id)
    view = view_for(Peer(), ledger.terminal)
    opened = CallOpened(ToolCallReport("call_t", title="x", content=(some.terminal_item,)))
    for event in [terminal[0], opened, *terminal[1:], *events]:
        state = ledger.apply(event)
        updates = view.call(state) if isinstance(state, ToolCallReport) else view.terminal(state)
        for update in updates:
            items = as_dict(update).get("content") or []
            assert all(item["type"] != "terminal" for item in items)


@pytest.mark.parametrize("version", [1, 2])
@fewer(small=6)
@given(events=some.lives())
def test_what_a_peer_has_seen_is_never_sent_again(version: int, events: list[Event]) -> None:
    ledger = Ledger("s", new_call_id)
    for event in events:
        report = ledger.apply(event)
        assert isinstance(report, ToolCallReport)
        again = ToolCallReport(**{f: getattr(report, f) for f in report.__struct_fields__})
        assert WIRES[version].encode(again, report) == []
