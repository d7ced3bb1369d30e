"""Nothing that a peer sends gives anything but events or a typed error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import CallsheetError, ToolCallReport
from callsheet.acp import codec, git_patch, v1, v2
from callsheet.acp.jsonrpc import (
    InvalidParams,
    Notification,
    ProtocolError,
    Request,
    Response,
    decode_line,
)
from callsheet.acp.peer import Peer
from callsheet.acp.views import view_for
from callsheet.report.content import UnknownContent
from callsheet.report.events import Event
from callsheet.report.ledger import Ledger
from callsheet.runtime.clock import new_call_id
from tests.support import strategies as some
from tests.support.sizes import fewer
from tests.unit.acp.test_roundtrip import send, updates_in

WIRES = {1: v1, 2: v2}
junk = st.one_of(
    some.json_values,
    st.sampled_from(
        [None, 0, -1, 1.5, True, "", "x", [], {}, [{}], {"type": "content"}, "\x00", 2**70]
    ),
)
keys = st.sampled_from(
    ["sessionUpdate", "toolCallId", "title", "kind", "status", "content", "locations", "rawInput",
     "_meta", "callsheet", "path", "line", "type", "text", "changes", "patch", "operation", "oldPath",
     "data", "exitStatus", "output", "terminal_output", "terminal_info", "terminal_exit", "cleared",
     "change", "file", "item", "callsheet_terminal", "uri", "annotations", "resource", "newText"]
)  # fmt: skip


def patch_item(text: str) -> dict[str, Any]:
    changes = [{"operation": "modify", "path": "/a"}]
    return {"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": text}}


def mutate(draw: st.DrawFn, value: Any) -> Any:
    """Change something somewhere in a JSON value."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: mutate(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutate(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(keys): draw(junk)}
    if isinstance(value, dict) and value and draw(st.booleans()):
        gone = draw(st.sampled_from(sorted(value)))
        return {key: item for key, item in value.items() if key != gone}
    return draw(junk)


@st.composite
def mutated_updates(draw: st.DrawFn, version: int) -> list[Any]:
    events: list[Event] = draw(some.lives())
    if draw(st.booleans()):
        events += draw(some.terminal_lives())
    updates = [params["update"] for params in updates_in(send(events, version)[1])]
    if version == 1 and draw(st.booleans()):
        meta = {
            "terminal_info": {"terminal_id": "t"},
            "terminal_output": {"terminal_id": "t", "data": "x"},
        }
        updates[0]["_meta"] = {
            **updates[0].get("_meta", {}),
            **meta,
            "callsheet_terminal": {"terminalId": "t"},
        }
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(updates) - 1))
        updates[at] = mutate(draw, updates[at])
    return updates


@pytest.mark.parametrize("version", [1, 2])
@fewer(small=8)
@given(data=st.data())
def test_mutated_messages_give_events_or_a_typed_error(version: int, data: st.DataObject) -> None:
    ledger = Ledger("s", new_call_id)
    for update in data.draw(mutated_updates(version)):
        try:
            events = WIRES[version].decode(update)
        except InvalidParams:
            continue
        for event in events:
            try:
                ledger.apply(event)
            except CallsheetError:
                continue


@pytest.mark.parametrize("version", [1, 2])
@given(junk)
def test_any_json_gives_events_or_a_typed_error(version: int, value: Any) -> None:
    wire = WIRES[version]
    with suppress(InvalidParams):
        wire.decode(value)


