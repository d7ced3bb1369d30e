"""Ripgrep's patterns for Python: the same lines match, the same patterns are refused."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.tools.search import engine, ripgrep
from callsheet.tools.search.dialect import check, translate
from callsheet.tools.search.fallback import matching_lines
from callsheet.tools.search.pattern_errors import PatternError, Unsupported
from callsheet.tools.search.texts import open_text
from tests.support.sizes import fewer

RG = ripgrep.find()
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not installed")

CHARS = [
    *"abkKsSiIZ09_-. \t\r\x1c\x85",
    *("é", "É", "ß", "ẞ", "ſ", "K", "ı", "İ", "σ", "ς", "Σ", "\u0301", "½", "²", "Ⓐ", "ⓐ"),
    *("\u200d", "\xa0", "𝒳", "𐐀", "𐐨", "😀", "ǅ", "ǆ", "µ", "μ"),
]
SETS = [r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\pL", r"\p{Lu}", "[[:alpha:]]", "[[:^digit:]]"]
EDGES = [r"\b", r"\<", r"\>", r"\b{start}", r"\b{end-half}", "^", "$"]
ESCAPES = [r"\x41", r"\x{e9}", r"\u00e9", r"\t", r"\-", r"\]", r"\.", r"\@", r"\ "]
GROUPS = ["(", "(?:", "(?i:", "(?s:", "(?x: ", "(?-i:", "(?P<name>"]
TIMES = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}", "{ 1 }"]


class Patterns:
    """Makes patterns, most of them valid. The same seed makes the same pattern."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def one(self) -> str:
        pattern = self.alternatives(0)
        if self.chance.random() < 0.3:
            at = self.chance.randint(0, len(pattern))
            odd = self.chance.choice(["", *r"()[]{}*+?\|^$-&~#<>:=!P,0"])
            pattern = pattern[:at] + odd + pattern[at + (not odd) :]
        return pattern

    def alternatives(self, depth: int) -> str:
        return "|".join(self.sequence(depth) for _ in range(self.chance.choice([1, 1, 1, 2, 3])))

    def sequence(self, depth: int) -> str:
        parts = [
            self.atom(depth) + (self.chance.choice(TIMES) if self.chance.random() < 0.25 else "")
            for _ in range(self.chance.randint(0 if depth else 1, 4))
        ]
        return "(?i)" * (self.chance.random() < 0.05) + "".join(parts)

    def atom(self, depth: int) -> str:
        kind = self.chance.random()
        if kind < 0.5:
            char = self.chance.choice(CHARS)
            return f"\\{char}" if char in ".-" else char
        if kind < 0.7:
            return self.chance.choice([".", ".", self.char_class(), self.char_class()])
        if kind < 0.85 or depth > 2:
            return self.chance.choice(SETS + EDGES + EDGES + ESCAPES)
        return f"{self.chance.choice(GROUPS)}{self.alternatives(depth + 1)})"

    def char_class(self, depth: int = 0) -> str:
        items = "".join(self.member(depth) for _ in range(self.chance.randint(1, 4)))
        if self.chance.random() < 0.15:
            items += self.chance.choice(["&&", "--", "~~"]) + self.char_class(depth + 1)
        return f"[{self.chance.choice(['', '', '^'])}{items}]"

    def member(self, depth: int) -> str:
        kind, plain = (
            self.chance.random(),
            [char for char in CHARS if char not in "-. \t\r\x1c\x85"],
        )
        if kind < 0.5:
            return self.chance.choice([*plain, "-"])
        if kind < 0.7:
            return "-".join(sorted(self.chance.choices(plain, k=2)))
        if kind < 0.9 or depth > 1:
            return self.chance.choice(SETS + ESCAPES)
        return self.char_class(depth + 1)

    def text(self) -> bytes:
        # A lone byte that could go on a character makes ripgrep misjudge the edges of words.
        odd = [b"\xff", b"\xc3", b"\xe9"] if self.chance.random() < 0.3 else [b""]
        lines = [
            "".join(self.chance.choices(CHARS, k=self.chance.randint(0, 4))).encode()
            + self.chance.choice([b"", b"", *odd])
            + "".join(self.chance.choices(CHARS, k=self.chance.randint(0, 4))).encode()
            for _ in range(40)
        ]
        return b"\n".join(lines) + self.chance.choice([b"", b"\n", b"\n\n"])


