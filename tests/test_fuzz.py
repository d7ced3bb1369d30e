"""Nothing that a peer sends gives anything but events or a typed error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet import CallsheetError, ToolCallReport
from callsheet.report.events import Event
from callsheet.report.ledger import Ledger
from callsheet.runtime.ids import new_call_id
from callsheet.wire import v1, v2
from callsheet.wire.bridge import Bridge
from callsheet.wire.jsonrpc import InvalidParams, Notification, ProtocolError, decode_line

from . import strategies as some
from .test_roundtrip import send, updates_in
from .test_wire_v1 import ALLOW, a_report

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
@settings(max_examples=60)
@given(data=st.data())
def test_mutated_messages_never_break_the_bridge(version: int, data: st.DataObject) -> None:
    """What comes out on the other side is valid, or there is a typed error."""
    bridge = Bridge(
        version, 3 - version, new_call_id, terminals=data.draw(st.sampled_from(["meta", "text"]))
    )  # type: ignore[arg-type]
    for update in data.draw(mutated_updates(version)):
        try:
            bridge.update({"sessionId": "s", "update": update})
        except CallsheetError:
            continue


@pytest.mark.parametrize("version", [1, 2])
@given(junk)
def test_any_json_gives_events_or_a_typed_error(version: int, value: Any) -> None:
    wire = WIRES[version]
    for read in (wire.decode, wire.decode_permission):
        try:
            read(value)
        except InvalidParams:
            continue


@pytest.mark.parametrize("version", [1, 2])
@given(data=st.data())
def test_mutated_permission_requests_give_a_request_or_a_typed_error(
    version: int, data: st.DataObject
) -> None:
    wire = WIRES[version]
    params = wire.encode_permission("s", a_report(), [ALLOW])
    mutated = data.draw(st.composite(lambda draw: mutate(draw, params))())
    try:
        wire.decode_permission(mutated)
    except InvalidParams:
        return


@pytest.mark.parametrize("version", [1, 2])
@given(some.lives(), st.data())
def test_damaged_lines_give_a_message_or_a_typed_error(
    version: int, events: list[Event], data: st.DataObject
) -> None:
    line = bytearray(data.draw(st.sampled_from(send(events, version)[1])))
    for _ in range(data.draw(st.integers(1, 4))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    message = decode_line(bytes(line))
    if isinstance(message, Notification) and isinstance(message.params, dict):
        try:
            WIRES[version].decode(message.params.get("update"))
        except InvalidParams:
            return
    else:
        assert isinstance(message, ProtocolError) or message.__class__.__name__ != "dict"


def test_a_hostile_update_is_read_in_linear_time() -> None:
    patch = "diff --git /a /a\n" * 20_000 + "@@ -1,99999999 +1 @@\n" * 20_000
    raw = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "content": [
            {
                "type": "diff",
                "changes": [{"operation": "modify", "path": "/a"}],
                "patch": {"format": "git_patch", "text": patch},
            }
        ],
    }
    (event,) = v2.decode(msgspec.json.decode(msgspec.json.encode(raw)))
    assert isinstance(Ledger("s", new_call_id).apply(event), ToolCallReport)