@pytest.mark.parametrize("version", [1, 2])
@fewer(small=8)
@given(some.lives(), st.data())
def test_damaged_lines_give_a_message_or_a_typed_error(
    version: int, events: list[Event], data: st.DataObject
) -> None:
    line = bytearray(data.draw(st.sampled_from(send(events, version)[1])))
    for _ in range(data.draw(st.integers(1, 4))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    message = decode_line(bytes(line))
    assert isinstance(message, Request | Notification | Response | ProtocolError)
    if isinstance(message, Notification) and isinstance(message.params, dict):
        try:
            events = WIRES[version].decode(message.params.get("update"))
        except InvalidParams:
            return
        assert all(isinstance(event, Event) for event in events)


HOSTILE: dict[str, dict[str, Any]] = {
    "a tag that is a list": {"content": [{"type": "content", "content": {"type": []}}]},
    "a path that is a list": {"content": [{"type": "diff", "changes": [{"operation": "add", "path": []}]}]},
    "a hunk of more lines than there are numbers": {"content": [patch_item("@@ -1," + "9" * 5000 + " +1 @@\n")]},
    "a lone surrogate in a patch": {"content": [patch_item('+++ "\\\ud800"\n')]},
    "a lone surrogate in a kind": {"kind": "_\ud800"},
    "a lone surrogate in a terminal": {"_meta": {"terminal_output": {"terminal_id": "t", "data": "\ud800"}}},
    "a working directory that is a number": {"_meta": {"terminal_info": {"terminal_id": "t", "cwd": 3}}},
    "annotations that are a number": {"content": [{"type": "content", "content": {"type": "text", "text": "x", "annotations": 0}}]},
    "metadata that is a list": {"content": [{"type": "content", "content": {"type": "text", "text": "x", "_meta": []}}]},
    "a line that is a list": {"locations": [{"path": "/a", "line": []}]},
    "a line that is false": {"locations": [{"path": "/a", "line": False}]},
    "not JSON at all": {"rawInput": {1, 2}},
}  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_updates_never_get_past_the_types(version: int, name: str) -> None:
    kind = {
        1: {"sessionUpdate": "tool_call", "title": "x"},
        2: {"sessionUpdate": "tool_call_update"},
    }
    ledger = Ledger("s", new_call_id)
    view = view_for(Peer(version=3 - version), ledger.terminal)
    try:
        for event in WIRES[version].decode({**kind[version], "toolCallId": "c", **HOSTILE[name]}):
            state = ledger.apply(event)
            if isinstance(state, ToolCallReport):
                view.call(state)
    except CallsheetError:
        assert not list(ledger)  # refused as a whole


def count_calls(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[None]:
    """Count how often a function is called: the cost of hostile input, told without a clock."""
    calls: list[None] = []
    function = getattr(module, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return function(*args, **kwargs)

    patch.setattr(module, name, counted)
    return calls


def test_a_file_changed_a_hundred_times_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matched = count_calls(monkeypatch, git_patch, "SequenceMatcher")
    hunk = "@@ -1,400 +1,400 @@\n" + "-a\n-b\n" * 200 + "+b\n+a\n" * 200
    item = patch_item("diff --git /a /a\n--- /a\n+++ /a\n" + hunk)
    v2.decode_items([{**item, "changes": item["changes"] * 100}])
    assert len(matched) <= 1


def test_many_chunks_are_not_compared_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = count_calls(monkeypatch, codec, "_same_types")
    item = {"type": "content", "content": {"type": "text", "text": "x"}}
    added = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item}
    ledger = Ledger("s", new_call_id)
    view = view_for(Peer(version=2), ledger.terminal)
    opened = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
    for update in (opened, *[added] * 1000):
        for event in v2.decode(update):
            state = ledger.apply(event)
            assert isinstance(state, ToolCallReport)
            view.call(state)
    assert len(compared) < 1000


def test_a_patch_of_headers_without_end_is_read() -> None:
    text = "diff --git /a /a\n" * 20_000 + "@@ -1,99 +1 @@\n" * 20_000
    assert v2.decode_items([patch_item(text)])


def test_a_type_made_of_backticks_is_shown_whole() -> None:
    (item,) = v1.encode_items([UnknownContent({"type": "`" * 80_000})])
    assert item["content"]["text"].count("`") == 3 * 80_000 + 2
