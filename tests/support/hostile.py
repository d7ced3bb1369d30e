"""Texts that are slow to look through, generated from the rule table, against plain text of the same size.

`python -m tests.support.hostile 10000000` prints the slowest. Tests use the texts, and count work instead of time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from time import process_time

from callsheet.redaction.redactor import Redactor, default_rules
from callsheet.redaction.rules import fill

PLAIN = "The quick brown fox jumps over the lazy dog, 12 times.\n"

ODD = (
    "password=", 'password: "', 'password="a\\', "\\", "[redacted:", "[redacted:x]", '"', "'", '\\"', '\\\\"', "password=hunter2 ",
    "password=hunter2\n", "A", "a1", "AB12cd+/", "-----BEGIN", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nAAAA1bcdefghijklmnopqrst\n", "token token ", "--token ", "--password x ", "api_key=$(",
    "Authorization: ", "Authorization: Bearer abc123\n", "Cookie: a=", 'cookie=",a', "Cookie: a=b; ", "\x1b[32m",
    "\x1b[32mpassword\x1b[0m: hunter2 ", '{"password":"hunter2"},', "{", "[", "password=[redacted:x],", "xyzzy-plugh-7",
    "xyzzy-plugh-7ghp_", "12→password: opensesame\n", "%3D", "password%3D", "\n", "\r\n", "secret_key: ", "password: é", "://a:b@",
    "://", "curl -u a:$x ", "docker login login ", "=:", "password='a", "password:{", "password=,a", "token=,}", "a.b-c_",
    "password = passwd2 ", 'user, password = "a", "b"\n', "password=*", '{\\"a\\": {\\\\\\"password\\\\\\": \\\\\\"hunter2\\\\\\"}}',
)  # fmt: skip


def units() -> Iterator[tuple[str, str]]:
    """Return what the texts repeat, by name: the second word is a rule's id."""
    for rule in default_rules():
        for number, literal in enumerate(rule.literals):
            yield f"literal {rule.id} {number}", literal
        for number, example in enumerate(map(fill, rule.examples)):
            yield f"spaced {rule.id} {number}", example + " "
            yield f"lines {rule.id} {number}", example + "\n"
            yield f"glued {rule.id} {number}", example
            yield f"half {rule.id} {number}", example[: len(example) // 2]
            yield f"most {rule.id} {number}", example[:-1] + "\0"
        for number, counter in enumerate(map(fill, rule.counters)):
            yield f"counter {rule.id} {number}", counter + " "
    chance = random.Random(17)
    literals = [literal for rule in default_rules() for literal in rule.literals]
    for number, unit in enumerate((*ODD, *_mixed(chance, literals))):
        yield f"odd {number} {unit[:24]!r}", unit


def _mixed(chance: random.Random, literals: list[str]) -> Iterator[str]:
    letters = 'abcAB12-_. \n"='
    yield "".join(
        chance.choice(literals) + "".join(chance.choices(letters, k=chance.randrange(30)))
        for _ in range(2000)
    )
    yield "".join(map(chr, chance.choices(range(32, 127), k=100_000)))
    yield "".join(map(chr, chance.choices(range(256), k=100_000)))


UNITS = dict(units())


def repeated(unit: str, size: int) -> str:
    """Return a text of this size."""
    return (unit * (size // len(unit) + 1))[:size]


def main(size: int, chunk: int) -> None:
    """Measure each text once, twice if it is slow, and print the slowest."""
    redactor = Redactor(known={"WORD": "xyzzy-plugh-7"})
    plain = repeated(PLAIN, size)
    _took(redactor, plain, chunk)
    base = min(_took(redactor, plain, chunk) for _ in range(5))
    found: list[tuple[float, str]] = []
    for name, unit in UNITS.items():
        text = repeated(unit, size)
        took = _took(redactor, text, chunk)
        if took > 2 * base:
            took = min(took, _took(redactor, text, chunk))
        found.append((took / base, name))
    found.sort(reverse=True)
    print(f"plain text of {size:,} bytes: {base * 1000:.1f} ms; {len(found)} hostile texts:")
    for ratio, name in found[:10]:
        print(f"{ratio:6.2f} × {name}")


def _took(redactor: Redactor, text: str, chunk: int) -> float:
    start = process_time()
    if chunk:
        stream, data = redactor.stream(), text.encode()
        for place in range(0, len(data), chunk):
            stream.feed(data[place : place + chunk])
        stream.finish()
    else:
        redactor.text(text)
    return process_time() - start


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    main(*(arguments + [10_000_000, 0][len(arguments) :]))
