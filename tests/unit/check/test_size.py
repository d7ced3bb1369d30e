"""Rules about size: what is known already is not sent again, and no message is too big."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.observe.repetition import grew, news
from tests.support import RECORDINGS
from tests.support.talk import Talk, findings, rules


def turn(version: int = 1) -> Talk:
    return Talk(version).opened().prompt()


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def lines(count: int) -> str:
    return "".join(
        f"{number:06} compiling another module of the application\n" for number in range(count)
    )


def growing(steps: int, size: int, **more: Any) -> Talk:
    """Send a text again and again, each time a little longer; once a second."""
    talk = turn().call("a", "in_progress")
    for step in range(1, steps + 1):
        talk.call("a", content=content(lines(size * step // steps)), **more)
    return talk.call("a", "completed").stop()


# Amplification


def test_a_call_that_takes_many_times_what_it_reports() -> None:
    finding = findings(growing(150, 300), "size")[0]
    assert (finding.rule, finding.call) == ("size/amplified", "a")
    assert "times the" in finding.message


def test_a_small_call_may_take_what_it_likes() -> None:
    assert "size/amplified" not in rules(growing(150, 20), "size")


def test_a_bounded_view_of_long_output_is_not_amplified() -> None:
    """What v1 agents can do without a terminal: show the end of it, and a part in the end."""
    output, talk = lines(20_000), turn().call("a", "in_progress")
    for end in range(2000, len(output), 2000):
        talk.call("a", content=content(f"…\n{output[max(0, end - 4000) : end]}"))
    assert rules(talk.call("a", "completed", content=content(output[-8000:])).stop(), "size") == []


def test_output_that_comes_by_a_terminal_is_reported_once() -> None:
    told = {"terminal_info": {"terminal_id": "t"}}
    talk = turn().call(
        "a", "in_progress", content=[{"type": "terminal", "terminalId": "t"}], _meta=told
    )
    for place in range(0, 500_000, 1000):
        data = {"terminal_output": {"terminal_id": "t", "data": "x" * 1000 + str(place)}}
        talk.call("a", _meta=data)
    assert rules(talk.call("a", "completed").stop(), "size") == []


@pytest.mark.parametrize("name", ["rawInput", "content"])
def test_a_big_input_and_a_big_output_may_be_sent_once(name: str) -> None:
    value = {"text": lines(5000)} if name == "rawInput" else content(lines(5000))
    talk = turn().call("a", "in_progress", **{name: value}).call("a", "completed")
    assert set(rules(talk.stop(), "size")) == {"size/frame-64kb"}


# Sent again


@pytest.mark.parametrize("name", ["content", "rawInput", "rawOutput"])
def test_a_field_that_is_sent_again_unchanged(name: str) -> None:
    value: Any = content(lines(30)) if name == "content" else {"text": lines(30)}
    talk = turn().call("a", "in_progress", **{name: value}).call("a", **{name: value})
    (finding,) = findings(talk.call("a", "completed", **{name: value}).stop(), "size")
    assert (finding.rule, finding.field, finding.line) == ("size/sent-again", f"update.{name}", 7)
    assert "2 times" in finding.message


def test_what_has_changed_and_what_is_small_may_be_sent_again() -> None:
    talk = turn().call("a", "in_progress", content=content(lines(30)), rawInput={"command": "make"})
    talk.call("a", content=content("But: " + lines(30)), rawInput={"command": "make"})
    assert rules(talk.call("a", "completed").stop(), "size") == []


def test_two_calls_may_send_the_same() -> None:
    talk = turn().call("a", "completed", content=content(lines(30)))
    assert rules(talk.call("b", "completed", content=content(lines(30))).stop(), "size") == []


def test_a_long_text_that_grows_and_is_sent_again() -> None:
    found = findings(growing(30, 300), "size")
    (finding,) = [one for one in found if one.rule == "size/growing"]
    assert finding.field == "update.content"


def test_a_text_that_grows_seldom_or_stays_short() -> None:
    assert rules(growing(3, 300), "size") == []
    assert rules(growing(60, 90), "size") == []


def test_growing_is_seen_behind_fences_and_in_nested_values() -> None:
    assert grew(content("```\na\n```"), content("```\na\nb\n```"))
    assert grew({"output": "a", "lines": 1}, {"output": "ab", "lines": 2, "more": True})
    assert not grew(content("a"), content("b"))
    assert not grew({"output": "a"}, {})
    assert not grew([1, 2], [1])
    assert not grew("a", ["a"])


def test_of_a_text_that_goes_on_only_the_end_is_new() -> None:
    assert news("one\ntwo", "one\ntwo three\n") == "two three\n"
    assert news({"a": "x", "b": "y"}, {"a": "x", "b": "z"}) == {"b": "z"}
    assert news(["x"], ["x", "y"]) == ["y"]
    assert news(["x", "y"], ["x"]) is None
    assert news({"a": 1}, {"a": 1}) is None
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc\n"
    assert news("text\n" + key, "text\n" + key + "def\n") == key + "def\n"


# Output twice


def test_a_long_output_that_is_in_the_raw_output_too() -> None:
    for raw in (lines(40), {"stdout": lines(40)}, {"all": [{"text": f"{lines(40)}done"}]}):
        shown = content(f"```console\n{lines(40)}```")
        (finding,) = findings(
            turn().call("a", "completed", content=shown, rawOutput=raw).stop(), "size"
        )
        assert (finding.rule, finding.field) == ("size/output-twice", "update.rawOutput")


def test_raw_output_that_is_short_structured_or_another() -> None:
    for raw in ({"exit_code": 0, "lines": 40}, lines(10), "x" * 5000, {"items": ["line"] * 40}):
        talk = turn().call("a", "completed", content=content(lines(40)), rawOutput=raw)
        assert rules(talk.stop(), "size") == []


# Messages and floods


@pytest.mark.parametrize(
    ("size", "rule"),
    [
        (60_000, []),
        (70_000, ["size/frame-64kb"]),
        (1_100_000, ["size/frame-1mb"]),
        (11_000_000, ["size/frame-10mb"]),
    ],
)
def test_a_message_is_reported_by_its_size_once(size: int, rule: list[str]) -> None:
    assert rules(turn().call("a", "completed", content=content("x" * size)).stop(), "size") == rule


def test_a_permission_request_may_be_as_large_as_the_input_that_it_shows() -> None:
    for size, rule in ((70_000, []), (1_100_000, ["size/frame-1mb"])):
        talk = turn().call("a", "pending").question("a", rawInput={"content": "x" * size})
        assert rules(talk.decide().call("a", "failed").stop(), "size") == rule


def test_what_a_client_sends_is_not_the_agents() -> None:
    talk = Talk().opened()
    talk.ask(
        "client",
        "session/prompt",
        {"sessionId": "s", "prompt": [{"type": "text", "text": "x" * 70_000}]},
    )
    assert rules(talk, "size") == []


def paced(count: int, seconds: float) -> Talk:
    talk = turn().call("a", "in_progress")
    for number in range(count):
        talk.clock += seconds - 1
        talk.call("a", title=f"Step {number}")
    return talk.call("a", "completed").stop()


def test_more_updates_in_a_second_than_anybody_sees() -> None:
    (finding,) = findings(paced(100, 0.01), "size")
    assert (finding.rule, finding.call) == ("size/flood", "a")


def test_updates_ten_times_a_second_and_calls_side_by_side_are_no_flood() -> None:
    assert rules(paced(100, 0.1), "size") == []
    assert rules(paced(100, 0.01).lines("raw"), "size") == []  # nobody knows when
    talk = turn()
    for number in range(100):
        talk.clock -= 0.99
        talk.call(f"call {number}", "completed")
    assert rules(talk.stop(), "size") == []


# Real agents


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("size/codex-acp-0.16.0.shell_long-none.jsonl", ["size/output-twice"]),
        ("ends/opencode-1.18.33.cancel-none.jsonl", ["size/sent-again"]),
        ("kimi-cli-1.51.0.mixed-none.jsonl", []),
        ("claude-agent-acp-0.99.1.mixed-none.jsonl", []),
    ],
)
def test_what_real_agents_do(path: str, expected: list[str]) -> None:
    assert rules(RECORDINGS / path, "size") == expected
