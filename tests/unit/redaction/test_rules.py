"""Rules as data: the shipped table, a user's own, and what is said about bad ones."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import Any

import pytest

from callsheet.redaction.patterns import make_gate, simplified
from callsheet.redaction.redactor import InvalidRule, Redactor, Rule, default_rules, read_settings
from callsheet.redaction.rules import check, fill

SETTINGS = r"""
[tool.callsheet.redact]
allow = ["hunter2", "re:ACME-0+"]
off = ["jwt"]

[[tool.callsheet.redact.rules]]
id = "acme-badge"
pattern = 'ACME-[0-9]{4}'
literals = ["ACME-"]
examples = ["ACME-{digit:4}"]

[[tool.callsheet.redact.rules]]
id = "ticket"
pattern = '[A-Z]{2}/([0-9]{6})'
"""


def settings(text: str) -> dict[str, Any]:
    return tomllib.loads(text)["tool"]["callsheet"]["redact"]


def test_users_add_rules_and_allow_and_switch_off() -> None:
    redactor = Redactor.from_settings(settings(SETTINGS))
    jwt = fill("eyJ{alnum:17}.eyJ{alnum:20}.{alnum:22}")
    text = f"ACME-1234 ACME-0000 AB/123456 x password=hunter2 {jwt}"
    clean, count = redactor.text(text)
    assert clean.replace("#2", "") == (
        f"[redacted:acme-badge] ACME-0000 AB/[redacted:ticket] x password=hunter2 {jwt}"
    )
    assert count == 2
    stream = redactor.stream()
    assert (
        b"".join(stream.feed(bytes([b])) for b in text.encode()) + stream.finish() == clean.encode()
    )


def test_a_rule_of_the_same_id_takes_the_place_of_the_shipped_one() -> None:
    mine = {"rules": [{"id": "github-token", "pattern": "GITHUB[0-9]{4}"}]}
    redactor = Redactor.from_settings(mine)
    assert redactor.text("GITHUB1234")[1] == 1
    assert redactor.text(fill("ghp_{alnum:36}"))[1] == 0


def test_rules_can_be_given_instead_of_the_shipped_ones() -> None:
    redactor = Redactor([Rule("word", "xyzzy")])
    assert redactor.text("xyzzy")[0] == "[redacted:word]"
    assert redactor.text(fill("ghp_{alnum:36}"))[1] == 0
    assert Redactor([]).text("password=hunter22")[1] == 1


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no id": ({"rules": [{"pattern": "x"}]}, "id"),
    "bad id": ({"rules": [{"id": "a b", "pattern": "x"}]}, "an id is"),
    "no pattern": ({"rules": [{"id": "a"}]}, "pattern"),
    "broken pattern": ({"rules": [{"id": "a", "pattern": "(x"}]}, "not a regular expression"),
    "look-ahead": ({"rules": [{"id": "a", "pattern": "x(?=y)"}]}, "look-around"),
    "back-reference": ({"rules": [{"id": "a", "pattern": r"(x)\1"}]}, "back-references"),
    "anchor": ({"rules": [{"id": "a", "pattern": "^x"}]}, "no meaning"),
    "two groups": ({"rules": [{"id": "a", "pattern": "(x)(y)"}]}, "2 groups"),
    "matches nothing": ({"rules": [{"id": "a", "pattern": "x*"}]}, "everywhere"),
    "wrong example": ({"rules": [{"id": "a", "pattern": "x", "examples": ["y"]}]}, "does not find"),
    "wrong literal": (
        {"rules": [{"id": "a", "pattern": "x", "examples": ["x"], "literals": ["y"]}]},
        "begins with none",
    ),
    "empty literal": ({"rules": [{"id": "a", "pattern": "x", "literals": [""]}]}, "empty literal"),
    "unknown fill": ({"rules": [{"id": "a", "pattern": "x", "examples": ["{odd:3}"]}]}, "odd"),
    "unknown field": ({"rules": [{"id": "a", "pattern": "x", "regex": "y"}]}, "regex"),
    "unknown setting": ({"rule": []}, "rule"),
    "unknown rule off": ({"off": ["jwt", "nonesuch"]}, "nonesuch"),
    "wrong type": ({"allow": "x"}, "allow"),
    "a space in a word": (
        {"rules": [{"id": "a", "pattern": "x [0-9]", "literals": ["x"], "examples": ["x 1"]}]},
        "open='line'",
    ),
    "a line without literals": (
        {"rules": [{"id": "a", "pattern": "x", "open": "line"}]},
        "needs literals",
    ),
    "open of no kind": ({"rules": [{"id": "a", "pattern": "x", "open": "x"}]}, "open"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_setting_is_refused_with_its_reason(name: str) -> None:
    bad, reason = BAD[name]
    with pytest.raises(InvalidRule, match=reason):
        read_settings(bad)


def test_a_bad_rule_is_refused_by_the_redactor_too() -> None:
    with pytest.raises(InvalidRule, match="rule 'a': the pattern is not"):
        Redactor([Rule("a", "[")])


@pytest.mark.parametrize("rule", default_rules(), ids=lambda rule: rule.id)
def test_the_shipped_rules_keep_their_own_rules(rule: Rule) -> None:
    check(rule)
    assert make_gate((simplified(rule.pattern.encode()),))


def test_a_pattern_without_literals_works() -> None:
    redactor = Redactor([Rule("plate", "[A-Z]{2}-[0-9]{3}")])
    assert redactor.text("x AB-123 ZAB-1234 CD-456 ab-123")[0].count("[redacted:plate") == 2


def test_a_rule_for_whole_lines_is_found_in_pieces() -> None:
    rule = Rule(
        "note", "note to self: [a-z ]{4,}!", literals=("note to self:",), open="line", right=False
    )
    redactor = Redactor([rule])
    data = b"a note to self: the door is open! b"
    for cut in range(len(data)):
        stream = redactor.stream()
        out = stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.finish()
        assert out == b"a [redacted:note] b"


def test_simplified_patterns_match_at_least_as_often() -> None:
    assert simplified(b"a{36,255}b") == b"a{20,}?b"
    assert simplified(b"a{64}") == b"a{20,}?"
    assert simplified(b"a{0,400}?b") == b"a{0,}?b"
    assert simplified(rb"a{3}b{2,5}\{40}") == rb"a{3}b{2,5}\{40}"


def test_rules_are_read_only_when_needed() -> None:
    code = "import sys, callsheet; print('callsheet.redaction.rules' in sys.modules, 're2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
