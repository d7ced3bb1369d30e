"""JSON that is called clean without decoding it holds nothing that `Redactor.value` would change."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.redaction.redactor import Redactor, Rule
from tests.support import strategies as some
from tests.support.redaction import PLACES, SHAPES
from tests.support.secret_corpus import CONTEXTS, corpus
from tests.support.sizes import sized
from tests.unit.redaction.test_redactor import fragments

KNOWN = {"ZQ": "zq9zq9zq9", "ODD": 'a "quoted"\\\n\tvalue\x07é'}
REDACTOR = Redactor(known=KNOWN)
OWN_RULE = Rule("own", r'<[^>"]{4,9}\\\x22?>.(?i:secret)\b[\]\x00-\x08"]{2}', ("<",))


def assert_sound(value: Any, redactor: Redactor = REDACTOR) -> bool:
    """Check one value, and return whether it is called clean."""
    is_clean = redactor.is_clean_json(msgspec.json.encode(value))
    if is_clean:
        assert redactor.value(value)[0] is value
        assert redactor.value(value, runs=True)[0] is value
    return is_clean


def nested(text: str, number: int) -> Any:
    """Return the text in one of the places that it can have in a value."""
    others = ("plain", {"path": "/code/a.py", "n": 1}, None, [1.5, True])
    return [
        text, {"content": text}, [text, *others], {text: others[number % 4]}, {"a": [{"b": [text]}]},
        {"arguments": msgspec.json.encode({"text": text}).decode()}, list(text.encode()), [*others, {"x": text}],
    ][number % 8]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_of_the_corpus_is_missed(place: str) -> None:
    for shape in SHAPES:
        for number in range(8):
            assert_sound(nested(PLACES[place](shape), number))


@pytest.mark.parametrize("context", CONTEXTS)
def test_no_secret_of_the_second_corpus_is_missed(context: str) -> None:
    for number, secret in enumerate(corpus()):
        assert_sound(nested(CONTEXTS[context](secret, number).text, number))


def test_what_is_clean_is_mostly_called_so() -> None:
    usual = [
        {"path": "/src/app/main.py", "limit": 20, "offset": None},
        {"command": "cd /srv && ls -la | grep 'x y'", "timeout": 120},
        {"input_tokens": 5, "passed": 12, "stop_reason": "end_turn", "name": "read", "value": 1},
        {"args": ["ls", "--color", "-l"], "numbers": [1, 2, 3], "keyword": "word"},
    ]
    assert all(map(assert_sound, usual))


NAMES = [
    "password", "DB_PASSWORD", "apiKey", "x-api-key", "token", "pass_word", "a.p.i-key", "api\nkey", "token (new)", "to\u00e9ken",
    "db_pass", "pwd\tvalue", "secrets", "Cookie", "access key 2", "passwords\u0000", "authtoken", "token_count", "path",
]  # fmt: skip
FLAGS = ["-p", "-u", "--user", "--password", "--api-key", "-a", "-P", "-w", "--color", "-"]
PROGRAMS = ["curl", "sshpass", "/usr/bin/redis-cli", "docker", "ls", "sqlcmd", "ldapsearch"]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_that_betrays_its_value_is_missed(name: str) -> None:
    for value in ("hunter22", 12345678, ["hunter22"], {"a": "hunter22"}, "x1"):
        assert_sound({name: value})
        assert_sound([{"a": {name: value}}])
        for field in ("name", "key", "header"):
            assert_sound({field: name, "value": value})
    assert_sound(["tool", f"--{name}", "x1"])


texts = st.lists(fragments, max_size=4).map("".join)
words = st.one_of(st.sampled_from([*NAMES, *FLAGS, *PROGRAMS]), texts)
values = st.recursive(
    some.scalars | words,
    lambda inner: st.lists(words | inner, max_size=4) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_no_generated_value_is_missed(value: Any) -> None:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: no JSON has it
        return
    assert_sound(value)


def test_no_match_of_an_odd_rule_is_missed() -> None:
    redactor, seeded = Redactor([OWN_RULE]), random.Random(5)
    letters = '<>"\\\x00\x07\t\n]seCret abcé'
    hits = 0
    for _ in range(sized(20_000, 4000)):
        middle = "".join(seeded.choices(letters, k=seeded.randrange(4, 8)))
        end = "".join(seeded.choices(']"\x00\x05z', k=2))
        text = f"<{middle}\\{seeded.choice(['', chr(34)])}>{seeded.choice(letters)}secret{end}"
        hits += redactor.text(text)[1]
        assert_sound({"a": text}, redactor)
    assert hits


def test_values_that_are_registered_later_are_not_missed() -> None:
    redactor = Redactor()
    data = msgspec.json.encode({"a": "xyzzy-plugh"})
    assert redactor.is_clean_json(data)
    redactor.register({"word": "xyzzy-plugh"})
    assert not redactor.is_clean_json(data)
