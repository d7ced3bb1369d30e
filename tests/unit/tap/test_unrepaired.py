"""A tap that repairs nothing: what the agent tells passes as it came, but for secrets."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from tests.support.made_recordings import Message, announced, asked, completed, updated, words
from tests.support.tap_harness import Tapped, texts, updates

SECRET = "ghp_" + "a1B2" * 9
MUCH = "".join(f"line {number}\n" for number in range(20_000))


def line_of(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def chunk(data: bytes) -> Message:
    update = {
        "sessionUpdate": "terminal_output_chunk",
        "terminalId": "t1",
        "data": b64encode(data).decode(),
    }
    params = {"sessionId": "s1", "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def output(text: str, **more: Any) -> Message:
    return updated(_meta={"terminal_output": {"terminal_id": "t1", "data": text}, **more})


DEEP: list[Any] = []
for _ in range(300):
    DEEP = [DEEP]

ODD = [
    announced(rawInput={}, title="bash"),
    announced(title="twice"),
    updated(status="weird"),
    completed(content=[{"type": "odd"}]),
    updated(title="late"),
    updated("nobody", status="done"),
    updated(rawOutput=DEEP),
    output("plain output\n"),
    asked(),
]


@pytest.mark.parametrize("redact", [True, False])
@pytest.mark.parametrize("bound", [True, False])
def test_what_has_no_secret_passes_byte_for_byte(redact: bool, bound: bool) -> None:
    lines = [*map(line_of, ODD)]
    tap = Tapped(repair=False, redact=redact, bound=bound).agent(*lines).wait(9).gone()
    assert tap.lines() == lines


def test_secrets_are_shown_only_if_that_is_asked_for() -> None:
    message = completed(content=words(f"key {SECRET}"))
    (hidden,) = updates(Tapped(repair=False).agent(message).heard())
    (shown,) = texts(hidden)
    assert shown.startswith("key [redacted:github-token")
    assert Tapped(repair=False, redact=False).agent(message).heard() == [message]
    repaired = Tapped(redact=False).agent(announced(), message).heard()
    assert SECRET in json.dumps(repaired)


def test_long_messages_are_as_long_as_they_are() -> None:
    message = completed(content=words(MUCH))
    assert Tapped(repair=False).agent(message).heard() == [message]
    repaired = updates(Tapped(bound=False).agent(announced(), message).heard())
    assert texts(repaired[-1]) == [MUCH]


def test_what_is_long_and_out_of_form_passes_byte_for_byte() -> None:
    odd = chunk(b"")
    odd["params"]["update"]["terminalId"] = [MUCH]
    nameless = updated(content=words(MUCH))
    nameless["params"]["update"]["toolCallId"] = None
    for message in (odd, nameless):
        assert Tapped(2, repair=False).agent(line_of(message)).lines() == [line_of(message)]


def test_what_may_be_half_a_secret_waits_but_not_for_long() -> None:
    tap = Tapped(repair=False).agent(announced(), output("key AKIAIOSF"))
    first = updates(tap.heard())[-1]
    assert first["_meta"]["terminal_output"]["data"] == "key "
    (rest,) = updates(tap.wait(0.2).heard())
    assert rest["_meta"]["terminal_output"]["data"].startswith("[redacted:")


def test_what_waits_comes_before_the_terminals_end() -> None:
    ended = {"terminal_exit": {"terminal_id": "t1", "exit_code": 0}}
    tap = Tapped(repair=False).agent(announced(), output("key AKIAIOSF"), updated(_meta=ended))
    *_, rest, last = updates(tap.heard())
    assert rest["_meta"]["terminal_output"]["data"] == "AKIAIOSF"
    assert last["_meta"] == ended


def test_nothing_is_lost_of_more_terminals_than_are_watched() -> None:
    tap = Tapped(repair=False).agent(announced())
    many = range(300)
    for number in many:
        meta = {"terminal_output": {"terminal_id": f"t{number}", "data": "key AKIAIOSF"}}
        tap.agent(updated(_meta=meta))
    told = [one["_meta"]["terminal_output"] for one in updates(tap.gone().heard())[1:]]
    assert {one["terminal_id"] for one in told if one["data"] != "key "} == {
        f"t{number}" for number in many
    }
