"""Secrets in what an agent says piece by piece: hidden, also where they come in two pieces, and nothing else is."""

from __future__ import annotations

import time

import pytest

from callsheet.redaction.redactor import Redactor
from callsheet.tap.passthrough import TextRun
from tests.support.made_recordings import ANSWER, Message
from tests.support.tap_harness import Tapped

SECRET = "ghp_" + "a1B2" * 9
MARK = "[redacted:github-token]"


def said(text: str, kind: str = "agent_message_chunk", session: str = "s1") -> Message:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def shown(tap: Tapped) -> str:
    heard = [one["params"]["update"] for one in tap.heard() if "params" in one]
    return "".join(one["content"]["text"] for one in heard)


@pytest.mark.parametrize("size", [1, 3, 7, 20, 39])
def test_a_secret_that_comes_in_pieces_is_hidden(size: int) -> None:
    text = f"the token is {SECRET} and that is all"
    tap = Tapped().agent(*(said(text[at : at + size]) for at in range(0, len(text), size)), ANSWER)
    heard = shown(tap)
    assert heard.startswith("the token is ")
    assert heard.endswith(f"{MARK} and that is all")
    assert SECRET[4:8] not in heard


def test_half_a_secret_is_hidden_when_nothing_follows_for_a_while_and_the_rest_too() -> None:
    tap = Tapped().agent(said(f"the token is {SECRET[:20]}")).wait(0.2)
    first = shown(tap)
    assert first.startswith("the token is [redacted:")
    assert SECRET[:8] not in first
    assert shown(tap.agent(said(f"{SECRET[20:]} and more"), ANSWER)) == " and more"


def test_messages_thoughts_and_sessions_are_texts_of_their_own() -> None:
    tap = Tapped().agent(said(f"key {SECRET[:20]}"), said("hm", "agent_thought_chunk"))
    tap.agent(said("elsewhere", session="s2"), said("on it goes"), ANSWER)
    assert shown(tap) == f"key {SECRET[:20]}hmelsewhereon it goes"


def test_what_has_no_secret_passes_byte_for_byte() -> None:
    lines = [
        b'{"jsonrpc": "2.0",  "method":"session/update","params":{"sessionId":"s1","update":'
        b'{"content":{"text":"pass the key, please: %b","type":"text"},"sessionUpdate":"agent_message_chunk"}}}\n'
        % word
        for word in (b"a b", b"\xc3\xa9 \\u00e9", b"1\\n2 3", b"", b"\\ud83d\\ude00 .")
    ]
    assert Tapped().agent(*lines).lines() == lines


@pytest.mark.parametrize(
    "text", ["x" * 200_000 + " ", "a_" * 100_000 + "!", "=" * 200_000 + " ", "-" * 99_999]
)
def test_a_long_word_does_not_stop_the_tap(text: str) -> None:
    run = TextRun(Redactor())
    begun = time.perf_counter()
    out = run.feed(text) + run.feed("end ") + run.end()
    assert out == f"{text}end "
    assert time.perf_counter() - begun < 2


def test_a_long_name_is_not_held_beyond_the_next_word() -> None:
    run = TextRun(Redactor())
    pieces = ["raises `", "FileNot", "FoundEr", "ror", "`", " from", " inside", " the", " parser."]
    passed = [run.feed(piece) for piece in pieces]
    assert "".join(passed[:6]) == "raises `FileNotFoundError` from"
    assert "".join(passed) == "".join(pieces)
