"""Framing: any line in, typed errors for everything that is wrong, a budget on what goes out."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.acp.codec import UpdateFrames
from callsheet.acp.jsonrpc import (
    FrameTooLarge,
    InvalidAnswer,
    InvalidParams,
    InvalidRequest,
    LineBuffer,
    Message,
    Notification,
    ParseError,
    ProtocolError,
    Request,
    Response,
    UnknownMethod,
    decode_line,
    encode_line,
    error_response,
    split_lines,
)
from tests.support import strategies as some
from tests.support.sizes import fewer

params = st.dictionaries(some.unicode_text, some.json_values, max_size=3) | st.lists(
    some.json_values
)
request_ids = st.none() | st.integers(-(2**63), 2**63 - 1) | some.unicode_text
extras = st.none() | some.objects.filter(bool)
messages = st.one_of(
    st.builds(Request, request_ids, some.words, st.none() | params, extras),
    st.builds(Notification, some.words, st.none() | params, extras),
    st.builds(lambda i, r, x: Response(i, r, None, x), request_ids, some.json_values, extras),
    st.builds(
        lambda i, c, m: Response(i, None, {"code": c, "message": m}),
        request_ids,
        st.integers(-(2**31), 2**31),
        some.words,
    ),
)


@fewer()
@given(st.lists(messages, max_size=5), st.data())
def test_messages_survive_whatever_the_stream_is_cut_into(
    sent: list[Message], data: st.DataObject
) -> None:
    stream = b"".join(encode_line(message) for message in sent)
    buffer, whole, at = LineBuffer(), b"", 0
    while at < len(stream):
        step = data.draw(st.integers(1, 40))
        whole += buffer.feed(stream[at : at + step])[1]
        at += step
    assert [decode_line(line) for line in split_lines(whole)] == sent
    assert buffer.end() == b""


WRONG: dict[str, tuple[bytes, type[ProtocolError], str]] = {
    "not JSON": (b"hello", ParseError, "malformed"),
    "cut JSON": (b'{"jsonrpc":', ParseError, "truncated"),
    "not UTF-8": (b'{"a":"\xff"}', ParseError, "utf-8"),
    "lone surrogate": (b'{"jsonrpc":"2.0","method":"\\ud800"}', ParseError, ""),
    "nested too deeply": (b"[" * 100_000, ParseError, "nested too deeply"),
    "number out of range": (b'{"jsonrpc":"2.0","id":1e999}', ParseError, "out of range"),
    "NaN": (b'{"jsonrpc":"2.0","id":NaN}', ParseError, ""),
    "a list": (b"[]", InvalidRequest, "expected an object, got a list"),
    "a batch": (b'[{"jsonrpc":"2.0","method":"m"}]', InvalidRequest, "got a list"),
    "text": (b'"x"', InvalidRequest, "got text"),
    "null": (b"null", InvalidRequest, "got null"),
    "no version": (b'{"method":"m"}', InvalidRequest, 'expected "2.0"'),
    "old version": (b'{"jsonrpc":"1.0","method":"m"}', InvalidRequest, 'expected "2.0"'),
    "method is a number": (b'{"jsonrpc":"2.0","method":1}', InvalidRequest, "method: expected text"),
    "params is text": (b'{"jsonrpc":"2.0","method":"m","params":"x"}', InvalidRequest, "params"),
    "id is a list": (b'{"jsonrpc":"2.0","id":[],"method":"m"}', InvalidRequest, "id: expected"),
    "id is a bool": (b'{"jsonrpc":"2.0","id":true,"method":"m"}', InvalidRequest, "id: expected"),
    "id is a fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', InvalidRequest, "a fraction"),
    "nothing in it": (b'{"jsonrpc":"2.0","id":1}', InvalidRequest, "neither a method"),
    "both answers": (b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', InvalidAnswer, "both"),
    "method and answer": (b'{"jsonrpc":"2.0","method":"m","result":1}', InvalidRequest, "both"),
    "error without code": (b'{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}', InvalidAnswer, "code"),
    "answer without id": (b'{"jsonrpc":"2.0","result":1}', InvalidRequest, "without an id"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_is_a_typed_error(name: str) -> None:
    line, error, problem = WRONG[name]
    found = decode_line(line)
    assert type(found) is error
    assert problem in str(found)


def test_the_id_of_a_wrong_request_is_in_the_answer() -> None:
    error = decode_line(b'{"jsonrpc":"2.0","id":7,"method":1}')
    assert isinstance(error, InvalidRequest)
    assert error_response(error).id == 7


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_raise(line: bytes) -> None:
    decoded = decode_line(line)
    assert decoded is None or isinstance(decoded, Request | Notification | Response | ProtocolError)


def test_pieces_that_end_anywhere_contain_the_same_lines(request: pytest.FixtureRequest) -> None:
    chance = random.Random(int(request.config.option.hypothesis_seed))
    for _ in range(200):
        lines = [b"x" * chance.choice((0, 1, 5, 30, 90)) + b"\n" for _ in range(12)]
        data, limit = b"".join(lines) + b"rest", chance.choice((4, 20, 1000))
        buffer, returned, found = LineBuffer(limit), b"", list[bytes]()
        while data:
            size = chance.choice((1, 3, 17, 200))
            more, whole, begun = buffer.feed(data[:size])
            data = data[size:]
            returned += more + whole + begun
            assert not whole or whole.endswith(b"\n")
            found += split_lines(whole)
        assert returned + buffer.end() == b"".join(lines) + b"rest"
        if limit == 1000:
            assert found == lines


def test_what_follows_a_long_line_in_the_same_piece_does_not_wait() -> None:
    buffer = LineBuffer(10)
    assert buffer.feed(b"x" * 11) == (b"", b"", b"x" * 11)
    assert buffer.feed(b"y\nnext\nhalf") == (b"y\n", b"next\n", b"")
    assert buffer.end() == b"half"


def test_blank_lines_and_carriage_returns_are_passed_over() -> None:
    lines = b'\n\r\n {"jsonrpc":"2.0","method":"m"}\r\n'
    assert list(map(decode_line, split_lines(lines))) == [None, None, Notification("m")]


def test_the_budget_counts_encoded_bytes() -> None:
    message = Notification("m", {"text": "é\n" * 10})
    size = len(encode_line(message))
    assert size > len('{"jsonrpc":"2.0","method":"m","params":{"text":""}}') + 20
    assert len(encode_line(message, budget=size)) == size
    with pytest.raises(FrameTooLarge, match=f"{size} bytes, the budget is {size - 1}") as caught:
        encode_line(message, budget=size - 1)
    assert (caught.value.size, caught.value.budget) == (size, size - 1)


def test_frames_of_a_session_are_lines_within_the_budget() -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "é"}
    line = UpdateFrames('s"1').line(update)
    assert msgspec.json.decode(line) == {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": 's"1', "update": update},
    }
    assert line.endswith(b"}\n")
    UpdateFrames('s"1', budget=len(line)).line(update)
    with pytest.raises(FrameTooLarge):
        UpdateFrames('s"1', budget=len(line) - 1).line(update)


def test_a_line_goes_without_what_does_not_fit_its_budget_and_says_so() -> None:
    head = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
    known = {**head, "title": "t" * 400, "_meta": {"k": 1}}
    shown = {**known, "content": ["c" * 900]}

    def fitted(budget: int) -> tuple[dict[str, Any], str | None]:
        frames = UpdateFrames("s", budget=budget)
        line, wrong = frames.fitting({**shown, "rawOutput": "o" * 900})
        assert len(line) <= budget
        return msgspec.json.decode(line)["params"]["update"], wrong

    assert fitted(4000) == ({**shown, "rawOutput": "o" * 900}, None)
    for budget, left in ((2000, shown), (1000, known), (400, head)):
        found, wrong = fitted(budget)
        assert found == left
        assert f"the budget is {budget}" in str(wrong)


def test_an_update_that_is_no_json_still_reports_where_its_call_is() -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "rawInput": {1j}}
    line, wrong = UpdateFrames("s").fitting(update)
    least = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "…"}
    assert msgspec.json.decode(line)["params"]["update"] == least
    assert wrong


@pytest.mark.parametrize(
    ("error", "code"),
    [(ParseError, -32700), (InvalidRequest, -32600), (UnknownMethod, -32601), (InvalidParams, -32602)],
)  # fmt: skip
def test_errors_have_the_codes_of_json_rpc(error: type[ProtocolError], code: int) -> None:
    response: Any = error_response(error("why", request_id="r", data={"a": 1}))
    assert response.id == "r"
    assert response.error["code"] == code
    assert response.error["message"].endswith(": why")
    assert response.error["data"] == {"a": 1}
