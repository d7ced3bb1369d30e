"""What passes at a glance: never a secret, and nothing that would have become of it otherwise."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.acp.jsonrpc import split_lines
from callsheet.redaction.redactor import Redactor, Rule, default_rules
from callsheet.redaction.spans import MARKS
from callsheet.tap.context import Context, TapSettings
from callsheet.tap.passthrough import LineTemplate, TextRun
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from tests.support.redaction import PLACES, SHAPES, Shape
from tests.support.sizes import fewer, sized
from tests.unit.redaction.test_redactor import KNOWING, texts

ALL = Redactor()
LITERALS = [literal for rule in default_rules() for literal in rule.literals]
SPLITS = sized(40, 0.08)
"""How often each secret is split anew."""


@pytest.fixture(autouse=True, scope="module")
def secrets_that_nobody_else_has_seen() -> Iterator[None]:
    """Forget the marks that were given out here: they are numbered, and other tests know theirs by number."""
    known, counts = MARKS._known.copy(), MARKS._counts.copy()
    yield
    MARKS._known, MARKS._counts = known, counts


def split(text: str, pick: random.Random) -> list[str]:
    most, parts = pick.choice([1, 2, 4, 9, 30]), list[str]()
    while text:
        size = pick.randint(1, most)
        parts.append(text[:size])
        text = text[size:]
    return parts


def said(redactor: Redactor, parts: list[str]) -> str:
    run = TextRun(redactor)
    return "".join([*map(run.feed, parts), run.end()])


def telling(shape: Shape) -> list[str]:
    """Return parts of a secret that may not be shown. What all of its kind begin with is no secret."""
    secret = shape.secret
    parts = [secret[n : n + 8] for n in range(4, len(secret) - 7, 4)] or [secret]
    return [part for part in parts if not any(part in literal for literal in LITERALS)]


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_shown_however_it_is_split(place: str) -> None:
    pick = random.Random(place)
    for shape in pick.choices(SHAPES, k=int(SPLITS * len(SHAPES))):
        before = pick.choice(["", "Look at this:\n\n", "a" * 300 + " ", "the login is "])
        text = before + PLACES[place](shape)
        shown, whole = said(ALL, split(text, pick)), ALL.text(text)[0]
        leaked = [part for part in telling(shape) if part in shown and part not in whole]
        assert not leaked, (shape.id, leaked, shown)


@fewer()
@given(texts, st.integers(0, 400))
def test_what_is_harmless_at_a_glance_is_passed_by_a_stream_too(text: str, end: int) -> None:
    data = text[:end].encode("utf-8", "surrogatepass")
    if not KNOWING.is_harmless(data):
        return
    stream = KNOWING.stream()
    out = stream.feed(data)
    held = data[len(out) :]
    assert out == data[: len(out)]  # nothing is redacted, and …
    assert len(held) == stream.held
    begun = held.decode(errors="replace").lower()
    # … only the last word waits, or what a literal with blanks begins with
    assert len(held.split()) <= 1 or any(one.lower().startswith(begun) for one in LITERALS)


def test_a_rule_that_reaches_over_a_space_is_found_across_pieces() -> None:
    rule = Rule("odd", "[0-9]{4} [0-9]{4}")
    check = Redactor([*default_rules(), rule])
    assert all(map(check.is_harmless, (b"It is 12", b"It is 1234", b"It is 1234 56")))
    assert not check.is_harmless(b"It is 1234 5678")


def test_talk_about_code_passes_at_a_glance() -> None:
    pick = random.Random(7)
    talk = (
        "The session keeps a token of each author. I have looked at the key path, `read_settings`, and at the"
        " implementation of passing tests.\n\n- a well-known pattern\n- the account's login page\n"
    )
    for _ in range(20):
        text = ""
        for part in split(talk, pick):
            text += part
            assert ALL.is_harmless(text[-256:].encode())


@pytest.mark.parametrize(
    "parts",
    [
        ("It is gh", "p_Fake7Dummy3Sample9", "Never1Real2Made5Up4Fake7", " indeed"),
        (
            "It is eyJFake7Dummy3Sample",
            ".",
            "eyJFake7Dummy3Sample9Ne.Fake7Dummy3Sample9Neve",
            " indeed",
        ),
    ],
    ids=["begun before", "with dots"],
)
def test_a_pause_in_the_midst_of_a_key_shows_no_more_of_it(parts: tuple[str, ...]) -> None:
    for pause in range(1, len(parts)):
        run = TextRun(ALL)
        shown = "".join([*map(run.feed, parts[:pause]), run.pause()])
        shown += "".join([*map(run.feed, parts[pause:]), run.end()])
        assert "Dummy" not in shown
        assert "Real" not in shown
        assert shown.endswith(" indeed")


# Lines that differ in their text only


def chunk(text: str, session: str = "s1", kind: str = "agent_message_chunk") -> bytes:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return line(update, session)


def line(update: dict[str, Any], session: str = "s1") -> bytes:
    message = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    }
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


CALL = line(
    {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Look", "status": "pending"}
)
lines = st.one_of(
    texts.map(lambda text: chunk(text[:40].encode(errors="replace").decode())),
    st.sampled_from(["a", " word", "ghp_", "Fake7Dummy3Sample9Never1Real2Made5Up4", "\n", '"', "é"]).map(chunk),
    st.sampled_from(["a", " word", ""]).map(lambda text: chunk(text, "s2")),
    st.sampled_from(["a", " word"]).map(lambda text: chunk(text, kind="agent_thought_chunk")),
    st.sampled_from([CALL, b"{}\n", b"no JSON\n", b'{"id":1,"result":{}}\n']),
    st.sampled_from(["a", " word"]).map(lambda text: chunk(text)[:-3] + b"\n"),
)  # fmt: skip


def passed(batches: list[bytes], *, fast: bool) -> bytes:
    pipeline = Pipeline(Context(TapSettings(locale="en"), Account()), pytest.fail)
    out: list[bytes] = []
    for batch in batches:
        if fast and pipeline.passes(batch):
            out.append(batch)
            continue
        for one in split_lines(batch):
            if not fast:
                pipeline._messages.template = None  # as if no line were like another
            pipeline.from_agent(one, 1.0)
        out += pipeline.to_client
        pipeline.to_client.clear()
    pipeline.agent_gone(2.0)
    return b"".join([*out, *pipeline.to_client])


@fewer()
@given(st.lists(lines, max_size=12))
def test_lines_that_are_alike_pass_as_they_would_one_by_one(sent: list[bytes]) -> None:
    assert passed(sent, fast=True) == passed(sent, fast=False)


def test_many_lines_that_are_alike_pass_at_once() -> None:
    sent = [chunk(text) for text in ("I", " look", ' at "it"', "\n\tand say: ü", " done.")]
    pipeline = Pipeline(Context(TapSettings(), Account()), pytest.fail)
    pipeline.from_agent(sent[0], 0.0)
    assert pipeline.passes(b"".join(sent[1:]))
    assert not pipeline.passes(sent[1] + CALL + sent[2])
    assert not pipeline.passes(sent[1] + chunk(" a", "s2") + sent[2])


def test_a_secret_in_many_lines_does_not_pass_at_once() -> None:
    secret = [chunk(part) for part in ("gh", "p_Fake7Dummy3Sample9", "Never1Real2Made5Up4")]
    pipeline = Pipeline(Context(TapSettings(), Account()), pytest.fail)
    pipeline.from_agent(chunk("It is "), 0.0)
    assert not pipeline.passes(b"".join(secret))
    assert b"Dummy" not in passed([chunk("It is "), b"".join(secret)], fast=True)


def test_a_text_that_stands_twice_in_a_line_is_not_taken_for_the_wrong_one() -> None:
    assert LineTemplate.of(chunk("text"), "text", None) is None
    assert LineTemplate.of(chunk("s1"), "s1", None) is None
    assert LineTemplate.of(chunk("a\\b"), "a\\b", None) is None
