"""Keys and settings are found behind whatever stands before each line, whole, in part, and in streams."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from callsheet.redaction.redactor import Redactor
from callsheet.redaction.rules import fill
from tests.support.sizes import sized

ALL = Redactor()
RANDOM = random.Random(17)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
CUTS = sized(20, 2)


def data(width: int) -> str:
    return "".join(RANDOM.choices(LETTERS, k=width))


def key(kind: str, *head: str, width: int = 64, count: int = 12) -> list[str]:
    name = f"{kind}PRIVATE KEY" + (" BLOCK" if kind == "PGP " else "")
    lines = [data(width) for _ in range(count)]
    return [f"-----BEGIN {name}-----", *head, *lines, data(21) + "=", f"-----END {name}-----"]


BLOCKS = {
    "rsa": key("RSA "),
    "pkcs8": key("", count=1),
    "openssh": key("OPENSSH ", width=70),
    "encrypted": key(
        "EC ", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC," + fill("{hex:32}").upper(), ""
    ),
    "pgp": key("PGP ", "", count=8),
    "putty": ["Encryption: none", "Private-Lines: 6", *(data(64) for _ in range(6))],
}
SETTINGS = {
    "yaml": (["db:", "  host: db", "  password: opensesame", "  port: 5432"], "opensesame"),
    "ini": (["[db]", "host=db", "password=swordfish", "port=1"], "swordfish"),
    "top": (["host: db", "password: letmeinplease", "port: 1"], "letmeinplease"),
    "env": (["A=1", "db_password=correcthorse", "B=2"], "correcthorse"),
}


def blamed(number: int, line: str) -> str:
    return (
        f"{RANDOM.randrange(16**8):08x} (Jane Doe   2026-01-{number % 28 + 1:02} {number:3}) {line}"
    )


def timed(number: int) -> str:
    return f"2026-11-17T08:{number // 60:02}:{number % 60:02}.{number * 37 % 1000:03}Z "


PREFIXES: dict[str, Callable[[int, str], str]] = {
    **{
        form: lambda number, line, form=form: form.format(number) + line
        for form in (
            "", "{}→", "{:6}→", "{}|", " {:3} │ ", "[{}] ", "#{} ", "*{}|", "L{}: ", "L{:04} ", "+", "-", ">", "> > ", "{}: ",
            "{}. ", "({}) ", "{}-", "{:6}\t", "→ {} ", "{:04x}: ", "{0:4} {0:4} + ", "// ", "# ", " * ", "$ ", "    ", "  | ",
            "conf/app.pem:{}:", "conf/app.pem-{}-", "conf/app.pem:", "web-1  | ", "Nov 17 08:00:01 host app[{}]: ",
            "^1a2b3c4d (Jane Doe 2026-01-11 10:00:00 +0200 {:3}) ", "\x1b[32m{:4}\x1b[0m \x1b[36m│\x1b[0m ",
        )
    },
    "blame": blamed,
    "time": lambda number, line: timed(number) + line,
    "log": lambda number, line: f"{timed(number)}INFO app: {line}",
    "crlf": lambda number, line: f"{number}→{line}\r",
    "json list": lambda _, line: f"  {json.dumps(line)},",
    "json lines": lambda number, line: json.dumps({"line": number, "text": line}) + ",",
    "json tight": lambda number, line: json.dumps({"n": number, "t": line}, separators=(",", ":")),
}  # fmt: skip


def streamed(text: str, seed: int) -> str:
    chance, stream, rest = random.Random(seed), ALL.stream(), text.encode()
    out = b""
    while rest:
        size = chance.choice((1, 3, 10, 40))
        out += stream.feed(rest[:size])
        rest = rest[size:]
    return (out + stream.finish()).decode()


def shown(clean: str, lines: list[str]) -> list[str]:
    """Return the lines of which twelve letters in a row can be read."""
    return [
        line
        for line in lines
        if any(line[n : n + 12] in clean for n in range(0, len(line) - 11, 4))
    ]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("part", ["whole", "without its end", "without its beginning"])
def test_no_line_of_a_key_is_shown_whatever_stands_before_each(prefix: str, part: str) -> None:
    before = PREFIXES[prefix]
    for name, block in BLOCKS.items():
        lines = {
            "whole": block,
            "without its end": block[:-2],
            "without its beginning": block[len(block) // 2 - (len(block) < 6) :],
        }[part]
        if name == "putty" and part == "without its beginning":
            continue  # nothing is left that tells
        listed = [before(number, line) for number, line in enumerate(["x = 1", *lines], 8)]
        if part != "without its end":
            listed.append(before(99, "def main(): pass"))
        text = "\n".join([*listed, "after the listing", ""])
        secret = [line for line in lines if len(line) >= 30 and " " not in line]
        clean, count = ALL.text(text)
        assert not shown(clean, secret), name
        assert count == 1, name
        assert clean.endswith("\nafter the listing\n")
        for seed in range(CUTS):
            assert not shown(streamed(text, seed), secret), (name, seed)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_setting_is_shown_whatever_stands_before_each_line(prefix: str) -> None:
    for name, (lines, secret) in SETTINGS.items():
        text = "\n".join(PREFIXES[prefix](number, line) for number, line in enumerate(lines, 8))
        clean, count = ALL.text(text + "\n")
        assert (secret in clean, count) == (False, 1), name
        for seed in range(CUTS):
            assert secret not in streamed(text + "\n", seed), (name, seed)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\n{}\n{}\n-----END CERTIFICATE-----\n",
        "1→-----BEGIN PUBLIC KEY-----\n2→{}\n3→-----END PUBLIC KEY-----\n",
        'begin = "-----BEGIN PRIVATE KEY-----"\nend = "-----END PRIVATE KEY-----"\n',
        "the line -----END PRIVATE KEY----- ends a key\n",
        "const user: string\nconst password: secretbox\n",
        "the user: me\nits password: whatever\n",
    ],
)
def test_what_only_looks_like_a_block_or_a_setting_is_shown(text: str) -> None:
    text = text.replace("{}", data(64))
    assert ALL.text(text) == (text, 0)
    assert streamed(text, 1) == text
