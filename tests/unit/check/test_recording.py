"""Rules about the recording itself: whatever a file holds, it is a finding, and never a crash."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.check.engine import check_stream
from callsheet.check.finding import Finding
from callsheet.observe import lines as reading
from tests.support import RECORDINGS
from tests.support.sizes import sized
from tests.support.talk import NOT_COMPLETE, Talk, everything, findings, rules


def said(style: str = "dir") -> list[bytes]:
    talk = Talk().opened().prompt().call("a", "in_progress").call("a", "completed").stop()
    return [line.raw for line in talk.lines(style)]  # type: ignore[arg-type]


def check(data: bytes) -> list[Finding]:
    return list(check_stream(io.BytesIO(data), rules=NOT_COMPLETE))


def found(data: bytes) -> list[tuple[str, int]]:
    return [(one.rule, one.line) for one in check(data)]


def with_line(data: bytes, at: int = 5) -> bytes:
    """Put a line into a sound recording; its number is six."""
    lines = said()
    return b"\n".join([*lines[:at], data, *lines[at:]]) + b"\n"


def test_a_sound_recording_in_each_form() -> None:
    for style in ("dir", "raw", "agent"):
        assert found(b"\n".join(said(style)) + b"\n") == []
        assert found(b"\r\n".join(said(style))) == []
    assert found(b"\xef\xbb\xbf" + b"\n".join(said())) == []


# Lines


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b'{"jsonrpc": "2.0", "method": "session/upd', "recording/cut-line"),
        (b"\x00\x01\x02\x03", "recording/binary"),
        (b'{"jsonrpc": "2.0", "method": "_x", "params": {"a": "\xff"}}', "recording/not-utf8"),
        (b"\xff\xfe\xfa", "recording/not-utf8"),
        (b"[debug] the server has started", "recording/not-json"),
        (b'{"jsonrpc": "2.0", "method": "_x",,}', "recording/not-json"),
        (b"{" * 3 + b'"a": ' + b"[" * 5000, "recording/not-json"),
        (b"42", "recording/not-a-message"),
        (b"{}", "recording/not-a-message"),
        (b'{"t": 1, "dir": "agent->client", "msg": null}', "recording/not-a-message"),
        (b"", "recording/blank-line"),
        (b"  \t", "recording/blank-line"),
    ],
)
def test_a_line_that_is_no_message_is_found_and_the_rest_is_read(line: bytes, rule: str) -> None:
    assert found(with_line(line)) == [(rule, 6)]


def test_what_the_recorder_found_to_be_no_message_keeps_who_has_sent_it_and_when() -> None:
    one = '{"jsonrpc": "2.0", "method": "_x"}'
    for raws, numbers in (([one[:9], one[9:]], [1, 2]), ([one * 2], [1]), ([one[:9]], [1])):
        told = [{"t": 2.5, "dir": "agent->client", "raw": raw} for raw in raws]
        data = "\n".join(map(json.dumps, told)).encode()
        lines = list(reading.read_lines(io.BytesIO(data)))
        assert [line.number for line in lines] == numbers
        assert {(line.sender, line.time) for line in lines} == {("agent", 2.5)}


def test_two_messages_on_a_line_are_a_finding() -> None:
    lines = said()
    joined = [*lines[:5], lines[5] + lines[6], lines[7]]
    assert found(b"\n".join(joined)) == [("recording/several-messages", 6)]


@pytest.mark.parametrize("odd", [b'"\\ud800"', b"1" * 40, b"1e999", b"NaN"])
def test_two_messages_on_a_line_may_be_odd_themselves(odd: bytes) -> None:
    lines = said()
    message = b'{"jsonrpc": "2.0", "method": "_x/y", "params": {"odd": ' + odd + b"}}"
    joined = [*lines[:5], message + lines[5], *lines[6:8]]
    assert found(b"\n".join(joined))[0] == ("recording/several-messages", 6)


@pytest.mark.parametrize("depth", range(960, 1000, 2))
def test_two_messages_on_a_line_may_be_deep(depth: int) -> None:
    lines = said()
    deep = b'{"jsonrpc": "2.0", "method": "_x/y", "params": ' + b"[" * depth + b"]" * depth + b"}"
    assert found(b"\n".join([*lines[:5], deep + lines[5], *lines[6:8]]))


def test_a_batch_may_be_odd() -> None:
    lines = [json.dumps(json.loads(line)["msg"]).encode() for line in said()]
    odd = b'{"jsonrpc": "2.0", "method": "_x/y", "params": {"odd": "\\ud800"}}'
    batch = b"[" + odd + b", " + lines[5] + b"]"
    assert found(b"\n".join([*lines[:5], batch, *lines[6:8]]))[0] == (
        "recording/several-messages",
        6,
    )


def test_a_batch_is_several_messages() -> None:
    lines = [json.dumps(json.loads(line)["msg"]).encode() for line in said()]
    batch = b"[" + lines[5] + b", " + lines[6] + b"]"
    assert found(b"\n".join([*lines[:5], batch, lines[7]])) == [("recording/several-messages", 6)]


def test_messages_that_two_writers_have_mixed() -> None:
    lines = said()
    mixed = lines[5][:60] + lines[6] + lines[5][60:]
    rule, line = found(b"\n".join([*lines[:5], mixed, lines[7]]))[0]
    assert (rule, line) == ("recording/several-messages", 6)


def test_each_line_of_a_message_over_several_lines_is_found() -> None:
    lines = said()
    middle = len(lines[5]) // 2
    pieces = [lines[5][:middle], lines[5][middle:]]
    assert found(b"\n".join([*lines[:5], *pieces, *lines[6:]])) == [
        ("recording/cut-line", 6), ("recording/not-json", 7),
    ]  # fmt: skip
    pretty = json.dumps(json.loads(lines[5]), indent=2).encode()
    rules_found = {rule for rule, _ in found(b"\n".join([*lines[:5], pretty, *lines[6:]]))}
    assert rules_found == {"recording/cut-line", "recording/not-json"}


def test_two_lines_that_break_off_are_two() -> None:
    line = b'{"jsonrpc": "2.0", "method": "_x'
    assert found(with_line(line + b"\n" + line)) == [
        ("recording/cut-line", 6), ("recording/cut-line", 7),
    ]  # fmt: skip


def test_a_gigantic_line_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST", 5000)
    monkeypatch.setattr(reading, "PIECE", 1000)
    message = {"jsonrpc": "2.0", "method": "_x", "params": {"text": "x" * 4000}}
    assert found(with_line(json.dumps(message).encode())) == []
    message["params"] = {"text": "x" * 6000}
    assert found(with_line(json.dumps(message).encode())) == [("recording/gigantic-line", 6)]
    assert found(with_line(b"x" * 50_000)) == [("recording/gigantic-line", 6)]


def test_empty_lines_and_binary_data_are_reported_once() -> None:
    lines = b"\n\n".join(said())
    assert found(lines) == [("recording/blank-line", 2)]
    binary = b"\n".join([b"\0\1\2"] * 100)
    assert [rule for rule, _ in found(binary)] == ["recording/binary", "recording/no-messages"]


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n  \n", b"no\nmessage\n"])
def test_a_file_without_a_message(data: bytes) -> None:
    assert "recording/no-messages" in [one.rule for one in check(data)]


def test_nothing_is_missed_in_what_comes_after_a_lost_line() -> None:
    lines = said()
    lost = b"\n".join([*lines[:5], lines[5][:40], *lines[6:]])  # the announcement
    assert found(lost) == [("recording/cut-line", 6)]
    noise = b"\n".join([*lines[:5], b"hello", *lines[6:]])
    assert [one.rule for one in check(noise)] == ["recording/not-json", "lifecycle/not-announced"]


# Where it begins and ends


def test_a_recording_that_begins_in_the_middle() -> None:
    whole = said()
    assert found(b"\n".join(whole[4:])) == [("recording/begins-in-the-middle", 1)]
    assert found(b"\n".join(whole[5:7])) == []  # updates alone are no conversation


def test_a_recording_that_breaks_off() -> None:
    whole = said()
    assert ("recording/breaks-off", 7) in found(b"\n".join(whole[:7]))
    assert found(b"\n".join(whole[:4])) == []
    only_agent = said("agent")
    assert rules([reading.parse_line(1, line) for line in only_agent[:-1]], "recording") == []


# Times and directions


def test_times_that_go_back() -> None:
    talk = Talk().opened().prompt().call("a", "in_progress")
    talk.clock -= 3
    talk.call("a", "completed").stop()
    (finding,) = findings(talk, "recording")
    assert (finding.rule, finding.line, finding.field) == ("recording/time-goes-back", 7, "t")


def test_a_clock_may_tremble_and_begin_anew_with_the_agent() -> None:
    talk = Talk().opened().prompt().call("a", "in_progress")
    talk.clock -= 1.0005
    talk.call("a", "completed").stop()
    talk.clock = 0.0
    talk.opened().prompt().stop()
    assert rules(talk, "recording") == []


def test_directions_that_contradict_the_methods_are_reported_once_for_each() -> None:
    talk = Talk().opened().prompt()
    params = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}}
    talk.note("client", "session/update", params).note("client", "session/update", params)
    talk.note("agent", "session/cancel", {"sessionId": "s"}).stop()
    assert [(one.rule, one.line) for one in findings(talk, "recording")] == [
        ("recording/wrong-direction", 6), ("recording/wrong-direction", 8),
    ]  # fmt: skip


def test_methods_that_nobody_knows_may_go_either_way() -> None:
    talk = (
        Talk().opened().prompt().note("agent", "_x/y", {}).note("client", "session/new_thing", {})
    )
    talk.note("agent", "session/new_thing", {}).note("agent", "$/cancel_request", {"requestId": 9})
    assert rules(talk.stop(), "recording") == []


# Questions and answers


@pytest.mark.parametrize("style", ["dir", "raw"])
def test_an_answer_to_nothing(style: str) -> None:
    talk = Talk().opened().prompt().answer("client", 77, {}).stop()
    lines = talk.lines(style)  # type: ignore[arg-type]
    assert rules(lines, "recording") == ["recording/answer-without-request"]


def test_an_answer_that_comes_twice_and_one_under_another_type() -> None:
    talk = Talk().opened().prompt().question("a").decide().decide().stop()
    assert rules(talk, "recording") == ["recording/answer-without-request"]
    talk = Talk().opened().prompt().question("a")
    talk.answer("client", "1", {"outcome": {"outcome": "cancelled"}}).update("plan").stop()
    assert rules(talk, "recording") == [
        "recording/answer-without-request", "recording/unanswered-request",
    ]  # fmt: skip


def test_answers_are_not_missed_where_requests_were_not_recorded() -> None:
    talk = Talk().opened().prompt().question("a").decide().stop()
    assert rules(talk.lines("agent"), "recording") == []
    assert rules(talk.lines()[4:], "recording") == ["recording/begins-in-the-middle"]


def test_an_error_without_an_id_answers_what_could_not_be_read() -> None:
    talk = Talk().opened().say("agent", {"id": None, "error": {"code": -32700, "message": "?"}})
    assert rules(talk, "recording") == []


def test_a_request_that_is_never_answered() -> None:
    talk = Talk().opened().prompt()
    talk.ask("agent", "fs/read_text_file", {"sessionId": "s", "path": "/a"})
    (finding,) = findings(talk.call("a", "pending").call("a", "failed").stop(), "recording")
    assert (finding.rule, finding.line) == ("recording/unanswered-request", 6)


def test_a_request_of_the_last_lines_may_stay_without_an_answer() -> None:
    talk = Talk().opened().prompt().stop()
    talk.ask("client", "session/close", {"sessionId": "s"})
    assert rules(talk, "recording") == []


def test_two_requests_that_wait_under_one_id() -> None:
    talk = Talk().opened().prompt().question("a")
    talk._ids["agent"] -= 1
    talk.question("b").decide().stop()
    (finding,) = findings(talk, "recording")
    assert (finding.rule, finding.line, finding.field) == ("recording/same-id", 7, "id")


def test_ids_of_two_sides_and_of_answered_requests_may_be_the_same() -> None:
    talk = Talk().opened().prompt().question("a").decide()
    talk._ids["agent"] -= 1
    assert rules(talk.question("a").decide().stop(), "recording") == []


# Anything


REAL = RECORDINGS.joinpath("gemini-cli-0.61.0.dupid-none.jsonl").read_bytes()


@settings(max_examples=sized(60, 20), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(REAL)),
            st.integers(0, 200),
            st.binary(max_size=20) | st.sampled_from([b"\n", b"}", b'"', b"{", b"\0", b"\\ud800"]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_mutated_recording_never_crashes(changes: list[tuple[int, int, bytes]]) -> None:
    data = REAL
    for place, cut, put in changes:
        data = data[:place] + put + data[place + cut :]
    lines = data.count(b"\n") + 1
    assert all(1 <= one.line <= lines for one in check(data))


@settings(max_examples=sized(60, 20), deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_whatever_a_file_holds_never_crashes(data: bytes) -> None:
    check(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=sized(60, 20), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), JSON), min_size=1, max_size=5))
def test_values_of_any_kind_in_any_place_never_crash(changes: list[tuple[int, object]]) -> None:
    messages = [json.loads(line) for line in REAL.splitlines()[:12]]
    for place, value in changes:
        target = messages[place]["msg"]
        for name in ("params", "update", "rawInput", "result"):
            if isinstance(target.get(name), dict):
                target = target[name]
                break
        target[sorted(target)[0]] = value
    everything(
        [
            reading.parse_line(number, json.dumps(one).encode())
            for number, one in enumerate(messages, 1)
        ]
    )