@needs_rg
@fewer()
@given(st.integers(0, 1 << 32))
def test_the_same_lines_match_and_the_same_patterns_are_refused(seed: int) -> None:
    chance = random.Random(seed)
    made = Patterns(chance)
    pattern, ignore_case, data = made.one(), chance.random() < 0.3, made.text()
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "t").write_bytes(data)
        theirs = found_by_rg(directory, pattern, ignore_case)
        try:
            ours = found_here(f"{directory}/t", pattern, ignore_case)
        except Unsupported:
            return
        except PatternError as exc:
            ours = str(exc)
    if theirs is None:
        assert isinstance(ours, str), f"{pattern!r} is refused by ripgrep"
    else:
        assert ours == theirs, pattern


def found_by_rg(directory: str, pattern: str, ignore_case: bool) -> list[tuple[int, ...]] | None:
    assert RG is not None
    command = ripgrep.lines_command(RG, pattern, ignore_case, ["./t"], 10**6)
    done = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode == 2:
        return None
    return [tuple(line) for line in engine.lines_in(done.stdout).get("./t", [])]


def found_here(path: str, pattern: str, ignore_case: bool) -> list[tuple[int, ...]]:
    translated = translate(pattern, ignore_case)
    text = open_text(path)
    try:
        return [tuple(line) for line in matching_lines(text, translated)]
    finally:
        text.close()


@pytest.mark.parametrize(
    ("pattern", "position", "message"),
    [
        ("foo(", 3, "'(' is never closed"),
        ("é(b", 1, "'(' is never closed"),
        ("a)b", 1, "')' closes no group"),
        ("f() {", 5, "'{' needs a number"),
        ("a{2", 1, "'{' is never closed"),
        ("a{3,1}", 1, "above the most"),
        ("a{99999999999}", 2, "too large"),
        ("*a", 0, "repeats nothing"),
        ("a|*", 2, "repeats nothing"),
        ("(?i)*", 4, "repeats nothing"),
        ("x[a", 1, "'[' is never closed"),
        ("[z-a]", 1, "backwards"),
        (r"[a-\d]", 3, "single characters"),
        (r"[\b]", 1, "in a class"),
        ("x\\", 1, "escapes nothing"),
        (r"a\y", 1, "means nothing"),
        (r"(a)\1", 3, "backreferences"),
        ("(?<=a)b", 0, "look-around"),
        ("a(?!b)", 1, "look-around"),
        ("(?z)", 2, "no flag"),
        ("(?ii)", 3, "twice"),
        ("(?<n>a)(?<n>b)", 10, "two groups"),
        (r"\x{110000}", 2, "no character"),
        (r"a\nb", 1, "beyond a line"),
        ("(" * 60, 50, "too deep"),
        ("[" * 60, 51, "too deep"),
    ],
)
def test_what_is_wrong_is_said_with_its_position(pattern: str, position: int, message: str) -> None:
    with pytest.raises(PatternError, match=re.escape(message)) as caught:
        check(pattern)
    assert caught.value.position == position


@pytest.mark.parametrize("pattern", [r"\Aa", r"a\z", "(?-m)^a", "(?-u)a", "(?R)a$", r"\p{Greek}"])
def test_what_only_ripgrep_can_do_is_refused_here(pattern: str) -> None:
    check(pattern)
    with pytest.raises(Unsupported, match="needs ripgrep"):
        translate(pattern, False)
