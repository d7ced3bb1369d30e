"""Whatever a text is made of, looking through it takes work in proportion to its size, and hides rather than leaks.

The texts are generated from the rule table: every rule's fixed beginnings, examples whole and cut, again and again.
Work is counted in places that are looked at. `python -m tests.support.hostile` measures what they cost.
"""

from __future__ import annotations

import argparse
import inspect
import random
import textwrap
import typing
from types import ModuleType

import pytest

from callsheet.redaction.redactor import Redactor, default_rules
from callsheet.redaction.rules import fill
from callsheet.redaction.scanner import EVERY, FREE
from tests.support.hostile import UNITS, repeated
from tests.support.sizes import sized

ALL = Redactor(known={"WORD": "xyzzy-plugh-7"})
SIZE = sized(1_000_000, 60_000)
MOST = 2 * (FREE + SIZE // EVERY)
SOME, SOME_ODD = sized(1, 24), sized(1, 3)
"""Of so many units, one is tried; of the odd ones, more."""

TOKEN = fill("ghp_{alnum:36}")


ODD = [name for name in UNITS if name.startswith("odd")][::SOME_ODD]
CHOSEN = [*ODD, *sorted(set(UNITS) - set(ODD))[::SOME]]


def work_of(text: str, size: int = 0) -> int:
    before = ALL._scanner.work
    if not size:
        ALL.text(text)
    else:
        stream = ALL.stream()
        data = text.encode()
        for n in range(0, len(data), size):
            stream.feed(data[n : n + size])
        stream.finish()
    return ALL._scanner.work - before


@pytest.mark.parametrize("name", CHOSEN)
def test_no_text_takes_more_work_than_its_size_allows(name: str) -> None:
    text = repeated(UNITS[name], SIZE)
    assert work_of(text) < MOST
    assert work_of(text, 16_384) < MOST


@pytest.mark.parametrize("size", [1024, 4096, 16_384])
@pytest.mark.parametrize("module", [argparse, textwrap, typing])
def test_source_code_earns_more_than_looking_at_it_takes(module: ModuleType, size: int) -> None:
    # Else, a long output of it would be hidden from some place on.
    text = inspect.getsource(module)
    assert work_of(text, size) < len(text) / EVERY


@pytest.mark.parametrize("name", ODD)
def test_a_key_in_a_crowd_is_hidden(name: str) -> None:
    text = repeated(UNITS[name], SIZE)
    place = random.Random(name).randrange(SIZE // 2, SIZE)
    crowd = f"{text[:place]} {TOKEN} {text[place:]}"
    assert TOKEN[4:] not in ALL.text(crowd)[0]
    nested, _ = ALL.value({"lines": [crowd[n : n + 5000] for n in range(0, len(crowd), 5000)]})
    assert all(TOKEN[4:] not in str(line) for line in nested["lines"])


def test_the_parts_of_a_value_share_one_budget() -> None:
    before = ALL._scanner.work
    ALL.value({"lines": [repeated("password=hunter2 ", 4000)] * (SIZE // 4000)})
    assert ALL._scanner.work - before < 2 * MOST


def test_a_key_that_begins_where_looking_ends_is_hidden_whole() -> None:
    lines = "\n".join(fill("{b64lines:1}") + f"{n:08}" for n in range(40))
    kind = "PRIVATE KEY"
    key = f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"
    crowd = repeated("password=hunter2 ", 300_000)
    clean, _ = ALL.text(f"{crowd}\n{key}\n" + "nothing here\n" * 20_000)
    assert not [line for line in lines.split("\n") if line in clean]
    assert clean.endswith("nothing here\n" * 1000)


def test_what_is_clean_stays_after_a_crowd() -> None:
    text = repeated("password=hunter2\n", 200_000) + "nothing here\n" * 20_000
    clean, _ = ALL.text(text)
    assert "hunter2" not in clean
    assert clean.endswith("nothing here\n" * 10_000)


def test_real_settings_with_many_secrets_are_read_to_the_end() -> None:
    text = "".join(f"SERVICE_{n}_PASSWORD=hunter{n}x\nSERVICE_{n}_PORT={n}\n" for n in range(300))
    clean, count = ALL.text(text)
    assert count == 300
    assert clean.count("_PORT=") == 300


def test_every_rule_is_tried_in_the_texts() -> None:
    ids = {rule.id for rule in default_rules()}
    assert ids <= {name.split(" ")[1] for name in UNITS if not name.startswith("odd")}
