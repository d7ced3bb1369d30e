"""Payloads: whatever a call holds comes back from the history as it was."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callsheet import ToolCallContent, ToolCallReport
from callsheet.acp.codec import same
from callsheet.history.codec import Codec, as_json_bytes
from callsheet.history.store_errors import StoreDamaged
from callsheet.report.content import DiffContent, FileChange, TerminalContent, TextContent
from callsheet.report.events import ExitStatus
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import CallRecord, TerminalRecord
from callsheet.runtime.clock import new_call_id
from tests.support import strategies as some
from tests.support.sizes import fewer

CODEC = Codec()
LARGE = 40_000
"""Characters of a text that makes a payload a large one."""


def encode(record: CallRecord) -> bytes:
    return CODEC.compress([as_json_bytes(record)])[0]


def assert_survives(record: CallRecord) -> None:
    found = CODEC.decode(encode(record))
    assert found == record
    assert same(found.report.snapshot(), record.report.snapshot())  # 1 is not True, nor 1.0


tricky_texts = st.one_of(
    st.sampled_from(["\0", "\0blob:", "\0text:", "\0blob:" + "00" * 16, "\\u0000", "\0" * LARGE]),
    st.builds(lambda text, count: text * count, some.unicode_text, st.integers(1, 3000)),
)
tricky_values = st.recursive(
    some.scalars | tricky_texts | st.integers(-(2**1000), 2**1000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tricky_texts, inner, max_size=3),
    max_leaves=8,
)
wire_keys = st.sampled_from(
    ["terminal_info", "terminal_output", "terminal_exit", "callsheet_terminal", "tool_name", "x"]
)
terminals = st.builds(
    TerminalRecord,
    st.just("term_1"),
    st.none() | st.just("") | some.words,
    st.none() | some.paths,
    st.none()
    | st.builds(
        ExitStatus,
        exit_code=st.none() | st.integers(-(2**63), 2**63 - 1),
        signal=st.none() | some.words,
        extra=some.maybe_object,
    ),
    st.integers(0, 2**70),
    st.integers(0, 2**40),
    st.binary(max_size=40) | st.just(b"\xff" * 4096),
    st.binary(max_size=40) | st.just("é漢🙂\n".encode() * 2000) | st.just(b"\xff\0" * 5000),
    some.objects,
    some.objects,
)


@fewer(2)
@given(some.lives())
def test_any_state_of_any_call_survives(life: list[Any]) -> None:
    ledger = Ledger("s", new_call_id)
    for event in life:
        state = ledger.apply(event)
        assert isinstance(state, ToolCallReport)
        assert_survives(CallRecord(state))


@fewer()
@given(tricky_values, tricky_values, tricky_texts, st.lists(terminals, max_size=2))
def test_any_text_number_and_terminal_survives(
    given_: Any, got: Any, text: str, shown: list[TerminalRecord]
) -> None:
    report = ToolCallReport(
        "call_1",
        text,
        text,
        content=(TextContent(text), *(TerminalContent("term_1") for _ in shown)),
        raw_input=given_,
        raw_output=got,
    )
    assert_survives(CallRecord(report, tuple(shown)))


@fewer()
@given(st.dictionaries(wire_keys, some.some_json, max_size=4), some.words)
def test_what_the_wire_would_take_for_its_own_survives(meta: dict[str, Any], name: str) -> None:
    assert_survives(CallRecord(ToolCallReport("call_1", name, meta=meta)))
    assert_survives(CallRecord(ToolCallReport("call_1", meta=meta)))


@pytest.mark.parametrize(
    "report",
    [
        ToolCallReport("c", extra={"status": "_queued", "rawInput": 3, "content": []}),
        ToolCallReport("c", content=(DiffContent((FileChange(path="/a"),), patch="@@ theirs @@"),)),
        ToolCallReport(
            "c", content=(TextContent("a", annotations={"audience": ["tool", "user"]}),)
        ),
        ToolCallReport(
            "c", content=(TextContent("a", meta={"callsheet": {"item": {"type": "x"}}}),)
        ),
        ToolCallReport(
            "c", content=(TextContent("a", outer={"_meta": {"callsheet": {"file": [0, 2]}}}),)
        ),
        ToolCallReport(
            "c",
            content=(
                TextContent("before"),
                DiffContent(
                    tuple(FileChange.of_texts(f"/{n}", "a", "b") for n in range(3)), "theirs"
                ),
                TextContent("after"),
            ),
        ),
        ToolCallReport("c", status="paused", kind="_custom", title=""),  # type: ignore[arg-type]
        ToolCallReport("c", status="cancelled", meta={"tool_name": "other"}),  # type: ignore[arg-type]
        ToolCallReport("c", content=(ToolCallContent.image(b"\x89PNG" * 9000, "image/png"),)),
    ],
)
def test_what_v1_has_no_words_for_survives(report: ToolCallReport) -> None:
    assert_survives(CallRecord(report))


def test_a_value_as_deep_as_a_report_may_hold_survives() -> None:
    value: Any = "x" * LARGE
    for level in range(99):
        value = [value] if level % 2 else {"k": value}
    assert_survives(CallRecord(ToolCallReport("call_1", raw_input=value)))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_payload_are_reported_as_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        CODEC.decode(data)


@given(st.data())
def test_a_payload_that_was_damaged_anywhere_is_reported_as_damage_if_it_can_be_seen(
    data: Any,
) -> None:
    text = data.draw(st.sampled_from(["short", "long " * 2000]))
    broken = bytearray(encode(CallRecord(ToolCallReport("call_1", "read", raw_output=text))))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(broken) - 1))
        broken[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(broken)))
    with suppress(StoreDamaged):  # any other error fails this test
        CODEC.decode(bytes(broken[:cut] if data.draw(st.booleans()) else broken))


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{}", b"[" * 100_000, b'{"call":3}', b'{"call":{"sessionUpdate":"plan"}}', b"\xff",
     b'{"call":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"},"terminals":[{}]}',
     b'{"call":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"},"odd":{"content":{"7":[]}}}'],
)  # fmt: skip
def test_json_that_is_no_call_is_reported_as_damage(body: bytes) -> None:
    with pytest.raises(StoreDamaged):
        CODEC.decode(zstandard.compress(body))


def test_a_frame_that_claims_to_be_huge_sets_nothing_aside() -> None:
    head = b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little")
    with pytest.raises(StoreDamaged, match="too large"):
        CODEC.decode(head + b"\x01\x00\x00")


def test_a_payload_of_another_dictionary_is_read_by_who_has_that() -> None:
    """A store of 0.1.0 may have trained dictionaries of its own."""
    records = [
        CallRecord(ToolCallReport(f"call_{n}", "deploy", f"Deploying shop-{n}", raw_input={"n": n}))
        for n in range(300)
    ]
    plain = [as_json_bytes(record) for record in records]
    trained = zstandard.train_dictionary(1 << 12, plain)
    payload = zstandard.ZstdCompressor(dict_data=trained).compress(plain[0])
    with pytest.raises(StoreDamaged, match="dictionary"):
        Codec().decode(payload)
    assert Codec([trained.as_bytes()]).decode(payload) == records[0]


def test_an_owned_report_and_its_copy_pack_alike() -> None:
    report = ToolCallReport("call_1", "read", extra={"x": 1})
    assert encode(CallRecord(report.owned())) == encode(CallRecord(report))
    assert CODEC.decode(encode(CallRecord(replace(report, name="write")))).report.name == "write"
