"""Secrets that no rule was written after are hidden, in every place that secrets are seen in."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from callsheet.guard.redact import Redactor, default_rules
from callsheet.guard.rules import fill

from .secret_corpus import CONTEXTS, Secret, Shown, corpus, leaks, plain
from .sizes import sized

REDACTOR = Redactor()
SECRETS = corpus()
HIDDEN = 0.97
LESS = {"colours": 0.92, "url": 0.84, "base64": 0.0}
"""Where less is hidden: a secret is not looked for in base64, and in a URL only beside a name."""
CUTS = sized(1, 7)
"""How far apart the places are at which a stream is cut."""


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
    assert_few(missed, LESS.get(name, HIDDEN))


def is_seen(context: str, shown: Shown) -> bool:
    """Redact as a report does: arguments are nested data, the rest is text."""
    if context == "argv":
        return leaks(shown, json.dumps(REDACTOR.value(json.loads(shown.text))[0]))
    return leaks(shown, REDACTOR.text(shown.text)[0])


def test_nearly_all_are_hidden_in_a_stream_cut_anywhere() -> None:
    assert_few([secret.id for n, secret in enumerate(SECRETS) if not survives_cuts(secret, n)])


def survives_cuts(secret: Secret, number: int) -> bool:
    shown = plain(secret, number)
    data = shown.text.encode()
    for cut in range(number % CUTS, len(data), CUTS):
        stream = REDACTOR.stream()
        out = stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.finish()
        if leaks(shown, out.decode()):
            return False
    return True


def assert_few(missed: list[str], least: float = HIDDEN) -> None:
    share = 1 - len(missed) / len(SECRETS)
    print(f"{share:.1%} of {len(SECRETS)} hidden; seen: {', '.join(missed) or 'none'}")
    assert share >= least, missed
